//! Expiry, purging and quarantine of links.

use std::collections::HashSet;

use terse_core::{
    Code, Domain, Inserted, Link, LinkKey, ModerationStatus, OwnerId, PurgeBefore, Revision,
};

use super::{LinkStoreHandle, leased_code, put, put_in_vain};
use crate::{alias, generated, timestamp};

fn sorted(mut keys: Vec<LinkKey>) -> Vec<LinkKey> {
    keys.sort();
    keys
}

pub async fn expired_links_are_marked_once(store: LinkStoreHandle) {
    for n in 0..5 {
        put(
            &store,
            &Link {
                expires_at: Some(timestamp(10)),
                ..alias(&format!("brief-{n}"), "https://example.com/")
            },
        )
        .await;
    }
    put(
        &store,
        &Link { expires_at: Some(timestamp(11)), ..alias("later", "https://example.com/") },
    )
    .await;
    put(&store, &alias("forever", "https://example.com/")).await;
    assert_eq!(store.mark_expired(timestamp(9), 10, &[]).await.unwrap(), []);
    let first = store.mark_expired(timestamp(10), 3, &[]).await.unwrap();
    let second = store.mark_expired(timestamp(10), 3, &[]).await.unwrap();
    assert_eq!((first.len(), second.len()), (3, 2));
    let all: HashSet<_> = first.into_iter().chain(second).collect();
    assert_eq!(all.len(), 5, "once each");
    assert_eq!(store.mark_expired(timestamp(10), 3, &[]).await.unwrap(), []);
    assert_eq!(
        store.mark_expired(timestamp(11), 3, &[]).await.unwrap(),
        [alias("later", "https://x.y/").key]
    );
    // A link with a new expiry expires a second time.
    let mut renewed = store.get(&crate::key("brief-0")).await.unwrap().unwrap();
    renewed.expires_at = Some(timestamp(20));
    renewed.revision = Revision(2);
    store.update(&renewed, Revision(1), &[]).await.unwrap();
    assert_eq!(store.mark_expired(timestamp(19), 3, &[]).await.unwrap(), []);
    assert_eq!(store.mark_expired(timestamp(20), 3, &[]).await.unwrap(), [renewed.key]);
}

pub async fn purged_links_are_gone_and_their_aliases_free(store: LinkStoreHandle) {
    let code = leased_code(&store).await;
    let expired =
        Link { expires_at: Some(timestamp(10)), ..alias("Expired", "https://example.com/") };
    let numbered =
        Link { expires_at: Some(timestamp(10)), ..generated(&code, "https://example.com/") };
    let deleted =
        Link { deleted_at: Some(timestamp(10)), ..alias("deleted", "https://example.com/") };
    let both = Link {
        expires_at: Some(timestamp(9)),
        deleted_at: Some(timestamp(10)),
        ..alias("both", "https://example.com/")
    };
    let later = Link { expires_at: Some(timestamp(11)), ..alias("later", "https://example.com/") };
    let blocked =
        Link { moderation: ModerationStatus::Blocked, ..alias("blocked", "https://example.com/") };
    let blocked =
        Link { expires_at: Some(timestamp(10)), deleted_at: Some(timestamp(10)), ..blocked };
    let forever = alias("forever", "https://example.com/");
    for link in [&expired, &numbered, &deleted, &both, &later, &blocked, &forever] {
        put(&store, link).await;
    }
    // Expired alone is not enough: a wrong clock must not mark and purge at once.
    assert_eq!(store.purge(timestamp(9).into(), 10, None).await.unwrap(), []);
    assert_eq!(store.count_purgeable(timestamp(9).into()).await.unwrap(), 0);
    store.mark_expired(timestamp(10), 10, &[]).await.unwrap();
    assert_eq!(store.purge(timestamp(9).into(), 10, None).await.unwrap(), [], "marked later");
    assert!((4..=5).contains(&store.count_purgeable(timestamp(10).into()).await.unwrap()));
    assert_eq!(store.count_links().await.unwrap(), 7);
    let gone = sorted(store.purge(timestamp(10).into(), 10, None).await.unwrap());
    assert_eq!(
        gone,
        sorted([&expired, &numbered, &deleted, &both].map(|link| link.key.clone()).to_vec())
    );
    for key in &gone {
        assert_eq!(store.get(key).await.unwrap(), None);
    }
    for link in [&later, &blocked, &forever] {
        assert!(store.get(&link.key).await.unwrap().is_some(), "{:?}", link.key);
    }
    assert_eq!(store.purge(timestamp(10).into(), 10, None).await.unwrap(), []);
    assert_eq!(store.get_folded(&expired.key).await.unwrap(), None);
    // The alias is free, for another owner and in another spelling.
    put(
        &store,
        &Link { owner: terse_core::OwnerId(5), ..alias("EXPIRED", "https://example.com/other") },
    )
    .await;
    put(&store, &alias("deleted", "https://example.com/other")).await;
    let reinserted = store.insert(terse_core::Insert::new(blocked, None)).await;
    assert!(
        !matches!(reinserted, Ok(Inserted::Created)),
        "a blocked code is never given out again"
    );
}

