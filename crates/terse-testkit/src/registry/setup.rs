//! Setting up the first admin.

use std::sync::Arc;

use terse_core::OwnerId;
use terse_core::registry::{Actor, AuditAction, Invitation, RegistryError, Role};

use super::{RegistryHandle, acts, add, add_as, by, change, log, new, race, refused, role, token};
use crate::timestamp;

pub async fn the_set_up_link_makes_the_first_admin_once(store: RegistryHandle) {
    assert!(!store.awaits_setup().await.unwrap());
    assert!(store.offer_setup(token(1)).await.unwrap());
    assert!(store.awaits_setup().await.unwrap());
    assert!(
        store.awaits_setup_by(&token(1)).await.unwrap()
            && !store.awaits_setup_by(&token(2)).await.unwrap()
    );
    refused!(store.take_setup(&token(2), new("mallory")).await, Missing);
    let admin = store.take_setup(&token(1), new("ann")).await.unwrap();
    assert_eq!((admin.role, admin.name.as_str()), (Role::Admin, "ann"), "whatever was asked for");
    assert_eq!(store.account(admin.id).await.unwrap(), Some(admin.clone()));
    refused!(store.take_setup(&token(1), new("mallory")).await, Missing);
    assert!(
        !store.awaits_setup().await.unwrap() && !store.awaits_setup_by(&token(1)).await.unwrap()
    );
    assert!(!store.offer_setup(token(3)).await.unwrap());
    assert!(!store.awaits_setup().await.unwrap());
    refused!(store.take_setup(&token(3), new("mallory")).await, Missing);
    let lines = log(&store).await;
    assert_eq!(acts(&store).await, [AuditAction::UserAdded]);
    assert_eq!(
        (lines[0].actor, lines[0].at),
        (Actor::Owner(admin.id), timestamp(0)),
        "they added themselves"
    );
}

pub async fn of_two_who_take_the_set_up_link_one_becomes_admin(store: RegistryHandle) {
    store.offer_setup(token(1)).await.unwrap();
    let taking = (0..20).map(|n| {
        let store = Arc::clone(&store);
        async move { store.take_setup(&token(1), new(&format!("admin{n}"))).await }
    });
    let mut made = 0;
    for outcome in race(taking).await {
        match outcome {
            Ok(_) => made += 1,
            Err(error) => assert!(matches!(error, RegistryError::Missing), "{error:?}"),
        }
    }
    assert_eq!((made, store.accounts(None, 100).await.unwrap().len()), (1, 1));
    assert_eq!(acts(&store).await.len(), 1);
}

pub async fn a_new_set_up_link_replaces_the_earlier_one(store: RegistryHandle) {
    assert!(store.offer_setup(token(1)).await.unwrap());
    assert!(store.offer_setup(token(2)).await.unwrap());
    refused!(store.take_setup(&token(1), new("ann")).await, Missing);
    store.take_setup(&token(2), new("ann")).await.unwrap();
}

pub async fn a_set_up_link_survives_a_name_that_is_taken(store: RegistryHandle) {
    add(&store, "ann").await;
    assert!(store.offer_setup(token(1)).await.unwrap(), "there are users, but no admin");
    refused!(store.take_setup(&token(1), new("ANN")).await, NameTaken);
    assert!(store.awaits_setup().await.unwrap());
    store.take_setup(&token(1), new("bob")).await.unwrap();
}

pub async fn there_is_no_set_up_once_there_was_an_admin(store: RegistryHandle) {
    // However an account becomes the first admin, an open set-up link is void.
    store.offer_setup(token(1)).await.unwrap();
    let ann = add_as(&store, "ann", Role::Admin).await;
    assert!(!store.awaits_setup().await.unwrap());
    refused!(store.take_setup(&token(1), new("mallory")).await, Missing);
    add_as(&store, "bob", Role::Admin).await;
    store.erase_account(ann.id, by()).await.unwrap();
    assert!(!store.offer_setup(token(1)).await.unwrap());
}

pub async fn an_invited_admin_ends_the_set_up(store: RegistryHandle) {
    store.offer_setup(token(1)).await.unwrap();
    let ann = add(&store, "ann").await;
    change(&store, ann.id, role(Role::Moderator)).await.unwrap();
    let invitation = Invitation {
        token: token(2),
        role: Role::User,
        by: OwnerId::ADMIN,
        expires_at: timestamp(9),
    };
    store.invite(invitation.clone(), by()).await.unwrap();
    store.accept(&token(2), new("bob")).await.unwrap();
    assert!(store.awaits_setup().await.unwrap());
    store.invite(Invitation { role: Role::Admin, ..invitation }, by()).await.unwrap();
    store.accept(&token(2), new("cid")).await.unwrap();
    assert!(!store.awaits_setup().await.unwrap());
}

pub async fn a_user_raised_to_admin_ends_the_set_up(store: RegistryHandle) {
    store.offer_setup(token(1)).await.unwrap();
    let ann = add(&store, "ann").await;
    change(&store, ann.id, role(Role::Admin)).await.unwrap();
    assert!(!store.awaits_setup().await.unwrap());
    refused!(store.take_setup(&token(1), new("mallory")).await, Missing);
}
