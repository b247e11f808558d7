//! A wrong clock deletes nothing, and a purge of too many links waits for an operator.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use terse_core::clicks::{Click, ClickTarget, LinkId};
use terse_core::job::{Job, JobContext};
use terse_core::registry::prelude::*;
use terse_core::registry::{Actor, AlarmState, Attribution, NodeId};
use terse_core::*;
use terse_testkit::{MemoryClickStore, MemoryRegistry, MemoryStore, alias, key};

use crate::{
    ClickRetentionCounts, ClickRetentionJob, ClickRetentionSettings, Reaper, RemovalGuard,
    RetentionKind,
};

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

struct Fixture {
    store: Arc<MemoryStore>,
    registry: Arc<MemoryRegistry>,
    links: Arc<Links>,
    clock: Clock,
    notices: Arc<Notices>,
    reaper: Reaper,
    context: JobContext,
}

impl Fixture {
    async fn new() -> Self {
        let (store, registry) = (Arc::new(MemoryStore::new()), Arc::new(MemoryRegistry::new()));
        let base = "https://go.example/".parse().unwrap();
        let rules = LinkPolicy {
            targets: TargetRules::default(),
            hosts: Hosts::new(&base, &[], vec![]).unwrap(),
            anonymous_create: true,
            anonymous_ttl: Duration::from_secs(1),
            grace: 7 * DAY,
            keep_expired: 7 * DAY,
            quarantine: Duration::ZERO,
            unwanted_aliases: Default::default(),
        };
        let (codes, clock) = (Arc::new(RandomCodes::new(Alphabet::Base62, 7)), Clock::default());
        let (cache, screen) = (Arc::new(NoRouteCache), Arc::new(NoScreening));
        let links = Arc::new(Links::new(store.clone(), codes, cache, screen, rules, clock.clone()));
        let notices = Arc::<Notices>::default();
        let node = NodeId::parse("a").unwrap();
        let lease = registry.acquire_lease("jobs", &node, HOUR).await.unwrap().unwrap();
        let context = JobContext::leased(registry.clone(), lease.token);
        let reaper = reaper(&links, &registry, &clock, &notices);
        Self { store, registry, links, clock, notices, reaper, context }
    }

    /// A process that has just started on the same stores.
    fn restart(&mut self) {
        self.notices = Arc::default();
        self.reaper = reaper(&self.links, &self.registry, &self.clock, &self.notices);
    }

    async fn put(&self, prefix: &str, count: usize, expires_in: Option<Duration>) {
        let now = self.clock.now();
        for n in 0..count {
            let link = Link {
                created_at: now,
                expires_at: expires_in.map(|span| now.checked_add(span).unwrap()),
                ..alias(&format!("{prefix}-{n}"), "https://example.com/")
            };
            self.store.insert(Insert::new(link, None)).await.unwrap();
        }
    }

    async fn run(&mut self) {
        self.reaper.run(&self.context).await.unwrap();
    }

    fn counts(&self) -> (u64, u64) {
        let counts = &self.reaper.counts;
        (counts.expired.load(Ordering::SeqCst), counts.purged.load(Ordering::SeqCst))
    }

    fn notice(&self) -> Option<String> {
        self.notices.all().pop().map(|(_, text)| text)
    }
}

fn reaper(
    links: &Arc<Links>,
    registry: &Arc<MemoryRegistry>,
    clock: &Clock,
    notices: &Arc<Notices>,
) -> Reaper {
    let guard =
        RemovalGuard::new(links.clone(), registry.clone(), clock.clone(), notices.clone(), 25);
    Reaper {
        links: links.clone(),
        clicks: Arc::new(MemoryClickStore::new()),
        guard: Arc::new(guard),
        every: HOUR,
        batch: 1000,
        counts: Arc::default(),
    }
}

fn ms(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap()
}

