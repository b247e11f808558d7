//! Raw clicks.

use terse_core::Timestamp;
use terse_core::clicks::{BotKind, Click, ClickCursor, ClickSubject, LinkId, RawQuery};

use super::{ClickStoreHandle, DAY, HOUR, click, link, put, values};
use crate::timestamp;

fn query(link: &LinkId) -> RawQuery {
    RawQuery { link: link.clone(), from: None, to: None, after: None, limit: 7 }
}

/// Reads all pages and checks that each respects the limit.
async fn walk(store: &ClickStoreHandle, mut query: RawQuery) -> Vec<Click> {
    let mut all = Vec::new();
    loop {
        let page = store.clicks(&query).await.unwrap();
        assert!(page.clicks.len() <= query.limit);
        all.extend(page.clicks);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return all,
        }
    }
}

pub async fn raw_clicks_come_back_as_they_were(store: ClickStoreHandle) {
    let full = Click {
        took_nanos: u64::from(u32::MAX) * 1000 + 999,
        visitor: Some(u64::MAX - 1),
        address: Some("203.0.113.0/24".into()),
        bot: Some(BotKind::Monitor),
        ..values::telling(1, 1)
    };
    let odd = Click {
        city: Some("Łódź, \u{0}\"'; DROP TABLE clicks; --".into()),
        visitor: Some(1),
        ..click(&link("abc"), 2)
    };
    let clicks = vec![full, odd, click(&link("abc"), 3)];
    put(&store, clicks.clone()).await;
    assert_eq!(walk(&store, query(&link("abc"))).await, clicks);
    assert_eq!(walk(&store, query(&link("nobody"))).await, []);
}

pub async fn raw_clicks_are_paged_exactly_once_in_order(store: ClickStoreHandle) {
    let abc = link("abc");
    // Many clicks in one millisecond, in several batches, among clicks of another link.
    for batch in 0..6 {
        let ours =
            (0..20).map(|n| Click { took_nanos: batch * 100 + n, ..click(&abc, n as i64 % 3) });
        let others = (0..20).map(|n| click(&link("other"), n % 3));
        put(&store, ours.chain(others).collect()).await;
    }
    for limit in [1, 7, 120, 1000] {
        let walked = walk(&store, RawQuery { limit, ..query(&abc) }).await;
        assert!(walked.is_sorted_by_key(|click| click.at));
        let mut marks: Vec<u64> = walked.iter().map(|click| click.took_nanos).collect();
        marks.sort_unstable();
        let want: Vec<u64> =
            (0..6).flat_map(|batch| (0..20).map(move |n| batch * 100 + n)).collect();
        assert_eq!(marks, want, "each once, {limit} a page");
    }
    let first = store.clicks(&RawQuery { limit: 120, ..query(&abc) }).await.unwrap();
    assert!(first.clicks.len() == 120 && first.next.is_none(), "no page behind the last");
}

pub async fn raw_clicks_are_cut_to_the_period(store: ClickStoreHandle) {
    let abc = link("abc");
    let times = [0, 1, HOUR - 1, HOUR, DAY, DAY + 5 * HOUR, 40 * DAY];
    put(&store, times.iter().map(|&ms| click(&abc, ms)).collect()).await;
    for (from, to) in [
        (0, 1),
        (1, HOUR),
        (HOUR - 1, DAY),
        (HOUR, DAY + 1),
        (2, 41 * DAY),
        (-DAY, 0),
        (DAY, DAY),
        (2 * DAY, DAY),
    ] {
        let walked = walk(
            &store,
            RawQuery {
                from: Some(timestamp(from)),
                to: Some(timestamp(to)),
                limit: 2,
                ..query(&abc)
            },
        )
        .await;
        let want: Vec<Timestamp> =
            times.iter().filter(|&&ms| (from..to).contains(&ms)).map(|&ms| timestamp(ms)).collect();
        assert_eq!(walked.iter().map(|click| click.at).collect::<Vec<_>>(), want, "{from}..{to}");
    }
    let open = walk(&store, RawQuery { from: Some(timestamp(HOUR)), ..query(&abc) }).await;
    assert_eq!(open.len(), 4);
    let early = Some(ClickCursor { at_ms: timestamp(-DAY).as_ms(), number: 5 });
    let behind =
        walk(&store, RawQuery { from: Some(timestamp(HOUR)), after: early, ..query(&abc) }).await;
    assert_eq!(behind, open, "a place before the period changes nothing");
}

pub async fn late_raw_clicks_are_in_order(store: ClickStoreHandle) {
    let abc = link("abc");
    let times = [5 * DAY, 1, 400 * DAY, 3 * HOUR, -3 * DAY, 5 * DAY - 1];
    for ms in times {
        put(&store, vec![click(&abc, ms)]).await;
    }
    let walked = walk(&store, RawQuery { limit: 2, ..query(&abc) }).await;
    let mut want = times.map(timestamp);
    want.sort();
    assert_eq!(walked.iter().map(|click| click.at).collect::<Vec<_>>(), want);
    assert_eq!(
        super::report(&store, &ClickSubject::Link(abc), super::ALWAYS).await.buckets.len(),
        6
    );
}
