//! Who calls a service, with which credential, and what that permits.

use crate::limits::Limit;
use crate::link::OwnerId;
use crate::links::Caller;
use crate::registry::{Account, KeyId, Role, Scope, SecretHash};

/// An authenticated caller, or an anonymous one.
#[derive(Clone, Debug)]
pub struct Principal {
    /// Whose links the caller sees and creates.
    pub caller: Caller,
    /// What the account may do.
    pub role: Role,
    /// How much of that the credential permits.
    pub scope: Scope,
    /// What the caller presented.
    pub credential: Credential,
    /// How many links the account may create with all its keys, where that differs from the usual
    /// limit.
    pub account_plan: Option<Limit>,
}

/// The credential that a caller presented.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Credential {
    /// Nothing.
    Nothing,
    /// A key of the operator. It belongs to no account.
    OperatorKey,
    /// An API key of an account.
    Key {
        /// Which one.
        id: KeyId,
        /// How many links it may create, where that differs from the usual limit.
        plan: Option<Limit>,
    },
    /// The cookie of a browser session.
    Session(SecretHash),
}

/// Why a principal may not do something.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AccessError {
    /// An anonymous caller needs a credential.
    #[error("this needs a key")]
    KeyNeeded,
    /// The key only reads.
    #[error("this key may only read")]
    ReadOnlyKey,
    /// The key only creates links.
    #[error("this key may only create links")]
    CreateOnlyKey,
    /// Only admins may do it.
    #[error("this needs an admin")]
    AdminNeeded,
    /// Only moderators and admins may do it.
    #[error("this needs a moderator")]
    ModeratorNeeded,
}

impl Principal {
    /// A caller without a credential.
    pub const ANONYMOUS: Self = Self {
        caller: Caller::Anonymous,
        role: Role::User,
        scope: Scope::Full,
        credential: Credential::Nothing,
        account_plan: None,
    };

    /// The operator, with one of the operator's keys.
    pub const OPERATOR: Self = Self {
        caller: Caller::OPERATOR,
        role: Role::Admin,
        scope: Scope::Full,
        credential: Credential::OperatorKey,
        account_plan: None,
    };

    /// An account, with one of its credentials.
    pub fn of_account(account: &Account, scope: Scope, credential: Credential) -> Self {
        let caller = match account.role {
            Role::Admin => Caller::Admin(account.id),
            Role::Moderator | Role::User => Caller::Owner(account.id),
        };
        // A plan that cannot be read is as good as none: the usual limit applies.
        let account_plan = account.plan.as_deref().and_then(|plan| plan.parse().ok());
        Self { caller, role: account.role, scope, credential, account_plan }
    }

    /// Whose links the principal creates; also who acts, for the audit log.
    pub fn owner(&self) -> OwnerId {
        self.caller.owner()
    }

    /// Refuses anonymous callers.
    pub fn known(self) -> Result<Self, AccessError> {
        match self.caller {
            Caller::Anonymous => Err(AccessError::KeyNeeded),
            _ => Ok(self),
        }
    }

    /// Refuses keys that may not read.
    pub fn may_read(self) -> Result<Self, AccessError> {
        match self.scope {
            Scope::Full | Scope::Read => Ok(self),
            Scope::Create => Err(AccessError::CreateOnlyKey),
        }
    }

    /// Refuses keys that may not change anything.
    pub fn may_change(self) -> Result<Self, AccessError> {
        match self.scope {
            Scope::Full => Ok(self),
            Scope::Read => Err(AccessError::ReadOnlyKey),
            Scope::Create => Err(AccessError::CreateOnlyKey),
        }
    }

    /// Refuses keys that may not create links.
    pub fn may_create(self) -> Result<Self, AccessError> {
        match self.scope {
            Scope::Full | Scope::Create => Ok(self),
            Scope::Read => Err(AccessError::ReadOnlyKey),
        }
    }

    /// Refuses principals of a lesser role.
    pub fn require(&self, role: Role) -> Result<(), AccessError> {
        match role {
            _ if self.role >= role => Ok(()),
            Role::Admin => Err(AccessError::AdminNeeded),
            Role::Moderator | Role::User => Err(AccessError::ModeratorNeeded),
        }
    }

    /// Refuses principals who are neither this account nor an admin.
    pub fn require_self_or_admin(&self, account: OwnerId) -> Result<(), AccessError> {
        if self.caller != Caller::Anonymous && self.owner() == account {
            return Ok(());
        }
        self.require(Role::Admin)
    }

    /// Whether the principal sees the notes of this owner's links: the owner does, and admins.
    pub fn sees_notes_of(&self, owner: OwnerId) -> bool {
        self.require_self_or_admin(owner).is_ok()
    }
}
