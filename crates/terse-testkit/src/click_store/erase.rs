//! Erasing a link or an account.

use std::sync::Arc;

use terse_core::clicks::{
    Added, Batch, Click, ClickSubject, ClickTarget, Count, LinkId, RawQuery, Retention,
};
use terse_core::{OwnerId, Timestamp};

use super::{
    ALWAYS, ClickStoreHandle, DAY, JOURNAL, OWNER, OpenJournal, click, humans, in_buckets, link,
    of_link, put, report,
};
use crate::{key, timestamp};

/// Asserts that nothing is left of a link.
async fn assert_gone(store: &ClickStoreHandle, link: &LinkId) {
    assert_eq!(store.counts(std::slice::from_ref(link)).await.unwrap(), [Count::default()]);
    let found = report(store, &ClickSubject::Link(link.clone()), ALWAYS).await;
    assert_eq!((found.tally.clicks, found.buckets.len()), (Count::default(), 0));
    assert_eq!(found.visitors.count(), 0);
    let query = RawQuery { link: link.clone(), from: None, to: None, after: None, limit: 10 };
    assert_eq!(store.clicks(&query).await.unwrap().clicks, []);
    assert!(!store.links(None, 100).await.unwrap().contains(link));
}

async fn assert_count(store: &ClickStoreHandle, subject: ClickSubject, clicks: u64) {
    let found = report(store, &subject, ALWAYS).await;
    assert_eq!(found.tally.clicks, humans(clicks), "{subject:?}");
    assert_eq!(in_buckets(&found), humans(clicks), "{subject:?}");
}

pub async fn links_are_erased_up_to_a_creation_time(store: ClickStoreHandle) {
    let old = link("reused");
    let new = LinkId { created_at: timestamp(100), ..old.clone() };
    let other = link("other");
    put(&store, vec![click(&old, 1), click(&new, 200), click(&other, 3), click(&old, 5 * DAY)])
        .await;
    // Some hours are joined into days already.
    let retention = Retention {
        raw_before: timestamp(0),
        hours_before: timestamp(2 * DAY),
        max_raw: None,
        days_before: Timestamp::MIN,
        tombstones_before: Timestamp::MIN,
        limit: 100,
    };
    store.prune(retention).await.unwrap();
    let erased_at = timestamp(9 * DAY);
    store.erase_links(&[key("reused"), key("unknown")], timestamp(99), erased_at).await.unwrap();
    assert_gone(&store, &old).await;
    assert_eq!(store.counts(&[new.clone(), other.clone()]).await.unwrap(), [humans(1), humans(1)]);
    put(&store, vec![click(&new, 300)]).await;
    assert_eq!(store.counts(std::slice::from_ref(&new)).await.unwrap(), [humans(2)]);
    store.erase_links(&[key("reused")], timestamp(100), erased_at).await.unwrap();
    assert_gone(&store, &new).await;
    assert_eq!(store.links(None, 10).await.unwrap(), [other]);
    assert_count(&store, ClickSubject::Owner(OWNER), 5).await;
    assert_count(&store, ClickSubject::Everything, 5).await;
    store.erase_links(&[], timestamp(100), erased_at).await.unwrap();
}

pub async fn an_owner_is_erased_with_all_links(store: ClickStoreHandle) {
    let ours: Vec<LinkId> = (0..30).map(|n| link(&format!("ours-{n}"))).collect();
    let theirs = link("theirs");
    let their_click = Click::bare(timestamp(1), ClickTarget::Link(theirs.clone(), OwnerId(8)));
    put(&store, ours.iter().map(|link| click(link, 1)).chain([their_click]).collect()).await;
    store.erase_owner(OWNER, timestamp(2)).await.unwrap();
    for link in &ours {
        assert_gone(&store, link).await;
    }
    assert_count(&store, ClickSubject::Owner(OWNER), 0).await;
    assert_eq!(store.counts(&[theirs]).await.unwrap(), [humans(1)]);
    assert_count(&store, ClickSubject::Owner(OwnerId(8)), 1).await;
    assert_count(&store, ClickSubject::Everything, 31).await;
    store.erase_owner(OwnerId(99), timestamp(2)).await.unwrap();
}

