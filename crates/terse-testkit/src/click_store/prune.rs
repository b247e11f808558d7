//! Pruning by age.

use terse_core::Timestamp;
use terse_core::clicks::{
    Click, ClickReport, ClickSubject, DimensionCounts, Pruned, RawQuery, Retention, Unit,
};

use super::{
    ALWAYS, ClickStoreHandle, DAY, HOUR, OWNER, click, humans, in_buckets, link, of_link, put,
    report, since, values,
};
use crate::timestamp;

fn up_to(raw: i64, hours: i64, limit: usize) -> Retention {
    let (raw_before, hours_before) = (timestamp(raw), timestamp(hours));
    let (days_before, tombstones_before) = (Timestamp::MIN, Timestamp::MIN);
    Retention { raw_before, max_raw: None, days_before, hours_before, tombstones_before, limit }
}

/// Prunes until nothing is left to prune.
async fn prune(store: &ClickStoreHandle, retention: Retention) -> Pruned {
    let mut all = Pruned::default();
    for _ in 0..10_000 {
        let pruned = store.prune(retention).await.unwrap();
        assert!(pruned.hours <= retention.limit as u64, "{pruned:?}");
        all.raw += pruned.raw;
        all.hours += pruned.hours;
        if !pruned.more {
            return all;
        }
    }
    panic!("it never ends");
}

async fn raw_left(store: &ClickStoreHandle, code: &str) -> Vec<i64> {
    let query = RawQuery { link: link(code), from: None, to: None, after: None, limit: 1000 };
    let page = store.clicks(&query).await.unwrap();
    page.clicks.iter().map(|click| click.at.as_ms() - timestamp(0).as_ms()).collect()
}

pub async fn raw_clicks_are_deleted_by_the_hour(store: ClickStoreHandle) {
    let times = [-5 * DAY, 0, HOUR - 1, HOUR, 2 * HOUR, 3 * HOUR, 9 * DAY];
    for code in ["one", "two"] {
        put(&store, times.iter().map(|&ms| click(&link(code), ms)).collect()).await;
    }
    assert_eq!(prune(&store, up_to(-6 * DAY, -6 * DAY, 3)).await, Pruned::default());
    assert_eq!(
        prune(&store, up_to(HOUR - 1, -6 * DAY, 1)).await.raw,
        2,
        "an hour that has not ended stays"
    );
    assert_eq!(prune(&store, up_to(2 * HOUR + 5, -6 * DAY, 3)).await.raw, 6);
    for code in ["one", "two"] {
        assert_eq!(raw_left(&store, code).await, [2 * HOUR, 3 * HOUR, 9 * DAY]);
        assert_eq!(store.counts(&[link(code)]).await.unwrap(), [humans(7)], "sums stay");
        assert_eq!(of_link(&store, &link(code), ALWAYS).await.buckets.len(), 6);
    }
    assert_eq!(prune(&store, up_to(2 * HOUR + 5, -6 * DAY, 3)).await, Pruned::default());
}

pub async fn raw_clicks_beyond_their_size_are_deleted(store: ClickStoreHandle) {
    for day in 0..3 {
        put(&store, (0..50).map(|n| click(&link("one"), day * DAY + n)).collect()).await;
    }
    let sized = |max_raw| Retention { max_raw, ..up_to(-DAY, -DAY, 1000) };
    for enough in [None, Some(u64::MAX), Some(1 << 30)] {
        assert_eq!(prune(&store, sized(enough)).await.raw, 0);
    }
    assert_eq!(prune(&store, sized(Some(0))).await.raw, 150);
    assert_eq!(raw_left(&store, "one").await, [0; 0]);
    assert_eq!(store.counts(&[link("one")]).await.unwrap(), [humans(150)], "sums stay");
    put(&store, vec![click(&link("one"), 3 * DAY)]).await;
    assert_eq!(raw_left(&store, "one").await, [3 * DAY], "what comes later is kept");
}

