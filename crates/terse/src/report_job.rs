//! Looks after reports: puts up a warning that a crash has kept from being put up, and settles
//! reports about links that are gone.

use std::sync::Arc;
use std::time::Duration;

use terse_core::registry::{
    Actor, Attribution, REPORTERS_TO_WARN, Registry, RegistryError, ReportState, ReportedLink,
};
use terse_core::{Clock, Links};
use tokio::sync::watch;

/// How often, and at the start.
const EVERY: Duration = Duration::from_secs(600);
/// Links read at once.
const PAGE: usize = 200;

/// The chore.
pub(crate) struct ReportJob {
    /// The links and their rules.
    pub(crate) links: Arc<Links>,
    /// Where the reports are.
    pub(crate) registry: Arc<dyn Registry>,
    /// The time.
    pub(crate) clock: Clock,
}

impl ReportJob {
    /// Looks at the start and every so often, until told to stop. A round that fails is tried again
    /// at the next.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) {
        let mut rounds = tokio::time::interval(EVERY);
        rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = rounds.tick() => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            tokio::select! {
                done = self.round() => match done {
                    Ok(0) => {}
                    Ok(changed) => tracing::info!(changed, "looked after reports"),
                    Err(error) => tracing::warn!(%error, "reports could not be looked after; \
                        trying again later"),
                },
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// One round: for how many links there was something to do.
    pub(crate) async fn round(&self) -> Result<u64, RegistryError> {
        let (mut after, mut changed) = (None, 0);
        loop {
            let page = self.registry.reported(ReportState::Open, after, PAGE).await?;
            for reported in &page {
                changed += u64::from(self.look_at(reported).await?);
            }
            match page.last() {
                Some(last) if page.len() == PAGE => after = Some(last.first),
                _ => return Ok(changed),
            }
        }
    }

    async fn look_at(&self, reported: &ReportedLink) -> Result<bool, RegistryError> {
        let ReportedLink { link, born, count, .. } = reported;
        // Whoever has an open report about a link has one of it.
        if *count >= REPORTERS_TO_WARN && self.links.warn(link, *born).await?.is_some() {
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
    use terse_core::{
        Alphabet, Insert, LinkKey, LinkPolicy, LinkReader as _, LinkStore, ModerationStatus,
        NoRouteCache, NoScreening, Random, TargetRules,
    };
    use terse_testkit::{MemoryRegistry, MemoryStore, alias, key, moment};

    async fn report(registry: &MemoryRegistry, link: LinkKey, reporter: u8) {
        let (reporter, reason) = ([reporter; 16], "spam".to_owned());
        let report = NewReport {
            link,
            born: moment(0),
            reporter,
            account: None,
            reason,
            text: None,
            at: moment(1),
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
            quarantine: Duration::ZERO,
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
        let chore = ReportJob { links, registry: registry.clone(), clock: Clock::default() };
        assert_eq!(chore.round().await.unwrap(), 2);
        let standing = async |code| store.get(&key(code)).await.unwrap().unwrap().standing;
        assert_eq!(
            (standing("three").await, standing("two").await),
            (ModerationStatus::Suspicious, ModerationStatus::Clear)
        );
        assert_eq!(registry.reported(ReportState::Open, None, 10).await.unwrap().len(), 2);
        assert_eq!(registry.reported(ReportState::Cleared, None, 10).await.unwrap()[0].count, 4);
        assert_eq!(chore.round().await.unwrap(), 0);
    }
}
