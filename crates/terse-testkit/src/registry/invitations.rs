//! Invitations.

use std::sync::Arc;

use terse_core::OwnerId;
use terse_core::registry::{Actor, AuditAction, Invitation, NewAccount, RegistryError, Role};

use super::{
    RegistryHandle, acts, add, add_as, by, change, log, new, race, refused, reinstate, role,
    suspend, token,
};
use crate::timestamp;

fn invitation(n: u16, role: Role, by: OwnerId) -> Invitation {
    Invitation { token: token(n), role, by, expires_at: timestamp(100) }
}

pub async fn an_invitation_makes_one_account(store: RegistryHandle) {
    let ann = add_as(&store, "ann", Role::Admin).await.id;
    store.invite(invitation(1, Role::Moderator, ann), by()).await.unwrap();
    refused!(store.invite(invitation(1, Role::Admin, ann), by()).await, Conflict);
    let bob =
        store.accept(&token(1), NewAccount { role: Role::Admin, ..new("bob") }).await.unwrap();
    assert_eq!(bob.role, Role::Moderator, "whatever was asked for");
    assert_eq!(store.account(bob.id).await.unwrap(), Some(bob.clone()));
    refused!(store.accept(&token(1), new("cid")).await, Missing);
    assert_eq!(
        acts(&store).await,
        [AuditAction::UserAdded, AuditAction::Invited, AuditAction::UserAdded]
    );
    let line = &log(&store).await[0];
    assert_eq!(
        (line.actor, line.at),
        (Actor::Owner(bob.id), timestamp(0)),
        "they added themselves"
    );
    assert!(
        line.after.as_ref().unwrap().contains(&ann.0.to_string()),
        "and it is known who let them in"
    );
}

pub async fn of_two_who_accept_one_comes_in(store: RegistryHandle) {
    for round in 0..5 {
        store.invite(invitation(round, Role::User, OwnerId::ADMIN), by()).await.unwrap();
        let racing = (0..20).map(|n| {
            let store = Arc::clone(&store);
            async move { store.accept(&token(round), new(&format!("user{round}-{n}"))).await }
        });
        let mut made = 0;
        for outcome in race(racing).await {
            match outcome {
                Ok(_) => made += 1,
                Err(error) => assert!(matches!(error, RegistryError::Missing), "{error:?}"),
            }
        }
        assert_eq!(
            (made, store.accounts(None, 100).await.unwrap().len()),
            (1, usize::from(round) + 1)
        );
    }
}

pub async fn an_invitation_over_or_unknown_is_missing(store: RegistryHandle) {
    store.invite(invitation(1, Role::User, OwnerId::ADMIN), by()).await.unwrap();
    refused!(store.accept(&token(2), new("bob")).await, Missing);
    refused!(
        store.accept(&token(1), NewAccount { created_at: timestamp(100), ..new("bob") }).await,
        Missing
    );
    store.accept(&token(1), NewAccount { created_at: timestamp(99), ..new("bob") }).await.unwrap();
}

pub async fn an_invitation_survives_a_name_that_is_taken(store: RegistryHandle) {
    add(&store, "ann").await;
    store.invite(invitation(1, Role::User, OwnerId::ADMIN), by()).await.unwrap();
    refused!(store.accept(&token(1), new("Ann")).await, NameTaken);
    store.accept(&token(1), new("bob")).await.unwrap();
}

pub async fn an_invitation_is_worth_what_its_writer_is(store: RegistryHandle) {
    add_as(&store, "root", Role::Admin).await;
    let ann = add_as(&store, "ann", Role::Admin).await.id;
    store.invite(invitation(1, Role::Admin, ann), by()).await.unwrap();
    store.invite(invitation(2, Role::User, ann), by()).await.unwrap();
    change(&store, ann, suspend()).await.unwrap();
    for n in [1, 2] {
        refused!(store.accept(&token(n), new("bob")).await, Missing);
    }
    change(&store, ann, reinstate()).await.unwrap();
    change(&store, ann, role(Role::Moderator)).await.unwrap();
    refused!(store.accept(&token(1), new("bob")).await, Missing);
    store.accept(&token(2), new("bob")).await.unwrap();
    change(&store, ann, role(Role::Admin)).await.unwrap();
    assert_eq!(store.accept(&token(1), new("cid")).await.unwrap().role, Role::Admin);
}

pub async fn the_operator_and_nobody_else_invites_without_an_account(store: RegistryHandle) {
    for owner in [OwnerId::ANONYMOUS, OwnerId(1000), OwnerId(u64::MAX)] {
        refused!(store.invite(invitation(1, Role::User, owner), by()).await, Missing);
    }
    assert!(acts(&store).await.is_empty());
    store.invite(invitation(1, Role::Admin, OwnerId::ADMIN), by()).await.unwrap();
    assert_eq!(store.accept(&token(1), new("ann")).await.unwrap().role, Role::Admin);
}

pub async fn invitations_are_listed_until_they_are_over(store: RegistryHandle) {
    let ending = |n: u16, at| Invitation {
        expires_at: timestamp(at),
        ..invitation(n, Role::User, OwnerId::ADMIN)
    };
    for (n, at) in [(1, 30), (2, 10), (3, 20)] {
        store.invite(ending(n, at), by()).await.unwrap();
    }
    assert_eq!(store.invitations(timestamp(10), 10).await.unwrap(), [ending(3, 20), ending(1, 30)]);
    assert_eq!(store.invitations(timestamp(0), 2).await.unwrap(), [ending(2, 10), ending(3, 20)]);
    store.accept(&token(3), new("bob")).await.unwrap();
    assert_eq!(store.invitations(timestamp(10), 10).await.unwrap(), [ending(1, 30)]);
}

pub async fn a_revoked_invitation_opens_no_account(store: RegistryHandle) {
    for n in [1, 2] {
        store.invite(invitation(n, Role::User, OwnerId::ADMIN), by()).await.unwrap();
    }
    store.revoke_invitation(&token(1), by()).await.unwrap();
    refused!(store.revoke_invitation(&token(1), by()).await, Missing);
    refused!(store.accept(&token(1), new("bob")).await, Missing);
    assert_eq!(
        acts(&store).await,
        [AuditAction::Invited, AuditAction::Invited, AuditAction::InvitationRevoked]
    );
    let line = &log(&store).await[0];
    assert!(line.before.as_ref().unwrap().contains("user") && line.after.is_none(), "{line:?}");
    store.accept(&token(2), new("bob")).await.unwrap();
    refused!(store.revoke_invitation(&token(2), by()).await, Missing);
}
