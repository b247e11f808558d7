//! Short domains, blocked hosts and reports.

use async_trait::async_trait;
use terse_core::registry::{
    AbuseReport, Attribution, AuditRecord, BlockedHost, BlocklistStore, BrandingStore,
    DomainConfig, DomainStore, FencingToken, NewReport, RegistryError, ReportId, ReportResult,
    ReportState, ReportStore, ReportedLink, TEXTS_SHOWN,
};
use terse_core::{Branding, Domain, LinkKey, Timestamp};

use super::{Answer, MemoryRegistry};

#[async_trait]
impl DomainStore for MemoryRegistry {
    async fn domain_configs(&self) -> Answer<Vec<DomainConfig>> {
        Ok(self.enter().await?.domain_configs.values().cloned().collect())
    }

    async fn put_domain(&self, place: DomainConfig, by: Attribution) -> Answer<()> {
        let mut state = self.enter().await?;
        let before = state.domain_configs.insert(place.domain.clone(), place.clone());
        if before.as_ref() != Some(&place) {
            state.change_version();
            state.write(AuditRecord::domain_changed(before.as_ref(), &place), by);
        }
        Ok(())
    }

    async fn remove_domain(&self, domain: &Domain, by: Attribution) -> Answer<()> {
        let mut state = self.enter().await?;
        let place = state.domain_configs.remove(domain).ok_or(RegistryError::Missing)?;
        state.change_version();
        state.write(AuditRecord::domain_removed(&place), by);
        Ok(())
    }
}

#[async_trait]
impl BrandingStore for MemoryRegistry {
    async fn branding(&self) -> Answer<Branding> {
        Ok(self.enter().await?.branding.clone())
    }

    async fn put_branding(&self, branding: Branding, by: Attribution) -> Answer<()> {
        let mut state = self.enter().await?;
        let before = std::mem::replace(&mut state.branding, branding.clone());
        if before != branding {
            state.change_version();
            state.write(AuditRecord::branding_changed(&before, &branding), by);
        }
        Ok(())
    }
}

#[async_trait]
impl BlocklistStore for MemoryRegistry {
    async fn blocked_hosts(&self) -> Answer<Vec<BlockedHost>> {
        Ok(self.enter().await?.blocked.values().cloned().collect())
    }

    async fn block_host(&self, host: BlockedHost, by: Attribution) -> Answer<()> {
        let mut state = self.enter().await?;
        if !state.blocked.contains_key(&host.host) {
            state.change_version();
            state.write(AuditRecord::host_blocked(&host), by);
            state.blocked.insert(host.host.clone(), host);
        }
        Ok(())
    }

    async fn unblock_host(&self, host: &str, by: Attribution) -> Answer<()> {
        let mut state = self.enter().await?;
        let host = state.blocked.remove(host).ok_or(RegistryError::Missing)?;
        state.change_version();
        state.write(AuditRecord::host_unblocked(&host), by);
        Ok(())
    }
}

#[async_trait]
impl ReportStore for MemoryRegistry {
    async fn report(&self, report: NewReport) -> Answer<ReportResult> {
        let mut state = self.enter().await?;
        let NewReport { link, created_at, reporter, account, reason, text, at } = report;
        let about = |one: &AbuseReport| {
            one.state == ReportState::Open && one.link == link && one.created_at == created_at
        };
        let earlier = state
            .reports
            .values()
            .find(|(by, one)| *by == reporter && about(one))
            .map(|(_, one)| one.id);
        let reporters = state.reports.values().filter(|(_, one)| about(one)).count() as u64
            + u64::from(earlier.is_none());
        let id = earlier.unwrap_or_else(|| {
            state.reports_made += 1;
            let id = ReportId(state.reports_made);
            let report = AbuseReport {
                id,
                link,
                created_at,
                account,
                reason,
                text,
                at,
                state: ReportState::Open,
            };
            state.reports.insert(id, (reporter, report));
            id
        });
        Ok(ReportResult { id, reporters })
    }

    async fn reports(
        &self,
        wanted: ReportState,
        after: Option<ReportId>,
        limit: usize,
    ) -> Answer<Vec<AbuseReport>> {
        let state = self.enter().await?;
        let reports = state
            .reports
            .values()
            .map(|(_, report)| report)
            .filter(|report| report.state == wanted);
        Ok(reports
            .filter(|report| after.is_none_or(|after| report.id > after))
            .take(limit)
            .cloned()
            .collect())
    }

    async fn reported(
        &self,
        wanted: ReportState,
        after: Option<ReportId>,
        limit: usize,
    ) -> Answer<Vec<ReportedLink>> {
        let state = self.enter().await?;
        let mut links: Vec<ReportedLink> = Vec::new();
        for (_, report) in state.reports.values().filter(|(_, report)| report.state == wanted) {
            let at = match links
                .iter()
                .position(|link| link.link == report.link && link.created_at == report.created_at)
            {
                Some(at) => at,
                None => {
                    links.push(ReportedLink {
                        link: report.link.clone(),
                        created_at: report.created_at,
                        first: report.id,
                        count: 0,
                        reasons: Vec::new(),
                        since: report.at,
                        last: report.at,
                        texts: Vec::new(),
                    });
                    links.len() - 1
                }
            };
            let link = &mut links[at];
            (link.count, link.since, link.last) =
                (link.count + 1, link.since.min(report.at), link.last.max(report.at));
            match link.reasons.binary_search_by(|(reason, _)| reason.cmp(&report.reason)) {
                Ok(at) => link.reasons[at].1 += 1,
                Err(at) => link.reasons.insert(at, (report.reason.clone(), 1)),
            }
            link.texts.splice(0..0, report.text.clone());
            link.texts.truncate(TEXTS_SHOWN);
        }
        links.retain(|link| after.is_none_or(|after| link.first > after));
        links.truncate(limit);
        Ok(links)
    }

    async fn settle_reports(
        &self,
        token: Option<FencingToken>,
        link: &LinkKey,
        created_at: Timestamp,
        settled: ReportState,
        by: Attribution,
    ) -> Answer<u64> {
        let mut state = self.enter().await?;
        if let Some(token) = token {
            state.jobs.current(token)?;
        }
        let mut count = 0;
        let open = state
            .reports
            .values_mut()
            .map(|(_, report)| report)
            .filter(|report| report.state == ReportState::Open);
        let meant = |report: &&mut AbuseReport| {
            settled != ReportState::Open && report.link == *link && report.created_at == created_at
        };
        for report in open.filter(meant) {
            report.state = settled;
            count += 1;
        }
        if count > 0 {
            state.write(AuditRecord::reports_settled(link, count, settled), by);
        }
        Ok(count)
    }
}
