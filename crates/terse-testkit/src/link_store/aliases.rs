//! Aliases that look alike.

use terse_core::{Domain, Insert, Inserted, Link, OwnerId, StoreError};

use super::{LinkStoreHandle, leased_code, put, put_in_vain};
use crate::{alias, generated, key};

pub async fn an_alias_may_not_look_like_anothers(store: LinkStoreHandle) {
    put(&store, &alias("Spring-Sale", "https://example.com/")).await;
    for code in ["spring-sale", "SPRING-SALE", "sPRING-sALE"] {
        put_in_vain(&store, &Link { owner: OwnerId(2), ..alias(code, "https://example.com/") })
            .await;
        assert_eq!(store.get(&key(code)).await.unwrap(), None);
    }
    // Anonymous creators share an owner, but are different clients.
    put(
        &store,
        &Link { owner: OwnerId::ANONYMOUS, ..alias("Autumn-Sale", "https://example.com/") },
    )
    .await;
    put_in_vain(
        &store,
        &Link { owner: OwnerId::ANONYMOUS, ..alias("autumn-sale", "https://example.com/") },
    )
    .await;
    // Another domain has no such alias, and generated codes do not count: they carry no name.
    let mut elsewhere = Link { owner: OwnerId(2), ..alias("spring-sale", "https://example.com/") };
    elsewhere.key.domain = Domain::from_stored("go.example");
    put(&store, &elsewhere).await;
    let code = leased_code(&store).await;
    put(&store, &generated(&code, "https://example.com/")).await;
    let flipped: String =
        code.chars()
            .map(|c| {
                if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
            })
            .collect();
    if flipped != code {
        put(&store, &Link { owner: OwnerId(2), ..alias(&flipped, "https://example.com/") }).await;
    }
}

pub async fn an_alias_may_look_like_ones_own(store: LinkStoreHandle) {
    let (one, two) =
        (alias("Sale", "https://example.com/1"), alias("sale", "https://example.com/2"));
    put(&store, &one).await;
    put(&store, &two).await;
    assert_eq!(store.get(&one.key).await.unwrap(), Some(one));
    assert_eq!(store.get(&two.key).await.unwrap(), Some(two));
    put_in_vain(&store, &Link { owner: OwnerId(2), ..alias("SALE", "https://example.com/") }).await;
}

pub async fn racing_aliases_that_look_alike_have_one_owner(store: LinkStoreHandle) {
    for round in 0..4 {
        let racers: Vec<_> = (0..64u64)
            .map(|racer| {
                let store = store.clone();
                let word =
                    if racer % 2 == 0 { format!("Look-{round}") } else { format!("look-{round}") };
                let link =
                    Link { owner: OwnerId(1 + racer % 2), ..alias(&word, "https://example.com/") };
                tokio::spawn(
                    async move { (link.owner, store.insert(Insert::new(link, None)).await) },
                )
            })
            .collect();
        let mut owners = Vec::new();
        for racer in racers {
            match racer.await.unwrap() {
                (owner, Ok(Inserted::Created)) => owners.push(owner),
                (_, Err(StoreError::CodeTaken)) => {}
                (_, other) => panic!("{other:?}"),
            }
        }
        assert_eq!(owners.len(), 1, "round {round}");
    }
}

pub async fn an_alias_without_look_alikes_is_found_in_any_case(store: LinkStoreHandle) {
    let link = alias("Spring-Sale", "https://example.com/");
    put(&store, &link).await;
    for code in ["spring-sale", "Spring-Sale", "SPRING-SALE"] {
        assert_eq!(store.get_folded(&key(code)).await.unwrap().as_ref(), Some(&link), "{code}");
    }
    assert_eq!(store.get_folded(&key("spring_sale")).await.unwrap(), None);
    let mut elsewhere = key("spring-sale");
    elsewhere.domain = Domain::from_stored("go.example");
    assert_eq!(store.get_folded(&elsewhere).await.unwrap(), None);
    // With two candidates, the lookup finds neither.
    put(&store, &alias("spring-sale", "https://example.com/2")).await;
    assert_eq!(store.get_folded(&key("SPRING-SALE")).await.unwrap(), None);
    // Generated codes are not aliases, wherever they are stored.
    let code = leased_code(&store).await;
    put(&store, &generated(&code, "https://example.com/")).await;
    put(&store, &generated("unLeased9", "https://example.com/")).await;
    for code in [&code[..], "unleased9"] {
        assert_eq!(store.get_folded(&key(code)).await.unwrap(), None, "{code}");
    }
}
