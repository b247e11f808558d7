//! Accounts: names, roles, identities and suspension.

use std::fmt;

use super::key::SecretHash;
use super::preferences::AccountPreferences;
use super::two_factor::TwoFactor;
use crate::link::{OwnerId, Revision};
use crate::time::Timestamp;

/// The sign-in name of an account: 3 to 64 of letters, digits and `. _ - + @`. Kept as entered; two
/// that differ only by case are the same.
#[derive(Clone, Debug)]
pub struct AccountName(Box<str>);

impl AccountName {
    /// The shortest name, in bytes.
    pub const MIN: usize = 3;
    /// The longest name, in bytes.
    pub const MAX: usize = 64;

    /// Checks and parses a name.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (Self::MIN..=Self::MAX).contains(&text.len());
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+@".contains(&byte);
        let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        (fits && begins && text.bytes().all(allowed)).then(|| Self(text.into()))
    }

    /// The name as entered.
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
    /// Manages their own links.
    #[default]
    User,
    /// Also moderates all links and reports.
    Moderator,
    /// May do everything.
    Admin,
}

impl Role {
    /// All of them, the least first.
    pub const ALL: [Self; 3] = [Self::User, Self::Moderator, Self::Admin];

    /// The stable name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Moderator => "moderator",
            Self::Admin => "admin",
        }
    }

    /// Parses the stable name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == word)
    }
}

/// An OpenID Connect identity: the issuer and the subject of a token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OidcIdentity {
    /// The provider.
    pub issuer: String,
    /// The provider's id for the user; never reused for another.
    pub subject: String,
}

impl OidcIdentity {
    /// The two columns in which a registry stores the identity of an account, if it has one.
    pub fn columns(identity: Option<&Self>) -> (Option<&str>, Option<&str>) {
        (identity.map(|identity| &*identity.issuer), identity.map(|identity| &*identity.subject))
    }
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

/// A link with which the holder of an account sets a new password, once. An account has at most
/// one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PasswordReset {
    /// The hash of the token in the link.
    pub token: SecretHash,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// An account. While it is suspended, its keys, sessions and links do not work: all three check the
/// account, so one write switches them off, and one switches them on again.
#[derive(Clone, PartialEq)]
pub struct Account {
    /// The owner id of its links. Never reused.
    pub id: OwnerId,
    /// Its name.
    pub name: AccountName,
    /// Its role.
    pub role: Role,
    /// When the account was created.
    pub created_at: Timestamp,
    /// An Argon2id hash in the PHC format, if the account has a password.
    pub password: Option<String>,
    /// Its OpenID Connect identity, if it signs in with one.
    pub identity: Option<OidcIdentity>,
    /// Whether and why it is suspended.
    pub suspended: Option<Suspension>,
    /// How many links it may create with all its keys, such as `500/h`; the usual limit if absent.
    pub plan: Option<String>,
    /// The reset link that was made last, if it was not used. It may have expired.
    pub reset: Option<PasswordReset>,
    /// Two-factor sign-in, if the account turned it on.
    pub two_factor: Option<TwoFactor>,
    /// What the account chose for itself.
    pub preferences: AccountPreferences,
    /// Counts the changes of the account.
    pub revision: Revision,
}

impl Account {
    /// Whether this is an admin that is not suspended.
    pub fn is_active_admin(&self) -> bool {
        self.role == Role::Admin && self.suspended.is_none()
    }
}

impl NewAccount {
    /// The account with this id.
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
            plan: None,
            reset: None,
            two_factor: None,
            preferences: AccountPreferences::default(),
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

/// An account to create.
#[derive(Clone)]
pub struct NewAccount {
    /// Its name.
    pub name: AccountName,
    /// Its role.
    pub role: Role,
    /// An Argon2id hash in the PHC format.
    pub password: Option<String>,
    /// Its OpenID Connect identity.
    pub identity: Option<OidcIdentity>,
    /// When.
    pub created_at: Timestamp,
}

/// Changes to an account; `None` keeps a value.
#[derive(Clone, Default)]
pub struct AccountChange {
    /// Another name.
    pub name: Option<AccountName>,
    /// Another role.
    pub role: Option<Role>,
    /// Another password, or `Some(None)` to remove it.
    pub password: Option<Option<String>>,
    /// Another OpenID Connect identity, or `Some(None)` to remove it.
    pub identity: Option<Option<OidcIdentity>>,
    /// A suspension, or `Some(None)` to end it.
    pub suspended: Option<Option<Suspension>>,
    /// Another plan, or `Some(None)` for the usual limit.
    pub plan: Option<Option<String>>,
    /// A reset link in place of an earlier one, or `Some(None)` to use it up.
    pub reset: Option<Option<PasswordReset>>,
    /// Another state of two-factor sign-in, or `Some(None)` to turn it off.
    pub two_factor: Option<Option<TwoFactor>>,
    /// Other choices of the account.
    pub preferences: Option<AccountPreferences>,
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
            plan: None,
            reset: None,
            two_factor: None,
            preferences: AccountPreferences::default(),
            revision: Revision(1),
        };
        assert!(!format!("{account:?}").contains("secret"));
    }
}
