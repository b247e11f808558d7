//! Changing accounts, and suspending them.

use std::sync::Arc;

use terse_core::registry::{
    AccountChange, AuditAction, ConditionalAccountChange, RegistryError, Role,
};
use terse_core::{OwnerId, Revision};

use super::{
    RegistryHandle, acts, add, add_as, add_key, by, change, is_signed_in, log, name, race, refused,
    reinstate, role, session, sign_in, suspend, token,
};

fn named(text: &str) -> AccountChange {
    AccountChange { name: Some(name(text)), ..AccountChange::default() }
}

fn password(text: &str) -> AccountChange {
    AccountChange { password: Some(Some(text.into())), ..AccountChange::default() }
}

pub async fn a_change_gives_back_what_is_now(store: RegistryHandle) {
    let ann = add(&store, "ann").await;
    assert_eq!(ann.revision, Revision(1));
    let now = change(
        &store,
        ann.id,
        AccountChange { role: Some(Role::Moderator), ..password("$argon2id$new") },
    )
    .await
    .unwrap();
    assert_eq!(
        (now.role, now.password.as_deref(), now.revision),
        (Role::Moderator, Some("$argon2id$new"), Revision(2))
    );
    assert_eq!((now.id, now.created_at, &now.name), (ann.id, ann.created_at, &ann.name));
    assert_eq!(store.account(ann.id).await.unwrap(), Some(now));
    assert_eq!(acts(&store).await, [AuditAction::UserAdded, AuditAction::UserChanged]);
    let suspended = change(&store, ann.id, suspend()).await.unwrap();
    assert_eq!(suspended.suspended.as_ref().unwrap().why, "spam");
    assert_eq!(store.account(ann.id).await.unwrap(), Some(suspended));
}

pub async fn a_change_waits_for_its_revision(store: RegistryHandle) {
    let ann = add(&store, "ann").await;
    let at = |revision| ConditionalAccountChange {
        id: ann.id,
        change: role(Role::Moderator),
        expected: Some(Revision(revision)),
    };
    refused!(store.change_account(at(2), by()).await, Conflict);
    refused!(store.change_account(at(0), by()).await, Conflict);
    assert_eq!(store.change_account(at(1), by()).await.unwrap().revision, Revision(2));
    refused!(store.change_account(at(1), by()).await, Conflict);
    assert_eq!(acts(&store).await.len(), 2);
}

pub async fn a_change_of_nobody_is_missing(store: RegistryHandle) {
    let ann = add(&store, "ann").await;
    for id in [OwnerId::ANONYMOUS, OwnerId::ADMIN, OwnerId(ann.id.0 + 1), OwnerId(u64::MAX)] {
        refused!(change(&store, id, suspend()).await, Missing);
        refused!(store.erase_account(id, by()).await, Missing);
    }
    assert_eq!(acts(&store).await, [AuditAction::UserAdded]);
}

pub async fn of_racing_changes_at_one_revision_one_is_made(store: RegistryHandle) {
    let ann = add(&store, "ann").await;
    let racing = (0..20).map(|n| {
        let (store, id) = (Arc::clone(&store), ann.id);
        let change = ConditionalAccountChange {
            id,
            change: named(&format!("ann{n}")),
            expected: Some(Revision(1)),
        };
        async move { store.change_account(change, by()).await.is_ok() }
    });
    assert_eq!(race(racing).await.into_iter().filter(|done| *done).count(), 1);
    assert_eq!(store.account(ann.id).await.unwrap().unwrap().revision, Revision(2));
    assert_eq!(acts(&store).await.len(), 2);
}

pub async fn a_name_may_change_but_not_to_anothers(store: RegistryHandle) {
    let ann = add(&store, "ann").await;
    add(&store, "Bob").await;
    refused!(change(&store, ann.id, named("BOB")).await, NameTaken);
    assert_eq!(
        change(&store, ann.id, named("ANN")).await.unwrap().name.as_str(),
        "ANN",
        "their own, written otherwise"
    );
    change(&store, ann.id, named("cid")).await.unwrap();
    assert!(store.account_by_name(&name("ann")).await.unwrap().is_none());
    assert_eq!(store.account_by_name(&name("cid")).await.unwrap().unwrap().id, ann.id);
    add(&store, "ann").await;
}

pub async fn what_is_so_already_leaves_no_trace(store: RegistryHandle) {
    let ann = add(&store, "ann").await;
    let same = AccountChange {
        role: Some(ann.role),
        password: Some(ann.password.clone()),
        ..named("ann")
    };
    let before = store.version().await.unwrap();
    for change_of_nothing in [AccountChange::default(), same, reinstate()] {
        assert_eq!(change(&store, ann.id, change_of_nothing).await.unwrap(), ann);
    }
    assert_eq!(acts(&store).await, [AuditAction::UserAdded]);
    assert_eq!(store.version().await.unwrap(), before);
}

