//! Several links in one call.

use std::sync::Arc;

use terse_core::{Insert, Inserted, Link, OwnerId, StoreError};

use super::{LinkStoreHandle, leased_code, put};
use crate::{alias, generated};

pub async fn many_are_inserted_as_one_after_the_other(store: LinkStoreHandle) {
    put(&store, &alias("taken", "https://example.com/taken")).await;
    let reusable = async |target: &str| Link {
        reusable: true,
        ..generated(&leased_code(&store).await, target)
    };
    let (first, again) =
        (reusable("https://example.com/a").await, reusable("https://example.com/a").await);
    let of_another =
        |code: &str| Link { owner: OwnerId(7), ..alias(code, "https://example.com/of-another") };
    let links = [
        alias("new-1", "https://example.com/1"),
        alias("taken", "https://example.com/2"),
        first.clone(),
        again.clone(),
        alias("new-2", "https://example.com/3"),
        // Only its case is different, and the first of them wins.
        of_another("NEW-2"),
        of_another("new-3"),
        alias("New-3", "https://example.com/4"),
    ];
    let inserts: Arc<[Insert]> = links.iter().map(|link| Insert::new(link.clone(), None)).collect();
    let outcomes = store.insert_many(inserts).await;
    let shown: Vec<&str> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Ok(Inserted::Created) => "created",
            Ok(Inserted::Existing(link)) if link.key == first.key => "first",
            Err(StoreError::CodeTaken) => "taken",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        shown,
        ["created", "taken", "created", "first", "created", "taken", "created", "taken"]
    );
    for (link, outcome) in links.iter().zip(&outcomes) {
        let stored = store.get(&link.key).await.unwrap();
        let created = matches!(outcome, Ok(Inserted::Created));
        assert_eq!(stored.as_ref() == Some(link), created, "{:?}: {stored:?}", link.key);
    }
    assert_eq!(store.get(&again.key).await.unwrap(), None);
    assert!(store.insert_many(Arc::new([])).await.is_empty());
}
