//! Nodes, workers and stores for tests.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{FutureProducer, FutureRecord};
use terse_clickhouse::{ClickHouseAddress, ClickHouseClicks, ClickHouseOptions};
use terse_core::clicks::{
    Added, Batch, BotKind, Click, ClickIngest, ClickLedger, ClickReport, ClickStore, ClickSubject,
    ClickTarget, JournalId, JournalSpan, LinkId, Opened, Period, Unit,
};
use terse_core::{Answered, Clock, OwnerId};
use terse_kafka::{KafkaAddress, KafkaBus, KafkaOptions, KafkaWorker, WorkerCounts};
use terse_postgres::{LedgerKind, PostgresClicks, PostgresLedger, PostgresOptions};
use terse_testkit::{PostgresServer, key, timestamp};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longer than any successful wait takes, also on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) fn options(url: &str) -> KafkaOptions {
    let mut options = KafkaOptions::new(KafkaAddress::parse(url).unwrap());
    options.retry_delay = Duration::from_millis(20);
    options.max_retry_delay = Duration::from_millis(200);
    options.session_timeout = Duration::from_secs(6);
    options
}

pub(crate) async fn ledger(database: &str) -> Arc<dyn ClickLedger> {
    let options = PostgresOptions::new(database);
    Arc::new(PostgresLedger::open(options, LedgerKind::Bus).await.unwrap())
}

pub(crate) async fn clicks(database: &str) -> Arc<dyn ClickStore> {
    let options = PostgresOptions::new(database);
    Arc::new(PostgresClicks::open(options, true).await.unwrap())
}

/// A click store in a database of ClickHouse, with a ledger of its own.
pub(crate) async fn clickhouse(url: &str) -> Arc<dyn ClickStore> {
    let ledger = PostgresOptions::new(PostgresServer::shared().fresh());
    let ledger = PostgresLedger::open(ledger, LedgerKind::Clicks).await.unwrap();
    let mut options = ClickHouseOptions::new(ClickHouseAddress::parse(url).unwrap(), true);
    options.insert_interval = Duration::from_millis(300);
    Arc::new(ClickHouseClicks::open(options, Arc::new(ledger)).await.unwrap())
}

pub(crate) async fn bus(
    url: &str,
    database: &str,
    store: &Arc<dyn ClickStore>,
    state: &Path,
) -> KafkaBus {
    let (ledger, store) = (ledger(database).await, Arc::clone(store));
    let state = state.join("bus.json");
    KafkaBus::open(options(url), ledger, store, state, Clock::default()).await.unwrap()
}

/// A worker on a task of its own.
pub(crate) struct RunningWorker {
    pub(crate) counts: Arc<WorkerCounts>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl RunningWorker {
    pub(crate) async fn start(url: &str, store: &Arc<dyn ClickStore>) -> Self {
        Self::start_with(options(url), store).await
    }

    pub(crate) async fn start_with(options: KafkaOptions, store: &Arc<dyn ClickStore>) -> Self {
        let (stop, stopped) = watch::channel(false);
        let store: Arc<dyn ClickIngest> = Arc::<dyn ClickStore>::clone(store);
        let worker = KafkaWorker::open(options, store, Clock::default(), stopped).await.unwrap();
        let counts = worker.counts();
        Self { counts, stop, task: tokio::spawn(worker.run()) }
    }

    /// Ends it in order.
    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        timeout(TIMEOUT, self.task).await.expect("the worker never stopped").unwrap();
    }

    /// Ends it wherever it is. It commits nothing more, and its group learns late of it.
    pub(crate) fn abort(self) {
        self.task.abort();
    }

    pub(crate) fn set_aside(&self) -> u64 {
        self.counts.set_aside.load(Ordering::Relaxed)
    }
}

/// One span of segment 1.
pub(crate) fn span(journal: JournalId, epoch: u32, from: u64, to: u64) -> JournalSpan {
    JournalSpan { journal, epoch, segment: 1, from, to }
}

/// The clicks of these spans, always the same. One click per octet.
pub(crate) fn batch(spans: Vec<JournalSpan>) -> Arc<Batch> {
    let clicks = spans.iter().flat_map(|span| span.from..span.to).map(click);
    let clicks: Vec<Click> = clicks.collect();
    Arc::new(Batch::of(spans, clicks))
}

