//! The moderators' lists: domains, hosts, reports and the audit log.

use async_trait::async_trait;
use rusqlite::{Row, params};
use terse_core::registry::{
    AbuseReport, Attribution, AuditAction, AuditEntry, AuditLog, AuditQuery, BlockedHost,
    DomainConfig, ReportId, ReportState, ReportedLink, TEXTS_SHOWN,
};
use terse_core::{LinkKey, Timestamp};

use crate::failure::Failure;
use crate::registry::queries::RegistryQueries;
use crate::registry::rows::{self, at_most, audit_columns, bound, report_columns};
use crate::registry::store::{Answer, EmbeddedRegistry};

pub(crate) const PLACES: &str =
    "SELECT domain, root, not_found, expired FROM places ORDER BY domain";
pub(crate) const BLOCKED_HOSTS: &str = "SELECT host, at, why FROM blocked_hosts ORDER BY host";
pub(crate) const REPORTS: &str = concat!(
    "SELECT ",
    report_columns!(),
    " FROM reports WHERE state = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
);
/// The first report about each link. A link with many reports is found once, through its own index.
pub(crate) const REPORTED: &str = concat!(
    "SELECT ",
    report_columns!(),
    " FROM reports r WHERE state = ?1 AND id > ?2 AND NOT EXISTS (SELECT 1 FROM reports e INDEXED \
     BY reports_of \
     WHERE e.domain = r.domain AND e.code = r.code AND e.born = r.born AND e.state = ?1 AND e.id \
     < r.id) ORDER BY id LIMIT ?3"
);
pub(crate) const REASONS: &str = "SELECT reason, count(*), min(at), max(at) FROM reports INDEXED \
    BY reports_of \
     WHERE domain = ?1 AND code = ?2 AND born = ?3 AND state = ?4 GROUP BY reason ORDER BY reason";
pub(crate) const TEXTS: &str = "SELECT text FROM reports INDEXED BY reports_of WHERE domain = ?1 \
    AND code = ?2 AND born = ?3 \
     AND state = ?4 AND text IS NOT NULL ORDER BY id DESC LIMIT ?5";
pub(crate) const AUDIT: &str = concat!(
    "SELECT ",
    audit_columns!(),
    " FROM audit WHERE number < ?1 ORDER BY number DESC LIMIT ?2"
);
pub(crate) const AUDIT_BY_ACT: &str = concat!(
    "SELECT ",
    audit_columns!(),
    " FROM audit WHERE number < ?1 AND act = ?3 ORDER BY number DESC LIMIT ?2"
);
pub(crate) const AUDIT_BY_SUBJECT: &str = concat!(
    "SELECT ",
    audit_columns!(),
    " FROM audit INDEXED BY audit_by_subject \
     WHERE number < ?1 AND subject = ?3 AND (?4 IS NULL OR act = ?4) ORDER BY number DESC LIMIT ?2"
);

impl RegistryQueries {
    pub(crate) fn domain_configs(&self) -> Result<Vec<DomainConfig>, Failure> {
        self.all(PLACES, [], rows::place)
    }

    pub(crate) fn blocked_hosts(&self) -> Result<Vec<BlockedHost>, Failure> {
        self.all(BLOCKED_HOSTS, [], rows::blocked_host)
    }

    pub(crate) fn reports(
        &self,
        state: ReportState,
        after: Option<ReportId>,
        limit: usize,
    ) -> Result<Vec<AbuseReport>, Failure> {
        let after = after.map_or(i64::MIN, |id| bound(id.0));
        self.all(REPORTS, params![state.as_str(), after, at_most(limit)], rows::report)
    }

    pub(crate) fn reported(
        &self,
        state: ReportState,
        after: Option<ReportId>,
        limit: usize,
    ) -> Result<Vec<ReportedLink>, Failure> {
        let after = after.map_or(i64::MIN, |id| bound(id.0));
        let firsts =
            self.all(REPORTED, params![state.as_str(), after, at_most(limit)], rows::report)?;
        firsts.into_iter().map(|first| self.reported_link(first)).collect()
    }

    /// All reports about the link of a report.
    fn reported_link(
        &self,
        AbuseReport { id, link, created_at, at, state, .. }: AbuseReport,
    ) -> Result<ReportedLink, Failure> {
        let LinkKey { domain, code } = &link;
        let (domain, code, word) = (domain.as_str(), code.as_str(), state.as_str());
        let reason = |row: &Row<'_>| {
            let count: i64 = row.get(1)?;
            Ok((
                row.get(0)?,
                count.cast_unsigned(),
                Timestamp::from_ms(row.get(2)?),
                Timestamp::from_ms(row.get(3)?),
            ))
        };
        let found: Vec<(String, u64, Timestamp, Timestamp)> =
            self.all(REASONS, params![domain, code, created_at.as_ms(), word], reason)?;
        let texts = self.all(
            TEXTS,
            params![domain, code, created_at.as_ms(), word, TEXTS_SHOWN as i64],
            |row| Ok(row.get::<_, String>(0)?),
        )?;
        Ok(ReportedLink {
            first: id,
            count: found.iter().map(|(_, count, _, _)| count).sum(),
            since: found.iter().map(|(_, _, since, _)| *since).min().unwrap_or(at),
            last: found.iter().map(|(_, _, _, last)| *last).max().unwrap_or(at),
            reasons: found.into_iter().map(|(reason, count, _, _)| (reason, count)).collect(),
            link,
            created_at,
            texts,
        })
    }

    pub(crate) fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditEntry>, Failure> {
        let before = query.before.map_or(i64::MAX, bound);
        let (act, limit) = (query.action.map(AuditAction::as_str), at_most(query.limit));
        match (&query.subject, act) {
            (Some(subject), act) => {
                self.all(AUDIT_BY_SUBJECT, params![before, limit, subject, act], rows::entry)
            }
            (None, Some(act)) => self.all(AUDIT_BY_ACT, params![before, limit, act], rows::entry),
            (None, None) => self.all(AUDIT, [before, limit], rows::entry),
        }
    }
}

#[async_trait]
impl AuditLog for EmbeddedRegistry {
    async fn record(
        &self,
        act: AuditAction,
        subject: &str,
        change: (Option<String>, Option<String>),
        by: Attribution,
    ) -> Answer<()> {
        let subject = subject.to_owned();
        self.write(move |writes| writes.record(act, &subject, change.clone(), &by)).await
    }

    async fn audit(&self, query: &AuditQuery) -> Answer<Vec<AuditEntry>> {
        let query = query.clone();
        self.list(move |queries| queries.audit(&query)).await
    }
}
