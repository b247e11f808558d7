//! Reusing a link for the same target.

use std::time::Duration;

use terse_core::{
    Domain, Insert, Inserted, Link, LinkStatus, OwnerId, ReuseKey, Revision, StoreError, Title,
    Updated,
};

use super::{LinkStoreHandle, leased_code, put};
use crate::{alias, generated, timestamp};

async fn reusable(store: &LinkStoreHandle, target: &str) -> Link {
    Link { reusable: true, ..generated(&leased_code(store).await, target) }
}

async fn insert(store: &LinkStoreHandle, link: &Link) -> Inserted {
    store.insert(Insert::new(link.clone(), None)).await.unwrap()
}

pub async fn the_same_request_gives_the_same_link(store: LinkStoreHandle) {
    let first = reusable(&store, "https://example.com/a?b=c").await;
    put(&store, &first).await;
    for _ in 0..3 {
        let again = reusable(&store, "https://example.com/a?b=c").await;
        let preview = store.preview_insert(&Insert::new(again.clone(), None)).await.unwrap();
        assert_eq!(preview, Inserted::Existing(Box::new(first.clone())));
        assert_eq!(insert(&store, &again).await, Inserted::Existing(Box::new(first.clone())));
        assert_eq!(store.get(&again.key).await.unwrap(), None, "nothing was written");
    }
    // A request for a new link creates one.
    let fresh = Link { reusable: false, ..reusable(&store, "https://example.com/a?b=c").await };
    put(&store, &fresh).await;
}

pub async fn another_owner_domain_or_target_gives_another_link(store: LinkStoreHandle) {
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

pub async fn racing_equal_requests_give_one_link(store: LinkStoreHandle) {
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

pub async fn what_is_no_longer_reusable_is_not_given_back(store: LinkStoreHandle) {
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
    assert_eq!(marked.status(timestamp(11)), LinkStatus::Expired);
}

pub async fn the_same_options_give_the_same_link_and_others_do_not(store: LinkStoreHandle) {
    type Change = fn(&mut Link);
    let changes: [(&str, Change); 6] = [
        ("expiry", |link| link.expires_at = Some(timestamp(1000))),
        ("start", |link| link.valid_from = Some(timestamp(100))),
        ("limit", |link| link.max_clicks = Some(3)),
        ("query", |link| link.forward_query = true),
        ("title", |link| link.title = Title::parse("A title").unwrap()),
        ("archive", |link| link.archived_at = Some(link.created_at)),
    ];
    let create = async |change: Option<Change>| {
        let mut link = reusable(&store, "https://example.com/options").await;
        change.into_iter().for_each(|change| change(&mut link));
        link
    };
    let plain = create(None).await;
    put(&store, &plain).await;
    for (what, change) in changes {
        let first = create(Some(change)).await;
        assert_eq!(insert(&store, &first).await, Inserted::Created, "{what}");
        let again = create(Some(change)).await;
        assert_eq!(insert(&store, &again).await, Inserted::Existing(Box::new(first)), "{what}");
    }
    assert_eq!(insert(&store, &create(None).await).await, Inserted::Existing(Box::new(plain)));
}

pub async fn a_repeated_alias_gives_its_own_link_back(store: LinkStoreHandle) {
    let ask = async |link: &Link| {
        let reuse = Some(ReuseKey { wanted: link.clone(), lifetime: None });
        store.insert(Insert { reuse, ..Insert::new(link.clone(), None) }).await
    };
    let first = alias("spring", "https://example.com/spring");
    assert_eq!(ask(&first).await.unwrap(), Inserted::Created);
    assert_eq!(ask(&first).await.unwrap(), Inserted::Existing(Box::new(first.clone())));
    for other in [
        Link { owner: OwnerId(2), ..first.clone() },
        Link { target: alias("x23", "https://example.com/summer").target, ..first.clone() },
        Link { max_clicks: Some(1), ..first.clone() },
    ] {
        assert!(matches!(ask(&other).await, Err(StoreError::CodeTaken)), "{other:?}");
    }
    // A request for a generated code does not get it.
    put(&store, &reusable(&store, "https://example.com/spring").await).await;
}

pub async fn a_lifetime_is_the_same_while_most_of_it_is_left(store: LinkStoreHandle) {
    let create = async |at: i64| {
        let link = reusable(&store, "https://example.com/brief-life").await;
        let (created_at, expires_at) = (timestamp(at), Some(timestamp(at + 100_000)));
        let link = Link { created_at, updated_at: created_at, expires_at, ..link };
        let lifetime = Some(Duration::from_millis(100_000));
        let reuse = Some(ReuseKey { wanted: link.clone(), lifetime });
        store.insert(Insert { reuse, ..Insert::new(link, None) }).await.unwrap()
    };
    assert_eq!(create(0).await, Inserted::Created);
    assert!(matches!(create(5_000).await, Inserted::Existing(_)));
    assert_eq!(create(50_000).await, Inserted::Created);
    // A request that names its alias is the same request for as long as the link lives.
    let named = async |at: i64| {
        let (created_at, expires_at) = (timestamp(at), Some(timestamp(at + 100_000)));
        let link = alias("brief-life", "https://example.com/brief-life");
        let link = Link { created_at, updated_at: created_at, expires_at, ..link };
        let lifetime = Some(Duration::from_millis(100_000));
        let reuse = Some(ReuseKey { wanted: link.clone(), lifetime });
        store.insert(Insert { reuse, ..Insert::new(link, None) }).await.unwrap()
    };
    assert_eq!(named(0).await, Inserted::Created);
    assert!(matches!(named(50_000).await, Inserted::Existing(_)));
}
