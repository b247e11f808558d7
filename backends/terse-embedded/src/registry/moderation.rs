//! Writes moderation decisions and reports.

use async_trait::async_trait;
use rusqlite::params;
use terse_core::registry::{
    AbuseReport, Attribution, AuditAction, AuditRecord, BlockedHost, BlocklistStore, DomainConfig,
    DomainStore, FencingToken, NewReport, RegistryError, ReportId, ReportResult, ReportState,
    ReportStore, ReportedLink,
};
use terse_core::{Domain, LinkKey, Target, Timestamp};

use crate::registry::queries::RegistryQueries;
use crate::registry::rows::{self, filed};
use crate::registry::store::{Answer, EmbeddedRegistry};
use crate::registry::writes::{RegistryWriteError, RegistryWrites};

pub(crate) const PLACE: &str =
    "SELECT domain, root, not_found, expired FROM places WHERE domain = ?1";
pub(crate) const BLOCKED_HOST: &str = "SELECT host, at, why FROM blocked_hosts WHERE host = ?1";
pub(crate) const EARLIER: &str = "SELECT id FROM reports \
     WHERE domain = ?1 AND code = ?2 AND born = ?3 AND reporter = ?4 AND state = 'open'";
pub(crate) const REPORTERS: &str =
    "SELECT count(*) FROM reports WHERE domain = ?1 AND code = ?2 AND born = ?3 AND state = 'open'";
pub(crate) const SETTLE: &str = "UPDATE reports SET state = ?4 \
     WHERE domain = ?1 AND code = ?2 AND born = ?3 AND state = 'open'";
const REPORT: &str = "INSERT INTO reports (domain, code, born, reporter, account, reason, text, \
    at, state) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'open')";

impl RegistryWrites {
    pub(crate) fn put_domain(
        &self,
        place: &DomainConfig,
        by: &Attribution,
    ) -> Result<(), RegistryWriteError> {
        let before = self.one(PLACE, [place.domain.as_str()], rows::place)?;
        if before.as_ref() == Some(place) {
            return Ok(());
        }
        let target =
            |target: &Option<Target>| target.as_ref().map(|target| target.as_str().to_owned());
        let DomainConfig { domain, root, not_found, expired } = place;
        let row = params![domain.as_str(), target(root), target(not_found), target(expired)];
        self.run("INSERT OR REPLACE INTO places VALUES (?1, ?2, ?3, ?4)", row)?;
        self.change_version();
        self.write(&AuditRecord::domain_changed(before.as_ref(), place), by)?;
        Ok(())
    }

    pub(crate) fn remove_domain(
        &self,
        domain: &Domain,
        by: &Attribution,
    ) -> Result<(), RegistryWriteError> {
        let place =
            self.one(PLACE, [domain.as_str()], rows::place)?.ok_or(RegistryError::Missing)?;
        self.run("DELETE FROM places WHERE domain = ?1", [domain.as_str()])?;
        self.change_version();
        self.write(&AuditRecord::domain_removed(&place), by)?;
        Ok(())
    }

    pub(crate) fn block_host(
        &self,
        host: &BlockedHost,
        by: &Attribution,
    ) -> Result<(), RegistryWriteError> {
        let row = params![host.host, host.at.as_ms(), host.why];
        if self.run("INSERT INTO blocked_hosts VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING", row)?
            > 0
        {
            self.change_version();
            self.write(&AuditRecord::host_blocked(host), by)?;
        }
        Ok(())
    }

    pub(crate) fn unblock_host(
        &self,
        host: &str,
        by: &Attribution,
    ) -> Result<(), RegistryWriteError> {
        let host =
            self.one(BLOCKED_HOST, [host], rows::blocked_host)?.ok_or(RegistryError::Missing)?;
        self.run("DELETE FROM blocked_hosts WHERE host = ?1", [&host.host])?;
        self.change_version();
        self.write(&AuditRecord::host_unblocked(&host), by)?;
        Ok(())
    }

