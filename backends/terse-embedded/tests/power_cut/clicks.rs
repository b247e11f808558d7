//! The same for clicks: every acknowledged click is counted exactly once, and no other is.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use terse_core::clicks::{
    Added, Batch, Click, ClickIngest as _, ClickReports as _, ClickRetention as _, ClickSubject,
    ClickTarget, JournalId, JournalSpan, LinkId, Period, Retention,
};
use terse_core::{StoreError, Timestamp};
use terse_embedded::{ClickOptions, EmbeddedClicks, RunLimits, verify_clicks};
use terse_testkit::{key, timestamp};

use crate::disk::{self, Dice, Fault, Luck};
use crate::{folder, patiently};

/// A store on the forgetful disk, and a feeder that retries each batch until it is acknowledged.
struct Counter {
    folder: tempfile::TempDir,
    store: Arc<EmbeddedClicks>,
    acknowledged: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    feeder: tokio::task::JoinHandle<()>,
}

fn size(n: u64) -> u64 {
    n % 60 + 1
}

const JOURNAL: JournalId = JournalId([7; 16]);
/// A batch is a quarter of an hour later than the one before.
const QUARTER_MS: i64 = 900_000;

/// The retention job when batch `n` has come: days that are over are folded.
fn retention(n: u64) -> Retention {
    Retention {
        // Single clicks go by age, and sometimes by size.
        raw_before: timestamp((n as i64 - 40) * QUARTER_MS),
        max_raw: n.is_multiple_of(8).then_some(16 << 10),
        days_before: timestamp(n as i64 * QUARTER_MS),
        hours_before: Timestamp::MIN,
        tombstones_before: Timestamp::MIN,
        limit: 50,
    }
}

fn batch(n: u64, epoch: u32) -> Arc<Batch> {
    let clicks = (0..size(n)).map(|m| {
        let link =
            LinkId { key: key(&format!("link-{}", (n * 31 + m) % 400)), created_at: timestamp(0) };
        let click = Click::bare(
            timestamp(n as i64 * QUARTER_MS),
            ClickTarget::Link(link, terse_core::OwnerId(m % 3)),
        );
        Click {
            visitor: Some(n * 100 + m + 1),
            referrer: Some(format!("{m}.example").into()),
            ..click
        }
    });
    let span = JournalSpan { journal: JOURNAL, epoch, segment: 1, from: n, to: n + 1 };
    Arc::new(Batch::of(vec![span], clicks))
}

impl Counter {
    fn start() -> Self {
        disk::register();
        let folder = folder();
        let options = ClickOptions {
            vfs: Some(disk::NAME.into()),
            // The sums of large batches go through runs, which are merged all the time.
            runs: RunLimits { from: 8, runs: 2, step: 1 },
            ..ClickOptions::new(folder.path().join("clicks.db"))
        };
        let store = Arc::new(EmbeddedClicks::open(options).unwrap());
        let (acknowledged, refused, stop) = (
            Arc::<AtomicU64>::default(),
            Arc::<AtomicU64>::default(),
            Arc::<AtomicBool>::default(),
        );
        let feeder = tokio::spawn({
            let (store, acknowledged, refused, stop) =
                (store.clone(), acknowledged.clone(), refused.clone(), stop.clone());
            async move {
                let epoch = store.open(JOURNAL).await.unwrap().epoch;
                let mut n = 0;
                let mut unsure = false;
                while !stop.load(Ordering::Relaxed) {
                    match store.add(&batch(n, epoch)).await {
                        Ok(Added::Already) if !unsure => {
                            panic!("batch {n} was never tried before")
                        }
                        Ok(added @ (Added::Gap(_) | Added::Fenced)) => panic!("{added:?}"),
                        Ok(Added::Done | Added::Already) => {
                            n += 1;
                            unsure = false;
                            acknowledged.store(n, Ordering::Release);
                            if n % 4 == 0 {
                                // While the disk fails, it may fail too.
                                let _pruned = store.prune(retention(n)).await;
                            }
                        }
                        Err(StoreError::Unavailable(_)) => {
                            unsure = true;
                            refused.fetch_add(1, Ordering::Relaxed);
                            tokio::time::sleep(Duration::from_millis(1)).await;
                        }
                        Err(error) => panic!("{error:?}"),
                    }
                }
            }
        });
        Self { folder, store, acknowledged, refused, stop, feeder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    async fn wait_for_more(&self, count: u64) {
        let from = self.acknowledged.load(Ordering::Acquire);
        for _ in 0..60_000 {
            if self.acknowledged.load(Ordering::Acquire) >= from + count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("the store makes no progress: {:?}", self.store.check().await);
    }

    /// After a power cut now, the store holds every batch up to one that is no earlier than the
    /// last acknowledged batch.
    async fn assert_exact_after_a_cut(&self, dice: &mut Dice, luck: Luck) {
        let acknowledged = self.acknowledged.load(Ordering::Acquire);
        let after = folder();
        disk::cut(self.path(), after.path(), dice, luck);
        let path = after.path().join("clicks.db");
        let store = EmbeddedClicks::open(ClickOptions::new(&path)).unwrap();
        let opened = patiently(async || store.open(JOURNAL).await).await;
        let place = opened.positions.first().map_or(0, |position| position.to);
        assert!(place >= acknowledged, "{luck:?}: {acknowledged} acknowledged, {place} found");
        let found = patiently(async || {
            store.report(&ClickSubject::Everything, Period::default(), timestamp(0)).await
        })
        .await;
        assert_eq!(found.tally.clicks.humans, (0..place).map(size).sum::<u64>(), "{luck:?}");
        let added = patiently(async || store.add(&batch(place, opened.epoch)).await).await;
        assert!(matches!(added, Added::Done | Added::Already), "{added:?}");
        drop(store);
        let report = verify_clicks(&path).unwrap();
        assert!(report.is_clean(), "{report:?}");
    }

    async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.feeder.await.unwrap();
        self.store.close();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clicks_are_counted_exactly_through_power_cuts() {
    let mut dice = Dice(11);
    let counter = Counter::start();
    for _ in 0..10 {
        for luck in [Luck::Nothing, Luck::Prefix, Luck::Sectors] {
            tokio::time::sleep(Duration::from_micros(dice.below(30_000))).await;
            counter.wait_for_more(5).await;
            counter.assert_exact_after_a_cut(&mut dice, luck).await;
        }
    }
    counter.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clicks_are_counted_exactly_through_failing_disks() {
    let mut dice = Dice(12);
    let counter = Counter::start();
    for fault in [Fault::Sync, Fault::Full].repeat(15) {
        counter.wait_for_more(5 + dice.below(30)).await;
        disk::fault(counter.path(), fault);
        for attempts_left in (0..60_000).rev() {
            if counter.store.check().await.is_err() {
                break;
            }
            assert!(attempts_left > 0, "the store does not notice");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        counter.assert_exact_after_a_cut(&mut dice, Luck::Nothing).await;
        disk::fault(counter.path(), Fault::None);
        counter.wait_for_more(5).await;
        patiently(async || counter.store.check().await).await;
        counter.assert_exact_after_a_cut(&mut dice, Luck::Nothing).await;
    }
    assert!(counter.refused.load(Ordering::Relaxed) > 0);
    counter.stop().await;
}
