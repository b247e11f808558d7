//! The same clicks give the same answers as in the embedded store.

use std::sync::Arc;

use terse_core::OwnerId;
use terse_core::clicks::{
    BotFilter, Click, ClickStore, ClickSubject, LinkId, Period, RawQuery, TopQuery, Unit,
};
use terse_embedded::{ClickOptions, EmbeddedClicks};
use terse_testkit::click_store::add_clicks;
use terse_testkit::{ClickHouseServer, PostgresServer, key, timestamp};

use crate::support::{facts, open, varied};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_the_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = ClickOptions::new(folder.path().join("clicks.db"));
    let embedded = Arc::new(EmbeddedClicks::open(embedded).unwrap());
    let (ledger, url) = (PostgresServer::shared().fresh(), ClickHouseServer::shared().fresh());
    let clickhouse = open(&ledger, &url).await;
    let all: Vec<Click> = varied(5_000).collect();
    for part in all.chunks(700) {
        add_clicks(&*embedded, part.to_vec()).await;
        add_clicks(&clickhouse, part.to_vec()).await;
    }
    let links: Vec<LinkId> = (0..8)
        .map(|n| LinkId { key: key(&format!("link-{n}")), created_at: timestamp(-1) })
        .collect();
    let stores: [&dyn ClickStore; 2] = [&*embedded, &clickhouse];
    let subjects = links.iter().cloned().map(ClickSubject::Link).chain([
        ClickSubject::Owner(OwnerId(1)),
        ClickSubject::Everything,
        ClickSubject::Orphans,
    ]);
    let hour = Unit::Hour.ms();
    let periods = [(None, None), (Some(5 * hour + 1), Some(30 * hour)), (Some(40 * hour), None)];
    let periods =
        periods.map(|(from, to)| Period { from: from.map(timestamp), to: to.map(timestamp) });
    for subject in subjects {
        for period in periods {
            let now = timestamp(50 * hour);
            let [one, other] = stores.map(|store| store.report(&subject, period, now));
            let (one, other) = (one.await.unwrap(), other.await.unwrap());
            assert_eq!(facts(&one), facts(&other), "{subject:?} {period:?}");
        }
    }
    for (owner, bots, period) in [
        (None, BotFilter::Include, periods[0]),
        (Some(OwnerId(2)), BotFilter::Exclude, periods[1]),
        (None, BotFilter::Only, periods[2]),
    ] {
        let query = TopQuery { owner, period, bots, after: None, limit: 5 };
        let [one, other] = stores.map(|store| store.top(&query));
        assert_eq!(one.await.unwrap(), other.await.unwrap());
    }
    let [one, other] = stores.map(|store| store.counts(&links));
    assert_eq!(one.await.unwrap(), other.await.unwrap());
    // Each store has an order of its own.
    let sorted = |mut links: Vec<LinkId>| {
        links.sort();
        links
    };
    let [one, other] = stores.map(|store| store.links(None, 100));
    assert_eq!(sorted(one.await.unwrap()), sorted(other.await.unwrap()));
    let query =
        RawQuery { link: links[3].clone(), from: None, to: None, after: None, limit: 10_000 };
    let [one, other] = stores.map(|store| store.clicks(&query));
    let (one, other) = (one.await.unwrap().clicks, other.await.unwrap().clicks);
    assert_eq!(one.len(), other.len());
    // Clicks of one millisecond have no order.
    assert!(one.iter().all(|click| other.contains(click)));
}