#[tokio::test]
async fn a_clock_that_is_wrong_for_seconds_deletes_nothing() {
    let mut fixture = Fixture::new().await;
    fixture.put("monthly", 20, Some(30 * DAY)).await;
    fixture.run().await;
    fixture.clock.shift_wall_clock(ms(60 * DAY));
    fixture.run().await;
    fixture.run().await;
    assert_eq!(fixture.counts(), (0, 0));
    let notice = fixture.notice().unwrap();
    assert!(notice.contains("days ahead") && notice.contains("--confirm 1"), "{notice}");
    fixture.clock.shift_wall_clock(-ms(60 * DAY));
    fixture.run().await;
    assert_eq!((fixture.counts(), fixture.notice()), ((0, 0), None));
    // When their time has really come, they are marked, and deleted a week later.
    fixture.clock.advance(31 * DAY);
    fixture.run().await;
    assert_eq!(fixture.counts(), (20, 0), "never marked and deleted in the same round");
    fixture.clock.advance(7 * DAY);
    fixture.run().await;
    assert_eq!(fixture.counts(), (20, 20));
}

#[tokio::test]
async fn a_start_with_a_wrong_clock_deletes_nothing() {
    let mut fixture = Fixture::new().await;
    fixture.put("monthly", 20, Some(30 * DAY)).await;
    fixture.clock.shift_wall_clock(ms(60 * DAY));
    fixture.run().await;
    fixture.run().await;
    assert_eq!(fixture.counts(), (0, 0));
    // Wrong for longer, and over a restart.
    fixture.clock.advance(2 * DAY);
    fixture.restart();
    fixture.run().await;
    assert_eq!(fixture.counts(), (0, 0));
    // The operator confirms the removal.
    let alarm = fixture.registry.removal_alarm().await.unwrap().unwrap();
    assert_eq!((alarm.round, alarm.state), (1, AlarmState::Waiting));
    let by = Attribution { actor: Actor::Terse, at: fixture.clock.now(), why: None };
    fixture.registry.confirm_removal(1, by).await.unwrap();
    fixture.run().await;
    assert_eq!((fixture.counts(), fixture.notice()), ((20, 0), None));
}

#[tokio::test]
async fn a_process_that_was_off_for_a_while_goes_on() {
    let mut fixture = Fixture::new().await;
    fixture.put("daily", 5, Some(DAY)).await;
    fixture.run().await;
    fixture.clock.advance(6 * DAY);
    fixture.restart();
    fixture.run().await;
    assert_eq!(fixture.counts(), (5, 0));
}

#[tokio::test]
async fn a_purge_of_too_many_links_waits_for_a_confirmation() {
    let mut fixture = Fixture::new().await;
    fixture.put("brief", 150, Some(HOUR)).await;
    fixture.put("lasting", 200, None).await;
    fixture.run().await;
    fixture.clock.advance(DAY);
    fixture.run().await;
    fixture.clock.advance(7 * DAY);
    for _ in 0..2 {
        fixture.run().await;
        assert_eq!(fixture.counts(), (150, 0));
        let notice = fixture.notice().unwrap();
        assert!(notice.contains("150 of 350 links") && notice.contains("--confirm 1"), "{notice}");
    }
    let removals = Removals::new(fixture.registry.clone(), fixture.clock.clone());
    assert_eq!(removals.waiting(&Principal::OPERATOR).await.unwrap().unwrap().round, 1);
    let by = || Attribution { actor: Actor::Terse, at: Timestamp::EPOCH, why: None };
    assert!(fixture.registry.confirm_removal(2, by()).await.is_err(), "another number");
    fixture.registry.confirm_removal(1, by()).await.unwrap();
    fixture.run().await;
    assert_eq!((fixture.counts(), fixture.notice()), ((150, 150), None));
    // The confirmation is used up.
    fixture.put("next", 150, Some(HOUR)).await;
    fixture.clock.advance(DAY);
    fixture.run().await;
    fixture.clock.advance(7 * DAY);
    fixture.run().await;
    assert_eq!(fixture.counts(), (300, 150));
    assert!(fixture.notice().unwrap().contains("--confirm 2"));
}

