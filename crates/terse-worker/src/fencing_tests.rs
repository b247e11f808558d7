//! A job whose lease was taken over stops before its next batch.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::accounts::{Erasures, RefreshHook};
use terse_core::clicks::ClickStore;
use terse_core::job::{Job, JobContext};
use terse_core::moderation::LinkReports;
use terse_core::registry::prelude::*;
use terse_core::registry::{
    AccountName, Actor, Attribution, EventKind, NewAccount, NewReport, Role, SecretHash, Session,
};
use terse_core::*;
use terse_testkit::{MemoryClickStore, MemoryRegistry, MemoryStore, alias, key, timestamp};
use tokio::sync::watch;

use crate::*;

struct Fixture {
    store: Arc<MemoryStore>,
    registry: Arc<MemoryRegistry>,
    clicks: Arc<MemoryClickStore>,
    links: Arc<Links>,
    clock: Clock,
}

fn fixture() -> Fixture {
    fixture_with(Arc::new(NoScreening))
}

fn fixture_with(screen: Arc<dyn Screening>) -> Fixture {
    let (store, registry) = (Arc::new(MemoryStore::new()), Arc::new(MemoryRegistry::new()));
    let base = "https://go.example/".parse().unwrap();
    let rules = LinkPolicy {
        targets: TargetRules::default(),
        hosts: Hosts::new(&base, &[], vec![]).unwrap(),
        anonymous_create: true,
        anonymous_ttl: Duration::from_secs(1),
        grace: Duration::from_secs(1),
        keep_expired: Duration::from_secs(1),
        quarantine: Duration::ZERO,
        unwanted_aliases: Default::default(),
    };
    let (codes, clock) = (Arc::new(RandomCodes::new(Alphabet::Base62, 7)), Clock::default());
    let cache = Arc::new(NoRouteCache);
    let links = Links::new(store.clone(), codes, cache, screen, rules, clock.clone());
    let clicks = Arc::new(MemoryClickStore::new());
    Fixture { store, registry, clicks, links: Arc::new(links), clock }
}

impl Fixture {
    /// Runs the job in a process that is paused at its check number `at`; meanwhile another process
    /// takes the lease over.
    async fn run_paused(&self, job: &mut dyn Job, at: usize) {
        terse_testkit::run_paused(&self.registry, job, at).await;
    }

    fn guard(&self) -> Arc<RemovalGuard> {
        let (links, registry, clock) =
            (self.links.clone(), self.registry.clone(), self.clock.clone());
        Arc::new(RemovalGuard::new(links, registry, clock, Arc::default(), 25))
    }

    async fn links_left(&self) -> usize {
        let query =
            |status| ListQuery { status, ..ListQuery::all(Sort::Newest, 100, timestamp(0)) };
        self.store.list(&query(None)).await.unwrap().links.len()
            + self.store.list(&query(Some(LinkStatus::Deleted))).await.unwrap().links.len()
    }
}

async fn put(store: &MemoryStore, link: Link) {
    store.insert(Insert::new(link, None)).await.unwrap();
}

