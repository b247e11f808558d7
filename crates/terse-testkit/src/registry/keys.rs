//! API keys.

use std::sync::Arc;

use terse_core::OwnerId;
use terse_core::registry::{
    AuditAction, KeyId, KeyUsage, MAX_KEYS_PER_OWNER, NewKey, RegistryError, Scope,
};

use super::{RegistryHandle, acts, add, add_key, by, new_key, race, refused, token};
use crate::timestamp;

pub async fn a_key_is_found_by_its_token(store: RegistryHandle) {
    let ann = add(&store, "ann").await;
    for (n, scope) in (1..).zip(Scope::ALL) {
        let wanted = NewKey {
            scope,
            plan: Some("100/h".into()),
            expires_at: Some(timestamp(9)),
            ..new_key(ann.id, n)
        };
        let key = store.add_key(wanted.clone(), by()).await.unwrap();
        assert_eq!(key, wanted.into_key(key.id));
        assert_eq!(store.key(&token(n)).await.unwrap(), Some((key, ann.clone())));
    }
    assert_eq!(store.key(&token(99)).await.unwrap(), None);
}

pub async fn a_key_needs_an_owner_and_a_token_of_its_own(store: RegistryHandle) {
    let ann = add(&store, "ann").await;
    add_key(&store, ann.id, 1).await;
    refused!(store.add_key(new_key(ann.id, 1), by()).await, Conflict);
    for owner in [OwnerId::ANONYMOUS, OwnerId::ADMIN, OwnerId(u64::MAX)] {
        refused!(store.add_key(new_key(owner, 2), by()).await, Missing);
    }
    assert_eq!(acts(&store).await, [AuditAction::UserAdded, AuditAction::KeyAdded]);
}

pub async fn an_expired_key_is_returned(store: RegistryHandle) {
    let ann = add(&store, "ann").await;
    let key = NewKey { expires_at: Some(timestamp(-1)), ..new_key(ann.id, 1) };
    store.add_key(key, by()).await.unwrap();
    assert_eq!(store.key(&token(1)).await.unwrap().unwrap().0.expires_at, Some(timestamp(-1)));
}

pub async fn keys_are_listed_by_owner_the_oldest_first(store: RegistryHandle) {
    let (ann, bob) = (add(&store, "ann").await.id, add(&store, "bob").await.id);
    for n in 0..6 {
        add_key(&store, if n % 2 == 0 { ann } else { bob }, 20 - n).await;
    }
    let names: Vec<_> =
        store.keys(ann).await.unwrap().into_iter().map(|key| (key.owner, key.name)).collect();
    assert_eq!(names, [20, 18, 16].map(|n| (ann, format!("key {n}"))));
    assert!(store.keys(OwnerId(5)).await.unwrap().is_empty());
}

pub async fn there_are_at_most_a_hundred_keys_each(store: RegistryHandle) {
    let (ann, bob) = (add(&store, "ann").await.id, add(&store, "bob").await.id);
    for n in 0..MAX_KEYS_PER_OWNER as u16 {
        add_key(&store, ann, n).await;
    }
    refused!(store.add_key(new_key(ann, 999), by()).await, TooMany);
    add_key(&store, bob, 1000).await;
    let first = store.keys(ann).await.unwrap()[0].id;
    store.revoke_key(ann, first, by()).await.unwrap();
    add_key(&store, ann, 999).await;
    assert_eq!(store.keys(ann).await.unwrap().len(), MAX_KEYS_PER_OWNER);
}

pub async fn of_racing_keys_no_more_than_allowed_are_made(store: RegistryHandle) {
    let ann = add(&store, "ann").await.id;
    let racing = (0..MAX_KEYS_PER_OWNER as u16 + 20).map(|n| {
        let store = Arc::clone(&store);
        async move { store.add_key(new_key(ann, n), by()).await.is_ok() }
    });
    assert_eq!(race(racing).await.into_iter().filter(|made| *made).count(), MAX_KEYS_PER_OWNER);
    assert_eq!(store.keys(ann).await.unwrap().len(), MAX_KEYS_PER_OWNER);
    assert_eq!(acts(&store).await.len(), 1 + MAX_KEYS_PER_OWNER);
}

pub async fn only_its_owner_can_revoke_a_key(store: RegistryHandle) {
    let (ann, bob) = (add(&store, "ann").await.id, add(&store, "bob").await.id);
    let (key, other) = (add_key(&store, ann, 1).await.id, add_key(&store, ann, 2).await.id);
    refused!(store.revoke_key(bob, key, by()).await, Missing);
    refused!(store.revoke_key(ann, KeyId(u64::MAX), by()).await, Missing);
    store.revoke_key(ann, key, by()).await.unwrap();
    refused!(store.revoke_key(ann, key, by()).await, Missing);
    assert_eq!(store.key(&token(1)).await.unwrap(), None);
    assert_eq!(
        store.keys(ann).await.unwrap().iter().map(|key| key.id).collect::<Vec<_>>(),
        [other]
    );
    assert_eq!(acts(&store).await.iter().filter(|act| **act == AuditAction::KeyRevoked).count(), 1);
}

pub async fn requests_of_a_key_add_up_and_its_last_use_never_goes_back(store: RegistryHandle) {
    let ann = add(&store, "ann").await.id;
    let (one, two) = (add_key(&store, ann, 1).await.id, add_key(&store, ann, 2).await.id);
    let usage = |key, at, requests| KeyUsage { key, last_at: timestamp(at), requests };
    let used = async || {
        let keys = store.keys(ann).await.unwrap();
        keys.into_iter().map(|key| (key.last_used_at, key.requests)).collect::<Vec<_>>()
    };
    assert_eq!(used().await, [(None, 0), (None, 0)]);
    let gone = KeyId(u64::MAX);
    store.add_key_usage(&[usage(one, 50, 3), usage(gone, 50, 1), usage(two, 10, 1)]).await.unwrap();
    assert_eq!(used().await, [(Some(timestamp(50)), 3), (Some(timestamp(10)), 1)]);
    store.add_key_usage(&[usage(one, 40, 2), usage(two, 20, 4), usage(two, 15, 8)]).await.unwrap();
    assert_eq!(used().await, [(Some(timestamp(50)), 5), (Some(timestamp(20)), 13)]);
    store.add_key_usage(&[]).await.unwrap();
    let racing = (0..50).map(|n| {
        let store = Arc::clone(&store);
        async move {
            let used = [usage(one, n * 7 % 50 + 100, 2), usage(two, 1, 1)];
            store.add_key_usage(&used).await.unwrap();
        }
    });
    race(racing).await;
    assert_eq!(used().await, [(Some(timestamp(149)), 105), (Some(timestamp(20)), 63)]);
    let (found, _) = store.key(&token(1)).await.unwrap().unwrap();
    assert_eq!((found.last_used_at, found.requests), (Some(timestamp(149)), 105));
    assert_eq!(acts(&store).await.len(), 3, "using a key is no act");
}
