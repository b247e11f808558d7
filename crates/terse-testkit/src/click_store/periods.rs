//! Periods of reports.

use terse_core::Timestamp;
use terse_core::clicks::{Click, ClickSubject, Count, Period, Unit};

use super::{
    ALWAYS, ClickStoreHandle, DAY, HOUR, click, humans, in_buckets, link, of_link, put, report,
    since, starts,
};
use crate::timestamp;

pub async fn a_period_counts_every_hour_it_touches(store: ClickStoreHandle) {
    let abc = link("abc");
    // One click in the first hour, two in the second, three in the third, none in the fourth, five
    // in the fifth.
    let hours = [(0, 1), (1, 2), (2, 3), (4, 5)];
    let clicks = hours.iter().flat_map(|&(hour, many)| (0..many).map(move |n| (hour, n)));
    put(&store, clicks.map(|(hour, n)| click(&abc, hour * HOUR + n)).collect()).await;
    for (from, to, want) in [
        (0, HOUR, 1),
        (HOUR - 1, HOUR, 1),
        (HOUR - 1, HOUR + 1, 3),
        (HOUR, 3 * HOUR, 5),
        (2 * HOUR + 1, 2 * HOUR + 2, 3),
        (3 * HOUR, 4 * HOUR, 0),
        (3 * HOUR, 4 * HOUR + 1, 5),
        (-DAY, DAY, 11),
        (5 * HOUR, DAY, 0),
        (-DAY, 0, 0),
        (3 * HOUR, HOUR, 0),
    ] {
        let found = of_link(&store, &abc, since(from, to)).await;
        assert_eq!(
            (found.tally.clicks, in_buckets(&found)),
            (humans(want), humans(want)),
            "{from}..{to}"
        );
    }
    let open = of_link(&store, &abc, Period { from: Some(timestamp(2 * HOUR)), to: None }).await;
    let early = of_link(&store, &abc, Period { from: None, to: Some(timestamp(2 * HOUR)) }).await;
    assert_eq!((open.tally.clicks, early.tally.clicks), (humans(8), humans(3)));
    let all = of_link(&store, &abc, ALWAYS).await;
    let want: Vec<(Timestamp, Count)> =
        hours.iter().map(|&(hour, many)| (timestamp(hour * HOUR), humans(many as u64))).collect();
    assert_eq!(starts(&all), want, "the earliest first, none empty");
    assert!(all.buckets.iter().all(|bucket| bucket.unit == Unit::Hour));
}

pub async fn recent_is_the_present_hour_and_the_23_before(store: ClickStoreHandle) {
    let abc = link("abc");
    put(&store, (0..72).map(|hour| click(&abc, hour * HOUR + 5)).collect()).await;
    put(&store, vec![click(&abc, 30 * HOUR)]).await;
    for (now, want) in [
        (30 * HOUR, 25),
        (30 * HOUR + HOUR - 1, 25),
        (29 * HOUR, 24),
        (0, 1),
        (-1, 0),
        (73 * HOUR, 22),
    ] {
        let found = store
            .report(&ClickSubject::Link(abc.clone()), since(0, HOUR), timestamp(now))
            .await
            .unwrap();
        assert_eq!(found.recent, humans(want), "{now}");
        let always = store.report(&ClickSubject::Everything, ALWAYS, timestamp(now)).await.unwrap();
        assert_eq!(always.recent, humans(want), "whatever the period: {now}");
    }
}

pub async fn clicks_of_any_year_land_in_their_own_hour(store: ClickStoreHandle) {
    let abc = link("abc");
    // A clock that jumps back and forth, even within a batch.
    let jumps = [
        "2026-06-01T10:30:00Z",
        "1969-12-31T23:59:59.999Z",
        "2031-01-01",
        "2026-06-01T10:59:59Z",
        "1970-01-01",
    ];
    let jumps = jumps.map(|text| Timestamp::parse(text).unwrap());
    let at = |at: Timestamp| Click { at, ..click(&abc, 0) };
    put(&store, jumps.iter().map(|&jump| at(jump)).collect()).await;
    for jump in jumps.iter().rev() {
        put(&store, vec![at(*jump), at(Timestamp::MAX), at(Timestamp::MIN)]).await;
    }
    let found = of_link(&store, &abc, ALWAYS).await;
    let hour = |text: &str| Timestamp::parse(text).unwrap();
    let want = [
        (Timestamp::MIN, humans(5)),
        (hour("1969-12-31T23:00:00Z"), humans(2)),
        (hour("1970-01-01"), humans(2)),
        (hour("2026-06-01T10:00:00Z"), humans(4)),
        (hour("2031-01-01"), humans(2)),
        (hour("9999-12-31T23:00:00Z"), humans(5)),
    ];
    assert_eq!(starts(&found), want);
    let before_1970 = Period { from: Some(hour("1969-01-01")), to: Some(hour("1970-01-01")) };
    assert_eq!(of_link(&store, &abc, before_1970).await.tally.clicks, humans(2));
    assert_eq!(report(&store, &ClickSubject::Everything, ALWAYS).await.tally.clicks, humans(20));
}

pub async fn years_and_days_end_where_they_should(store: ClickStoreHandle) {
    let abc = link("abc");
    // `timestamp(0)` is the beginning of a year.
    put(&store, vec![click(&abc, -1), click(&abc, 0), click(&abc, DAY - 1), click(&abc, DAY)])
        .await;
    let mut found = Vec::new();
    for day in -1..2 {
        found.push(
            of_link(&store, &abc, since(day * DAY, (day + 1) * DAY)).await.tally.clicks.humans,
        );
    }
    assert_eq!(found, [1, 2, 1]);
}
