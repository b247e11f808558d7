//! The one service for what moderators and admins do: statuses of links, blocked hosts, reports,
//! bans, short domains, and the audit log.
//!
//! The service writes every action to the audit log before it acts: a crash in between can leave a
//! record without its action, but never an action without its record.

mod bans;
mod blocklist;
mod domains;
mod error;
mod reports;
mod status;

pub use domains::DomainDraft;
pub use error::ModerationError;
pub use reports::{MAX_REPORT_TEXT, Reporter};

use std::sync::Arc;

use crate::accounts::{Accounts, RefreshHook};
use crate::limits::Limits;
use crate::link::OwnerId;
use crate::links::Links;
use crate::registry::{Actor, Attribution, AuditEntry, Audits, Registry};

/// The service.
pub struct Moderation {
    links: Arc<Links>,
    accounts: Arc<Accounts>,
    registry: Arc<dyn Registry>,
    limits: Limits,
    refresh: Arc<dyn RefreshHook>,
    /// Keys the hash that identifies reporters anonymously. The same on every node of a fleet.
    reporter_key: [u8; 32],
}

impl Moderation {
    /// Wires the service.
    pub fn new(
        links: Arc<Links>,
        accounts: Arc<Accounts>,
        registry: Arc<dyn Registry>,
        limits: Limits,
        refresh: Arc<dyn RefreshHook>,
        reporter_key: [u8; 32],
    ) -> Self {
        Self { links, accounts, registry, limits, refresh, reporter_key }
    }

    /// Records of the audit log, the latest first.
    pub async fn audit(&self, query: &Audits) -> Result<Vec<AuditEntry>, ModerationError> {
        Ok(self.registry.audit(query).await?)
    }

    /// Attributes an action to an account, now.
    fn by(&self, owner: OwnerId, why: Option<String>) -> Attribution {
        Attribution { actor: Actor::Owner(owner), at: self.links.now(), why }
    }
}
