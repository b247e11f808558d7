//! Rankings of links by clicks.

use std::sync::Arc;

use terse_core::OwnerId;
use terse_core::clicks::{
    Added, Batch, BotFilter, BotKind, Click, ClickTarget, LinkId, Period, RankedLink, Retention,
    TopQuery, WithPending,
};

use super::snapshots::InMemory;
use super::{
    ALWAYS, ClickStoreHandle, DAY, HOUR, JOURNAL, OWNER, OpenJournal, click, link, put, since,
};
use crate::timestamp;

fn query(period: Period) -> TopQuery {
    TopQuery { owner: None, period, bots: BotFilter::Include, after: None, limit: 10 }
}

/// Codes and numbers of clicks.
fn codes(found: &[RankedLink]) -> Vec<(String, u64)> {
    found.iter().map(|found| (found.link.key.code.to_string(), found.clicks.all())).collect()
}

async fn top(store: &ClickStoreHandle, query: &TopQuery) -> Vec<(String, u64)> {
    codes(&store.top(query).await.unwrap())
}

fn want(wanted: &[(&str, u64)]) -> Vec<(String, u64)> {
    wanted.iter().map(|(code, clicks)| ((*code).to_owned(), *clicks)).collect()
}

fn theirs(code: &str, ms: i64) -> Click {
    Click::bare(timestamp(ms), ClickTarget::Link(link(code), OwnerId(8)))
}

fn bot(code: &str, ms: i64) -> Click {
    Click { bot: Some(BotKind::Crawler), ..click(&link(code), ms) }
}

/// Three days of clicks on several links of two owners.
fn three_days() -> Vec<Click> {
    let mut clicks = Vec::new();
    for day in 0..3 {
        let at = |hour: i64, n: i64| day * DAY + hour * HOUR + n;
        clicks.extend((0..5 - day).map(|n| click(&link("falls"), at(1, n))));
        clicks.extend((0..1 + 3 * day).map(|n| click(&link("rises"), at(5, n))));
        clicks.extend((0..2).map(|n| click(&link("even"), at(20, n))));
        clicks.extend((0..3).map(|n| theirs("theirs", at(12, n))));
        clicks.extend((0..6).map(|n| bot("robots", at(23, n))));
    }
    clicks
}

pub async fn links_are_ranked_by_their_clicks_in_a_period(store: ClickStoreHandle) {
    assert_eq!(top(&store, &query(ALWAYS)).await, []);
    put(&store, three_days()).await;
    let everything =
        want(&[("robots", 18), ("falls", 12), ("rises", 12), ("theirs", 9), ("even", 6)]);
    assert_eq!(top(&store, &query(ALWAYS)).await, everything);
    assert_eq!(top(&store, &query(since(0, 3 * DAY))).await, everything, "as a period");
    let first = [("robots", 6), ("falls", 5), ("theirs", 3), ("even", 2), ("rises", 1)];
    assert_eq!(top(&store, &query(since(0, DAY))).await, want(&first));
    // A day of another time zone: hours of two days.
    let shifted = [("theirs", 3), ("falls", 4), ("even", 2), ("robots", 6), ("rises", 4)];
    let mut shifted = shifted;
    shifted.sort_by_key(|(code, clicks)| (std::cmp::Reverse(*clicks), *code));
    assert_eq!(top(&store, &query(since(6 * HOUR, DAY + 6 * HOUR))).await, want(&shifted));
    let evening = [("robots", 6), ("even", 2)];
    assert_eq!(top(&store, &query(since(20 * HOUR, DAY))).await, want(&evening));
    assert_eq!(top(&store, &query(since(-DAY, 0))).await, []);
    assert_eq!(top(&store, &query(since(DAY, 0))).await, []);
    let open = Period { from: Some(timestamp(2 * DAY)), to: None };
    let last = [("rises", 7), ("robots", 6), ("falls", 3), ("theirs", 3), ("even", 2)];
    assert_eq!(top(&store, &query(open)).await, want(&last));
}

pub async fn a_ranking_is_of_an_owner_and_of_humans_or_bots(store: ClickStoreHandle) {
    put(&store, three_days()).await;
    for period in [ALWAYS, since(0, 3 * DAY)] {
        let with = |owner, bots| TopQuery { owner, bots, ..query(period) };
        let found = top(&store, &with(Some(OwnerId(8)), BotFilter::Include)).await;
        assert_eq!(found, want(&[("theirs", 9)]));
        let found = top(&store, &with(Some(OwnerId(9)), BotFilter::Include)).await;
        assert_eq!(found, []);
        let found = top(&store, &with(Some(OWNER), BotFilter::Exclude)).await;
        assert_eq!(found, want(&[("falls", 12), ("rises", 12), ("even", 6)]));
        assert_eq!(top(&store, &with(None, BotFilter::Only)).await, want(&[("robots", 18)]));
    }
}

pub async fn a_ranking_is_paged_exactly_once_in_order(store: ClickStoreHandle) {
    // Many links with as many clicks as others.
    let mut clicks = Vec::new();
    for n in 0..30 {
        clicks.extend((0..1 + n % 4).map(|at| click(&link(&format!("link{n:02}")), at * HOUR)));
    }
    put(&store, clicks).await;
    for owner in [None, Some(OWNER)] {
        for period in [ALWAYS, since(0, DAY)] {
            let all = TopQuery { owner, limit: 1000, ..query(period) };
            let all = store.top(&all).await.unwrap();
            assert_eq!(all.len(), 30);
            assert!(all.is_sorted_by_key(|found| found.rank(BotFilter::Include)));
            let mut paged: Vec<RankedLink> = Vec::new();
            loop {
                let after = paged.last().map(|last| last.rank(BotFilter::Include));
                let page = TopQuery { owner, after, limit: 7, ..query(period) };
                let page = store.top(&page).await.unwrap();
                if page.is_empty() {
                    break;
                }
                assert!(page.len() <= 7);
                paged.extend(page);
            }
            assert_eq!(paged, all);
        }
    }
}

