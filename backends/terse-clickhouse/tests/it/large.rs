//! Reports of a link with very many clicks. By flag: it generates rows for a while.

use std::time::Instant;

use terse_core::OwnerId;
use terse_core::clicks::{Click, ClickReports, ClickSubject, ClickTarget, LinkId, Period, Unit};
use terse_testkit::click_store::add_clicks;
use terse_testkit::{ClickHouseServer, PostgresServer, key, timestamp};

use crate::support::open;

/// `TERSE_LARGE_CLICKS=100000000 cargo test -p terse-clickhouse --release large -- --nocapture`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_with_very_many_clicks_is_reported() {
    let Some(wanted) = std::env::var("TERSE_LARGE_CLICKS").ok().and_then(|n| n.parse().ok()) else {
        return eprintln!("SKIPPED: TERSE_LARGE_CLICKS is not set");
    };
    let wanted: u64 = wanted;
    let server = ClickHouseServer::shared();
    let (ledger, url) = (PostgresServer::shared().fresh(), server.fresh());
    let database = url.rsplit('/').next().unwrap();
    let store = open(&ledger, &url).await;
    let link = LinkId { key: key("large"), created_at: timestamp(-1) };
    // Twenty clicks in each of 720 hours, with as many values as an hour has by name; the server
    // then multiplies the single clicks.
    let hours = 30 * 24;
    for day in 0..30 {
        let clicks = (0..24 * 500).map(|n: i64| {
            let text = |name: &str, values: i64| Some(format!("{name}-{}", n % values).into());
            Click {
                visitor: Some(n.cast_unsigned() * 7919 + day as u64 + 1),
                referrer: text("host", 50),
                city: text("city", 50),
                country: text("C", 40),
                browser: text("browser", 8),
                device: text("device", 3),
                system: text("system", 6),
                language: text("language", 30),
                ..Click::bare(
                    timestamp(day * Unit::Day.ms() + n % 24 * Unit::Hour.ms()),
                    ClickTarget::Link(link.clone(), OwnerId(1)),
                )
            }
        });
        add_clicks(&store, clicks.collect()).await;
    }
    let factor = wanted / (30 * 24 * 500);
    server.sql(&format!(
        "INSERT INTO {database}.clicks SELECT * REPLACE (number + n * 1000000000000 AS number) \
         FROM {database}.clicks ARRAY JOIN range(1, {factor}) AS n"
    ));
    let rows = server.sql(&format!("SELECT count() FROM {database}.clicks"));
    let octets = server.sql(&format!(
        "SELECT table, sum(rows), sum(bytes_on_disk) FROM system.parts \
         WHERE active AND database = '{database}' GROUP BY table"
    ));
    let mut times = Vec::new();
    for _ in 0..20 {
        let begun = Instant::now();
        let subject = ClickSubject::Link(link.clone());
        let report = store.report(&subject, Period::default(), timestamp(0)).await.unwrap();
        times.push(begun.elapsed());
        assert_eq!(report.buckets.len(), hours);
    }
    times.sort();
    eprintln!("{rows} single clicks; {octets:?}; reports took {times:?}");
}
