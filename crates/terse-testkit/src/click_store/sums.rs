//! Sums per link, owner and in total.

use terse_core::clicks::{BotKind, Click, ClickSubject, ClickTarget, Count, LinkId};
use terse_core::{Answered, Domain, OwnerId};

use super::{
    ALWAYS, ClickStoreHandle, OWNER, click, humans, in_buckets, link, of_link, orphan, put, report,
};
use crate::timestamp;

pub async fn every_subject_gets_its_sum(store: ClickStoreHandle) {
    let (one, two, other) = (link("one"), link("two"), link("other"));
    let others = Click::bare(timestamp(5), ClickTarget::Link(other.clone(), OwnerId(u64::MAX)));
    put(
        &store,
        vec![
            click(&one, 1),
            click(&two, 2),
            click(&one, 3),
            others.clone(),
            orphan("none", 4, Answered::NotFound),
        ],
    )
    .await;
    put(&store, vec![click(&two, 2), others, orphan("none", 9, Answered::Blocked)]).await;
    for (subject, want) in [
        (ClickSubject::Link(one), 2),
        (ClickSubject::Link(two), 2),
        (ClickSubject::Link(other), 2),
        (ClickSubject::Owner(OWNER), 4),
        (ClickSubject::Owner(OwnerId(u64::MAX)), 2),
        (ClickSubject::Everything, 6),
        (ClickSubject::Orphans, 2),
    ] {
        let found = report(&store, &subject, ALWAYS).await;
        assert_eq!(
            (found.tally.clicks, in_buckets(&found)),
            (humans(want), humans(want)),
            "{subject:?}"
        );
    }
    assert_eq!(
        of_link(&store, &link("none"), ALWAYS).await.tally.clicks,
        Count::default(),
        "an orphan has no owner"
    );
}

pub async fn links_that_had_a_code_one_after_the_other_are_apart(store: ClickStoreHandle) {
    let first = link("reused");
    let second = LinkId { created_at: timestamp(100), ..first.clone() };
    put(&store, vec![click(&first, 1), click(&first, 2), click(&second, 200)]).await;
    assert_eq!(
        store.counts(&[second.clone(), first.clone()]).await.unwrap(),
        [humans(1), humans(2)]
    );
    assert_eq!(of_link(&store, &first, ALWAYS).await.tally.clicks, humans(2));
    assert_eq!(of_link(&store, &second, ALWAYS).await.tally.clicks, humans(1));
    assert_eq!(store.links(None, 10).await.unwrap(), [first, second]);
}

pub async fn links_on_two_domains_are_apart(store: ClickStoreHandle) {
    let here = link("same");
    let mut there = here.clone();
    there.key.domain = Domain::parse("go.example").unwrap();
    let mut shouted = here.clone();
    shouted.key = crate::key("SAME");
    put(&store, vec![click(&here, 1), click(&there, 2), click(&there, 3), click(&shouted, 4)])
        .await;
    assert_eq!(
        store.counts(&[here, there, shouted]).await.unwrap(),
        [humans(1), humans(2), humans(1)]
    );
}

pub async fn counts_are_in_order_and_zero_for_the_unknown(store: ClickStoreHandle) {
    let bot = |link, ms| Click { bot: Some(BotKind::Preview), ..click(link, ms) };
    put(&store, vec![click(&link("aaa"), 1), bot(&link("aaa"), 2), bot(&link("bbb"), 3)]).await;
    let wanted = ["bbb", "nobody", "aaa", "bbb"].map(link);
    let both = Count { humans: 1, bots: 1 };
    let one = Count { humans: 0, bots: 1 };
    assert_eq!(store.counts(&wanted).await.unwrap(), [one, Count::default(), both, one]);
    assert_eq!(store.counts(&[]).await.unwrap(), []);
}

pub async fn the_unknown_has_an_empty_report(store: ClickStoreHandle) {
    for subject in [
        ClickSubject::Link(link("abc")),
        ClickSubject::Owner(OWNER),
        ClickSubject::Everything,
        ClickSubject::Orphans,
    ] {
        let found = report(&store, &subject, ALWAYS).await;
        assert_eq!(
            (found.tally.clicks, found.visitors.count(), found.buckets.len()),
            (Count::default(), 0, 0)
        );
        assert_eq!(found.tally.last, None);
    }
}

pub async fn a_click_may_stand_for_many(store: ClickStoreHandle) {
    let sampled = Click { weight: 1000, ..orphan("scan", 1, Answered::NotFound) };
    put(&store, vec![sampled.clone(), sampled, orphan("scan", 2, Answered::Gone)]).await;
    let found = report(&store, &ClickSubject::Orphans, ALWAYS).await;
    assert_eq!((found.tally.clicks, in_buckets(&found)), (humans(2001), humans(2001)));
}

pub async fn the_mean_is_the_plain_mean(store: ClickStoreHandle) {
    let took: Vec<u64> = (0..300).map(|n| n * 7919 % 1009 + 1).collect();
    for part in took.chunks(37) {
        let clicks = part.iter().map(|&took_nanos| Click {
            took_nanos,
            ..click(&link("abc"), 3_600_000 * took_nanos as i64)
        });
        put(&store, clicks.collect()).await;
    }
    let plain = took.iter().map(|&nanos| nanos as f64 / 1e6).sum::<f64>() / 300.0;
    for period in [ALWAYS, super::since(-1, i64::MAX / 4)] {
        let found = of_link(&store, &link("abc"), period).await.tally.took;
        assert_eq!(found.count, 300);
        assert!((found.mean - plain).abs() < 1e-12, "{} against {plain}", found.mean);
    }
}

pub async fn the_last_click_is_the_latest_one(store: ClickStoreHandle) {
    put(&store, vec![click(&link("abc"), 5), click(&link("abc"), 90), click(&link("abc"), 10)])
        .await;
    put(&store, vec![click(&link("abc"), 7)]).await;
    assert_eq!(of_link(&store, &link("abc"), ALWAYS).await.tally.last, Some(timestamp(90)));
}

pub async fn every_link_is_walked_once_in_an_order_that_stays(store: ClickStoreHandle) {
    let mut links: Vec<LinkId> = (0..25)
        .map(|n| link(&format!("{}-{n}", if n % 2 == 0 { "Even" } else { "odd" })))
        .collect();
    links.push(LinkId { created_at: timestamp(1), ..link("odd-1") });
    let mut elsewhere = link("odd-1");
    elsewhere.key.domain = Domain::parse("a.example").unwrap();
    links.push(elsewhere);
    put(&store, links.iter().rev().map(|link| click(link, 1)).collect()).await;
    put(&store, vec![orphan("none", 1, Answered::NotFound)]).await;
    links.sort();
    let mut walked = walk(&store, 4).await;
    assert_eq!(walked, walk(&store, 7).await);
    walked.sort();
    assert_eq!(walked, links);
}

async fn walk(store: &ClickStoreHandle, limit: usize) -> Vec<LinkId> {
    let mut walked: Vec<LinkId> = Vec::new();
    loop {
        let page = store.links(walked.last(), limit).await.unwrap();
        assert!(page.len() <= limit);
        if page.is_empty() {
            return walked;
        }
        walked.extend(page);
    }
}