#[tokio::test]
async fn clicks_and_aliases_of_a_long_time_wait_for_a_confirmation() {
    for aged in [RetentionKind::CLICKS, RetentionKind::ALIASES] {
        let fixture = Fixture::new().await;
        let guard = &fixture.reaper.guard;
        fixture.put("old", 1, None).await;
        let (keep, context) = (90 * DAY, &fixture.context);
        let before = |days: u32| fixture.clock.now().saturating_sub(keep - days * DAY);
        // The first round notes how far it went.
        fixture.clock.advance(80 * DAY);
        assert!(guard.may_advance(context, &aged, before(0), keep).await.unwrap());
        guard.advanced(context, &aged, before(0)).await.unwrap();
        assert!(
            guard.may_advance(context, &aged, before(17), keep).await.unwrap(),
            "7 days of data"
        );
        for _ in 0..2 {
            assert!(!guard.may_advance(context, &aged, before(60), keep).await.unwrap());
            let notice = fixture.notice().unwrap();
            assert!(notice.contains("of 50 days") && notice.contains("--confirm 1"), "{notice}");
        }
        let by = Attribution { actor: Actor::Terse, at: Timestamp::EPOCH, why: None };
        fixture.registry.confirm_removal(1, by).await.unwrap();
        assert!(guard.may_advance(context, &aged, before(60), keep).await.unwrap());
        guard.advanced(context, &aged, before(60)).await.unwrap();
        assert!(guard.may_advance(context, &aged, before(61), keep).await.unwrap(), "as every day");
        assert_eq!(fixture.notice(), None);
    }
}

/// The size of single clicks has nothing to do with the clock.
#[tokio::test]
async fn single_clicks_stay_within_their_size_while_a_removal_waits() {
    let fixture = Fixture::new().await;
    fixture.put("old", 1, None).await;
    let clicks = Arc::new(MemoryClickStore::new());
    let link = LinkId { key: key("old-0"), created_at: fixture.clock.now() };
    let click = |n: u32| {
        let at = fixture.clock.now().checked_add(n * Duration::from_secs(60)).unwrap();
        Click::bare(at, ClickTarget::Link(link.clone(), OwnerId(1)))
    };
    terse_testkit::add_clicks(&*clicks, (0..50).map(click).collect()).await;
    let run = async |max_raw| {
        let settings = ClickRetentionSettings {
            every: HOUR,
            keep_raw: 90 * DAY,
            max_raw,
            keep_hours: 30 * DAY,
            keep_tombstones: 7 * DAY,
        };
        let counts = Arc::<ClickRetentionCounts>::default();
        let mut job = ClickRetentionJob::new(
            clicks.clone(),
            fixture.store.clone(),
            fixture.clock.clone(),
            fixture.reaper.guard.clone(),
            settings,
            counts.clone(),
        );
        job.run(&fixture.context).await.unwrap();
        (counts.raw.load(Ordering::Relaxed), counts.hours.load(Ordering::Relaxed))
    };
    assert_eq!(run(None).await, (0, 0));
    fixture.clock.advance(200 * DAY);
    assert_eq!(run(None).await, (0, 0), "200 days at once");
    assert!(fixture.notice().unwrap().contains("--confirm 1"));
    assert_eq!(run(Some(0)).await, (50, 0));
    assert!(fixture.notice().is_some(), "the removal still waits");
}

#[tokio::test]
async fn one_alarm_at_a_time_can_be_confirmed() {
    let mut fixture = Fixture::new().await;
    fixture.put("brief", 150, Some(HOUR)).await;
    fixture.run().await;
    fixture.clock.advance(DAY);
    fixture.run().await;
    let guard = fixture.reaper.guard.clone();
    guard.advanced(&fixture.context, &RetentionKind::CLICKS, Timestamp::EPOCH).await.unwrap();
    fixture.clock.advance(7 * DAY);
    for _ in 0..3 {
        fixture.run().await;
        let now = fixture.clock.now();
        assert!(
            !guard.may_advance(&fixture.context, &RetentionKind::CLICKS, now, DAY).await.unwrap()
        );
        let alarm = fixture.registry.removal_alarm().await.unwrap().unwrap();
        assert_eq!((alarm.round, alarm.state), (1, AlarmState::Waiting));
    }
}
