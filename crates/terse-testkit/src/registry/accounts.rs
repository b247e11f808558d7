//! Accounts and their lookups.

use std::sync::Arc;

use terse_core::OwnerId;
use terse_core::registry::{
    AccountChange, FIRST_ACCOUNT, NewAccount, OidcIdentity, RegistryError, Role,
};

use super::{RegistryHandle, acts, add, by, change, name, new, race, refused};
use crate::timestamp;

fn identity(subject: &str) -> OidcIdentity {
    OidcIdentity { issuer: "https://id.example".into(), subject: subject.into() }
}

fn known_as(text: &str, subject: &str) -> NewAccount {
    NewAccount { identity: Some(identity(subject)), password: None, ..new(text) }
}

pub async fn an_account_is_found_by_all_its_names(store: RegistryHandle) {
    let wanted = NewAccount {
        role: Role::Moderator,
        created_at: timestamp(77),
        ..known_as("Ann.Example+1@example.com", "7")
    };
    let ann = store.add_account(wanted.clone(), by()).await.unwrap();
    assert_eq!(ann, wanted.into_account(ann.id));
    let bob = add(&store, "bob").await;
    assert_eq!(store.account(ann.id).await.unwrap(), Some(ann.clone()));
    let found = store.account_by_name(&name("ann.EXAMPLE+1@example.com")).await.unwrap().unwrap();
    assert_eq!(
        (found.name.as_str(), &found),
        ("Ann.Example+1@example.com", &ann),
        "written as it was given"
    );
    assert_eq!(store.account_by_identity(&identity("7")).await.unwrap(), Some(ann));
    assert_eq!(store.account_by_name(&name("bob")).await.unwrap(), Some(bob));
    assert_eq!(store.account_by_name(&name("bo_")).await.unwrap(), None);
    assert_eq!(store.account_by_identity(&identity("8")).await.unwrap(), None);
    let elsewhere = OidcIdentity { issuer: "https://other.example".into(), ..identity("7") };
    assert_eq!(store.account_by_identity(&elsewhere).await.unwrap(), None);
}

pub async fn ids_begin_where_accounts_begin(store: RegistryHandle) {
    let ann = add(&store, "ann").await;
    assert!(ann.id >= FIRST_ACCOUNT, "{:?}", ann.id);
    for id in [OwnerId::ANONYMOUS, OwnerId::ADMIN, OwnerId(u64::MAX), OwnerId(ann.id.0 + 1)] {
        assert_eq!(store.account(id).await.unwrap(), None);
    }
}

pub async fn names_that_differ_by_case_are_the_same(store: RegistryHandle) {
    add(&store, "Ann").await;
    for text in ["Ann", "ann", "aNN"] {
        refused!(store.add_account(new(text), by()).await, NameTaken);
    }
    add(&store, "Anna").await;
    assert_eq!(store.accounts(None, 10).await.unwrap().len(), 2);
    assert_eq!(acts(&store).await.len(), 2);
}

pub async fn an_identity_belongs_to_one_account(store: RegistryHandle) {
    store.add_account(known_as("ann", "7"), by()).await.unwrap();
    refused!(store.add_account(known_as("bob", "7"), by()).await, NameTaken);
    let bob = store.add_account(known_as("bob", "8"), by()).await.unwrap();
    let becomes = |identity| AccountChange { identity: Some(identity), ..AccountChange::default() };
    refused!(change(&store, bob.id, becomes(Some(identity("7")))).await, NameTaken);
    assert_eq!(change(&store, bob.id, becomes(None)).await.unwrap().identity, None);
    assert_eq!(store.account_by_identity(&identity("8")).await.unwrap(), None);
    // Any number of accounts have no identity.
    add(&store, "cid").await;
    add(&store, "dan").await;
}

pub async fn of_two_equal_names_one_is_taken(store: RegistryHandle) {
    for round in 0..5 {
        let racing = (0..20).map(|n| {
            let store = Arc::clone(&store);
            let text = if n % 2 == 0 { format!("ann{round}") } else { format!("ANN{round}") };
            async move { store.add_account(new(&text), by()).await }
        });
        let mut made = 0;
        for outcome in race(racing).await {
            match outcome {
                Ok(_) => made += 1,
                Err(error) => assert!(matches!(error, RegistryError::NameTaken), "{error:?}"),
            }
        }
        assert_eq!(made, 1);
    }
    assert_eq!(store.accounts(None, 100).await.unwrap().len(), 5);
    assert_eq!(acts(&store).await.len(), 5);
}

pub async fn accounts_are_walked_in_order(store: RegistryHandle) {
    let mut ids = Vec::new();
    for n in 0..7 {
        ids.push(add(&store, &format!("user{}", 9 - n)).await.id);
    }
    assert!(ids.is_sorted());
    let (mut walked, mut after) = (Vec::new(), None);
    loop {
        let some = store.accounts(after, 3).await.unwrap();
        assert!(some.len() <= 3);
        after = match some.last() {
            Some(account) => Some(account.id),
            None => break,
        };
        walked.extend(some.iter().map(|account| account.id));
    }
    assert_eq!(walked, ids);
    assert!(store.accounts(None, 0).await.unwrap().is_empty());
}
