//! Reports about links.

use async_trait::async_trait;

use super::audit::Attribution;
use super::lease::FencingToken;
use super::report::{AbuseReport, NewReport, ReportId, ReportResult, ReportState, ReportedLink};
use super::store::RegistryError;
use crate::link::LinkKey;
use crate::time::Timestamp;

/// Reports about links, until a moderator settles them.
#[async_trait]
pub trait ReportStore: Send + Sync + 'static {
    /// Stores a report. Reports of one reporter about a link count once while the first is open.
    async fn report(&self, report: NewReport) -> Result<ReportResult, RegistryError>;

    /// Up to `limit` reports in a state after `after`, the oldest first.
    async fn reports(
        &self,
        state: ReportState,
        after: Option<ReportId>,
        limit: usize,
    ) -> Result<Vec<AbuseReport>, RegistryError>;

    /// Up to `limit` links with reports in a state, after `after`. Groups reports by link; links
    /// are ordered by their first report, the oldest first.
    async fn reported(
        &self,
        state: ReportState,
        after: Option<ReportId>,
        limit: usize,
    ) -> Result<Vec<ReportedLink>, RegistryError>;

    /// Settles all open reports about the link that was created at this time, and returns how many.
    /// Reports about other links that had its code stay open. Writes an audit record if there were
    /// any. With the token of a lease, `Fenced` if another node has the lease by now.
    async fn settle_reports(
        &self,
        token: Option<FencingToken>,
        link: &LinkKey,
        created_at: Timestamp,
        state: ReportState,
        by: Attribution,
    ) -> Result<u64, RegistryError>;
}
