//! Idempotent writes.

use terse_core::{IdempotencyKey, Insert, Inserted, Link, Revision, StoreError};

use super::{LinkStoreHandle, leased_code, put};
use crate::{alias, generated, timestamp};

fn request(id: u8, fingerprint: u8) -> Option<IdempotencyKey> {
    Some(IdempotencyKey { id: [id; 32], fingerprint: [fingerprint; 32] })
}

async fn insert(store: &LinkStoreHandle, link: &Link, request: Option<IdempotencyKey>) -> Inserted {
    store.insert(Insert::new(link.clone(), request)).await.unwrap()
}

pub async fn a_repeated_request_gets_the_first_answer(store: LinkStoreHandle) {
    let first = generated(&leased_code(&store).await, "https://example.com/");
    assert_eq!(insert(&store, &first, request(1, 1)).await, Inserted::Created);
    let again = generated(&leased_code(&store).await, "https://example.com/");
    for repeated in [&again, &first] {
        assert_eq!(
            insert(&store, repeated, request(1, 1)).await,
            Inserted::Replayed { link: Some(Box::new(first.clone())), created: true }
        );
    }
    assert_eq!(store.get(&again.key).await.unwrap(), None);
    let asked = request(1, 1).unwrap();
    let replayed = Inserted::Replayed { link: Some(Box::new(first.clone())), created: true };
    assert_eq!(store.answered(&asked).await.unwrap(), Some(replayed));
    assert_eq!(store.answered(&request(9, 1).unwrap()).await.unwrap(), None);
    // The replay returns the link as it is now.
    let changed = Link {
        target: alias("x23", "https://example.com/new").target,
        revision: Revision(2),
        ..first
    };
    store.update(&changed, Revision(1), &[]).await.unwrap();
    assert_eq!(
        insert(&store, &again, request(1, 1)).await,
        Inserted::Replayed { link: Some(Box::new(changed)), created: true }
    );
    // Another request creates another link.
    assert_eq!(insert(&store, &again, request(2, 1)).await, Inserted::Created);
}

pub async fn a_request_id_used_for_something_else_is_a_mismatch(store: LinkStoreHandle) {
    assert_eq!(
        insert(&store, &alias("first", "https://example.com/1"), request(1, 1)).await,
        Inserted::Created
    );
    let other = alias("second", "https://example.com/2");
    assert_eq!(insert(&store, &other, request(1, 2)).await, Inserted::RequestMismatch);
    let answered = store.answered(&request(1, 2).unwrap()).await.unwrap();
    assert_eq!(answered, Some(Inserted::RequestMismatch));
    assert_eq!(store.get(&other.key).await.unwrap(), None);
}

pub async fn a_request_whose_link_is_gone_is_answered_with_nothing(store: LinkStoreHandle) {
    let numbered = generated(&leased_code(&store).await, "https://example.com/");
    for (id, link) in [(1, alias("brief", "https://example.com/1")), (2, numbered.clone())] {
        let brief = Link { expires_at: Some(timestamp(10)), ..link };
        assert_eq!(insert(&store, &brief, request(id, 1)).await, Inserted::Created);
        store.mark_expired(timestamp(20), 10, &[]).await.unwrap();
        assert_eq!(store.purge(timestamp(20).into(), 10, None).await.unwrap(), [brief.key.clone()]);
        let gone = Inserted::Replayed { link: None, created: true };
        assert_eq!(insert(&store, &brief, request(id, 1)).await, gone);
    }
    // The codes now belong to other links, which the replay must not reveal.
    for (id, link) in [(1, alias("brief", "https://example.com/other")), (2, numbered)] {
        let later = Link { created_at: timestamp(30), updated_at: timestamp(30), ..link };
        put(&store, &later).await;
        let gone = Inserted::Replayed { link: None, created: true };
        assert_eq!(insert(&store, &later, request(id, 1)).await, gone);
    }
}

