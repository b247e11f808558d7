//! Completes the handling of reports: puts up a warning page that a crash prevented, and closes
//! reports about links that no longer exist.

use std::time::Duration;

use async_trait::async_trait;
use terse_core::BoxError;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::moderation::LinkReports;

const INTERVAL: Duration = Duration::from_secs(600);

/// The job.
pub struct ReportRepair(pub LinkReports);

#[async_trait]
impl Job for ReportRepair {
    fn name(&self) -> &'static str {
        "reports"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn needs_lease(&self) -> bool {
        true
    }

    async fn run(&mut self, context: &JobContext) -> Result<NextRun, BoxError> {
        let links = self.0.repair(context).await?;
        if links > 0 {
            tracing::info!(links, "completed the handling of reports");
        }
        Ok(NextRun::Interval)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use terse_core::registry::prelude::*;
    use terse_core::registry::{NewReport, ReportState};
    use terse_core::{
        Alphabet, Clock, Insert, LinkKey, LinkPolicy, LinkReader as _, LinkStore, Links,
        ModerationStatus, NoRouteCache, NoScreening, RandomCodes, TargetRules, Timestamp,
    };
    use terse_testkit::{MemoryRegistry, MemoryStore, alias, key, timestamp};

    async fn report(registry: &MemoryRegistry, link: LinkKey, reporter: u8) {
        report_created(registry, link, timestamp(0), reporter).await;
    }

    async fn report_created(
        registry: &MemoryRegistry,
        link: LinkKey,
        created_at: Timestamp,
        reporter: u8,
    ) {
        let (reporter, reason) = ([reporter; 16], "spam".to_owned());
        let report = NewReport {
            link,
            created_at,
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
        let codes = Arc::new(RandomCodes::new(Alphabet::Base62, 7));
        let screen = Arc::new(NoScreening);
        let links = Arc::new(Links::new(
            store.clone(),
            codes,
            Arc::new(NoRouteCache),
            screen,
            rules,
            Clock::default(),
        ));
        let reports = LinkReports::new(links, registry.clone());
        let context = JobContext::without_lease();
        assert_eq!(reports.repair(&context).await.unwrap(), 2);
        let moderation = async |code| store.get(&key(code)).await.unwrap().unwrap().moderation;
        assert_eq!(
            (moderation("three").await, moderation("two").await),
            (ModerationStatus::Suspicious, ModerationStatus::Clear)
        );
        assert_eq!(registry.reported(ReportState::Open, None, 10).await.unwrap().len(), 2);
        assert_eq!(registry.reported(ReportState::Cleared, None, 10).await.unwrap()[0].count, 4);
        assert_eq!(reports.repair(&context).await.unwrap(), 0);
        // A code whose link is gone, and which a later link has: only the reports about the gone
        // link are closed.
        report_created(&registry, key("two"), timestamp(-9), 0).await;
        assert_eq!(reports.repair(&context).await.unwrap(), 1);
        let open = registry.reported(ReportState::Open, None, 10).await.unwrap();
        let two = open.iter().filter(|reported| reported.link == key("two"));
        let two: Vec<_> = two.map(|reported| (reported.created_at, reported.count)).collect();
        assert_eq!(two, [(timestamp(0), 2)]);
        // An import brings a link back with an earlier creation time than the former link had.
        report_created(&registry, key("two"), timestamp(9), 0).await;
        assert_eq!(reports.repair(&context).await.unwrap(), 1);
        let open = registry.reported(ReportState::Open, None, 10).await.unwrap();
        let two = open.iter().filter(|reported| reported.link == key("two"));
        let two: Vec<_> = two.map(|reported| (reported.created_at, reported.count)).collect();
        assert_eq!(two, [(timestamp(0), 2)], "the link that is there keeps its reports");
    }
}
