//! Promises about accounts and credentials that only two handles can break.

use terse_core::OwnerId;
use terse_core::registry::{Invitation, RegistryError, Role};

use super::{
    RegistryHandle, add, add_as, by, change, is_signed_in, name, new, race, refused, role, sign_in,
    timestamp, token,
};

pub async fn an_invitation_accepted_through_two_handles_makes_one_account(
    one: RegistryHandle,
    other: RegistryHandle,
) {
    for n in 0..10_u16 {
        let (token, expires_at) = (token(n), timestamp(9));
        let invitation = Invitation { token, role: Role::User, by: OwnerId::ADMIN, expires_at };
        one.invite(invitation, by()).await.unwrap();
        let racing = [("one", one.clone()), ("other", other.clone())];
        let made = race(racing.map(|(who, store)| async move {
            store.accept(&token, new(&format!("{who}{n}"))).await
        }))
        .await;
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1, "{n}");
        for made in made.into_iter().filter(Result::is_err) {
            refused!(made, Missing);
        }
    }
    assert_eq!(one.accounts(None, 100).await.unwrap().len(), 10);
}

pub async fn two_admins_deposed_through_two_handles_leave_one(
    one: RegistryHandle,
    other: RegistryHandle,
) {
    for n in 0..10 {
        let ann = add_as(&one, &format!("ann{n}"), Role::Admin).await.id;
        let bob = add_as(&one, &format!("bob{n}"), Role::Admin).await.id;
        if n > 0 {
            // Demotes the admin who was left over from the last round.
            for account in one.accounts(None, 1000).await.unwrap() {
                if account.is_active_admin() && ![ann, bob].contains(&account.id) {
                    change(&one, account.id, role(Role::User)).await.unwrap();
                }
            }
        }
        let racing = [(one.clone(), ann), (other.clone(), bob)];
        let deposed = race(
            racing.map(|(store, id)| async move { change(&store, id, role(Role::User)).await }),
        )
        .await;
        assert_eq!(deposed.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{n}");
        for outcome in deposed.into_iter().filter(Result::is_err) {
            refused!(outcome, LastAdmin);
        }
    }
}

pub async fn a_name_taken_through_two_handles_is_taken_once(
    one: RegistryHandle,
    other: RegistryHandle,
) {
    for n in 0..10 {
        let racing = [(one.clone(), "name"), (other.clone(), "NAME")];
        let made = race(racing.map(|(store, text)| async move {
            store.add_account(new(&format!("{text}{n}")), by()).await
        }))
        .await;
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1, "{n}");
        for made in made.into_iter().filter(Result::is_err) {
            refused!(made, NameTaken);
        }
        assert!(other.account_by_name(&name(&format!("name{n}"))).await.unwrap().is_some());
    }
}

pub async fn a_session_ended_through_one_handle_is_ended_for_the_other(
    one: RegistryHandle,
    other: RegistryHandle,
) {
    let ann = add(&one, "ann").await.id;
    for n in [1, 2] {
        sign_in(&one, ann, n).await;
        assert!(is_signed_in(&other, n).await);
    }
    one.end_session(&token(1)).await.unwrap();
    assert!(!is_signed_in(&other, 1).await && is_signed_in(&other, 2).await);
    other.end_sessions(ann, None).await.unwrap();
    assert!(!is_signed_in(&one, 2).await);
    // A sign-in that checked the password before the other node changed it.
    let seen = one.account(ann).await.unwrap().unwrap().revision;
    change(&other, ann, role(Role::Moderator)).await.unwrap();
    refused!(one.add_session(super::session(ann, 3), seen).await, Conflict);
}

pub async fn a_set_up_link_is_taken_once_through_two_handles(
    one: RegistryHandle,
    other: RegistryHandle,
) {
    assert!(one.offer_setup(token(1)).await.unwrap());
    assert!(other.awaits_setup_by(&token(1)).await.unwrap());
    let racing = [("one", one.clone()), ("other", other.clone())];
    let made =
        race(racing.map(|(who, store)| async move { store.take_setup(&token(1), new(who)).await }))
            .await;
    assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1);
    assert!(!other.awaits_setup().await.unwrap() && !one.offer_setup(token(2)).await.unwrap());
}
