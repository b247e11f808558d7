//! Single clicks by the month, and who drives the transaction that counts.

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use terse_core::clicks::{
    Added, Batch, Click, ClickIngest as _, ClickReports as _, ClickRetention, ClickSubject,
    ClickTarget, JournalId, JournalSpan, LinkId, Period, Retention,
};
use terse_core::{OwnerId, Timestamp};
use terse_postgres::{PostgresClicks, PostgresLinks, PostgresOptions};
use terse_testkit::click_store::{ClickStoreHandle, add_clicks};
use terse_testkit::{PostgresServer, key, wait_until};

use crate::faults::put;
use crate::session::OpenTransaction;

fn click(at: i64) -> Click {
    let link = LinkId { key: key("one"), created_at: Timestamp::EPOCH };
    Click::bare(Timestamp::from_ms(at), ClickTarget::Link(link, OwnerId(7)))
}

fn ms(text: &str) -> i64 {
    text.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn months_have_tables_ahead_and_are_dropped_whole() {
    let server = PostgresServer::shared();
    let url = server.fresh();
    let clicks =
        Arc::new(PostgresClicks::open(PostgresOptions::new(url.clone()), true).await.unwrap());
    let store: ClickStoreHandle = clicks.clone();
    let months = "SELECT count(*) FROM pg_class WHERE relname ~ '^click_raw_[0-9]{6}$' \
         AND relnamespace = current_schema()::regnamespace AND relkind = 'r'";
    assert_eq!(server.sql(&url, months), "3", "this month and the next two");
    let month = "(SELECT date_trunc('month', now() AT TIME ZONE 'UTC'))";
    let start =
        ms(&server.sql(&url, &format!("SELECT (extract(epoch FROM {month}) * 1000)::bigint")));
    let end = ms(&server.sql(
        &url,
        &format!("SELECT (extract(epoch FROM {month} + interval '1 month') * 1000)::bigint"),
    ));
    let at = [start - 1, start, end - 1, end];
    add_clicks(&*store, at.iter().map(|at| click(*at)).collect()).await;
    let kept = |table: &str| server.sql(&url, &format!("SELECT count(*) FROM {table}"));
    assert_eq!((kept("click_raw"), kept("click_raw_default")), ("4".into(), "1".into()));
    let retention = Retention {
        raw_before: Timestamp::from_ms(end),
        max_raw: None,
        days_before: Timestamp::MIN,
        hours_before: Timestamp::MIN,
        tombstones_before: Timestamp::MIN,
        limit: 1000,
    };
    assert_eq!(clicks.prune(retention).await.unwrap().raw, 3);
    assert_eq!(kept("click_raw"), "1", "the next month stays");
    assert_eq!(server.sql(&url, "SELECT sum(clicks) FROM click_raw_days"), "1");
    // The table of the month is created again while the month lasts.
    let before = Retention { raw_before: Timestamp::from_ms(start), ..retention };
    clicks.prune(before).await.unwrap();
    add_clicks(&*store, vec![click(start + 5)]).await;
    assert_eq!(kept("click_raw_default"), "0");
}

/// The shipper's thread has a low priority and reads the journal while a batch is counted. The
/// transaction must not wait for it: it holds locks that other nodes and erasures need.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_is_slow_does_not_keep_the_transaction_open() {
    let server = PostgresServer::shared();
    let url = server.fresh();
    let clicks = PostgresClicks::open(PostgresOptions::new(url.clone()), true).await.unwrap();
    let journal = JournalId([7; 16]);
    let epoch = clicks.open(journal).await.unwrap().epoch;
    let span = JournalSpan { journal, epoch, segment: 1, from: 0, to: 1 };
    let batch = Arc::new(Batch::of(vec![span], [click(1_000)]));
    let mut adding = std::pin::pin!(clicks.add(&batch));
    let first = adding.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(first.is_pending());
    // The caller does not go on, and the clicks are counted.
    let counted = move || server.sql(&url, "SELECT count(*) FROM click_raw") == "1";
    tokio::task::spawn_blocking(|| wait_until("the click is counted", counted)).await.unwrap();
    assert_eq!(adding.await.unwrap(), Added::Done);
}

/// As many reports wait as there are connections for writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_are_created_while_reports_are_slow() {
    let server = PostgresServer::shared();
    let url = server.fresh();
    // No timeout ends a report.
    let statement_timeout = Duration::from_secs(600);
    let options = PostgresOptions { statement_timeout, ..PostgresOptions::new(url.clone()) };
    let links = PostgresLinks::open(options.clone()).await.unwrap();
    let clicks = PostgresClicks::open_beside(&links.connections(), &options, true).await.unwrap();
    let lock = OpenTransaction::begin(&url, "LOCK TABLE click_subjects");
    let report = async |clicks: PostgresClicks| {
        clicks.report(&ClickSubject::Everything, Period::default(), Timestamp::EPOCH).await
    };
    let reports: Vec<_> = (0..PostgresOptions::WRITE_CONNECTIONS)
        .map(|_| tokio::spawn(report(clicks.clone())))
        .collect();
    let waiting = "SELECT count(*) >= 2 FROM pg_locks \
         WHERE relation = 'click_subjects'::regclass AND NOT granted";
    wait_until("the reports wait", || server.sql(&url, waiting) == "t");
    put(&links, "meanwhile").await;
    assert!(reports.iter().all(|report| !report.is_finished()));
    lock.commit();
    for report in reports {
        report.await.unwrap().unwrap();
    }
}
