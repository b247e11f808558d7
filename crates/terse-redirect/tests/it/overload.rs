//! More visits than a slow click store can count.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use terse_clicks::{AddressPrecision, Shipper, ShipperParts};
use terse_core::clicks::{Added, Batch, ClickIngest, Forgotten, JournalId, Opened};
use terse_core::{Clock, StoreError};
use terse_redirect::JournalSettings;
use terse_testkit::{alias, wait_until};

use crate::fixture::{Fixture, Served};

const JOURNAL_SIZE: u64 = 256 << 10;
const VISITS: u64 = 60_000;
/// Sent at once on each connection.
const PIPELINED: usize = 1000;

/// Counts each batch once, after a while, or refuses all.
#[derive(Default)]
struct SlowStore {
    counted: AtomicU64,
    refuses: bool,
}

#[async_trait]
impl ClickIngest for SlowStore {
    async fn open(&self, _: JournalId) -> Result<Opened, StoreError> {
        Ok(Opened { epoch: 1, ..Opened::default() })
    }

    async fn add(&self, batch: &Arc<Batch>) -> Result<Added, StoreError> {
        if self.refuses {
            return Err(StoreError::Unavailable("refused".into()));
        }
        tokio::time::sleep(Duration::from_millis(40)).await;
        self.counted.fetch_add(batch.clicks.len() as u64, Ordering::Relaxed);
        Ok(Added::Done)
    }

    async fn forget(
        &self,
        _: JournalId,
        _: u32,
        _: u64,
        _: &[u64],
    ) -> Result<Forgotten, StoreError> {
        Ok(Forgotten::Done)
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

struct Overloaded {
    served: Served,
    shipper: Shipper,
    store: Arc<SlowStore>,
    _folder: tempfile::TempDir,
}

async fn overloaded(refuses: bool) -> Overloaded {
    let fixture = Fixture::new(|settings| settings.threads = 2);
    fixture.insert(alias("abc1234", "https://example.com/")).await;
    assert_eq!(fixture.visit("abc1234").await.0, 302);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let journal = folder.path().join("journal");
    let store = Arc::new(SlowStore { refuses, ..SlowStore::default() });
    let shipper = Shipper::start(ShipperParts {
        folder: journal.clone(),
        run: 42,
        store: Arc::<SlowStore>::clone(&store),
        live: Arc::default(),
        places: None,
        keep: AddressPrecision::Network,
        limit_bytes: JOURNAL_SIZE,
        batch_bytes: 1 << 20,
        flush: Duration::from_millis(100),
        clock: Clock::default(),
    })
    .expect("a shipper");
    let signals = Arc::clone(&shipper.counts().signals);
    let served = fixture.serve_journaled(|settings| {
        *settings = JournalSettings {
            folder: journal,
            segment_bytes: 1,
            limit_bytes: 4 * JOURNAL_SIZE,
            signals,
            ..settings.clone()
        };
    });
    Overloaded { served, shipper, store, _folder: folder }
}

/// Sends all visits, on a few connections. Returns how many were answered with a redirect.
fn flood(served: &Served) -> u64 {
    let visit = format!(
        "GET /abc1234 HTTP/1.1\r\nHost: go.example\r\nUser-Agent: {}\r\n\r\n",
        "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
    );
    let burst = visit.repeat(PIPELINED);
    let bursts = VISITS / 4 / PIPELINED as u64;
    std::thread::scope(|scope| {
        let client = || (0..bursts).map(|_| redirects(&served.raw(burst.as_bytes()))).sum::<u64>();
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(client)).collect();
        clients.into_iter().map(|client| client.join().expect("a client")).sum()
    })
}

fn redirects(answers: &[u8]) -> u64 {
    answers.windows(12).filter(|octets| octets == b"HTTP/1.1 302").count() as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answered_click_is_lost_while_a_slow_store_accepts_clicks() {
    let Overloaded { served, shipper, store, _folder } = overloaded(false).await;
    let answered = flood(&served);
    let counts = served.workers.counts();
    assert_eq!((answered, counts.clicks_journaled, counts.clicks_lost), (VISITS, VISITS, 0));
    // The threads note on their next sweep how long they have waited.
    wait_until("threads paused", || served.workers.counts().paused_micros > 0);
    let dropped = shipper.counts().dropped.load(Ordering::Relaxed);
    drop(served);
    assert!(shipper.stop(Duration::from_secs(120), true));
    assert_eq!((store.counted.load(Ordering::Relaxed), dropped), (VISITS, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn visitors_do_not_wait_for_a_store_that_refuses_clicks() {
    let Overloaded { served, shipper, store, _folder } = overloaded(true).await;
    // It accepted the call that opened the journal, and has refused clicks for a while.
    let signals = Arc::clone(&shipper.counts().signals);
    assert_eq!(redirects(&served.raw(b"GET /abc1234 HTTP/1.1\r\nHost: go.example\r\n\r\n")), 1);
    wait_until("the store refuses clicks", || !signals.is_accepting());
    assert_eq!(flood(&served), VISITS);
    let counts = served.workers.counts();
    assert!(counts.clicks_lost > 0, "the journal is full: {counts:?}");
    assert_eq!(counts.clicks_journaled + counts.clicks_lost, VISITS + 1);
    assert_eq!((counts.paused_micros, store.counted.load(Ordering::Relaxed)), (0, 0));
}
