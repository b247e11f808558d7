//! Two regions of a global table: two tables, and a replication that a test delays as it likes.

use terse_core::{
    ChangeFeed, Insert, Inserted, Link, LinkReader, LinkStore, OwnerId, Revision, StoreError,
};
use terse_dynamodb::{DynamoOptions, HomeRegion};
use terse_testkit::{alias, generated};

use crate::support::{copy as replicate, fresh, open};

/// A node in the region of `near` whose home region is that of `home`.
fn away_from_home(near: &DynamoOptions, home: &DynamoOptions) -> DynamoOptions {
    let mut options = near.clone();
    options.address.home = Some(HomeRegion {
        region: "us-east-1".into(),
        endpoint: home.address.endpoint.clone(),
        table: Some(home.address.table.clone()),
    });
    options
}

/// Why the home region is needed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_regions_that_each_decide_give_one_alias_to_two_owners() {
    let (europe, america) = (fresh().await, fresh().await);
    let store = open(&europe).await;
    // The replicas share the store's identity.
    replicate(&europe, &america).await;
    let other = open(&america).await;
    let here = Link { owner: OwnerId(2), ..alias("launch", "https://example.com/eu") };
    let there = Link { owner: OwnerId(3), ..alias("launch", "https://example.com/us") };
    assert_eq!(store.insert(Insert::new(here, None)).await.unwrap(), Inserted::Created);
    assert_eq!(other.insert(Insert::new(there.clone(), None)).await.unwrap(), Inserted::Created);
    replicate(&america, &europe).await;
    let kept = store.get(&there.key).await.unwrap().unwrap();
    assert_eq!(kept.owner, OwnerId(3), "the first owner was told 201, and has lost the alias");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_home_region_an_alias_has_one_owner_and_resolves_everywhere_at_once() {
    let (home, near) = (fresh().await, fresh().await);
    let at_home = open(&home).await;
    replicate(&home, &near).await;
    let away = open(&away_from_home(&near, &home)).await;

    let mine = Link { owner: OwnerId(2), ..alias("launch", "https://example.com/") };
    let theirs = Link { owner: OwnerId(3), ..mine.clone() };
    assert_eq!(away.insert(Insert::new(mine.clone(), None)).await.unwrap(), Inserted::Created);
    let late = at_home.insert(Insert::new(theirs, None)).await;
    assert!(matches!(late, Err(StoreError::CodeTaken)), "{late:?}");

    // Nothing is replicated yet: what the replica lacks is read at home.
    assert_eq!(away.get(&mine.key).await.unwrap(), Some(mine.clone()));
    let code = generated("x7Kq2ab", "https://example.com/code");
    at_home.insert(Insert::new(code.clone(), None)).await.unwrap();
    assert_eq!(away.get(&code.key).await.unwrap(), Some(code.clone()));

    // Ranges are leased at home, so that regions never issue the same code.
    let capacity = terse_core::Numbering::new(away.identity()).capacity(7);
    let (a, b) = (at_home.lease(7, 10, capacity, 0).await, away.lease(7, 10, capacity, 0).await);
    let (a, b) = (a.unwrap(), b.unwrap());
    assert!(a.end <= b.start || b.end <= a.start, "{a:?} {b:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_answers_by_itself_and_a_change_that_it_lacks_is_read_at_home() {
    let (home, near) = (fresh().await, fresh().await);
    let at_home = open(&home).await;
    let link = alias("followed", "https://example.com/");
    at_home.insert(Insert::new(link.clone(), None)).await.unwrap();
    replicate(&home, &near).await;
    let away = open(&away_from_home(&near, &home)).await;
    let after = away.last_change().await.unwrap();

    let before = away.consumed();
    for _ in 0..5 {
        assert_eq!(away.get(&link.key).await.unwrap().as_ref(), Some(&link));
    }
    assert_eq!(away.consumed(), before, "the home region was not asked");

    let blocked = Link {
        moderation: terse_core::ModerationStatus::Blocked,
        revision: Revision(2),
        ..link.clone()
    };
    at_home.update(&blocked, Revision(1), &[]).await.unwrap();
    assert_eq!(away.changes(after, 10).await.unwrap().changes.len(), 1);
    // The replica still has the old link.
    let found = away.get(&link.key).await.unwrap();
    assert_eq!(found, Some(blocked), "a block holds, however late the replication is");
}

/// Removed links: the replica still has them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_is_gone_at_home_is_gone_once_the_feed_says_so() {
    let (home, near) = (fresh().await, fresh().await);
    let at_home = open(&home).await;
    let link = Link {
        deleted_at: Some(terse_testkit::timestamp(1)),
        ..alias("gone", "https://example.com/")
    };
    at_home.insert(Insert::new(link.clone(), None)).await.unwrap();
    replicate(&home, &near).await;
    let away = open(&away_from_home(&near, &home)).await;
    let after = away.last_change().await.unwrap();
    let purged = at_home.purge(terse_testkit::timestamp(2).into(), 10, None).await.unwrap();
    assert_eq!(purged, std::slice::from_ref(&link.key));
    away.changes(after, 10).await.unwrap();
    assert_eq!(away.get(&link.key).await.unwrap(), None);
}
