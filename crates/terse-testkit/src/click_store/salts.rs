//! The secrets of a day.

use std::sync::Arc;

use super::Store;

pub async fn salts_are_the_same_for_everyone(store: Store) {
    let asked: Vec<_> = (0..20)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.salt(20_000).await.unwrap() })
        })
        .collect();
    let salt = store.salt(20_000).await.unwrap();
    for one in asked {
        assert_eq!(one.await.unwrap(), salt);
    }
    let next = store.salt(20_001).await.unwrap();
    assert_ne!(next, salt);
    assert_ne!(salt, [0; 16]);
    assert_eq!(store.salt(20_000).await.unwrap(), salt, "yesterday's clicks may still come");
    assert_eq!(store.salt(20_001).await.unwrap(), next);
}

pub async fn salts_are_forgotten(store: Store) {
    let first = store.salt(100).await.unwrap();
    let second = store.salt(101).await.unwrap();
    let third = store.salt(102).await.unwrap();
    // Day 100 is two days past: nobody can tell any more who its visitors were.
    assert_ne!(store.salt(100).await.unwrap(), first);
    assert_eq!(store.salt(101).await.unwrap(), second);
    assert_eq!(store.salt(102).await.unwrap(), third);
    // A clock that jumps ahead and comes back.
    store.salt(9_000).await.unwrap();
    assert_ne!(store.salt(102).await.unwrap(), third);
    assert_ne!(store.salt(-5).await.unwrap(), store.salt(-4).await.unwrap());
}
