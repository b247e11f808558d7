//! People with an account.

use std::fmt;

use crate::link::{OwnerId, Revision};
use crate::time::Timestamp;

/// The sign-in name of an account: 3 to 64 of letters, digits and `. _ - + @`. Kept as it was
/// given; two that differ only by case are the same.
#[derive(Clone, Debug)]
pub struct AccountName(Box<str>);

impl AccountName {
    /// The only way to make one.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (3..=64).contains(&text.len());
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+@".contains(&byte);
        let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        (fits && begins && text.bytes().all(allowed)).then(|| Self(text.into()))
    }

    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The form in which names are compared.
    pub fn folded(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl PartialEq for AccountName {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for AccountName {}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an account may do.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Role {
    /// Their own links.
    #[default]
    User,
    /// Also moderates all links and reports.
    Moderator,
    /// Everything.
    Admin,
}

impl Role {
    /// All of them, the least first.
    pub const ALL: [Self; 3] = [Self::User, Self::Moderator, Self::Admin];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Moderator => "moderator",
            Self::Admin => "admin",
        }
    }

    /// From the word on the wire.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == word)
    }
}

/// An OpenID Connect identity: the issuer and the subject of a token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ForeignIdentity {
    /// The provider.
    pub issuer: String,
    /// Its name for the person; never given to another.
    pub subject: String,
}

/// Why and since when an account is suspended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Suspension {
    /// Since when.
    pub at: Timestamp,
    /// Why.
    pub why: String,
}

/// The reason of a suspension that ends in an erasure. It begins with a control character, so that
/// no entered reason can equal it.
const ERASURE: &str = "\u{1}the account is being erased";

impl Suspension {
    /// The first step of an erasure: the account is suspended, and any node that finds it continues
    /// the erasure.
    pub fn of_erasure(at: Timestamp) -> Self {
        Self { at, why: ERASURE.to_owned() }
    }

    /// Whether the account is being erased.
    pub fn is_erasure(&self) -> bool {
        self.why == ERASURE
    }
}

/// An account. While it is suspended its keys and sessions open nothing and its links lead nowhere:
/// all three ask here, so one write is enough to switch them off, and one to switch them on again.
#[derive(Clone, PartialEq)]
pub struct Account {
    /// Whose links are theirs. Never given out again.
    pub id: OwnerId,
    /// Their name.
    pub name: AccountName,
    /// What they may do.
    pub role: Role,
    /// When the account was made.
    pub created_at: Timestamp,
    /// An Argon2id hash in the PHC format, if they have a password.
    pub password: Option<String>,
    /// Who they are elsewhere, if they sign in from there.
    pub identity: Option<ForeignIdentity>,
    /// Whether and why they are suspended.
    pub suspended: Option<Suspension>,
    /// Counts the changes of the account.
    pub revision: Revision,
}

impl Account {
    /// Whether they may do everything right now.
    pub fn governs(&self) -> bool {
        self.role == Role::Admin && self.suspended.is_none()
    }
}

impl NewAccount {
    /// The account it becomes.
    pub fn into_account(self, id: OwnerId) -> Account {
        let Self { name, role, password, identity, created_at } = self;
        Account {
            id,
            name,
            role,
            created_at,
            password,
            identity,
            suspended: None,
            revision: Revision(1),
        }
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (password, suspended) =
            (self.password.as_ref().map(|_| "[hidden]"), self.suspended.is_some());
        f.debug_struct("User")
            .field("id", &self.id)
            .field("role", &self.role)
            .field("password", &password)
            .field("suspended", &suspended)
            .finish_non_exhaustive()
    }
}

/// An account to be made.
#[derive(Clone)]
pub struct NewAccount {
    /// Its name.
    pub name: AccountName,
    /// What it may do.
    pub role: Role,
    /// An Argon2id hash in the PHC format.
    pub password: Option<String>,
    /// Who they are elsewhere.
    pub identity: Option<ForeignIdentity>,
    /// When.
    pub created_at: Timestamp,
}

/// What is to change about an account; `None` stays.
#[derive(Clone, Default)]
pub struct AccountChange {
    /// Another name.
    pub name: Option<AccountName>,
    /// Another role.
    pub role: Option<Role>,
    /// Another password, or none any more.
    pub password: Option<Option<String>>,
    /// Another identity elsewhere, or none any more.
    pub identity: Option<Option<ForeignIdentity>>,
    /// Suspended, or no longer.
    pub suspended: Option<Option<Suspension>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_plain_and_the_same_in_any_case() {
        for name in ["ann", "Ann.Example+1@example.com", "0x_-"] {
            assert!(AccountName::parse(name).is_some(), "{name}");
        }
        for name in [
            "",
            "ab",
            "-ann",
            "ann example",
            "änn",
            "a\u{0}nn",
            "ann\n",
            "<b>x</b>",
            &"a".repeat(65),
        ] {
            assert!(AccountName::parse(name).is_none(), "{name:?}");
        }
        assert_eq!(AccountName::parse("Ann"), AccountName::parse("aNN"));
    }

    #[test]
    fn a_password_is_not_printed() {
        let account = Account {
            id: OwnerId(7),
            name: AccountName::parse("ann").unwrap(),
            role: Role::User,
            created_at: Timestamp::from_ms(1),
            password: Some("$argon2id$secret".into()),
            identity: None,
            suspended: None,
            revision: Revision(1),
        };
        assert!(!format!("{account:?}").contains("secret"));
    }
}
