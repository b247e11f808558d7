//! What happens to links at their end.

use std::collections::HashSet;

use terse_core::{Inserted, Link, LinkKey, Revision, Standing};

use super::{Store, leased_code, put};
use crate::{alias, generated, moment};

fn sorted(mut keys: Vec<LinkKey>) -> Vec<LinkKey> {
    keys.sort();
    keys
}

pub async fn expired_links_are_marked_once(store: Store) {
    for n in 0..5 {
        put(&store, &Link { expires_at: Some(moment(10)), ..alias(&format!("brief-{n}"), "https://example.com/") }).await;
    }
    put(&store, &Link { expires_at: Some(moment(11)), ..alias("later", "https://example.com/") }).await;
    put(&store, &alias("forever", "https://example.com/")).await;
    assert_eq!(store.mark_expired(moment(9), 10).await.unwrap(), []);
    let first = store.mark_expired(moment(10), 3).await.unwrap();
    let second = store.mark_expired(moment(10), 3).await.unwrap();
    assert_eq!((first.len(), second.len()), (3, 2));
    let all: HashSet<_> = first.into_iter().chain(second).collect();
    assert_eq!(all.len(), 5, "once each");
    assert_eq!(store.mark_expired(moment(10), 3).await.unwrap(), []);
    assert_eq!(store.mark_expired(moment(11), 3).await.unwrap(), [alias("later", "https://x.y/").key]);
    // A link that was given a new end expires a second time.
    let mut renewed = store.get(&crate::key("brief-0")).await.unwrap().unwrap();
    renewed.expires_at = Some(moment(20));
    renewed.revision = Revision(2);
    store.update(&renewed, Revision(1)).await.unwrap();
    assert_eq!(store.mark_expired(moment(19), 3).await.unwrap(), []);
    assert_eq!(store.mark_expired(moment(20), 3).await.unwrap(), [renewed.key]);
}

pub async fn purged_links_are_gone_and_their_aliases_free(store: Store) {
    let code = leased_code(&store).await;
    let expired = Link { expires_at: Some(moment(10)), ..alias("Expired", "https://example.com/") };
    let numbered = Link { expires_at: Some(moment(10)), ..generated(&code, "https://example.com/") };
    let deleted = Link { deleted_at: Some(moment(10)), ..alias("deleted", "https://example.com/") };
    let both = Link { expires_at: Some(moment(9)), deleted_at: Some(moment(10)), ..alias("both", "https://example.com/") };
    let later = Link { expires_at: Some(moment(11)), ..alias("later", "https://example.com/") };
    let blocked = Link { standing: Standing::Blocked, ..alias("blocked", "https://example.com/") };
    let blocked = Link { expires_at: Some(moment(10)), deleted_at: Some(moment(10)), ..blocked };
    let forever = alias("forever", "https://example.com/");
    for link in [&expired, &numbered, &deleted, &both, &later, &blocked, &forever] {
        put(&store, link).await;
    }
    store.mark_expired(moment(10), 1).await.unwrap();
    assert_eq!(store.purge(moment(8), 10).await.unwrap(), []);
    let gone = sorted(store.purge(moment(10), 10).await.unwrap());
    assert_eq!(gone, sorted([&expired, &numbered, &deleted, &both].map(|link| link.key.clone()).to_vec()));
    for key in &gone {
        assert_eq!(store.get(key).await.unwrap(), None);
    }
    for link in [&later, &blocked, &forever] {
        assert!(store.get(&link.key).await.unwrap().is_some(), "{:?}", link.key);
    }
    assert_eq!(store.purge(moment(10), 10).await.unwrap(), []);
    assert_eq!(store.get_folded(&expired.key).await.unwrap(), None);
    // The alias is free, for another owner and in another case.
    put(&store, &Link { owner: terse_core::OwnerId(5), ..alias("EXPIRED", "https://example.com/other") }).await;
    put(&store, &alias("deleted", "https://example.com/other")).await;
    let reinserted = store.insert(terse_core::Insert { link: blocked, request: None }).await;
    assert!(!matches!(reinserted, Ok(Inserted::Created)), "a blocked code is never given out again");
}

pub async fn purging_has_a_limit_and_keeps_the_rest(store: Store) {
    for n in 0..4 {
        // Blocked links stay, and must not stand in the way of the others.
        let standing = if n % 2 == 0 { Standing::Blocked } else { Standing::Clear };
        put(&store, &Link { deleted_at: Some(moment(n)), standing, ..alias(&format!("del-{n}"), "https://example.com/") }).await;
        put(&store, &Link { expires_at: Some(moment(n)), standing, ..alias(&format!("exp-{n}"), "https://example.com/") }).await;
    }
    let mut gone = Vec::new();
    loop {
        let keys = store.purge(moment(100), 1).await.unwrap();
        assert!(keys.len() <= 1);
        match keys.is_empty() {
            true => break,
            false => gone.extend(keys),
        }
    }
    let want = ["del-1", "del-3", "exp-1", "exp-3"].map(crate::key);
    assert_eq!(sorted(gone), want);
}
