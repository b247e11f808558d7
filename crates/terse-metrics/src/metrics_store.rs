//! A store that wraps another one, and counts and times its calls.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use terse_core::{
    AbsenceCertainty, ChangeCursor, ChangeFeed, ChangePage, ClickSpend, ClickSpender, CodeLease,
    Domain, IdempotencyKey, Insert, Inserted, Link, LinkChange, LinkKey, LinkPage, LinkReader,
    LinkStore, LinkVersion, ListQuery, Outbox, OutboxEvent, OutboxPage, OwnerId, PurgeBefore,
    Revision, StoreError, StoreIdentity, TRACE_TARGET, TagCount, Timestamp, Updated,
};
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::exposition::Exposition;

/// A call of the store and its result.
#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct CallLabels {
    call: &'static str,
    outcome: &'static str,
}

/// A call of the store.
#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Call {
    call: &'static str,
}

/// Wraps a store.
pub struct MetricsStore {
    store: Arc<dyn LinkStore>,
    ended: Family<CallLabels, Counter>,
    seconds: Family<Call, Histogram, fn() -> Histogram>,
    /// Looked up in advance, because visitors wait for this call.
    got: Counter,
    get_many: Histogram,
}

impl MetricsStore {
    /// Registers the metrics and wraps the store.
    pub fn new(store: Arc<dyn LinkStore>, to: &mut Exposition) -> Self {
        let histogram: fn() -> Histogram = || {
            Histogram::new([
                0.000_01, 0.000_05, 0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0,
            ])
        };
        let ended: Family<CallLabels, Counter> = Family::default();
        let seconds = Family::new_with_constructor(histogram);
        let got = ended.get_or_create_owned(&CallLabels { call: "get", outcome: "ok" });
        let get_many = seconds.get_or_create_owned(&Call { call: "get_many" });
        let metrics_store = Self { store, ended, seconds, got, get_many };
        to.registry.register(
            "terse_store_calls",
            "Calls to the store, by how they ended",
            metrics_store.ended.clone(),
        );
        to.registry.register(
            "terse_store_call_seconds",
            "How long calls to the store took",
            metrics_store.seconds.clone(),
        );
        metrics_store
    }

    async fn count<T>(
        &self,
        call: &'static str,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        // Only for a request that has a span: redirects have none.
        let span = match Span::current().is_none() {
            true => Span::none(),
            false => tracing::info_span!(
                target: TRACE_TARGET,
                "store",
                span.name = %format_args!("store {call}"),
                span.error = Empty,
                db.operation.name = call,
            ),
        };
        let started = Instant::now();
        let result = work.instrument(span.clone()).await;
        if let Err(error) = &result {
            span.record("span.error", word(error));
        }
        let outcome = result.as_ref().err().map_or("ok", word);
        self.ended.get_or_create(&CallLabels { call, outcome }).inc();
        self.seconds.get_or_create(&Call { call }).observe(started.elapsed().as_secs_f64());
        result
    }
}

fn word(error: &StoreError) -> &'static str {
    match error {
        StoreError::CodeTaken => "code_taken",
        StoreError::Conflict => "conflict",
        StoreError::Busy => "busy",
        StoreError::Exhausted => "exhausted",
        StoreError::Unavailable(_) => "unavailable",
        StoreError::Corrupt(_) => "corrupt",
        StoreError::LaterVersion => "later_version",
    }
}

#[async_trait]
impl LinkReader for MetricsStore {
    async fn get(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        self.count("get", self.store.get(key)).await
    }

    async fn get_many(&self, keys: &[LinkKey]) -> Vec<Result<Option<Link>, StoreError>> {
        let started = Instant::now();
        let found = self.store.get_many(keys).await;
        self.get_many.observe(started.elapsed().as_secs_f64());
        self.got.inc_by(found.iter().filter(|found| found.is_ok()).count() as u64);
        for error in found.iter().filter_map(|found| found.as_ref().err()) {
            self.ended.get_or_create(&CallLabels { call: "get", outcome: word(error) }).inc();
        }
        found
    }

    async fn get_folded(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        self.count("get_folded", self.store.get_folded(key)).await
    }

    fn surely_absent(&self, domain: &Domain, code: &str) -> AbsenceCertainty {
        self.store.surely_absent(domain, code)
    }
}

#[async_trait]
impl ClickSpender for MetricsStore {
    async fn spend(&self, key: &LinkKey) -> Result<ClickSpend, StoreError> {
        self.count("spend", self.store.spend(key)).await
    }
}

#[async_trait]
impl ChangeFeed for MetricsStore {
    async fn last_change(&self) -> Result<ChangeCursor, StoreError> {
        self.count("last_change", self.store.last_change()).await
    }

    async fn changes(&self, after: ChangeCursor, limit: usize) -> Result<ChangePage, StoreError> {
        self.count("changes", self.store.changes(after, limit)).await
    }