pub async fn a_link_made_again_after_its_erasure_is_counted(store: ClickStoreHandle) {
    let abc = link("abc");
    for round in 0..3 {
        let ms = round * 100;
        put(&store, vec![click(&abc, ms + 1), click(&abc, ms + 2)]).await;
        assert_eq!(store.counts(std::slice::from_ref(&abc)).await.unwrap(), [humans(2)]);
        store.erase_links(&[key("abc")], timestamp(0), timestamp(ms + 50)).await.unwrap();
        assert_gone(&store, &abc).await;
        // One batch with clicks from before and from after the erasure.
        put(&store, vec![click(&abc, ms + 50), click(&abc, ms + 51)]).await;
        assert_eq!(store.counts(std::slice::from_ref(&abc)).await.unwrap(), [humans(1)]);
        store.erase_links(&[key("abc")], timestamp(0), timestamp(ms + 60)).await.unwrap();
    }
    assert_gone(&store, &abc).await;
    assert_count(&store, ClickSubject::Owner(OWNER), 12).await;
    assert_count(&store, ClickSubject::Everything, 12).await;
}

pub async fn late_clicks_of_an_erased_link_that_is_clicked_again_are_not_counted(
    store: ClickStoreHandle,
) {
    let abc = link("abc");
    put(&store, vec![click(&abc, 1)]).await;
    store.erase_links(&[key("abc")], timestamp(0), timestamp(50)).await.unwrap();
    // A click after the erasure, and then one from before it that another journal held.
    put(&store, vec![click(&abc, 51)]).await;
    put(&store, vec![click(&abc, 40)]).await;
    put(&store, vec![click(&abc, 45), click(&abc, 60)]).await;
    assert_eq!(store.counts(std::slice::from_ref(&abc)).await.unwrap(), [humans(2)]);
    let found = of_link(&store, &abc, ALWAYS).await;
    assert_eq!((found.tally.clicks, in_buckets(&found)), (humans(2), humans(2)));
    assert_count(&store, ClickSubject::Everything, 5).await;
}

pub async fn a_late_click_of_an_erased_link_is_not_counted_for_it(
    [first, second]: [ClickStoreHandle; 2],
) {
    let abc = link("abc");
    // Nothing of the link is counted yet: all its clicks wait in a journal.
    let journal = OpenJournal::open(&first, JOURNAL).await;
    second.erase_links(&[key("abc")], timestamp(0), timestamp(50)).await.unwrap();
    let clicks = vec![click(&abc, 1), click(&abc, 50), click(&link("other"), 2)];
    let batch = Arc::new(Batch::of(vec![journal.span(1, 0, 10)], clicks));
    assert_eq!(first.add(&batch).await.unwrap(), Added::Done);
    for store in [&first, &second] {
        assert_gone(store, &abc).await;
        assert_eq!(store.counts(&[link("other")]).await.unwrap(), [humans(1)]);
        assert_count(store, ClickSubject::Owner(OWNER), 3).await;
        assert_count(store, ClickSubject::Everything, 3).await;
    }
}

pub async fn a_late_click_of_an_erased_owner_is_counted_for_everything_alone(
    [first, second]: [ClickStoreHandle; 2],
) {
    let (known, unknown) = (link("known"), link("unknown"));
    put(&first, vec![click(&known, 1)]).await;
    second.erase_owner(OWNER, timestamp(50)).await.unwrap();
    put(&first, vec![click(&known, 2), click(&unknown, 3), click(&unknown, 60)]).await;
    for store in [&first, &second] {
        assert_gone(store, &known).await;
        assert_gone(store, &unknown).await;
        assert_count(store, ClickSubject::Owner(OWNER), 0).await;
        assert_count(store, ClickSubject::Everything, 4).await;
    }
}

pub async fn a_pruned_tombstone_no_longer_holds(store: ClickStoreHandle) {
    let (abc, other) = (link("abc"), OwnerId(8));
    store.erase_links(&[key("abc")], timestamp(0), timestamp(50)).await.unwrap();
    store.erase_owner(other, timestamp(60)).await.unwrap();
    let prune = async |before| {
        let retention = Retention {
            raw_before: timestamp(-DAY),
            hours_before: timestamp(-DAY),
            max_raw: None,
            days_before: Timestamp::MIN,
            tombstones_before: timestamp(before),
            limit: 1,
        };
        let mut tombstones = 0;
        for _ in 0..100 {
            let pruned = store.prune(retention).await.unwrap();
            tombstones += pruned.tombstones;
            if !pruned.more {
                return tombstones;
            }
        }
        panic!("it never ends");
    };
    assert_eq!(prune(50).await, 0);
    put(&store, vec![click(&abc, 1)]).await;
    assert_gone(&store, &abc).await;
    assert_eq!(prune(61).await, 2);
    let others = Click::bare(timestamp(1), ClickTarget::Link(link("theirs"), other));
    put(&store, vec![click(&abc, 1), others]).await;
    assert_eq!(store.counts(&[abc, link("theirs")]).await.unwrap(), [humans(1), humans(1)]);
    assert_count(&store, ClickSubject::Owner(other), 1).await;
}
