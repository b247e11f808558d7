//! What is deleted with a link or an account.

use terse_core::OwnerId;
use terse_core::clicks::{Click, ClickSubject, ClickTarget, Count, LinkId, RawQuery, Retention};

use super::{ALWAYS, DAY, OWNER, Store, click, humans, link, put, report};
use crate::{key, moment};

/// Nothing is left of a link.
async fn assert_gone(store: &Store, link: &LinkId) {
    assert_eq!(store.counts(std::slice::from_ref(link)).await.unwrap(), [Count::default()]);
    let found = report(store, &ClickSubject::Link(link.clone()), ALWAYS).await;
    assert_eq!((found.tally.clicks, found.buckets.len(), found.visitors), (Count::default(), 0, 0));
    let query = RawQuery { link: link.clone(), from: None, to: None, after: None, limit: 10 };
    assert_eq!(store.clicks(&query).await.unwrap().clicks, []);
    assert!(!store.links(None, 100).await.unwrap().contains(link));
}

pub async fn links_are_forgotten_up_to_a_birth(store: Store) {
    let old = link("reused");
    let new = LinkId { born: moment(100), ..old.clone() };
    let other = link("other");
    put(&store, vec![click(&old, 1), click(&new, 200), click(&other, 3), click(&old, 5 * DAY)])
        .await;
    // Some of it was put together already.
    let retention = Retention { raw_before: moment(0), hours_before: moment(2 * DAY), limit: 100 };
    store.prune(retention).await.unwrap();
    store.forget_links(&[key("reused"), key("unknown")], moment(99)).await.unwrap();
    assert_gone(&store, &old).await;
    assert_eq!(store.counts(&[new.clone(), other.clone()]).await.unwrap(), [humans(1), humans(1)]);
    store.forget_links(&[key("reused")], moment(100)).await.unwrap();
    assert_gone(&store, &new).await;
    assert_eq!(store.links(None, 10).await.unwrap(), [other]);
    for subject in [ClickSubject::Owner(OWNER), ClickSubject::Everything] {
        assert_eq!(
            report(&store, &subject, ALWAYS).await.tally.clicks,
            humans(4),
            "sums of others stay"
        );
    }
    store.forget_links(&[], moment(100)).await.unwrap();
}

pub async fn an_owner_is_forgotten_with_all_links(store: Store) {
    let ours: Vec<LinkId> = (0..30).map(|n| link(&format!("ours-{n}"))).collect();
    let theirs = link("theirs");
    let their_click = Click::bare(moment(1), ClickTarget::Link(theirs.clone(), OwnerId(8)));
    put(&store, ours.iter().map(|link| click(link, 1)).chain([their_click]).collect()).await;
    store.forget_owner(OWNER).await.unwrap();
    for link in &ours {
        assert_gone(&store, link).await;
    }
    assert_eq!(
        report(&store, &ClickSubject::Owner(OWNER), ALWAYS).await.tally.clicks,
        Count::default()
    );
    assert_eq!(store.counts(&[theirs]).await.unwrap(), [humans(1)]);
    assert_eq!(
        report(&store, &ClickSubject::Owner(OwnerId(8)), ALWAYS).await.tally.clicks,
        humans(1)
    );
    assert_eq!(report(&store, &ClickSubject::Everything, ALWAYS).await.tally.clicks, humans(31));
    store.forget_owner(OwnerId(99)).await.unwrap();
}

pub async fn what_was_forgotten_can_be_counted_anew(store: Store) {
    let abc = link("abc");
    for _ in 0..3 {
        put(&store, vec![click(&abc, 1), click(&abc, 2)]).await;
        assert_eq!(store.counts(std::slice::from_ref(&abc)).await.unwrap(), [humans(2)]);
        store.forget_links(&[key("abc")], moment(0)).await.unwrap();
        assert_gone(&store, &abc).await;
        put(&store, vec![click(&abc, 1)]).await;
        assert_eq!(store.counts(std::slice::from_ref(&abc)).await.unwrap(), [humans(1)]);
        store.forget_owner(OWNER).await.unwrap();
        assert_gone(&store, &abc).await;
    }
    assert_eq!(report(&store, &ClickSubject::Everything, ALWAYS).await.tally.clicks, humans(9));
}
