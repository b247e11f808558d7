//! Single clicks of all links, and what was erased.

use terse_core::clicks::{Click, ClickTarget, ErasedLink, PeriodQuery, Retention};
use terse_core::{OwnerId, Timestamp};

use super::{ClickStoreHandle, DAY, HOUR, click, link, put};
use crate::{key, timestamp};

/// Reads all pages of a period and checks that each respects the limit.
async fn walk(store: &ClickStoreHandle, from: i64, to: i64, limit: usize) -> Vec<Click> {
    let (from, to) = (timestamp(from), timestamp(to));
    let mut query = PeriodQuery { from, to, after: None, limit };
    let mut all = Vec::new();
    loop {
        let page = store.clicks_between(&query).await.unwrap();
        assert!(page.clicks.len() <= limit);
        all.extend(page.clicks);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return all,
        }
    }
}

pub async fn the_clicks_of_a_period_are_read_once_in_order(store: ClickStoreHandle) {
    let names = ["abc", "other", "third"];
    for batch in 0..5_u64 {
        let clicks = (0..30_u64).map(|n| {
            // Many in one millisecond, some before and after the hour.
            let ms = [-1, 0, 5, 5, HOUR - 1, HOUR][n as usize % 6];
            let of = link(names[n as usize % 3]);
            let owner = OwnerId(n % 2 + 7);
            Click {
                took_nanos: batch * 100 + n,
                city: Some("Łódź, PL".into()),
                visitor: (n % 4 == 0).then_some(n + 1),
                target: ClickTarget::Link(of.clone(), owner),
                ..click(&of, ms)
            }
        });
        put(&store, clicks.collect()).await;
    }
    let marks = |clicks: &[Click]| {
        let mut marks: Vec<u64> = clicks.iter().map(|click| click.took_nanos).collect();
        marks.sort_unstable();
        marks
    };
    let expected: Vec<u64> = (0..5)
        .flat_map(|batch| {
            (0..30).filter(|n| (1..5).contains(&(n % 6))).map(move |n| batch * 100 + n)
        })
        .collect();
    for limit in [1, 7, 100, 1000] {
        let walked = walk(&store, 0, HOUR, limit).await;
        assert!(walked.is_sorted_by_key(|click| click.at), "{limit} a page");
        assert_eq!(marks(&walked), expected, "each once, {limit} a page");
    }
    let walked = walk(&store, 0, HOUR, 1000).await;
    let of = |click: &Click| click.link().unwrap().key.code.as_str().to_owned();
    let one = walked.iter().find(|click| click.took_nanos == 204).unwrap();
    assert_eq!(
        (of(one).as_str(), one.city.as_deref(), one.visitor),
        ("other", Some("Łódź, PL"), Some(5))
    );
    assert_eq!(walk(&store, HOUR + 1, DAY, 10).await, []);
    assert_eq!(walk(&store, -DAY, DAY, 1000).await.len(), 150);
}

pub async fn the_clicks_of_erased_links_are_not_read(store: ClickStoreHandle) {
    let owned = |code: &str, owner: u64, ms: i64| Click {
        target: ClickTarget::Link(link(code), OwnerId(owner)),
        ..click(&link(code), ms)
    };
    let clicks = ["gone", "stays", "theirs", "gone"];
    let clicks =
        clicks.iter().zip(0..).map(|(code, ms)| owned(code, u64::from(*code == "theirs"), ms));
    put(&store, clicks.collect()).await;
    store.erase_links(&[key("gone")], timestamp(0), timestamp(DAY)).await.unwrap();
    store.erase_owner(OwnerId(1), timestamp(DAY)).await.unwrap();
    let left = walk(&store, 0, HOUR, 1).await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].link(), Some(&link("stays")));
}

pub async fn erasures_are_listed_until_their_tombstone_is_deleted(store: ClickStoreHandle) {
    let erased = |code: &str, day: i64| ErasedLink {
        key: key(code),
        created_by: timestamp(0),
        erased_at: timestamp(day * DAY),
    };
    for (code, day) in [("bbb", 1), ("aaa", 2), ("ccc", 3), ("aaa", 4)] {
        let at = timestamp(day * DAY);
        store.erase_links(&[key(code)], timestamp(0), at).await.unwrap();
    }
    store.erase_owner(OwnerId(9), timestamp(DAY)).await.unwrap();
    store.erase_owner(OwnerId(5), timestamp(3 * DAY)).await.unwrap();
    let all = store.erased_links(Timestamp::MIN, None, 10).await.unwrap();
    assert_eq!(all, [erased("aaa", 4), erased("bbb", 1), erased("ccc", 3)]);
    let page = store.erased_links(timestamp(2 * DAY), None, 1).await.unwrap();
    assert_eq!(page, [erased("aaa", 4)]);
    let page = store.erased_links(timestamp(2 * DAY), page.last(), 10).await.unwrap();
    assert_eq!(page, [erased("ccc", 3)]);
    assert_eq!(store.erased_owners(timestamp(0)).await.unwrap(), [OwnerId(5), OwnerId(9)]);
    assert_eq!(store.erased_owners(timestamp(2 * DAY)).await.unwrap(), [OwnerId(5)]);
    let never = Timestamp::MIN;
    let retention = Retention {
        raw_before: never,
        max_raw: None,
        days_before: never,
        hours_before: never,
        tombstones_before: timestamp(2 * DAY),
        limit: 100,
    };
    while store.prune(retention).await.unwrap().more {}
    let left = store.erased_links(never, None, 10).await.unwrap();
    assert_eq!(left, [erased("aaa", 4), erased("ccc", 3)]);
    assert_eq!(store.erased_owners(never).await.unwrap(), [OwnerId(5)]);
}
