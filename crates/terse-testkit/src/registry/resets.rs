//! Reset links of accounts.

use terse_core::registry::{
    Account, AccountChange, AuditAction, ConditionalAccountChange, PasswordReset, RegistryError,
    Role,
};

use super::{
    RegistryHandle, acts, add, add_as, by, change, is_signed_in, race, refused, role, sign_in,
    suspend, token,
};
use crate::timestamp;

fn offer(n: u16) -> AccountChange {
    let reset = PasswordReset { token: token(n), expires_at: timestamp(9) };
    AccountChange { reset: Some(Some(reset)), ..AccountChange::default() }
}

fn take(password: &str) -> AccountChange {
    let password = Some(Some(format!("$argon2id${password}")));
    AccountChange { password, reset: Some(None), ..AccountChange::default() }
}

async fn by_reset(store: &RegistryHandle, n: u16) -> Option<Account> {
    store.account_by_reset(&token(n)).await.unwrap()
}

pub async fn a_reset_link_is_found_until_it_is_used(store: RegistryHandle) {
    let (ann, bob) = (add(&store, "ann").await, add(&store, "bob").await);
    assert_eq!(by_reset(&store, 1).await, None);
    let offered = change(&store, ann.id, offer(1)).await.unwrap();
    assert_eq!(offered.reset.as_ref().unwrap().expires_at, timestamp(9));
    change(&store, bob.id, offer(2)).await.unwrap();
    sign_in(&store, ann.id, 3).await;
    sign_in(&store, bob.id, 4).await;
    assert_eq!(by_reset(&store, 1).await, Some(offered));
    let changed = change(&store, ann.id, take("new")).await.unwrap();
    assert_eq!((changed.password.as_deref(), &changed.reset), (Some("$argon2id$new"), &None));
    assert_eq!(by_reset(&store, 1).await, None);
    assert!(!is_signed_in(&store, 3).await && is_signed_in(&store, 4).await);
    assert_eq!(by_reset(&store, 2).await.map(|account| account.id), Some(bob.id));
    let made = AuditAction::ResetLinkMade;
    assert_eq!(acts(&store).await[2..], [made, made, AuditAction::ResetLinkUsed]);
}

pub async fn a_new_reset_link_replaces_the_earlier_one(store: RegistryHandle) {
    let ann = add(&store, "ann").await.id;
    for n in 1..=3 {
        change(&store, ann, offer(n)).await.unwrap();
    }
    assert!(by_reset(&store, 1).await.is_none() && by_reset(&store, 2).await.is_none());
    assert!(by_reset(&store, 3).await.is_some());
    store.erase_account(ann, by()).await.unwrap();
    assert!(by_reset(&store, 3).await.is_none());
}

pub async fn what_ends_sessions_ends_the_reset_link(store: RegistryHandle) {
    add_as(&store, "root", Role::Admin).await;
    let ann = add_as(&store, "ann", Role::Moderator).await.id;
    let password = Some(Some("$argon2id$other".to_owned()));
    let other = AccountChange { password, ..AccountChange::default() };
    for (n, what) in (1..).zip([other, role(Role::User), suspend()]) {
        change(&store, ann, offer(n)).await.unwrap();
        assert!(by_reset(&store, n).await.is_some());
        change(&store, ann, what).await.unwrap();
        assert!(by_reset(&store, n).await.is_none(), "{n}");
    }
}

pub async fn a_reset_link_is_used_once_through_two_handles(
    one: RegistryHandle,
    other: RegistryHandle,
) {
    let ann = add(&one, "ann").await.id;
    for n in 0..10_u16 {
        let seen = change(&one, ann, offer(n)).await.unwrap().revision;
        assert_eq!(by_reset(&other, n).await.map(|account| account.revision), Some(seen));
        let racing = [("one", one.clone()), ("other", other.clone())];
        let used = race(racing.map(|(who, store)| async move {
            let change = take(&format!("{who}{n}"));
            store
                .change_account(
                    ConditionalAccountChange { id: ann, change, expected: Some(seen) },
                    by(),
                )
                .await
        }))
        .await;
        assert_eq!(used.iter().filter(|used| used.is_ok()).count(), 1, "{n}");
        for used in used.into_iter().filter(Result::is_err) {
            refused!(used, Conflict);
        }
    }
}