pub async fn a_ranking_is_the_same_after_hours_became_days(store: ClickStoreHandle) {
    put(&store, three_days()).await;
    let periods = [ALWAYS, since(0, DAY), since(0, 2 * DAY), since(DAY, 3 * DAY)];
    let mut before = Vec::new();
    for period in periods {
        before.push(top(&store, &query(period)).await);
    }
    for kept_from in [DAY, 3 * DAY] {
        let retention = Retention {
            raw_before: timestamp(0),
            max_raw: None,
            days_before: timestamp(kept_from),
            hours_before: timestamp(kept_from),
            tombstones_before: timestamp(0),
            limit: 1000,
        };
        while store.prune(retention).await.unwrap().more {}
        for (period, before) in periods.into_iter().zip(&before) {
            assert_eq!(top(&store, &query(period)).await, *before, "{period:?}");
            let ours = TopQuery { owner: Some(OWNER), ..query(period) };
            let ours_before = before.iter().filter(|(code, _)| code != "theirs").cloned();
            assert_eq!(top(&store, &ours).await, ours_before.collect::<Vec<_>>(), "{period:?}");
        }
    }
    // Late clicks count for their day.
    put(&store, (0..9).map(|n| click(&link("even"), HOUR + n)).collect()).await;
    let found = top(&store, &query(since(0, DAY))).await;
    assert_eq!(found[0], ("even".to_owned(), 11));
}

pub async fn other_links_are_counted_beside_a_ranking(store: ClickStoreHandle) {
    put(&store, three_days()).await;
    let also = [link("theirs"), link("unknown"), link("robots"), link("even")];
    for (period, counts) in [(ALWAYS, [18, 6, 9]), (since(0, DAY), [6, 2, 3])] {
        let query = TopQuery { owner: Some(OWNER), limit: 1, ..query(period) };
        let mut found = codes(&store.top_with(&query, &also, None).await.unwrap().answer);
        assert_eq!(found.remove(0).0, "robots", "the first of the ranking, once");
        found.sort();
        assert_eq!(found, want(&[("even", counts[1]), ("theirs", counts[2])]));
    }
}

pub async fn an_erased_link_has_no_place_in_a_ranking(store: ClickStoreHandle) {
    put(&store, three_days()).await;
    let erased = [link("robots").key];
    store.erase_links(&erased, timestamp(0), timestamp(9 * DAY)).await.unwrap();
    store.erase_owner(OwnerId(8), timestamp(9 * DAY)).await.unwrap();
    for period in [ALWAYS, since(0, 3 * DAY)] {
        let found = top(&store, &query(period)).await;
        assert_eq!(found, want(&[("falls", 12), ("rises", 12), ("even", 6)]));
    }
}

/// A ranking is the same whether a batch is stored or in memory.
pub async fn a_ranking_includes_what_is_in_memory([first, second]: [ClickStoreHandle; 2]) {
    put(&first, three_days()).await;
    let journal = OpenJournal::open(&first, JOURNAL).await;
    let mut clicks: Vec<Click> = (0..4).map(|n| click(&link("even"), 2 * DAY + n)).collect();
    clicks.extend((0..4).map(|n| click(&link("fresh"), 2 * DAY + HOUR + n)));
    clicks.extend((0..10).map(|n| theirs("theirs", n)));
    let batch = Arc::new(Batch::of(vec![journal.span(1, 0, 5)], clicks));
    let with: ClickStoreHandle =
        Arc::new(WithPending::new(second, Arc::new(InMemory(Arc::clone(&batch)))));
    let mut before = Vec::new();
    for stored in [false, true] {
        let mut found = Vec::new();
        for owner in [None, Some(OWNER), Some(OwnerId(8))] {
            for period in [ALWAYS, since(0, DAY), since(2 * DAY, 3 * DAY)] {
                for bots in [BotFilter::Include, BotFilter::Exclude] {
                    for limit in [1, 2, 10] {
                        let query = TopQuery { owner, bots, limit, ..query(period) };
                        let page = with.top(&query).await.unwrap();
                        let after = page.last().map(|last| last.rank(bots));
                        found.push((codes(&page), with.top(&TopQuery { after, ..query }).await));
                    }
                }
            }
        }
        let found: Vec<_> =
            found.into_iter().map(|(page, next)| (page, codes(&next.unwrap()))).collect();
        match stored {
            false => before = found,
            true => assert_eq!(found, before),
        }
        if !stored {
            assert_eq!(first.add(&batch).await.unwrap(), Added::Done);
        }
    }
    assert_eq!(before[0].0, want(&[("theirs", 19)]));
    let also: Vec<LinkId> = vec![link("fresh")];
    let one = TopQuery { limit: 1, ..query(ALWAYS) };
    let found = codes(&with.top_with(&one, &also, None).await.unwrap().answer);
    assert_eq!(found, want(&[("theirs", 19), ("fresh", 4)]));
}
