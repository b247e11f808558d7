//! Reusing a link for the same target.

use terse_core::{Domain, Insert, Inserted, Link, OwnerId, Revision, Status, Updated};

use super::{Store, leased_code, put};
use crate::{alias, generated, timestamp};

async fn reusable(store: &Store, target: &str) -> Link {
    Link { reusable: true, ..generated(&leased_code(store).await, target) }
}

async fn insert(store: &Store, link: &Link) -> Inserted {
    store.insert(Insert::new(link.clone(), None)).await.unwrap()
}

pub async fn the_same_wish_gives_the_same_link(store: Store) {
    let first = reusable(&store, "https://example.com/a?b=c").await;
    put(&store, &first).await;
    for _ in 0..3 {
        let again = reusable(&store, "https://example.com/a?b=c").await;
        assert_eq!(insert(&store, &again).await, Inserted::Existing(Box::new(first.clone())));
        assert_eq!(store.get(&again.key).await.unwrap(), None, "nothing was written");
    }
    // A request for a new link creates one.
    let fresh = Link { reusable: false, ..reusable(&store, "https://example.com/a?b=c").await };
    put(&store, &fresh).await;
}

pub async fn another_owner_domain_or_target_gives_another_link(store: Store) {
    let first = reusable(&store, "https://example.com/a").await;
    put(&store, &first).await;
    put(&store, &Link { owner: OwnerId(2), ..reusable(&store, "https://example.com/a").await })
        .await;
    put(&store, &reusable(&store, "https://example.com/A").await).await;
    put(&store, &reusable(&store, "https://example.com/a/").await).await;
    let mut elsewhere = reusable(&store, "https://example.com/a").await;
    elsewhere.key.domain = Domain::from_stored("go.example");
    put(&store, &elsewhere).await;
    // A link that was never reusable is not reused.
    put(&store, &alias("own-name", "https://example.com/named")).await;
    put(&store, &reusable(&store, "https://example.com/named").await).await;
}

pub async fn racing_equal_wishes_give_one_link(store: Store) {
    for round in 0..4 {
        let mut racers = Vec::new();
        for _ in 0..50 {
            let link = reusable(&store, &format!("https://example.com/{round}")).await;
            let store = store.clone();
            racers.push(tokio::spawn(async move {
                match insert(&store, &link).await {
                    Inserted::Created => (link.key, true),
                    Inserted::Existing(existing) => (existing.key, false),
                    other => panic!("{other:?}"),
                }
            }));
        }
        let mut answers = Vec::new();
        for racer in racers {
            answers.push(racer.await.unwrap());
        }
        assert_eq!(answers.iter().filter(|(_, new)| *new).count(), 1);
        assert!(answers.iter().all(|(key, _)| *key == answers[0].0), "everyone got the same link");
    }
}

pub async fn what_is_no_longer_reusable_is_not_given_back(store: Store) {
    type Change = fn(&mut Link);
    let changes: [(&str, Change); 3] = [
        ("deleted", |link| {
            link.deleted_at = Some(timestamp(1));
            link.reusable = false;
        }),
        ("changed", |link| link.reusable = false),
        ("retargeted", |link| link.target = alias("x23", "https://example.com/elsewhere").target),
    ];
    for (what, change) in changes {
        let target = format!("https://example.com/{what}");
        let first = reusable(&store, &target).await;
        put(&store, &first).await;
        let mut changed = Link { revision: Revision(2), ..first.clone() };
        change(&mut changed);
        assert_eq!(store.update(&changed, Revision(1), &[]).await.unwrap(), Updated::Done);
        let second = reusable(&store, &target).await;
        put(&store, &second).await;
        let third = reusable(&store, &target).await;
        assert_eq!(insert(&store, &third).await, Inserted::Existing(Box::new(second)), "{what}");
    }
    // Retargeting moved the first one to its new target.
    let moved = reusable(&store, "https://example.com/elsewhere").await;
    assert!(matches!(insert(&store, &moved).await, Inserted::Existing(_)));
    // An expired link is not reused, marked or not.
    let expiring = Link {
        expires_at: Some(timestamp(10)),
        ..reusable(&store, "https://example.com/brief").await
    };
    put(&store, &expiring).await;
    assert_eq!(store.mark_expired(timestamp(10), 10, &[]).await.unwrap(), [expiring.key.clone()]);
    // Marking alone ends its reuse, whatever the clock of the next request says.
    let early = reusable(&store, "https://example.com/brief").await;
    assert_eq!(early.created_at, timestamp(0));
    put(&store, &Link { expires_at: Some(timestamp(10)), ..early }).await;
    let later = Link {
        created_at: timestamp(11),
        updated_at: timestamp(11),
        ..reusable(&store, "https://example.com/brief").await
    };
    put(&store, &later).await;
    let marked = store.get(&expiring.key).await.unwrap().unwrap();
    assert_eq!(marked.status(timestamp(11)), Status::Expired);
}
