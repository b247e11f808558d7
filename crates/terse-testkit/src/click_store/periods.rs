//! When clicks were.

use terse_core::Moment;
use terse_core::clicks::{Click, Count, Period, Subject, Unit};

use super::{ALWAYS, DAY, HOUR, Store, click, in_buckets, link, of_link, people, put, report, since, starts};
use crate::moment;

pub async fn a_period_counts_every_hour_it_touches(store: Store) {
    let abc = link("abc");
    // One click in the first hour, two in the second, three in the third, none in the fourth, five in the fifth.
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
        assert_eq!((found.tally.clicks, in_buckets(&found)), (people(want), people(want)), "{from}..{to}");
    }
    let open = of_link(&store, &abc, Period { from: Some(moment(2 * HOUR)), to: None }).await;
    let early = of_link(&store, &abc, Period { from: None, to: Some(moment(2 * HOUR)) }).await;
    assert_eq!((open.tally.clicks, early.tally.clicks), (people(8), people(3)));
    let all = of_link(&store, &abc, ALWAYS).await;
    let want: Vec<(Moment, Count)> = hours.iter().map(|&(hour, many)| (moment(hour * HOUR), people(many as u64))).collect();
    assert_eq!(starts(&all), want, "the earliest first, none empty");
    assert!(all.buckets.iter().all(|bucket| bucket.unit == Unit::Hour));
}

pub async fn recent_is_the_present_hour_and_the_23_before(store: Store) {
    let abc = link("abc");
    put(&store, (0..72).map(|hour| click(&abc, hour * HOUR + 5)).collect()).await;
    put(&store, vec![click(&abc, 30 * HOUR)]).await;
    for (now, want) in [(30 * HOUR, 25), (30 * HOUR + HOUR - 1, 25), (29 * HOUR, 24), (0, 1), (-1, 0), (73 * HOUR, 22)] {
        let found = store.report(&Subject::Link(abc.clone()), since(0, HOUR), moment(now)).await.unwrap();
        assert_eq!(found.recent, people(want), "{now}");
        let always = store.report(&Subject::Everything, ALWAYS, moment(now)).await.unwrap();
        assert_eq!(always.recent, people(want), "whatever the period: {now}");
    }
}

pub async fn clicks_of_any_year_land_in_their_own_hour(store: Store) {
    let abc = link("abc");
    // A clock that jumps to and fro, also in the middle of a batch.
    let jumps = ["2026-06-01T10:30:00Z", "1969-12-31T23:59:59.999Z", "2031-01-01", "2026-06-01T10:59:59Z", "1970-01-01"];
    let jumps = jumps.map(|text| Moment::parse(text).unwrap());
    let at = |at: Moment| Click { at, ..click(&abc, 0) };
    put(&store, jumps.iter().map(|&jump| at(jump)).collect()).await;
    for jump in jumps.iter().rev() {
        put(&store, vec![at(*jump), at(Moment::MAX), at(Moment::MIN)]).await;
    }
    let found = of_link(&store, &abc, ALWAYS).await;
    let hour = |text: &str| Moment::parse(text).unwrap();
    let want = [
        (Moment::MIN, people(5)),
        (hour("1969-12-31T23:00:00Z"), people(2)),
        (hour("1970-01-01"), people(2)),
        (hour("2026-06-01T10:00:00Z"), people(4)),
        (hour("2031-01-01"), people(2)),
        (hour("9999-12-31T23:00:00Z"), people(5)),
    ];
    assert_eq!(starts(&found), want);
    let before_1970 = Period { from: Some(hour("1969-01-01")), to: Some(hour("1970-01-01")) };
    assert_eq!(of_link(&store, &abc, before_1970).await.tally.clicks, people(2));
    assert_eq!(report(&store, &Subject::Everything, ALWAYS).await.tally.clicks, people(20));
}

pub async fn years_and_days_end_where_they_should(store: Store) {
    let abc = link("abc");
    // `moment(0)` is the beginning of a year.
    put(&store, vec![click(&abc, -1), click(&abc, 0), click(&abc, DAY - 1), click(&abc, DAY)]).await;
    let mut found = Vec::new();
    for day in -1..2 {
        found.push(of_link(&store, &abc, since(day * DAY, (day + 1) * DAY)).await.tally.clicks.people);
    }
    assert_eq!(found, [1, 2, 1]);
}