pub async fn expired_links_of_owners_are_kept_longer(store: LinkStoreHandle) {
    let owned = |name: &str, at: i64| Link {
        owner: terse_core::OwnerId(7),
        expires_at: Some(timestamp(at)),
        ..alias(name, "https://example.com/")
    };
    let (old, recent, unmarked) = (owned("old", 5), owned("recent", 10), owned("unmarked", 12));
    let anonymous = Link { owner: terse_core::OwnerId::ANONYMOUS, ..owned("anonymous", 10) };
    let unmarked_too = Link { owner: terse_core::OwnerId::ANONYMOUS, ..owned("unmarked2", 12) };
    let deleted = Link { deleted_at: Some(timestamp(10)), expires_at: None, ..owned("deleted", 0) };
    for link in [&old, &recent, &unmarked, &anonymous, &unmarked_too, &deleted] {
        put(&store, link).await;
    }
    store.mark_expired(timestamp(5), 10, &[]).await.unwrap();
    store.mark_expired(timestamp(12), 10, &[]).await.unwrap();
    let before = PurgeBefore { ended: timestamp(12), expired_with_owner: timestamp(5) };
    let gone = sorted(store.purge(before, 10, None).await.unwrap());
    let due = [&old, &anonymous, &unmarked_too, &deleted].map(|link| link.key.clone());
    assert_eq!(gone, sorted(due.to_vec()));
    let before = PurgeBefore { expired_with_owner: timestamp(12), ..before };
    let gone = sorted(store.purge(before, 10, None).await.unwrap());
    assert_eq!(gone, sorted(vec![recent.key, unmarked.key]));
}

pub async fn a_link_is_purged_after_its_mark_and_its_expiry(store: LinkStoreHandle) {
    let expires = |at| Some(timestamp(at));
    let early = Link { expires_at: expires(100), ..alias("early", "https://example.com/") };
    put(&store, &early).await;
    // Marked by a clock that was ahead: the link itself has not expired by then.
    assert_eq!(store.mark_expired(timestamp(1000), 10, &[]).await.unwrap().len(), 1);
    assert_eq!(store.purge(timestamp(99).into(), 10, None).await.unwrap(), []);
    assert_eq!(store.purge(timestamp(999).into(), 10, None).await.unwrap(), []);
    assert_eq!(store.purge(timestamp(1000).into(), 10, None).await.unwrap().len(), 1);
}

pub async fn purging_has_a_limit_and_keeps_the_rest(store: LinkStoreHandle) {
    for n in 0..4 {
        // Blocked links stay, and must not keep the others from being purged.
        let moderation =
            if n % 2 == 0 { ModerationStatus::Blocked } else { ModerationStatus::Clear };
        put(
            &store,
            &Link {
                deleted_at: Some(timestamp(n)),
                moderation,
                ..alias(&format!("del-{n}"), "https://example.com/")
            },
        )
        .await;
        put(
            &store,
            &Link {
                expires_at: Some(timestamp(n)),
                moderation,
                ..alias(&format!("exp-{n}"), "https://example.com/")
            },
        )
        .await;
    }
    store.mark_expired(timestamp(50), 10, &[]).await.unwrap();
    let mut gone = Vec::new();
    loop {
        let keys = store.purge(timestamp(100).into(), 1, None).await.unwrap();
        assert!(keys.len() <= 1);
        match keys.is_empty() {
            true => break,
            false => gone.extend(keys),
        }
    }
    let want = ["del-1", "del-3", "exp-1", "exp-3"].map(crate::key);
    assert_eq!(sorted(gone), want);
}

