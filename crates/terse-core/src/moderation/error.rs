//! Errors of the moderation service.

use crate::accounts::AccountError;
use crate::limits::LimitReached;
use crate::links::LinkError;
use crate::principal::AccessError;
use crate::registry::RegistryError;
use crate::store::StoreError;
use crate::validation::ValidationError;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum ModerationError {
    /// The input is invalid.
    #[error(transparent)]
    Invalid(#[from] ValidationError),
    /// The caller's role does not permit it.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The link could not be read or changed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The account may not be suspended, or could not be.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// No account owns the link.
    #[error("no account owns this link")]
    NoOwner,
    /// The link is the operator's.
    #[error("this link belongs to the operator")]
    OperatorsLink,
    /// The host is not blocked.
    #[error("this host is not blocked")]
    NotBlocked,
    /// The largest number of hosts is blocked.
    #[error("{0} hosts are blocked, which is the limit; put more of them into a list")]
    TooManyHosts(usize),
    /// There is no such domain.
    #[error("there is no such domain")]
    NoDomain,
    /// There are links on the domain.
    #[error("there are links on this domain; delete them first")]
    DomainInUse,
    /// The largest number of domains is reached.
    #[error("there are {0} domains, which is the limit; remove one first")]
    TooManyDomains(usize),
    /// No removal of this number waits.
    #[error("no removal with this number waits")]
    NoRemoval,
    /// A limit is reached.
    #[error(transparent)]
    Limited(#[from] LimitReached),
    /// The registry refused or failed.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

impl From<StoreError> for ModerationError {
    fn from(error: StoreError) -> Self {
        Self::Link(error.into())
    }
}