pub async fn the_last_admin_stays(store: RegistryHandle) {
    let ann = add_as(&store, "ann", Role::Admin).await;
    let bob = add(&store, "bob").await;
    sign_in(&store, ann.id, 1).await;
    for loss in [role(Role::User), role(Role::Moderator), suspend()] {
        refused!(change(&store, ann.id, loss).await, LastAdmin);
    }
    refused!(store.erase_account(ann.id, by()).await, LastAdmin);
    assert_eq!(store.account(ann.id).await.unwrap(), Some(ann.clone()));
    assert!(is_signed_in(&store, 1).await);
    assert_eq!(acts(&store).await.len(), 2, "nothing happened");
    // A suspended admin does not count.
    change(&store, bob.id, role(Role::Admin)).await.unwrap();
    change(&store, bob.id, suspend()).await.unwrap();
    refused!(change(&store, ann.id, role(Role::User)).await, LastAdmin);
    change(&store, bob.id, reinstate()).await.unwrap();
    change(&store, ann.id, AccountChange { suspended: suspend().suspended, ..role(Role::User) })
        .await
        .unwrap();
    refused!(store.erase_account(bob.id, by()).await, LastAdmin);
    // Other changes of the last admin are allowed, and so is removing an account that is no admin.
    change(&store, bob.id, password("$argon2id$new")).await.unwrap();
    store.erase_account(ann.id, by()).await.unwrap();
}

pub async fn of_two_admins_who_demote_each_other_one_stays(store: RegistryHandle) {
    for round in 0..10 {
        let one = add_as(&store, &format!("one{round}"), Role::Admin).await.id;
        let two = add_as(&store, &format!("two{round}"), Role::Admin).await.id;
        for account in store.accounts(None, 100).await.unwrap() {
            if ![one, two].contains(&account.id) {
                change(&store, account.id, role(Role::User)).await.unwrap();
            }
        }
        let racing = [one, two].map(|id| {
            let store = Arc::clone(&store);
            async move {
                match round % 3 {
                    0 => change(&store, id, role(Role::User)).await.map(|_| ()),
                    1 => change(&store, id, suspend()).await.map(|_| ()),
                    _ => store.erase_account(id, by()).await,
                }
            }
        });
        let outcomes = race(racing).await;
        let refused = outcomes
            .iter()
            .filter(|outcome| matches!(outcome, Err(RegistryError::LastAdmin)))
            .count();
        assert_eq!(
            (refused, outcomes.iter().filter(|outcome| outcome.is_ok()).count()),
            (1, 1),
            "{outcomes:?}"
        );
        let accounts = store.accounts(None, 100).await.unwrap();
        assert_eq!(accounts.iter().filter(|account| account.is_active_admin()).count(), 1);
    }
}

/// Signs two owners in, changes one, and returns whether that one's sessions were ended.
async fn ends_sessions(store: &RegistryHandle, before: Role, what: AccountChange) -> bool {
    let (ann, bob) = (add_as(store, "ann", before).await.id, add(store, "bob").await.id);
    sign_in(store, ann, 1).await;
    sign_in(store, ann, 2).await;
    sign_in(store, bob, 3).await;
    change(store, ann, what).await.unwrap();
    assert!(is_signed_in(store, 3).await, "others stay");
    let left = (is_signed_in(store, 1).await, is_signed_in(store, 2).await);
    assert_eq!(left.0, left.1);
    !left.0
}

pub async fn a_new_password_ends_all_sessions(store: RegistryHandle) {
    assert!(ends_sessions(&store, Role::User, password("$argon2id$new")).await);
}

pub async fn a_lesser_role_ends_all_sessions(store: RegistryHandle) {
    assert!(ends_sessions(&store, Role::Moderator, role(Role::User)).await);
}

pub async fn a_suspension_ends_all_sessions_and_is_undone(store: RegistryHandle) {
    assert!(ends_sessions(&store, Role::User, suspend()).await);
    let ann = store.account_by_name(&name("ann")).await.unwrap().unwrap();
    assert_eq!(store.suspended().await.unwrap(), [ann.id]);
    let back = change(&store, ann.id, reinstate()).await.unwrap();
    assert_eq!((back.suspended, store.suspended().await.unwrap()), (None, vec![]));
    assert_eq!(acts(&store).await[2..], [AuditAction::UserSuspended, AuditAction::UserReinstated]);
    let line = &log(&store).await[1];
    assert!(
        line.after.as_ref().unwrap().contains("spam")
            && !line.before.as_ref().unwrap().contains("spam"),
        "{line:?}"
    );
}

pub async fn other_changes_leave_sessions_alone(store: RegistryHandle) {
    assert!(
        !ends_sessions(
            &store,
            Role::User,
            AccountChange { role: Some(Role::Moderator), ..named("cid") }
        )
        .await
    );
}

pub async fn a_suspension_reaches_keys_and_the_version(store: RegistryHandle) {
    let ann = add(&store, "ann").await;
    let key = add_key(&store, ann.id, 1).await;
    let before = store.version().await.unwrap();
    change(&store, ann.id, suspend()).await.unwrap();
    let during = store.version().await.unwrap();
    assert_ne!(during, before);
    let (found, owner) = store.key(&token(1)).await.unwrap().unwrap();
    assert!(
        found == key && owner.suspended.is_some(),
        "a lookup of the key shows the suspension at once"
    );
    refused!(store.add_session(session(ann.id, 2), owner.revision).await, Missing);
    change(&store, ann.id, reinstate()).await.unwrap();
    assert!(![before, during].contains(&store.version().await.unwrap()));
    assert_eq!(store.key(&token(1)).await.unwrap().unwrap().1.suspended, None);
}