pub async fn racing_equal_requests_make_one_link(store: LinkStoreHandle) {
    for round in 0..4u8 {
        let mut racers = Vec::new();
        for _ in 0..50 {
            let link = generated(&leased_code(&store).await, "https://example.com/");
            let store = store.clone();
            racers.push(tokio::spawn(async move {
                match insert(&store, &link, request(round, 9)).await {
                    Inserted::Created => (link.key, true),
                    Inserted::Replayed { link: Some(link), created: true } => (link.key, false),
                    other => panic!("{other:?}"),
                }
            }));
        }
        let mut answers = Vec::new();
        for racer in racers {
            answers.push(racer.await.unwrap());
        }
        assert_eq!(answers.iter().filter(|(_, new)| *new).count(), 1);
        assert!(answers.iter().all(|(key, _)| *key == answers[0].0));
    }
}

pub async fn a_request_answered_with_an_existing_link_is_remembered(store: LinkStoreHandle) {
    let create = async |at| {
        let link = generated(&leased_code(&store).await, "https://example.com/");
        Link { reusable: true, created_at: timestamp(at), updated_at: timestamp(at), ..link }
    };
    let first = create(0).await;
    put(&store, &first).await;
    let existing = Inserted::Existing(Box::new(first.clone()));
    // In the same millisecond too, a replay says that the request did not create the link.
    assert_eq!(insert(&store, &create(0).await, request(2, 1)).await, existing);
    let replayed = Inserted::Replayed { link: Some(Box::new(first.clone())), created: false };
    assert_eq!(insert(&store, &create(0).await, request(2, 1)).await, replayed);
    assert_eq!(store.forget_requests(timestamp(2), 10).await.unwrap(), 1);
    assert_eq!(insert(&store, &create(100).await, request(1, 1)).await, existing);
    assert_eq!(insert(&store, &create(100).await, request(1, 2)).await, Inserted::RequestMismatch);
    // Its age counts from the request, not from the link.
    assert_eq!(store.forget_requests(timestamp(100), 10).await.unwrap(), 0);
    let deleted =
        Link { deleted_at: Some(timestamp(101)), reusable: false, revision: Revision(2), ..first };
    store.update(&deleted, Revision(1), &[]).await.unwrap();
    let again = create(102).await;
    assert_eq!(
        insert(&store, &again, request(1, 1)).await,
        Inserted::Replayed { link: Some(Box::new(deleted)), created: false }
    );
    assert_eq!(store.get(&again.key).await.unwrap(), None, "there is no second link");
    assert_eq!(store.forget_requests(timestamp(101), 10).await.unwrap(), 1);
}

pub async fn a_refused_insert_leaves_no_request_behind(store: LinkStoreHandle) {
    put(&store, &alias("taken", "https://example.com/")).await;
    let refused =
        store.insert(Insert::new(alias("taken", "https://example.com/2"), request(1, 1))).await;
    assert!(matches!(refused, Err(StoreError::CodeTaken)));
    assert_eq!(
        insert(&store, &alias("free", "https://example.com/2"), request(1, 1)).await,
        Inserted::Created
    );
}

pub async fn old_requests_are_forgotten(store: LinkStoreHandle) {
    for id in 0..5u8 {
        let at = timestamp(i64::from(id));
        let link = Link {
            created_at: at,
            updated_at: at,
            ..alias(&format!("req-{id}"), "https://example.com/")
        };
        assert_eq!(insert(&store, &link, request(id, 1)).await, Inserted::Created);
    }
    assert_eq!(
        store.forget_requests(timestamp(0), 10).await.unwrap(),
        0,
        "nothing is older than the first"
    );
    assert_eq!(store.forget_requests(timestamp(3), 2).await.unwrap(), 2);
    assert_eq!(store.forget_requests(timestamp(3), 2).await.unwrap(), 1);
    assert_eq!(store.forget_requests(timestamp(3), 2).await.unwrap(), 0);
    // The store has forgotten 0, 1 and 2, and still knows 3 and 4.
    for id in 0..5u8 {
        let link = alias(&format!("new-{id}"), "https://example.com/");
        let outcome = insert(&store, &link, request(id, 1)).await;
        let known = matches!(outcome, Inserted::Replayed { link: Some(_), .. });
        assert_eq!(known, id >= 3, "{id}: {outcome:?}");
    }
}