/// The parts of a report that must not change when hours become days.
fn sums(report: &ClickReport) -> impl PartialEq + std::fmt::Debug + use<> {
    let dimensions: Vec<_> = terse_core::clicks::Dimension::ALL
        .iter()
        .map(|dimension| {
            report.tally.values(*dimension).map(DimensionCounts::sum).unwrap_or_default()
        })
        .collect();
    let mean = (report.tally.took.mean * 1e6).round() as i64;
    (
        report.tally.clicks,
        in_buckets(report),
        report.visitors.count(),
        report.tally.last,
        report.tally.took.count,
        mean,
        dimensions,
    )
}

pub async fn hours_become_days_and_no_sum_changes(store: ClickStoreHandle) {
    let clicks = (0..400).map(|n: usize| Click {
        visitor: Some(n as u64 % 90 + 1),
        took_nanos: 1000 * n as u64,
        ..values::telling(n, n as i64 * HOUR / 4 + 7)
    });
    put(&store, clicks.collect()).await;
    put(&store, vec![click(&link("other"), 1), click(&link("other"), 5 * DAY)]).await;
    let subjects =
        [ClickSubject::Link(link("abc")), ClickSubject::Owner(OWNER), ClickSubject::Everything];
    let periods: Vec<_> = (-1..6)
        .flat_map(|from| (from..6).map(move |to| since(from * DAY, to * DAY)))
        .chain([ALWAYS])
        .collect();
    let mut before = Vec::new();
    for subject in &subjects {
        for period in &periods {
            before.push(sums(&report(&store, subject, *period).await));
        }
    }
    // Three days and five hours have passed.
    let pruned = prune(&store, up_to(-DAY, 3 * DAY + 5 * HOUR, 10)).await;
    // A store may add the hours up later, when it merges their sums.
    assert!([0, 3 * 3 * 24 + 1].contains(&pruned.hours), "{pruned:?}");
    let mut after = Vec::new();
    for subject in &subjects {
        for period in &periods {
            after.push(sums(&report(&store, subject, *period).await));
        }
    }
    assert_eq!(before, after);
    let found = of_link(&store, &link("abc"), ALWAYS).await;
    let days: Vec<_> = found
        .buckets
        .iter()
        .filter(|bucket| bucket.unit == Unit::Day)
        .map(|bucket| bucket.start)
        .collect();
    assert_eq!(days, [0, 1, 2].map(|day| timestamp(day * DAY)));
    assert_eq!(found.buckets.len(), 3 + 28);
    assert!(found.buckets.is_sorted_by_key(|bucket| bucket.start));
    // A period that overlaps a day counts the whole day.
    assert_eq!(
        of_link(&store, &link("abc"), since(DAY + 5, DAY + 6)).await.tally.clicks,
        humans(96)
    );
    assert_eq!(prune(&store, up_to(-DAY, 3 * DAY, 10)).await, Pruned::default());
}

pub async fn what_comes_after_the_pruning_is_added(store: ClickStoreHandle) {
    let abc = link("abc");
    put(&store, (0..24).map(|hour| click(&abc, hour * HOUR)).collect()).await;
    let pruned = prune(&store, up_to(0, DAY, 100)).await;
    assert!([0, 3 * 24].contains(&pruned.hours), "{pruned:?}");
    for round in 1..4 {
        put(&store, vec![click(&abc, 3 * HOUR), click(&abc, 3 * HOUR + 1)]).await;
        for period in [ALWAYS, since(0, DAY), since(-DAY, 2 * DAY)] {
            let found = of_link(&store, &abc, period).await;
            assert_eq!(
                (found.tally.clicks, in_buckets(&found)),
                (humans(24 + round * 2), humans(24 + round * 2))
            );
        }
        assert_eq!(raw_left(&store, "abc").await.len() as u64, 24 + round * 2);
        if round > 1 {
            // Late clicks are added to their day at once, or now.
            assert!(prune(&store, up_to(0, DAY, 100)).await.hours <= 3);
            assert_eq!(of_link(&store, &abc, ALWAYS).await.buckets.len(), 1);
        }
    }
}
