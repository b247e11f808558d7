//! Completes the handling of reports: puts up a warning page that a crash prevented, and closes
//! reports about links that no longer exist.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::registry::{
    Actor, Attribution, REPORTERS_TO_WARN, Registry, RegistryError, ReportState, ReportedLink,
};
use terse_core::{BoxError, Clock, Links};

use crate::job::{Context, Job, Next};

const INTERVAL: Duration = Duration::from_secs(600);
/// Links per read.
const PAGE: usize = 200;

/// The job.
pub struct Reports {
    /// The links and their rules.
    pub links: Arc<Links>,
    /// Holds the reports.
    pub registry: Arc<dyn Registry>,
    /// The time.
    pub clock: Clock,
}

#[async_trait]
impl Job for Reports {
    fn name(&self) -> &'static str {
        "reports"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn needs_lease(&self) -> bool {
        true
    }

    async fn run(&mut self, context: &Context) -> Result<Next, BoxError> {
        let links = self.settle_all(context).await?;
        if links > 0 {
            tracing::info!(links, "completed the handling of reports");
        }
        Ok(Next::Interval)
    }
}

impl Reports {
    /// Checks all reported links: for how many there was something to do.
    async fn settle_all(&self, context: &Context) -> Result<u64, RegistryError> {
        let (mut after, mut changed) = (None, 0);
        loop {
            let page = self.registry.reported(ReportState::Open, after, PAGE).await?;
            for reported in &page {
                context.check_lease().await?;
                changed += u64::from(self.settle(reported).await?);
            }
            match page.last() {
                Some(last) if page.len() == PAGE => after = Some(last.first),
                _ => return Ok(changed),
            }
        }
    }

    async fn settle(&self, reported: &ReportedLink) -> Result<bool, RegistryError> {
        let ReportedLink { link, created_at, count, .. } = reported;
        // One reporter has at most one open report about a link.
        if *count >= REPORTERS_TO_WARN && self.links.warn(link, *created_at).await?.is_some() {
            return Ok(true);
        }
        if self.links.preview(link).await?.is_some() {
            return Ok(false);
        }
        let by = Attribution {
            actor: Actor::Terse,
            at: self.clock.now(),
            why: Some("the link is gone".into()),
        };
        Ok(self.registry.settle_reports(link, ReportState::Cleared, by).await? > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terse_core::registry::NewReport;
    use terse_core::registry::prelude::*;
    use terse_core::{
        Alphabet, Insert, LinkKey, LinkPolicy, LinkReader as _, LinkStore, ModerationStatus,
        NoRouteCache, NoScreening, Random, TargetRules,
    };
    use terse_testkit::{MemoryRegistry, MemoryStore, alias, key, timestamp};

    async fn report(registry: &MemoryRegistry, link: LinkKey, reporter: u8) {
        let (reporter, reason) = ([reporter; 16], "spam".to_owned());
        let report = NewReport {
            link,
            created_at: timestamp(0),
            reporter,
            account: None,
            reason,
            text: None,
            at: timestamp(1),
        };
        registry.report(report).await.unwrap();
    }

    #[tokio::test]
    async fn what_a_crash_has_left_undone_is_done_later() {
        let (store, registry) = (Arc::new(MemoryStore::new()), Arc::new(MemoryRegistry::new()));
        for code in ["three", "two"] {
            store.insert(Insert::new(alias(code, "https://example.com/"), None)).await.unwrap();
        }
        for (code, reporters) in [("three", 3), ("two", 2), ("gone", 4)] {
            for reporter in 0..reporters {
                report(&registry, key(code), reporter).await;
            }
        }
        let base = "https://go.example/".parse().unwrap();
        let rules = LinkPolicy {
            targets: TargetRules::default(),
            hosts: terse_core::Hosts::new(&base, &[], vec![]).unwrap(),
            anonymous_create: true,
            anonymous_ttl: Duration::from_secs(1),
            grace: Duration::from_secs(1),
            keep_expired: Duration::from_secs(1),
            quarantine: Duration::ZERO,
            unwanted_aliases: Default::default(),
        };
        let codes = Arc::new(Random::new(Alphabet::Base62, 7));
        let screen = Arc::new(NoScreening);
        let links = Arc::new(Links::new(
            store.clone(),
            codes,
            Arc::new(NoRouteCache),
            screen,
            rules,
            Clock::default(),
        ));
        let job = Reports { links, registry: registry.clone(), clock: Clock::default() };
        let context = Context::without_lease();
        assert_eq!(job.settle_all(&context).await.unwrap(), 2);
        let moderation = async |code| store.get(&key(code)).await.unwrap().unwrap().moderation;
        assert_eq!(
            (moderation("three").await, moderation("two").await),
            (ModerationStatus::Suspicious, ModerationStatus::Clear)
        );
        assert_eq!(registry.reported(ReportState::Open, None, 10).await.unwrap().len(), 2);
        assert_eq!(registry.reported(ReportState::Cleared, None, 10).await.unwrap()[0].count, 4);
        assert_eq!(job.settle_all(&context).await.unwrap(), 0);
    }
}