    pub(crate) fn report(&self, report: &NewReport) -> Result<ReportResult, RegistryWriteError> {
        let NewReport { link, created_at, reporter, account, reason, text, at } = report;
        let (domain, code, created_at) =
            (link.domain.as_str(), link.code.as_str(), created_at.as_ms());
        let earlier = self.one(EARLIER, params![domain, code, created_at, reporter], |row| {
            Ok(row.get::<_, i64>(0)?.cast_unsigned())
        })?;
        let id = match earlier {
            Some(id) => id,
            None => {
                let account = account.map(|id| filed(id.0));
                self.insert(
                    REPORT,
                    params![domain, code, created_at, reporter, account, reason, text, at.as_ms()],
                )?
            }
        };
        let reporters = self.one(REPORTERS, params![domain, code, created_at], |row| {
            Ok(row.get::<_, i64>(0)?.cast_unsigned())
        })?;
        Ok(ReportResult { id: ReportId(id), reporters: reporters.unwrap_or(0) })
    }

    pub(crate) fn settle_reports(
        &self,
        token: Option<FencingToken>,
        link: &LinkKey,
        created_at: Timestamp,
        state: ReportState,
        by: &Attribution,
    ) -> Result<u64, RegistryWriteError> {
        if let Some(token) = token {
            self.check_lease(token)?;
        }
        if state == ReportState::Open {
            return Ok(0);
        }
        let (domain, code) = (link.domain.as_str(), link.code.as_str());
        let values = params![domain, code, created_at.as_ms(), state.as_str()];
        let count = self.run(SETTLE, values)? as u64;
        if count > 0 {
            self.write(&AuditRecord::reports_settled(link, count, state), by)?;
        }
        Ok(count)
    }

    pub(crate) fn record(
        &self,
        act: AuditAction,
        subject: &str,
        change: (Option<String>, Option<String>),
        by: &Attribution,
    ) -> Result<(), RegistryWriteError> {
        self.write(&AuditRecord::custom(act, subject, change), by)?;
        Ok(())
    }
}

#[async_trait]
impl DomainStore for EmbeddedRegistry {
    async fn domain_configs(&self) -> Answer<Vec<DomainConfig>> {
        self.list(RegistryQueries::domain_configs).await
    }

    async fn put_domain(&self, place: DomainConfig, by: Attribution) -> Answer<()> {
        self.write(move |writes| writes.put_domain(&place, &by)).await
    }

    async fn remove_domain(&self, domain: &Domain, by: Attribution) -> Answer<()> {
        let domain = domain.clone();
        self.write(move |writes| writes.remove_domain(&domain, &by)).await
    }
}

#[async_trait]
impl BlocklistStore for EmbeddedRegistry {
    async fn blocked_hosts(&self) -> Answer<Vec<BlockedHost>> {
        self.list(RegistryQueries::blocked_hosts).await
    }

    async fn block_host(&self, host: BlockedHost, by: Attribution) -> Answer<()> {
        self.write(move |writes| writes.block_host(&host, &by)).await
    }

    async fn unblock_host(&self, host: &str, by: Attribution) -> Answer<()> {
        let host = host.to_owned();
        self.write(move |writes| writes.unblock_host(&host, &by)).await
    }
}

#[async_trait]
impl ReportStore for EmbeddedRegistry {
    async fn report(&self, report: NewReport) -> Answer<ReportResult> {
        self.write(move |writes| writes.report(&report)).await
    }

    async fn reports(
        &self,
        state: ReportState,
        after: Option<ReportId>,
        limit: usize,
    ) -> Answer<Vec<AbuseReport>> {
        self.list(move |queries| queries.reports(state, after, limit)).await
    }

    async fn reported(
        &self,
        state: ReportState,
        after: Option<ReportId>,
        limit: usize,
    ) -> Answer<Vec<ReportedLink>> {
        self.list(move |queries| queries.reported(state, after, limit)).await
    }

    async fn settle_reports(
        &self,
        token: Option<FencingToken>,
        link: &LinkKey,
        created_at: Timestamp,
        state: ReportState,
        by: Attribution,
    ) -> Answer<u64> {
        let link = link.clone();
        self.write(move |writes| writes.settle_reports(token, &link, created_at, state, &by)).await
    }
}