    async fn announce(&self, key: &LinkKey) -> Result<(), StoreError> {
        self.count("announce", self.store.announce(key)).await
    }

    async fn recent_changes(
        &self,
        span: Duration,
        limit: usize,
    ) -> Result<Option<Vec<LinkChange>>, StoreError> {
        self.count("recent_changes", self.store.recent_changes(span, limit)).await
    }
}

#[async_trait]
impl Outbox for MetricsStore {
    async fn outbox(&self, after: Option<u64>, limit: usize) -> Result<OutboxPage, StoreError> {
        self.count("outbox", self.store.outbox(after, limit)).await
    }

    async fn outbox_done(&self, positions: &[u64]) -> Result<(), StoreError> {
        self.count("outbox_done", self.store.outbox_done(positions)).await
    }
}

#[async_trait]
impl LinkStore for MetricsStore {
    fn identity(&self) -> &StoreIdentity {
        self.store.identity()
    }

    async fn insert(&self, insert: Insert) -> Result<Inserted, StoreError> {
        self.count("insert", self.store.insert(insert)).await
    }

    async fn insert_many(&self, inserts: Arc<[Insert]>) -> Vec<Result<Inserted, StoreError>> {
        let started = Instant::now();
        let answers = self.store.insert_many(inserts).await;
        self.seconds
            .get_or_create(&Call { call: "insert_many" })
            .observe(started.elapsed().as_secs_f64());
        let mut outcomes = BTreeMap::<&'static str, u64>::new();
        for answer in &answers {
            *outcomes.entry(answer.as_ref().err().map_or("ok", word)).or_default() += 1;
        }
        for (outcome, count) in outcomes {
            self.ended.get_or_create(&CallLabels { call: "insert", outcome }).inc_by(count);
        }
        answers
    }

    async fn preview_insert(&self, insert: &Insert) -> Result<Inserted, StoreError> {
        self.count("preview_insert", self.store.preview_insert(insert)).await
    }

    async fn answered(&self, request: &IdempotencyKey) -> Result<Option<Inserted>, StoreError> {
        self.count("answered", self.store.answered(request)).await
    }

    async fn update(
        &self,
        link: &Link,
        expected: Revision,
        events: &[OutboxEvent],
    ) -> Result<Updated, StoreError> {
        self.count("update", self.store.update(link, expected, events)).await
    }

    async fn confirm(&self) -> Result<(), StoreError> {
        self.count("confirm", self.store.confirm()).await
    }

    async fn history(&self, key: &LinkKey, limit: usize) -> Result<Vec<LinkVersion>, StoreError> {
        self.count("history", self.store.history(key, limit)).await
    }

    async fn forget_history(&self, key: &LinkKey) -> Result<(), StoreError> {
        self.count("forget_history", self.store.forget_history(key)).await
    }

    async fn list(&self, query: &ListQuery) -> Result<LinkPage, StoreError> {
        self.count("list", self.store.list(query)).await
    }

    async fn list_to_show(&self, query: &ListQuery) -> Result<LinkPage, StoreError> {
        self.count("list", self.store.list_to_show(query)).await
    }

    async fn tags(&self, owner: OwnerId, limit: usize) -> Result<Vec<TagCount>, StoreError> {
        self.count("tags", self.store.tags(owner, limit)).await
    }

    async fn lease_ahead(&self, lease: CodeLease) -> Result<Range<u64>, StoreError> {
        self.count("lease", self.store.lease_ahead(lease)).await
    }

    async fn incarnation(&self) -> Result<u64, StoreError> {
        self.count("incarnation", self.store.incarnation()).await
    }

    async fn raise_incarnation(&self, seen: u64) -> Result<u64, StoreError> {
        self.count("raise_incarnation", self.store.raise_incarnation(seen)).await
    }

    async fn mark_expired(
        &self,
        now: Timestamp,
        limit: usize,
        subscribers: &[OwnerId],
    ) -> Result<Vec<LinkKey>, StoreError> {
        self.count("mark_expired", self.store.mark_expired(now, limit, subscribers)).await
    }

    async fn purge(
        &self,
        before: PurgeBefore,
        limit: usize,
        quarantine_until: Option<Timestamp>,
    ) -> Result<Vec<LinkKey>, StoreError> {
        self.count("purge", self.store.purge(before, limit, quarantine_until)).await
    }

    async fn count_purgeable(&self, before: PurgeBefore) -> Result<u64, StoreError> {
        self.count("count_purgeable", self.store.count_purgeable(before)).await
    }

    async fn count_links(&self) -> Result<u64, StoreError> {
        self.count("count_links", self.store.count_links()).await
    }

    async fn release(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.count("release", self.store.release(now, limit)).await
    }

    async fn forget_requests(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.count("forget_requests", self.store.forget_requests(before, limit)).await
    }

    async fn scrub(&self) -> Result<(), StoreError> {
        self.count("scrub", self.store.scrub()).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.count("check", self.store.check()).await
    }
}