/// An expired link of any owner under an alias.
fn over(owner: OwnerId, code: &str) -> Link {
    Link { owner, deleted_at: Some(timestamp(1)), ..alias(code, "https://example.com/") }
}

pub async fn freed_aliases_are_held_for_their_owners(store: LinkStoreHandle) {
    let (ann, bob) = (OwnerId(5), OwnerId(6));
    let code = leased_code(&store).await;
    for link in [over(ann, "Anns"), over(OwnerId::ANONYMOUS, "strangers"), over(ann, "also-anns")] {
        put(&store, &link).await;
    }
    put(
        &store,
        &Link { deleted_at: Some(timestamp(1)), ..generated(&code, "https://example.com/") },
    )
    .await;
    assert_eq!(store.purge(timestamp(1).into(), 10, Some(timestamp(100))).await.unwrap().len(), 4);
    assert_eq!(store.get(&crate::key("Anns")).await.unwrap(), None);
    assert_eq!(store.get_folded(&crate::key("anns")).await.unwrap(), None);
    // No other owner gets them, in any spelling. No one gets aliases of anonymous links, not even
    // another anonymous client.
    for (owner, code) in [
        (bob, "Anns"),
        (bob, "ANNS"),
        (OwnerId::ANONYMOUS, "Anns"),
        (OwnerId::ANONYMOUS, "strangers"),
        (bob, "Strangers"),
    ] {
        put_in_vain(&store, &Link { owner, ..alias(code, "https://example.com/") }).await;
    }
    // Nor is the same code generated.
    put_in_vain(&store, &Link { owner: ann, ..generated("Anns", "https://example.com/") }).await;
    // On another domain it is another alias.
    let elsewhere =
        LinkKey { domain: Domain::from_stored("b.example"), code: Code::parse("Anns").unwrap() };
    put(&store, &Link { owner: bob, key: elsewhere, ..alias("Anns", "https://example.com/") })
        .await;
    // A purged generated code is not available as an alias, except to the operator.
    put_in_vain(&store, &Link { owner: bob, ..alias(&code, "https://example.com/") }).await;
    put_in_vain(
        &store,
        &Link { owner: OwnerId::ANONYMOUS, ..alias(&code, "https://example.com/") },
    )
    .await;
    put(&store, &generated(&code, "https://example.com/again")).await;
    put(&store, &Link { owner: ann, ..alias("Anns", "https://example.com/back") }).await;
    put(&store, &Link { owner: ann, ..alias("ALSO-anns", "https://example.com/back") }).await;
    // Back with its owner, it is an ordinary alias; after another purge it is quarantined again.
    assert_eq!(store.release(timestamp(99), 10).await.unwrap(), 0);
    assert_eq!(store.release(timestamp(100), 10).await.unwrap(), 2);
    put_in_vain(&store, &Link { owner: bob, ..alias("Anns", "https://example.com/") }).await;
}

pub async fn held_aliases_are_free_once_released(store: LinkStoreHandle) {
    for n in 0..5 {
        put(&store, &over(OwnerId(5), &format!("held-{n}"))).await;
    }
    store.purge(timestamp(1).into(), 3, Some(timestamp(10))).await.unwrap();
    store.purge(timestamp(1).into(), 3, Some(timestamp(20))).await.unwrap();
    assert_eq!(store.release(timestamp(9), 10).await.unwrap(), 0);
    assert_eq!(store.release(timestamp(19), 2).await.unwrap(), 2);
    assert_eq!(store.release(timestamp(19), 2).await.unwrap(), 1);
    assert_eq!(store.release(timestamp(19), 2).await.unwrap(), 0);
    let mut free = 0;
    for n in 0..5 {
        let link =
            Link { owner: OwnerId(6), ..alias(&format!("held-{n}"), "https://example.com/") };
        free += usize::from(store.insert(terse_core::Insert::new(link, None)).await.is_ok());
    }
    assert_eq!(free, 3);
    assert_eq!(store.release(timestamp(20), 10).await.unwrap(), 2);
}