#[tokio::test]
async fn the_reaper_stops_between_two_batches() {
    let fixture = fixture();
    for code in ["one", "two", "three"] {
        let deleted_at = Some(timestamp(5));
        put(&fixture.store, Link { deleted_at, ..alias(code, "https://example.com/") }).await;
    }
    let mut reaper = Reaper {
        links: fixture.links.clone(),
        clicks: fixture.clicks.clone(),
        guard: fixture.guard(),
        every: Duration::from_secs(1),
        batch: 1,
        counts: Arc::default(),
    };
    // Paused before the second batch.
    fixture.run_paused(&mut reaper, 1).await;
    assert_eq!(fixture.links_left().await, 2, "one batch before the pause, and none after");
    assert_eq!(reaper.counts.purged.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_erasure_stops_between_two_batches() {
    struct NoRefresh;
    #[async_trait]
    impl RefreshHook for NoRefresh {
        async fn refresh(&self) {}
    }
    let fixture = fixture();
    let by = Attribution { actor: Actor::Terse, at: timestamp(0), why: None };
    let account = NewAccount {
        name: AccountName::parse("ann").unwrap(),
        role: Role::User,
        created_at: timestamp(0),
        password: None,
        identity: None,
    };
    let account = fixture.registry.add_account(account, by.clone()).await.unwrap();
    let (links, registry) = (fixture.links.clone(), fixture.registry.clone());
    let erasures = Erasures::new(links, fixture.clicks.clone(), registry);
    for code in ["one", "two"] {
        let link = Link { owner: account.id, ..alias(code, "https://example.com/") };
        put(&fixture.store, link).await;
    }
    // The request's own attempt fails; the job takes over.
    fixture.clicks.fail(true);
    erasures.erase(&NoRefresh, &account, by).await.unwrap();
    fixture.clicks.fail(false);
    let late = Link { owner: account.id, ..alias("late", "https://example.com/") };
    put(&fixture.store, late).await;
    let mut job = ErasureJob { erasures };
    fixture.run_paused(&mut job, 0).await;
    assert_eq!(fixture.links_left().await, 1);
    assert!(fixture.registry.account(account.id).await.unwrap().is_some());
    job.run(&JobContext::without_lease()).await.unwrap();
    assert_eq!(fixture.links_left().await, 0);
    assert!(fixture.registry.account(account.id).await.unwrap().is_none());
}

#[tokio::test]
async fn reports_and_retention_write_nothing_without_the_lease() {
    let fixture = fixture();
    let Fixture { registry, links, clock, .. } = &fixture;
    for reporter in 0..4 {
        let report = NewReport {
            link: key("gone"),
            created_at: timestamp(0),
            reporter: [reporter; 16],
            account: None,
            reason: "spam".into(),
            text: None,
            at: timestamp(1),
        };
        registry.report(report).await.unwrap();
    }
    let mut reports = ReportRepair(LinkReports::new(links.clone(), registry.clone()));
    fixture.run_paused(&mut reports, 0).await;
    let open = registry.reported(registry::ReportState::Open, None, 10).await.unwrap();
    assert_eq!(open[0].count, 4);

    let by = Attribution { actor: Actor::Terse, at: timestamp(0), why: None };
    let account = NewAccount {
        name: AccountName::parse("ann").unwrap(),
        role: Role::User,
        created_at: timestamp(0),
        password: None,
        identity: None,
    };
    let account = registry.add_account(account, by).await.unwrap();
    let owner = account.id;
    let token = SecretHash([1; 32]);
    let (created_at, expires_at) = (timestamp(0), timestamp(1));
    let session = Session { token, owner, created_at, expires_at, browser: None };
    registry.add_session(session, account.revision).await.unwrap();
    let mut retention = RegistryRetention { registry: registry.clone(), guard: fixture.guard() };
    fixture.run_paused(&mut retention, 0).await;
    assert!(
        registry.prune(None, clock.now(), Duration::ZERO, 10).await.unwrap() > 0,
        "it was left"
    );

    let settings = ClickRetentionSettings {
        every: Duration::from_secs(1),
        keep_raw: Duration::ZERO,
        max_raw: None,
        keep_hours: Duration::ZERO,
        keep_tombstones: Duration::ZERO,
    };
    let clicks: Arc<dyn ClickStore> = fixture.clicks.clone();
    let counts = Arc::default();
    let mut retention = ClickRetentionJob::new(
        clicks,
        fixture.store.clone(),
        clock.clone(),
        fixture.guard(),
        settings,
        counts,
    );
    fixture.run_paused(&mut retention, 0).await;
}

#[tokio::test]
async fn the_rescan_writes_no_result_without_the_lease() {
    struct BlocksAll;
    impl Screening for BlocksAll {
        fn screen(&self, _: &Target, _: ScreenInput<'_>) -> ScreenResult {
            ScreenResult::Blocked { source: "a list".into() }
        }
    }
    let fixture = fixture_with(Arc::new(BlocksAll));
    let Fixture { store, registry, links, clock, .. } = &fixture;
    put(store, alias("one", "https://example.com/")).await;
    let folder = tempfile::tempdir().unwrap();
    let (_lists, lists) = watch::channel(Fingerprint::default());
    let mut rescan = Rescan::new(RescanParts {
        links: links.clone(),
        registry: registry.clone(),
        old_file: folder.path().join("judged.json"),
        lists,
        every: Duration::from_hours(24),
        clock: clock.clone(),
        counts: Arc::default(),
    });
    fixture.run_paused(&mut rescan, 0).await;
    let moderation = async || store.get(&key("one")).await.unwrap().unwrap().moderation;
    assert_eq!(moderation().await, ModerationStatus::Clear);
    assert_eq!(registry.job_progress("rescan").await.unwrap(), None);
    let context = terse_testkit::PausedLease::take_over(registry).await;
    rescan.run(&context).await.unwrap();
    assert_eq!(moderation().await, ModerationStatus::Blocked);
}

/// Nothing answers.
struct NoAnswer;

#[async_trait]
impl HttpClient for NoAnswer {
    async fn get_if_changed(
        &self,
        _: &str,
        _: RequestLimits,
        _: &Validators,
    ) -> Result<GetResponse, OutgoingError> {
        Err(OutgoingError::Timeout)
    }

    async fn post(
        &self,
        _: &str,
        _: &str,
        _: Vec<u8>,
        _: &[(&str, &str)],
    ) -> Result<PostResponse, OutgoingError> {
        Err(OutgoingError::Timeout)
    }
}

#[tokio::test]
async fn the_link_checker_flags_no_link_without_the_lease() {
    let fixture = fixture();
    let Fixture { store, links, clock, .. } = &fixture;
    let mut checker =
        LinkChecker::new(links.clone(), Arc::new(NoAnswer), clock.clone(), Arc::default());
    let created_at = clock.now();
    put(store, Link { created_at, ..alias("new", "https://example.com/") }).await;
    checker.run(&JobContext::without_lease()).await.unwrap();
    // A new link is flagged after its second failure.
    clock.advance(Duration::from_mins(2));
    fixture.run_paused(&mut checker, 0).await;
    let link = store.get(&key("new")).await.unwrap().unwrap();
    assert!(!link.flags.contains(UNREACHABLE));
}

#[tokio::test]
async fn events_stay_in_the_outbox_without_the_lease() {
    let fixture = fixture();
    let event = OutboxEvent { kind: EventKind::LinkCreated, at: timestamp(0) };
    let link = alias("one", "https://example.com/");
    let insert = Insert { events: vec![event], ..Insert::new(link, None) };
    fixture.store.insert(insert).await.unwrap();
    let drain = OutboxDrain::new(fixture.store.clone(), Arc::new(NoEvents), fixture.clock.clone());
    let mut job = OutboxDelivery::new(drain, None);
    fixture.run_paused(&mut job, 0).await;
    let left = async || fixture.store.outbox(None, 10).await.unwrap().entries.len();
    assert_eq!(left().await, 1);
    job.run(&JobContext::without_lease()).await.unwrap();
    assert_eq!(left().await, 0);
}
