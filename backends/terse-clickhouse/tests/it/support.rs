//! Stores for tests.

use std::sync::Arc;
use std::time::Duration;

use terse_clickhouse::{ClickHouseAddress, ClickHouseClicks, ClickHouseOptions};
use terse_core::clicks::{BotKind, Click, ClickLedger, ClickReport, ClickTarget, LinkId, Unit};
use terse_core::{Answered, OwnerId};
use terse_postgres::{LedgerKind, PostgresLedger, PostgresOptions};
use terse_testkit::{key, timestamp};

/// The options for a database of the test server.
pub(crate) fn options(url: &str) -> ClickHouseOptions {
    let mut options = ClickHouseOptions::new(ClickHouseAddress::parse(url).unwrap(), true);
    options.insert_interval = Duration::ZERO;
    options
}

pub(crate) async fn ledger(url: &str) -> Arc<dyn ClickLedger> {
    let options = PostgresOptions::new(url);
    Arc::new(PostgresLedger::open(options, LedgerKind::Clicks).await.unwrap())
}

/// A node's handle on a store: its ledger's URL and its own.
pub(crate) async fn open(ledger_url: &str, url: &str) -> ClickHouseClicks {
    ClickHouseClicks::open(options(url), ledger(ledger_url).await).await.unwrap()
}

/// Clicks that differ in everything that is counted: links, owners, hours, kinds and values.
pub(crate) fn varied(count: i64) -> impl Iterator<Item = Click> {
    (0..count).map(|n| {
        let code = format!("link-{}", n % 7);
        let link = LinkId { key: key(&code), created_at: timestamp(-1) };
        let target = match n % 11 {
            0 => ClickTarget::Orphan(key("lost"), Answered::NotFound),
            // Each link has one owner: the store names the owner of the latest click.
            _ => ClickTarget::Link(link, OwnerId(n.cast_unsigned() % 7 % 3)),
        };
        let text = |name: &str, values: i64| Some(format!("{name}-{}", n % values).into());
        Click {
            visitor: (n % 4 != 0).then_some(n.cast_unsigned() % 900 + 1),
            took_nanos: n.cast_unsigned() * 7919 % 100_003,
            bot: (n % 5 == 0).then_some(BotKind::ALL[n as usize % 8]),
            repeat: n % 13 == 1 && n % 5 != 0,
            referrer: text("host", 30),
            country: text("C", 20),
            city: text("city", 40),
            device: text("device", 3),
            browser: text("browser", 5),
            system: text("system", 4),
            language: (n % 3 == 0).then(|| "de".into()),
            utm: [text("source", 4), None, text("campaign", 9), None, None],
            address: text("203.0.113.0/24 ", 50),
            ..Click::bare(timestamp(n * 977_003 % (3 * Unit::Day.ms())), target)
        }
    })
}

/// What a report says, in a form that can be compared: the mean rounded, values by name.
pub(crate) fn facts(report: &ClickReport) -> impl PartialEq + std::fmt::Debug + use<> {
    let mut tally = report.tally.clone();
    let mean = (tally.took.mean * 1e6).round() as i64;
    let took = (tally.took.count, mean);
    tally.took = Default::default();
    let buckets: Vec<_> =
        report.buckets.iter().map(|bucket| (bucket.start, bucket.clicks)).collect();
    (tally, took, report.visitors.count(), report.recent, buckets)
}
