//! The one service for what moderators and admins do: statuses of links, blocked hosts, reports,
//! suspensions, short domains, the look of pages, and the audit log.
//!
//! The service writes every action to the audit log before it acts: a crash in between can leave a
//! record without its action, but never an action without its record.

mod blocklist;
mod branding;
mod decisions;
mod domains;
mod error;
mod host_search;
mod link_reports;
mod reports;
mod status;
mod suspension;

pub use branding::{BrandingDraft, LogoChange};
pub use decisions::ReportDecision;
pub use domains::{DomainDraft, ShortDomain};
pub use error::ModerationError;
pub use host_search::{HostLink, HostSearch};
pub use link_reports::LinkReports;
pub use reports::{MAX_REPORT_TEXT, Reporter};

use std::sync::Arc;

use crate::accounts::{Accounts, OwnSubject, RefreshHook};
use crate::limits::RateLimits;
use crate::link::OwnerId;
use crate::links::{Links, PublicLinks};
use crate::principal::Principal;
use crate::registry::{Actor, Attribution, AuditEntry, AuditQuery, Registry, Role};

/// The service.
pub struct Moderation {
    links: Arc<Links>,
    public_links: PublicLinks,
    accounts: Arc<Accounts>,
    registry: Arc<dyn Registry>,
    reports: LinkReports,
    limits: RateLimits,
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
        limits: RateLimits,
        refresh: Arc<dyn RefreshHook>,
        reporter_key: [u8; 32],
    ) -> Self {
        let public_links = PublicLinks::new(Arc::clone(&links), limits.clone());
        let reports = LinkReports::new(Arc::clone(&links), Arc::clone(&registry));
        Self { links, public_links, accounts, registry, reports, limits, refresh, reporter_key }
    }

    /// Records of the audit log, the latest first. Only for moderators and admins.
    pub async fn audit(
        &self,
        principal: &Principal,
        query: &AuditQuery,
    ) -> Result<Vec<AuditEntry>, ModerationError> {
        principal.require(Role::Moderator)?;
        Ok(self.registry.audit(query).await?)
    }

    /// Records of the audit log about a subject of the caller's own account, the latest first.
    pub async fn own_audit(
        &self,
        subject: &OwnSubject,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, ModerationError> {
        let subject = Some(subject.as_str().to_owned());
        Ok(self.registry.audit(&AuditQuery { before, subject, action: None, limit }).await?)
    }

    /// Attributes an action to an account, now.
    fn by(&self, owner: OwnerId, why: Option<String>) -> Attribution {
        Attribution { actor: Actor::Owner(owner), at: self.links.now(), why }
    }
}
