//! The salts of visitor hashes, and the operator's admin key.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use terse_core::registry::{FencingToken, NodeId, RegistryError};

use super::{RegistryHandle, race, refused, token};

async fn lease(store: &RegistryHandle, node: &str) -> FencingToken {
    let node = NodeId::parse(node).unwrap();
    store.acquire_lease("salts", &node, Duration::ZERO).await.unwrap().unwrap().token
}

/// Today, by the clock of this host.
fn today() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs() / 86_400).unwrap()
}

pub async fn every_day_has_a_salt_of_its_own(store: RegistryHandle) {
    let (first, second) = (store.salt(20_000).await.unwrap(), store.salt(20_001).await.unwrap());
    assert_ne!(first, [0; 16]);
    assert_ne!(first, second);
    assert_eq!(store.salt(20_000).await.unwrap(), first);
    assert_ne!(store.salt(-5).await.unwrap(), store.salt(-4).await.unwrap());
    // A day that has a salt keeps it.
    store.import_salts(&[(20_000, [7; 16]), (20_002, [8; 16])]).await.unwrap();
    assert_eq!(store.salt(20_000).await.unwrap(), first);
    assert_eq!(store.salt(20_002).await.unwrap(), [8; 16]);
}

pub async fn the_salt_of_a_day_is_the_same_through_both_handles(
    one: RegistryHandle,
    other: RegistryHandle,
) {
    for day in 20_000..20_010 {
        let racing = [&one, &other, &one, &other].map(RegistryHandle::clone);
        let made = race(racing.map(|store| async move { store.salt(day).await.unwrap() })).await;
        assert!(made.iter().all(|salt| *salt == made[0]), "{made:?}");
        assert_eq!(other.salt(day).await.unwrap(), made[0]);
    }
}

pub async fn the_lease_holder_deletes_old_salts(one: RegistryHandle, other: RegistryHandle) {
    let today = today();
    let days = [-5, today - 10, today - 2, today - 1, today, today + 1, today + 9000];
    let mut salts = Vec::new();
    for day in days {
        salts.push(one.salt(day).await.unwrap());
    }
    let old = lease(&one, "a").await;
    let current = lease(&other, "b").await;
    refused!(one.delete_old_salts(old).await, Fenced);
    assert_eq!(one.salt(days[0]).await.unwrap(), salts[0], "a fenced node deletes nothing");
    let deleted = other.delete_old_salts(current).await.unwrap();
    if self::today() != today {
        return; // Midnight passed: another set of days is old.
    }
    assert_eq!(deleted, 4);
    for (n, day) in days.into_iter().enumerate() {
        let kept = one.salt(day).await.unwrap() == salts[n];
        assert_eq!(kept, (today - 1..=today + 1).contains(&day), "{day}");
    }
}

pub async fn of_two_admin_keys_the_first_is_kept(one: RegistryHandle, other: RegistryHandle) {
    assert_eq!(one.admin_key().await.unwrap(), None);
    let racing = [(one.clone(), 1), (other.clone(), 2)];
    let kept = race(
        racing.map(|(store, n)| async move { store.create_admin_key(token(n)).await.unwrap() }),
    )
    .await;
    assert_eq!(kept[0], kept[1]);
    assert!([token(1), token(2)].contains(&kept[0]));
    for store in [&one, &other] {
        assert_eq!(store.admin_key().await.unwrap(), Some(kept[0]));
        assert_eq!(store.create_admin_key(token(3)).await.unwrap(), kept[0]);
    }
}
