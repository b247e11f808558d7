//! Reports of a link with very many clicks. By flag: it generates rows for a while.

use std::time::Instant;

use terse_core::OwnerId;
use terse_core::clicks::{Click, ClickReports, ClickSubject, ClickTarget, LinkId, Period, Unit};
use terse_testkit::click_store::add_clicks;
use terse_testkit::{ClickHouseServer, PostgresServer, key, timestamp};

use crate::support::open;

/// Hours with one row of sums each.
const HOURS: u64 = 30 * 24;
/// Rows of sums of the hour after them: a fleet's batches of an hour.
const UNMERGED: u64 = 900;

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
    let hour = |hour: u64, clicks: std::ops::Range<u64>| {
        let link = link.clone();
        clicks.map(move |n| {
            let text = |name: &str, values: u64| Some(format!("{name}-{}", n % values).into());
            let at = timestamp(hour as i64 * Unit::Hour.ms() + n as i64 % Unit::Hour.ms());
            Click {
                visitor: Some((hour << 32 | n) * 7919 + 1),
                referrer: text("host", 50),
                city: text("city", 50),
                country: text("C", 40),
                browser: text("browser", 8),
                device: text("device", 3),
                system: text("system", 6),
                language: text("language", 30),
                ..Click::bare(at, ClickTarget::Link(link.clone(), OwnerId(1)))
            }
        })
    };
    // Each hour is one batch, as after the job has merged its rows.
    let each = wanted / HOURS;
    for n in 0..HOURS {
        add_clicks(&store, hour(n, 0..each).collect()).await;
    }
    // The last hour, whose batches are not merged yet.
    for n in 0..UNMERGED {
        let clicks = hour(HOURS, n * each / UNMERGED..(n + 1) * each / UNMERGED);
        add_clicks(&store, clicks.collect()).await;
    }
    let total = each * (HOURS + 1);
    let rows = server.sql(&format!("SELECT count() FROM {database}.clicks"));
    assert_eq!(rows.trim(), total.to_string());
    let octets = server.sql(&format!(
        "SELECT table, sum(rows), sum(bytes_on_disk) FROM system.parts \
         WHERE active AND database = '{database}' GROUP BY table"
    ));
    let mut times = Vec::new();
    for _ in 0..21 {
        let begun = Instant::now();
        let subject = ClickSubject::Link(link.clone());
        let report = store.report(&subject, Period::default(), timestamp(0)).await.unwrap();
        times.push(begun.elapsed());
        assert_eq!(report.tally.clicks.all(), total);
        assert_eq!(report.buckets.len() as u64, HOURS + 1);
    }
    times.sort();
    let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    eprintln!(
        "{total} single clicks; {octets:?}; a report takes {median:?}, the slowest of {} took \
         {slowest:?}",
        times.len()
    );
}
