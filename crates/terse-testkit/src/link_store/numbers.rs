//! Leased numbers, and the codes they allow.

use terse_core::{AbsenceCertainty, CodeLease, Domain, LinkKey, StoreError};

use super::{LinkStoreHandle, leased_code, numbering, put};
use crate::{alias, generated, key};

pub async fn leases_never_overlap(store: LinkStoreHandle) {
    let capacity = numbering(&store).capacity(7);
    let leases: Vec<_> = (0..60)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { store.lease(7, 1 + n % 7, capacity, 0).await.unwrap() })
        })
        .collect();
    let mut ranges = Vec::new();
    for lease in leases {
        let range = lease.await.unwrap();
        assert!(!range.is_empty());
        ranges.push(range);
    }
    // Each length is counted separately.
    assert_eq!(store.lease(8, 3, numbering(&store).capacity(8), 0).await.unwrap().start, 0);
    ranges.sort_by_key(|range| range.start);
    assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "{ranges:?}");
}

pub async fn leases_end_at_the_capacity(store: LinkStoreHandle) {
    assert_eq!(store.lease(5, 10, 25, 0).await.unwrap(), 0..10);
    assert_eq!(store.lease(5, 10, 25, 0).await.unwrap(), 10..20);
    assert_eq!(store.lease(5, 10, 25, 0).await.unwrap(), 20..25);
    for _ in 0..2 {
        assert!(matches!(store.lease(5, 10, 25, 0).await, Err(StoreError::Exhausted)));
    }
    assert!(!store.lease(6, 0, 25, 0).await.unwrap().is_empty(), "never empty");
    assert!(matches!(store.lease(6, u64::MAX, 25, 0).await, Ok(range) if range.end == 25));
}

pub async fn a_lease_begins_at_the_distance_that_is_asked_for(store: LinkStoreHandle) {
    let capacity = numbering(&store).capacity(7);
    let lease = |skip| CodeLease { length: 7, count: 10, capacity, at_least: 0, skip };
    let first = store.lease_ahead(lease(0)).await.unwrap();
    let ahead = store.lease_ahead(lease(500)).await.unwrap();
    assert_eq!(ahead, first.end + 500..first.end + 510);
    let next = store.lease_ahead(lease(0)).await.unwrap();
    assert_eq!(next, ahead.end..ahead.end + 10, "within a run ranges are sequential");
    let beyond = store.lease_ahead(lease(capacity)).await;
    assert!(matches!(beyond, Err(StoreError::Exhausted)), "{beyond:?}");
    assert_eq!(store.lease_ahead(lease(0)).await.unwrap().start, next.end);
}

/// A copy that is restored twice must not issue the same codes twice.
pub async fn a_raised_incarnation_skips_a_random_distance(store: LinkStoreHandle) {
    let capacity = numbering(&store).capacity(7);
    let mut distances = std::collections::HashSet::new();
    let mut end = store.lease(7, 10, capacity, 0).await.unwrap().end;
    for _ in 0..4 {
        store.raise_incarnation(store.incarnation().await.unwrap()).await.unwrap();
        let range = store.lease(7, 10, capacity, 0).await.unwrap();
        assert!(range.start - end >= 1_000_000_000, "{range:?} after {end}");
        distances.insert(range.start - end);
        end = range.end;
    }
    assert!(distances.len() > 1, "{distances:?}");
}

pub async fn numbers_are_never_handed_out_again(store: LinkStoreHandle) {
    let code = leased_code(&store).await;
    let brief = terse_core::Link {
        expires_at: Some(crate::timestamp(1)),
        ..generated(&code, "https://example.com/")
    };
    put(&store, &brief).await;
    store.mark_expired(crate::timestamp(2), 10, &[]).await.unwrap();
    assert_eq!(
        store.purge(crate::timestamp(2).into(), 10, None).await.unwrap(),
        [brief.key.clone()]
    );
    assert_eq!(store.get(&brief.key).await.unwrap(), None);
    let numbering = numbering(&store);
    let (_, n) = numbering.number(code.as_bytes()).unwrap();
    for _ in 0..5 {
        let range = store.lease(7, 100, numbering.capacity(7), 0).await.unwrap();
        assert!(range.start > n);
    }
}

pub async fn no_existing_link_is_surely_absent(store: LinkStoreHandle) {
    let numbering = numbering(&store);
    let elsewhere = Domain::from_stored("go.example");
    let mut links = vec![
        generated(&leased_code(&store).await, "https://example.com/"),
        alias("has-a-dash", "https://example.com/"),
        alias("abc", "https://example.com/"),
        alias("AliasLike", "https://example.com/"),
        alias("waytoolongforus", "https://example.com/"),
    ];
    // Shaped like codes that will be generated much later, on each domain.
    for n in 0..20 {
        let mut link = alias(numbering.code(7, 1_000_000 + n).as_str(), "https://example.com/");
        link.generated = n % 3 == 0;
        if n % 2 == 0 {
            link.key.domain = elsewhere.clone();
        }
        links.push(link);
    }
    let mut numbered_elsewhere = generated(&leased_code(&store).await, "https://example.com/");
    numbered_elsewhere.key.domain = elsewhere.clone();
    links.push(numbered_elsewhere);
    for link in &links {
        put(&store, link).await;
        let absence = store.surely_absent(&link.key.domain, link.key.code.as_str());
        assert_ne!(absence, AbsenceCertainty::Certain, "{:?}", link.key);
    }
    // The same after leases have reached them and after a purge.
    store.lease(7, 1_000_005, numbering.capacity(7), 0).await.unwrap();
    store.mark_expired(crate::timestamp(1000), 100, &[]).await.unwrap();
    store.purge(crate::timestamp(1000).into(), 100, None).await.unwrap();
    for link in &links {
        let absence = store.surely_absent(&link.key.domain, link.key.code.as_str());
        assert_ne!(absence, AbsenceCertainty::Certain, "{:?}", link.key);
        assert!(store.get(&link.key).await.unwrap().is_some());
    }
    // The store may call such a code absent only while it does not exist.
    for n in 2_000_000..2_000_100 {
        let key = LinkKey { code: numbering.code(7, n), ..key("any") };
        assert!(
            store.surely_absent(&key.domain, key.code.as_str()) != AbsenceCertainty::Certain
                || store.get(&key).await.unwrap().is_none()
        );
    }
}

pub async fn the_codes_of_a_lease_are_not_called_absent(store: LinkStoreHandle) {
    let numbering = numbering(&store);
    let range = store.lease(7, 100, numbering.capacity(7), 0).await.unwrap();
    for n in [range.start, range.end - 1] {
        let code = numbering.code(7, n);
        let absence = store.surely_absent(&Domain::primary(), code.as_str());
        assert_eq!(absence, AbsenceCertainty::Unknown, "{n} of {range:?}");
    }
    let beyond = numbering.code(7, numbering.capacity(7) - 1);
    let absence = store.surely_absent(&Domain::primary(), beyond.as_str());
    assert_ne!(absence, AbsenceCertainty::Unknown, "no lease reaches this number");
    let not_generated = store.surely_absent(&Domain::primary(), "has-a-dash");
    assert_eq!(not_generated, AbsenceCertainty::Unknown);
}
