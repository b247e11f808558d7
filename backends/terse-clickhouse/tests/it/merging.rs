//! Rows of sums that are merged, and rows that never count.

use std::sync::Arc;
use std::time::Duration;

use terse_clickhouse::ClickHouseClicks;
use terse_core::Timestamp;
use terse_core::clicks::{
    Added, Batch, BeginResult, ClickIngest, ClickReport, ClickReports, ClickRetention,
    ClickSubject, FinishResult, JournalId, JournalSpan, Period, Retention,
};
use terse_testkit::click_store::add_clicks;
use terse_testkit::{ClickHouseServer, PostgresServer, timestamp};

use crate::support::{facts, ledger, options, varied};

const KEEP: Retention = Retention {
    raw_before: Timestamp::MIN,
    max_raw: None,
    days_before: Timestamp::MIN,
    hours_before: Timestamp::MIN,
    tombstones_before: Timestamp::MIN,
    limit: 1000,
};

async fn everything(store: &ClickHouseClicks) -> ClickReport {
    let report = store.report(&ClickSubject::Everything, Period::default(), timestamp(0));
    report.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_rows_of_an_hour_become_one_and_no_sum_changes() {
    let (server, postgres) = (ClickHouseServer::shared(), PostgresServer::shared());
    let (ledger_url, url) = (postgres.fresh(), server.fresh());
    let database = url.rsplit('/').next().unwrap().to_owned();
    let mut options = options(&url);
    options.settled = Duration::ZERO;
    let store = ClickHouseClicks::open(options, ledger(&ledger_url).await).await.unwrap();
    for _ in 0..12 {
        add_clicks(&store, varied(300).collect()).await;
    }
    let rows = || server.sql(&format!("SELECT count(), sum(humans + bots) FROM {database}.sums"));
    let (before, stored) = (everything(&store).await, rows());
    let mut calls = 0;
    while store.prune(KEEP).await.unwrap().more {
        calls += 1;
        assert_eq!(facts(&everything(&store).await), facts(&before));
        assert!(calls < 1000, "it never ends");
    }
    assert_eq!(facts(&everything(&store).await), facts(&before));
    let (old, new) = (stored.split_once('\t').unwrap(), rows());
    let new = new.split_once('\t').unwrap();
    let number = |text: &str| text.parse::<u64>().unwrap();
    assert_eq!(number(new.0) * 12, number(old.0), "replaced rows are deleted");
    assert_eq!(new.1, old.1, "and no others");
    assert_eq!(postgres.sql(&ledger_url, "SELECT count(*) FROM ledger_merges"), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_is_begun_again_after_a_long_time_counts_once() {
    let (server, postgres) = (ClickHouseServer::shared(), PostgresServer::shared());
    let (ledger_url, url) = (postgres.fresh(), server.fresh());
    let ledger = ledger(&ledger_url).await;
    let store = ClickHouseClicks::open(options(&url), ledger.clone()).await.unwrap();
    let journal = JournalId([3; 16]);
    let epoch = store.open(journal).await.unwrap().epoch;
    let span = JournalSpan { journal, epoch, segment: 1, from: 0, to: 10 };
    let batch = Arc::new(Batch::of(vec![span], varied(50)));
    // A process that ended between the insert and the end of the batch: all rows are there.
    assert_eq!(store.add(&batch).await.unwrap(), Added::Done);
    let counted = everything(&store).await;
    postgres.sql(
        &ledger_url,
        "INSERT INTO ledger_batches (ledger, sequence, id, journals, spans, begun_at) \
         SELECT 1, 1, '\\x00', '{}', '', now(); UPDATE ledger_positions SET counted = 0",
    );
    // The number of that insert does not count any more; the batch gets another one.
    let BeginResult::Accepted { sequence, .. } =
        ledger.begin(&batch, Duration::ZERO).await.unwrap()
    else {
        panic!("refused")
    };
    assert_eq!(sequence, 2);
    let BeginResult::Accepted { sequence: again, .. } =
        ledger.begin(&batch, Duration::from_secs(60)).await.unwrap()
    else {
        panic!("refused")
    };
    assert_eq!(again, sequence, "soon after, the number stays");
    let BeginResult::Accepted { sequence: later, .. } =
        ledger.begin(&batch, Duration::ZERO).await.unwrap()
    else {
        panic!("refused")
    };
    assert!(later > sequence);
    assert_eq!(ledger.finish(sequence).await.unwrap(), FinishResult::Abandoned);
    assert_eq!(store.add(&batch).await.unwrap(), Added::Done);
    assert_eq!(ledger.finish(later).await.unwrap(), FinishResult::Before);
    assert_eq!(facts(&everything(&store).await), facts(&counted));
}
