//! Exactly once, through `kill -9` of the process that counts and of the server.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use terse_core::clicks::{
    Added, Batch, Click, ClickIngest, ClickReports, ClickSubject, ClickTarget, JournalId,
    JournalSpan, LinkId, Opened, Period,
};
use terse_core::{OwnerId, StoreError};
use terse_testkit::{ClickHouseServer, PostgresServer, key, timestamp, wait_until};

use crate::support::open;

const JOURNAL: JournalId = JournalId(*b"killed and again");
/// Where the process that counts finds the ledger and the server.
const LEDGER: &str = "TERSE_TEST_LEDGER";
const SERVER: &str = "TERSE_TEST_CLICKHOUSE";

/// A click for each octet of the span.
fn batch(spans: Vec<JournalSpan>) -> Arc<Batch> {
    let link = LinkId { key: key("killed"), created_at: timestamp(-1) };
    let clicks: u64 = spans.iter().map(|span| span.to - span.from).sum();
    let click = |n: u64| {
        let target = ClickTarget::Link(link.clone(), OwnerId(1));
        Click::bare(timestamp(n.cast_signed() * 60_000), target)
    };
    Arc::new(Batch::of(spans, (0..clicks).map(click)))
}

/// Counts forever. The test below runs it in processes of its own.
#[test]
fn counts_for_ever() {
    let (Ok(ledger), Ok(server)) = (std::env::var(LEDGER), std::env::var(SERVER)) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = loop {
            match tokio::spawn(opened(ledger.clone(), server.clone())).await {
                Ok(store) => break store,
                // The server is away.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        };
        let Opened { epoch, positions, unfinished, .. } = loop {
            match store.open(JOURNAL).await {
                Ok(opened) => break opened,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        let mut at = positions.first().map_or(0, |position| position.to);
        let mut next: Vec<Vec<JournalSpan>> = unfinished
            .into_iter()
            .map(|begun| begun.spans.iter().map(|span| JournalSpan { epoch, ..*span }).collect())
            .collect();
        loop {
            let spans = if next.is_empty() {
                let to = at + at * 7919 % 50 + 1;
                vec![JournalSpan { journal: JOURNAL, epoch, segment: 1, from: at, to }]
            } else {
                next.remove(0)
            };
            at = spans[0].to;
            let batch = batch(spans);
            loop {
                match store.add(&batch).await {
                    Ok(Added::Done | Added::Already) => break,
                    Err(StoreError::Unavailable(_) | StoreError::Busy) => {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    });
}

async fn opened(ledger: String, server: String) -> terse_clickhouse::ClickHouseClicks {
    open(&ledger, &server).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_click_is_counted_once_whatever_is_killed() {
    let (server, postgres) = (ClickHouseServer::start(), PostgresServer::shared());
    let (ledger, url) = (postgres.fresh(), server.fresh());
    let store = open(&ledger, &url).await;
    let cycles = std::env::var("TERSE_KILL_CYCLES").ok().and_then(|text| text.parse().ok());
    let counted = || {
        let sql = "SELECT coalesce(max(counted), 0) FROM ledger_positions";
        postgres.sql(&ledger, sql).parse::<u64>().unwrap()
    };
    let mut last = 0;
    for cycle in 0..cycles.unwrap_or(4_u64) {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "once::counts_for_ever", "--nocapture"])
            .env(LEDGER, &ledger)
            .env(SERVER, &url)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("the process counts", || counted() > last + 20);
        // At another moment of the next batch each time.
        tokio::time::sleep(Duration::from_millis(cycle * 37 % 60)).await;
        if cycle % 2 == 0 {
            server.kill();
            last = counted();
            server.run();
            wait_until("the process counts again", || counted() > last);
        }
        process.kill().unwrap();
        process.wait().unwrap();
        last = counted();
    }
    // The next holder of the journal finishes what was begun.
    let Opened { epoch, unfinished, .. } = store.open(JOURNAL).await.unwrap();
    for begun in unfinished {
        let spans = begun.spans.iter().map(|span| JournalSpan { epoch, ..*span }).collect();
        assert!(matches!(store.add(&batch(spans)).await.unwrap(), Added::Done | Added::Already));
    }
    let position = counted();
    let report = store.report(&ClickSubject::Everything, Period::default(), timestamp(0));
    assert_eq!(report.await.unwrap().tally.clicks.humans, position);
    let database = url.rsplit('/').next().unwrap();
    let stored = server.sql(&format!("SELECT count(), uniqExact(number) FROM {database}.clicks"));
    assert_eq!(stored, format!("{position}\t{position}"));
}