/// Clicks that differ in everything that is counted: links, owners, hours, kinds and values.
fn click(n: u64) -> Click {
    let link = LinkId { key: key(&format!("link-{}", n % 7)), created_at: timestamp(-1) };
    let target = match n % 11 {
        0 => ClickTarget::Orphan(key("lost"), Answered::NotFound),
        _ => ClickTarget::Link(link, OwnerId(n % 7 % 3)),
    };
    let text = |name: &str, values: u64| Some(format!("{name}-{}", n % values).into());
    Click {
        visitor: (!n.is_multiple_of(4)).then_some(n % 900 + 1),
        took_nanos: n * 7919 % 100_003,
        bot: n.is_multiple_of(5).then_some(BotKind::ALL[(n % 8) as usize]),
        referrer: text("host", 30),
        country: text("C", 20),
        city: text("city", 40),
        device: text("device", 3),
        browser: text("browser", 5),
        language: n.is_multiple_of(3).then(|| "de".into()),
        utm: [text("source", 4), None, text("campaign", 9), None, None],
        address: text("203.0.113.0/24 ", 50),
        ..Click::bare(timestamp((n * 977_003 % (3 * 86_400_000)).cast_signed()), target)
    }
}

/// A node: publishes its journal as the shipper does.
pub(crate) struct Node {
    pub(crate) journal: JournalId,
    pub(crate) bus: KafkaBus,
    pub(crate) epoch: u32,
    pub(crate) at: u64,
}

impl Node {
    /// Opens the journal, and repeats what was begun.
    pub(crate) async fn open(journal: u8, bus: KafkaBus) -> Self {
        let journal = JournalId([journal; 16]);
        let Opened { epoch, positions, unfinished, .. } = bus.open(journal).await.unwrap();
        let at = positions.first().map_or(0, |position| position.to);
        let mut node = Self { journal, bus, epoch, at };
        for begun in unfinished {
            node.at = begun.spans[0].from;
            node.publish(begun.spans[0].to - begun.spans[0].from).await;
        }
        node
    }

    /// Publishes the next clicks, however often that fails within the time of a test.
    pub(crate) async fn publish(&mut self, clicks: u64) {
        let batch = batch(vec![span(self.journal, self.epoch, self.at, self.at + clicks)]);
        let begun = std::time::Instant::now();
        loop {
            let added = timeout(TIMEOUT, self.bus.add(&batch)).await;
            match added.expect("a message was neither sent nor refused") {
                Ok(Added::Done | Added::Already) => break,
                Ok(other) => panic!("{other:?}"),
                Err(error) => {
                    assert!(begun.elapsed() < TIMEOUT, "never published: {error:?}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        self.at += clicks;
    }
}

/// Sends octets to a partition, as any program could.
pub(crate) async fn send_raw(url: &str, partition: i32, key: &str, payload: &[u8]) {
    let address = KafkaAddress::parse(url).unwrap();
    let brokers = url.strip_prefix("kafka://").unwrap().split('/').next().unwrap();
    let producer: FutureProducer =
        ClientConfig::new().set("bootstrap.servers", brokers).create().unwrap();
    let record = FutureRecord::to(address.topic()).partition(partition).key(key).payload(payload);
    producer.send(record, TIMEOUT).await.unwrap();
}

pub(crate) async fn report(store: &Arc<dyn ClickStore>, subject: ClickSubject) -> ClickReport {
    let now = timestamp(4 * Unit::Day.ms());
    store.report(&subject, Period::default(), now).await.unwrap()
}

/// The clicks of links and of orphans.
pub(crate) async fn total(store: &Arc<dyn ClickStore>) -> u64 {
    let mut total = 0;
    for subject in [ClickSubject::Everything, ClickSubject::Orphans] {
        total += report(store, subject).await.tally.clicks.all();
    }
    total
}

/// Waits until the store has so many clicks, and then a little more: it must not get further ones.
pub(crate) async fn wait_for_total(store: &Arc<dyn ClickStore>, want: u64) {
    let begun = std::time::Instant::now();
    loop {
        let is = total(store).await;
        if is == want {
            break;
        }
        assert!(is < want, "{is} clicks were counted, and there are only {want}");
        assert!(begun.elapsed() < TIMEOUT, "only {is} of {want} clicks were counted");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn wait(what: &str, holds: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < TIMEOUT, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What a report says, in a form that can be compared: the mean rounded, values by name.
pub(crate) fn facts(report: &ClickReport) -> impl PartialEq + std::fmt::Debug + use<> {
    let mut tally = report.tally.clone();
    let mean = (tally.took.mean * 1e6).round() as i64;
    let took = (tally.took.count, mean);
    tally.took = Default::default();
    let buckets: Vec<_> =
        report.buckets.iter().map(|bucket| (bucket.start, bucket.clicks)).collect();
    (tally, took, report.visitors.count(), buckets)
}
