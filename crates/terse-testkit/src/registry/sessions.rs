//! Browser sessions.

use terse_core::registry::{AccountChange, MAX_SESSIONS_PER_OWNER, RegistryError, Role, Session};
use terse_core::{OwnerId, Revision};

use super::{
    RegistryHandle, add, change, is_signed_in, refused, role, session, sign_in, suspend, token,
};
use crate::timestamp;

pub async fn a_session_is_found_until_it_ends(store: RegistryHandle) {
    let ann = add(&store, "ann").await;
    let wanted = Session {
        token: token(1),
        owner: ann.id,
        created_at: timestamp(3),
        expires_at: timestamp(50),
        browser: Some("Firefox on Windows".to_owned()),
    };
    store.add_session(wanted.clone(), ann.revision).await.unwrap();
    assert_eq!(store.session(&token(1), timestamp(49)).await.unwrap(), Some((wanted, ann)));
    assert_eq!(store.session(&token(1), timestamp(50)).await.unwrap(), None);
    assert_eq!(store.session(&token(2), timestamp(0)).await.unwrap(), None);
}

pub async fn ending_sessions_is_fine_again_and_again(store: RegistryHandle) {
    let ann = add(&store, "ann").await.id;
    sign_in(&store, ann, 1).await;
    sign_in(&store, ann, 2).await;
    for _ in 0..3 {
        store.end_session(&token(1)).await.unwrap();
    }
    assert!(!is_signed_in(&store, 1).await && is_signed_in(&store, 2).await);
    sign_in(&store, ann, 1).await;
    assert!(is_signed_in(&store, 1).await);
}

pub async fn all_sessions_but_one_can_be_ended(store: RegistryHandle) {
    let (ann, bob) = (add(&store, "ann").await.id, add(&store, "bob").await.id);
    for n in 1..=3 {
        sign_in(&store, ann, n).await;
    }
    sign_in(&store, bob, 9).await;
    store.end_sessions(ann, Some(&token(2))).await.unwrap();
    assert!(
        !is_signed_in(&store, 1).await
            && is_signed_in(&store, 2).await
            && !is_signed_in(&store, 3).await
    );
    // Another owner's token keeps none of Ann's sessions.
    store.end_sessions(ann, Some(&token(9))).await.unwrap();
    assert!(!is_signed_in(&store, 2).await && is_signed_in(&store, 9).await);
    store.end_sessions(bob, None).await.unwrap();
    store.end_sessions(OwnerId(u64::MAX), None).await.unwrap();
    assert!(!is_signed_in(&store, 9).await);
}

pub async fn sessions_are_listed_until_they_end(store: RegistryHandle) {
    let (ann, bob) = (add(&store, "ann").await.id, add(&store, "bob").await.id);
    for n in [3, 1, 2] {
        sign_in(&store, ann, n).await;
    }
    sign_in(&store, bob, 9).await;
    let seen = store.account(ann).await.unwrap().unwrap().revision;
    store
        .add_session(Session { expires_at: timestamp(50), ..session(ann, 4) }, seen)
        .await
        .unwrap();
    let want = |numbers: &[u16]| numbers.iter().map(|n| session(ann, *n)).collect::<Vec<_>>();
    assert_eq!(store.sessions(ann, timestamp(50)).await.unwrap(), want(&[1, 2, 3]));
    assert_eq!(store.sessions(ann, timestamp(49)).await.unwrap().len(), 4);
    store.end_session(&token(2)).await.unwrap();
    assert_eq!(store.sessions(ann, timestamp(50)).await.unwrap(), want(&[1, 3]));
    assert_eq!(store.sessions(OwnerId(u64::MAX), timestamp(0)).await.unwrap(), []);
}

pub async fn the_oldest_of_too_many_sessions_makes_room(store: RegistryHandle) {
    let (ann, bob) = (add(&store, "ann").await.id, add(&store, "bob").await.id);
    let each = MAX_SESSIONS_PER_OWNER as u16;
    sign_in(&store, bob, 0).await;
    // The oldest session is the one that began first, in whatever order they are written.
    for n in (1..=each).rev() {
        sign_in(&store, ann, n).await;
    }
    assert!(is_signed_in(&store, 1).await);
    for more in 1..=3 {
        sign_in(&store, ann, each + more).await;
        assert!(
            !is_signed_in(&store, more).await && is_signed_in(&store, more + 1).await,
            "{more}"
        );
        assert!(is_signed_in(&store, each + more).await);
    }
    assert!(is_signed_in(&store, 0).await, "another's, and older");
}

pub async fn a_sign_in_does_not_outlive_a_change(store: RegistryHandle) {
    let ann = add(&store, "ann").await;
    let new_password =
        AccountChange { password: Some(Some("$argon2id$new".into())), ..AccountChange::default() };
    change(&store, ann.id, new_password).await.unwrap();
    // The old password was checked before the change, and the check took a while.
    refused!(store.add_session(session(ann.id, 1), ann.revision).await, Conflict);
    assert!(!is_signed_in(&store, 1).await);
    sign_in(&store, ann.id, 1).await;
    let now = store.account(ann.id).await.unwrap().unwrap().revision;
    refused!(store.add_session(session(ann.id, 1), now).await, Conflict);
    let bob = add(&store, "bob").await;
    refused!(store.add_session(session(bob.id, 1), bob.revision).await, Conflict);
    assert_eq!(store.session(&token(1), timestamp(1)).await.unwrap().unwrap().1.id, ann.id);
    change(&store, bob.id, role(Role::Moderator)).await.unwrap();
    refused!(store.add_session(session(bob.id, 2), bob.revision).await, Conflict);
}

pub async fn nobody_and_the_suspended_cannot_sign_in(store: RegistryHandle) {
    for owner in [OwnerId::ANONYMOUS, OwnerId::ADMIN, OwnerId(u64::MAX)] {
        refused!(store.add_session(session(owner, 1), Revision(1)).await, Missing);
    }
    let ann = add(&store, "ann").await.id;
    let suspended = change(&store, ann, suspend()).await.unwrap();
    refused!(store.add_session(session(ann, 1), suspended.revision).await, Missing);
    assert!(!is_signed_in(&store, 1).await);
}
