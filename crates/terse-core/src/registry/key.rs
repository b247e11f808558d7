//! Credentials: API keys, sessions and invitations.

use std::fmt;

use super::account::Role;
use crate::link::OwnerId;
use crate::time::Timestamp;

/// The SHA-256 of a secret of 256 random bits. The secret itself is shown once and never stored.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct SecretHash(pub [u8; 32]);

impl SecretHash {
    /// The public id of what the secret opens: the beginning of its hash, which reveals nothing of
    /// the secret.
    pub fn handle(&self) -> String {
        self.0[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash([hidden])")
    }
}

/// The id of a key.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct KeyId(pub u64);

/// What a key permits.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Scope {
    /// Only creating links.
    Create,
    /// Only reading.
    Read,
    /// Everything that its owner may do.
    #[default]
    Full,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Create, Self::Read, Self::Full];

    /// The stable name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Read => "read",
            Self::Full => "full",
        }
    }

    /// Parses the stable name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == word)
    }
}

/// A key for programs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ApiKey {
    /// Its id.
    pub id: KeyId,
    /// Its owner.
    pub owner: OwnerId,
    /// Its name, for display.
    pub name: String,
    /// Its first characters, so that its owner recognises it.
    pub prefix: String,
    /// What it permits.
    pub scope: Scope,
    /// When it was created.
    pub created_at: Timestamp,
    /// When the key expires.
    pub expires_at: Option<Timestamp>,
    /// How many links it may create, as in `100/h`; the operator's setting if `None`.
    pub plan: Option<String>,
    /// When it was last used, to the minute.
    pub last_used_at: Option<Timestamp>,
    /// How many requests it has made. A node that is killed loses those of its last minute.
    pub requests: u64,
}

/// What a node has seen of a key since its last report.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KeyUsage {
    /// The key.
    pub key: KeyId,
    /// The time of its latest request.
    pub last_at: Timestamp,
    /// How many requests it made.
    pub requests: u64,
}

/// A key to create.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Its owner.
    pub owner: OwnerId,
    /// Its name, for display.
    pub name: String,
    /// Its first characters.
    pub prefix: String,
    /// The hash of the key.
    pub token: SecretHash,
    /// What it permits.
    pub scope: Scope,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// How many links it may create.
    pub plan: Option<String>,
}

impl NewKey {
    /// The key with this id.
    pub fn into_key(self, id: KeyId) -> ApiKey {
        let Self { owner, name, prefix, token: _, scope, created_at, expires_at, plan } = self;
        ApiKey {
            id,
            owner,
            name,
            prefix,
            scope,
            created_at,
            expires_at,
            plan,
            last_used_at: None,
            requests: 0,
        }
    }
}

/// A browser that is signed in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Session {
    /// The hash of its cookie.
    pub token: SecretHash,
    /// The account.
    pub owner: OwnerId,
    /// When it began.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
    /// The browser and its system, as in `Firefox on Windows`. `None` if they are unknown.
    pub browser: Option<String>,
}

/// A single-use invitation to create an account.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Invitation {
    /// The hash of the token in the invitation link.
    pub token: SecretHash,
    /// The role of the new account.
    pub role: Role,
    /// The account that created it.
    pub by: OwnerId,
    /// When it expires.
    pub expires_at: Timestamp,
}
