//! Messages fit into what brokers take.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use terse_clicks::{AddressPrecision, Shipper, ShipperParts};
use terse_core::clicks::{
    Added, Batch, ClickIngest, Forgotten, HEADER, JournalId, JournalRecord, JournalWriteResult,
    Opened, SegmentHeader, finish,
};
use terse_core::{Answered, Clock, StoreError};
use terse_kafka::BATCH_BYTES;
use terse_kafka::internals::encode;
use terse_testkit::{MemoryClickStore, wait_until};

const VISITS: usize = 6000;
/// What Kafka's own default allows, for a message with its head.
const BROKERS_TAKE: usize = 1_000_000;

/// Remembers how large the messages of the batches would be.
struct Measuring {
    store: MemoryClickStore,
    sizes: Mutex<Vec<usize>>,
    clicks: AtomicUsize,
}

#[async_trait]
impl ClickIngest for Measuring {
    async fn open(&self, journal: JournalId) -> Result<Opened, StoreError> {
        self.store.open(journal).await
    }

    async fn add(&self, batch: &Arc<Batch>) -> Result<Added, StoreError> {
        self.sizes.lock().unwrap().push(encode(batch).unwrap().len());
        self.clicks.fetch_add(batch.clicks.len(), Ordering::Relaxed);
        self.store.add(batch).await
    }

    async fn forget(
        &self,
        journal: JournalId,
        epoch: u32,
        generation: u64,
        segments: &[u64],
    ) -> Result<Forgotten, StoreError> {
        self.store.forget(journal, epoch, generation, segments).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.store.check().await
    }
}

/// Letters and digits, different for every number.
fn letters(mut seed: u64, length: usize) -> Vec<u8> {
    let letter = |_| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b"abcdefghijklmnopqrstuvwxyz0123456789"[(seed >> 33) as usize % 36]
    };
    (0..length).map(letter).collect()
}

/// Visits by someone who wants large messages: all texts are as long as they may be, and no two are
/// the same. Every other octet of a `utm` value is not UTF-8, and becomes three octets.
fn write_journal(folder: &Path, now: i64) {
    let header = SegmentHeader { id: 1, run: 1, made_ms: now };
    let mut bytes = vec![0; VISITS * 1500];
    bytes[..HEADER].copy_from_slice(&header.encode());
    let mut at = HEADER;
    for n in 0..VISITS as u64 {
        let text = |which: u64, length| letters(n * 16 + which, length);
        let mut campaign = Vec::new();
        for name in ["source", "medium", "campaign", "term", "content"] {
            campaign.extend_from_slice(format!("utm_{name}=").as_bytes());
            for letter in text(name.len() as u64, 45) {
                campaign.extend([letter, 0xff]);
            }
            campaign.push(b'&');
        }
        campaign.truncate(512);
        let record = JournalRecord {
            at_ms: now + n as i64,
            took_nanos: u64::MAX >> 24,
            weight: 1,
            visitor: n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            outcome: Answered::NotFound,
            domain: &[text(2, 60), text(3, 60), text(4, 60), text(5, 60)].join(&b'.'),
            code: &text(6, 64),
            address: &text(1, 16),
            referrer: &text(7, 253),
            language: b"de-Latn-CH",
            campaign: &campaign,
            ..JournalRecord::default()
        };
        match record.write(&mut bytes, header.id, at) {
            JournalWriteResult::Next(next) => at = next,
            JournalWriteResult::Full => panic!("full after {n}"),
        }
    }
    finish(&mut bytes, header.id, at);
    std::fs::write(folder.join(format!("{now:013}-{:016x}.clicks", header.id)), bytes).unwrap();
}

#[test]
fn no_visitor_can_make_a_message_larger_than_brokers_take() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::default();
    write_journal(folder.path(), clock.now().as_ms() - 3_600_000);
    let measuring = Arc::new(Measuring {
        store: MemoryClickStore::new(),
        sizes: Mutex::default(),
        clicks: AtomicUsize::new(0),
    });
    let shipper = Shipper::start(ShipperParts {
        folder: folder.path().to_owned(),
        run: 2,
        store: Arc::<Measuring>::clone(&measuring),
        live: Arc::default(),
        places: None,
        keep: AddressPrecision::Full,
        limit_bytes: u64::MAX,
        batch_bytes: BATCH_BYTES,
        flush: Duration::from_secs(5),
        clock,
    });
    let shipper = shipper.unwrap();
    wait_until("all are shipped", || measuring.clicks.load(Ordering::Relaxed) == VISITS);
    assert!(shipper.stop(Duration::from_secs(60), true));
    let sizes = measuring.sizes.lock().unwrap();
    let largest = sizes.iter().max().unwrap();
    assert!(*largest <= BROKERS_TAKE, "{sizes:?}");
    assert!(*largest > BROKERS_TAKE / 2, "the visits were too small to show it: {sizes:?}");
}
