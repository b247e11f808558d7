//! Credentials: API keys, sessions and invitations.

use std::fmt;

use super::account::Role;
use crate::link::OwnerId;
use crate::time::Timestamp;

/// The SHA-256 of a secret of 256 random bits. The secret itself is shown once and never kept.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Token(pub [u8; 32]);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token([hidden])")
    }
}

/// Names a key to its owner.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct KeyId(pub u64);

/// What a key opens.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Scope {
    /// Making links, and nothing else.
    Create,
    /// Looking, and nothing else.
    Read,
    /// All that its owner may do.
    #[default]
    Full,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Create, Self::Read, Self::Full];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Read => "read",
            Self::Full => "full",
        }
    }

    /// From the word on the wire.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == word)
    }
}

/// A key for programs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ApiKey {
    /// Its name to us.
    pub id: KeyId,
    /// Whose it is.
    pub owner: OwnerId,
    /// Its name to people.
    pub name: String,
    /// How it begins, so that its owner recognises it.
    pub prefix: String,
    /// What it opens.
    pub scope: Scope,
    /// When it was made.
    pub created_at: Timestamp,
    /// When the key expires.
    pub expires_at: Option<Timestamp>,
    /// How many links it may make, written `100/h`; the operator's setting if `None`.
    pub plan: Option<String>,
    /// When it was last used, to the minute.
    pub last_used_at: Option<Timestamp>,
}

/// A key to be made.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Whose it is to be.
    pub owner: OwnerId,
    /// Its name to people.
    pub name: String,
    /// How it begins.
    pub prefix: String,
    /// What is kept of it.
    pub token: Token,
    /// What it opens.
    pub scope: Scope,
    /// When.
    pub created_at: Timestamp,
    /// Until when.
    pub expires_at: Option<Timestamp>,
    /// How many links it may make.
    pub plan: Option<String>,
}

impl NewKey {
    /// The key it becomes.
    pub fn into_key(self, id: KeyId) -> ApiKey {
        let Self { owner, name, prefix, token: _, scope, created_at, expires_at, plan } = self;
        ApiKey { id, owner, name, prefix, scope, created_at, expires_at, plan, last_used_at: None }
    }
}

/// A browser that is signed in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Session {
    /// What is kept of its cookie.
    pub token: Token,
    /// Who it is.
    pub owner: OwnerId,
    /// Since when.
    pub created_at: Timestamp,
    /// Until when.
    pub expires_at: Timestamp,
}

/// A single-use invitation to create an account.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Invitation {
    /// The hash of the token in the invitation link.
    pub token: Token,
    /// The role of the new account.
    pub role: Role,
    /// The account that created it.
    pub by: OwnerId,
    /// Until when.
    pub expires_at: Timestamp,
}
