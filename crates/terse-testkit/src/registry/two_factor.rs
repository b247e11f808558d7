//! Two-factor sign-in of accounts.

use terse_core::registry::{
    AccountChange, AccountName, AuditAction, ConditionalAccountChange, RegistryError, TotpSeed,
    TwoFactor,
};

use super::{RegistryHandle, acts, add, by, change, is_signed_in, race, refused, sign_in, token};

fn state(last_step: u64, left: u16) -> TwoFactor {
    let recovery = (0..left).map(token).collect();
    TwoFactor { seed: TotpSeed([0x5a; 16]), last_step, recovery }
}

pub(super) fn set(two_factor: Option<TwoFactor>) -> AccountChange {
    AccountChange { two_factor: Some(two_factor), ..AccountChange::default() }
}

pub(super) fn on(last_step: u64, left: u16) -> AccountChange {
    set(Some(state(last_step, left)))
}

pub async fn two_factor_sign_in_is_kept_with_the_account(store: RegistryHandle) {
    let (ann, bob) = (add(&store, "ann").await.id, add(&store, "bob").await.id);
    sign_in(&store, ann, 1).await;
    for (n, wanted) in (2..).zip([
        Some(state(7, 10)),
        Some(state(8, 10)),
        Some(state(8, 9)),
        Some(state(9, 0)),
        None,
    ]) {
        let changed = change(&store, ann, set(wanted.clone())).await.unwrap();
        assert_eq!((&changed.two_factor, changed.revision.0), (&wanted, n));
        assert_eq!(store.account(ann).await.unwrap(), Some(changed.clone()));
        assert_eq!(
            store.session(&token(1), crate::timestamp(1)).await.unwrap().unwrap().1,
            changed
        );
    }
    // Other changes keep it.
    change(&store, ann, on(20, 3)).await.unwrap();
    let renamed = AccountChange { name: AccountName::parse("anna"), ..AccountChange::default() };
    let renamed = change(&store, ann, renamed).await.unwrap();
    assert_eq!(renamed.two_factor, Some(state(20, 3)));
    assert!(is_signed_in(&store, 1).await, "no session ends");
    assert_eq!(store.account(bob).await.unwrap().unwrap().two_factor, None);
    store.erase_account(ann, by()).await.unwrap();
}

pub async fn an_accepted_code_is_no_line_of_the_log(store: RegistryHandle) {
    let ann = add(&store, "ann").await.id;
    for what in [on(7, 10), on(8, 10), on(9, 10), on(9, 9), set(None), set(None)] {
        change(&store, ann, what).await.unwrap();
    }
    let want = [AuditAction::TwoFactorOn, AuditAction::RecoveryCodeUsed, AuditAction::TwoFactorOff];
    assert_eq!(acts(&store).await[1..], want);
}

pub async fn a_code_is_accepted_once_through_two_handles(
    one: RegistryHandle,
    other: RegistryHandle,
) {
    let ann = add(&one, "ann").await.id;
    let mut seen = change(&one, ann, on(0, 10)).await.unwrap().revision;
    for step in 1..=10 {
        let racing = [one.clone(), other.clone()];
        let accepted = race(racing.map(|store| async move {
            let change =
                ConditionalAccountChange { id: ann, change: on(step, 10), expected: Some(seen) };
            store.change_account(change, by()).await
        }))
        .await;
        assert_eq!(accepted.iter().filter(|accepted| accepted.is_ok()).count(), 1, "{step}");
        for accepted in accepted.into_iter().filter(Result::is_err) {
            refused!(accepted, Conflict);
        }
        seen = other.account(ann).await.unwrap().unwrap().revision;
    }
}
