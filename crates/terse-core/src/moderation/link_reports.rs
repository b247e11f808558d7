//! The rules about reported links: which link a report is about, when reports put up a warning, and
//! what becomes of the reports about a link that is gone.

use std::sync::Arc;

use crate::job::JobContext;
use crate::link::{Link, LinkKey};
use crate::links::Links;
use crate::registry::{
    Actor, Attribution, REPORTERS_TO_WARN, Registry, RegistryError, ReportState, ReportedLink,
};
use crate::store::StoreError;
use crate::time::Timestamp;

/// Links per read of a repair.
const PAGE: usize = 200;

/// Reports, and the links that they are about.
pub struct LinkReports {
    links: Arc<Links>,
    registry: Arc<dyn Registry>,
}

impl LinkReports {
    /// The reports in a registry about these links.
    pub fn new(links: Arc<Links>, registry: Arc<dyn Registry>) -> Self {
        Self { links, registry }
    }

    /// The link that was reported, if it still exists. Another link may have the code by now, also
    /// one that an import brought back with an earlier creation time; it has reports of its own.
    pub(super) async fn link(
        &self,
        key: &LinkKey,
        created_at: Timestamp,
    ) -> Result<Option<Link>, StoreError> {
        let link = self.links.preview(key).await?;
        Ok(link.filter(|link| link.created_at == created_at))
    }

    /// Puts a warning page before a link that enough independent reporters have reported. Returns
    /// whether this changed the link.
    pub(super) async fn warn_if_due(
        &self,
        key: &LinkKey,
        created_at: Timestamp,
        reporters: u64,
    ) -> Result<bool, StoreError> {
        if reporters < REPORTERS_TO_WARN {
            return Ok(false);
        }
        Ok(self.links.warn(key, created_at).await?.is_some())
    }

    /// Completes the handling of all open reports: puts up a warning page that a crash prevented,
    /// and closes reports about links that are gone. Returns for how many links there was something
    /// to do. Every step can be repeated.
    pub async fn repair(&self, context: &JobContext) -> Result<u64, RegistryError> {
        let (mut after, mut changed) = (None, 0);
        loop {
            let page = self.registry.reported(ReportState::Open, after, PAGE).await?;
            for reported in &page {
                context.check_lease().await?;
                changed += u64::from(self.repair_one(reported, context).await?);
            }
            match page.last() {
                Some(last) if page.len() == PAGE => after = Some(last.first),
                _ => return Ok(changed),
            }
        }
    }

    async fn repair_one(
        &self,
        reported: &ReportedLink,
        context: &JobContext,
    ) -> Result<bool, RegistryError> {
        let ReportedLink { link, created_at, count, .. } = reported;
        // One reporter has at most one open report about a link.
        if self.warn_if_due(link, *created_at, *count).await? {
            return Ok(true);
        }
        if self.link(link, *created_at).await?.is_some() {
            return Ok(false);
        }
        let why = Some("the link is gone".into());
        let by = Attribution { actor: Actor::Terse, at: self.links.now(), why };
        let (token, cleared) = (context.token(), ReportState::Cleared);
        let settled = self.registry.settle_reports(token, link, *created_at, cleared, by);
        Ok(settled.await? > 0)
    }
}
