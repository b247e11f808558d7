//! What moderators read: domains, hosts, reports and the audit log.

use rusqlite::params;
use terse_core::registry::{Act, AuditEntry, Audits, BlockedHost, Place, Report, ReportId, ReportState};

use crate::failure::Failure;
use crate::registry::rows::{self, at_most, audit_columns, bound, report_columns};
use crate::registry::shelf::Shelf;

pub(crate) const PLACES: &str = "SELECT domain, root, not_found, expired FROM places ORDER BY domain";
pub(crate) const BLOCKED_HOSTS: &str = "SELECT host, at, why FROM blocked_hosts ORDER BY host";
pub(crate) const REPORTS: &str =
    concat!("SELECT ", report_columns!(), " FROM reports WHERE state = ?1 AND id > ?2 ORDER BY id LIMIT ?3");
pub(crate) const AUDIT: &str =
    concat!("SELECT ", audit_columns!(), " FROM audit WHERE number < ?1 ORDER BY number DESC LIMIT ?2");
pub(crate) const AUDIT_BY_ACT: &str =
    concat!("SELECT ", audit_columns!(), " FROM audit WHERE number < ?1 AND act = ?3 ORDER BY number DESC LIMIT ?2");
pub(crate) const AUDIT_BY_SUBJECT: &str = concat!(
    "SELECT ",
    audit_columns!(),
    " FROM audit INDEXED BY audit_by_subject \
     WHERE number < ?1 AND subject = ?3 AND (?4 IS NULL OR act = ?4) ORDER BY number DESC LIMIT ?2"
);

impl Shelf {
    pub(crate) fn places(&self) -> Result<Vec<Place>, Failure> {
        self.all(PLACES, [], rows::place)
    }

    pub(crate) fn blocked_hosts(&self) -> Result<Vec<BlockedHost>, Failure> {
        self.all(BLOCKED_HOSTS, [], rows::blocked_host)
    }

    pub(crate) fn reports(&self, state: ReportState, after: Option<ReportId>, limit: usize) -> Result<Vec<Report>, Failure> {
        let after = after.map_or(i64::MIN, |id| bound(id.0));
        self.all(REPORTS, params![state.as_str(), after, at_most(limit)], rows::report)
    }

    pub(crate) fn audit(&self, query: &Audits) -> Result<Vec<AuditEntry>, Failure> {
        let before = query.before.map_or(i64::MAX, bound);
        let (act, limit) = (query.act.map(Act::as_str), at_most(query.limit));
        match (&query.subject, act) {
            (Some(subject), act) => self.all(AUDIT_BY_SUBJECT, params![before, limit, subject, act], rows::entry),
            (None, Some(act)) => self.all(AUDIT_BY_ACT, params![before, limit, act], rows::entry),
            (None, None) => self.all(AUDIT, [before, limit], rows::entry),
        }
    }
}
