//! Erased accounts.

use terse_core::OwnerId;
use terse_core::registry::{
    AccountChange, AuditAction, AuditEntry, AuditQuery, Invitation, NewAccount, NewKey, NewReport,
    OidcIdentity, RegistryError, ReportState, Role, subject,
};

use super::reports::report;
use super::{
    RegistryHandle, acts, add, add_key, by, change, is_signed_in, log, name, new, new_key, refused,
    sign_in, suspend, token,
};
use crate::timestamp;

pub async fn an_erased_account_leaves_nothing_but_its_id(store: RegistryHandle) {
    let identity = OidcIdentity { issuer: "https://id.example".into(), subject: "7".into() };
    let ann = store
        .add_account(NewAccount { identity: Some(identity.clone()), ..new("ann") }, by())
        .await
        .unwrap();
    let bob = add(&store, "bob").await;
    add_key(&store, ann.id, 1).await;
    add_key(&store, bob.id, 2).await;
    sign_in(&store, ann.id, 3).await;
    sign_in(&store, bob.id, 4).await;
    for (n, by_whom) in [(5, ann.id), (6, bob.id)] {
        let invitation =
            Invitation { token: token(n), role: Role::User, by: by_whom, expires_at: timestamp(9) };
        store.invite(invitation, by()).await.unwrap();
    }
    for (n, account) in [(1, Some(ann.id)), (2, Some(bob.id)), (3, None)] {
        store
            .report(NewReport { account, text: Some("I am Ann".into()), ..report("abc", n) })
            .await
            .unwrap();
    }
    let before = store.version().await.unwrap();
    store.erase_account(ann.id, by()).await.unwrap();
    // The report stays; the reporter and the text are erased.
    let reports = store.reports(ReportState::Open, None, 10).await.unwrap();
    let reports: Vec<_> =
        reports.iter().map(|report| (report.account, report.text.is_some())).collect();
    assert_eq!(reports, [(None, false), (Some(bob.id), true), (None, true)]);
    assert_eq!(store.account(ann.id).await.unwrap(), None);
    assert_eq!(store.account_by_name(&name("ann")).await.unwrap(), None);
    assert_eq!(store.account_by_identity(&identity).await.unwrap(), None);
    assert_eq!(store.key(&token(1)).await.unwrap(), None);
    assert!(store.keys(ann.id).await.unwrap().is_empty() && !is_signed_in(&store, 3).await);
    refused!(store.accept(&token(5), new("cid")).await, Missing);
    let same =
        Invitation { token: token(5), role: Role::User, by: bob.id, expires_at: timestamp(9) };
    store.invite(same, by()).await.unwrap();
    refused!(store.erase_account(ann.id, by()).await, Missing);
    assert_eq!(store.version().await.unwrap(), before, "redirects are not affected");
    // Data of other accounts is unchanged.
    assert!(store.key(&token(2)).await.unwrap().is_some() && is_signed_in(&store, 4).await);
    store.accept(&token(6), new("cid")).await.unwrap();
    assert!(acts(&store).await.contains(&AuditAction::UserErased));
}

pub async fn an_erased_name_is_free_and_its_id_is_not(store: RegistryHandle) {
    let mut ids = Vec::new();
    for _ in 0..5 {
        let ann = add(&store, "ann").await;
        let key = add_key(&store, ann.id, 1).await;
        assert!(
            !ids.contains(&(ann.id, key.id))
                && ids.iter().all(|(id, of)| *id < ann.id && *of < key.id),
            "{ids:?}"
        );
        ids.push((ann.id, key.id));
        store.erase_account(ann.id, by()).await.unwrap();
    }
    assert_eq!(acts(&store).await.iter().filter(|act| **act == AuditAction::UserErased).count(), 5);
}

pub async fn an_erased_name_is_taken_out_of_the_log(store: RegistryHandle) {
    let identity =
        OidcIdentity { issuer: "https://id.example".into(), subject: "ann-elsewhere".into() };
    let ann = store
        .add_account(NewAccount { identity: Some(identity), ..new("Ann.Before") }, by())
        .await
        .unwrap();
    let bob = add(&store, "bob").await;
    change(
        &store,
        ann.id,
        AccountChange { name: Some(name("Ann.Now")), ..AccountChange::default() },
    )
    .await
    .unwrap();
    store
        .add_key(NewKey { name: "Ann's laptop".into(), ..new_key(ann.id, 1) }, by())
        .await
        .unwrap();
    let mut why = by();
    why.why = Some("ann.now and ANN.BEFORE are one".into());
    store
        .record(AuditAction::UserChanged, &subject::account(ann.id), (None, None), why)
        .await
        .unwrap();
    change(&store, ann.id, suspend()).await.unwrap();
    let before = log(&store).await;
    assert!(format!("{before:?}").contains("Ann"), "to begin with, it is there");
    store.erase_account(ann.id, by()).await.unwrap();
    let after = log(&store).await;
    let text = format!("{after:?}").to_ascii_lowercase();
    assert!(!text.contains("ann"), "{text}");
    assert!(text.contains("bob"), "others keep theirs");
    // The audit entries stay, in their order.
    let shape =
        |line: &AuditEntry| (line.number, line.act, line.at, line.actor, line.subject.clone());
    assert_eq!(
        after[1..].iter().map(shape).collect::<Vec<_>>(),
        before.iter().map(shape).collect::<Vec<_>>()
    );
    let about =
        AuditQuery { subject: Some(subject::account(ann.id)), limit: 100, ..AuditQuery::default() };
    assert_eq!(store.audit(&about).await.unwrap().len(), 5);
    assert_eq!(store.account(bob.id).await.unwrap(), Some(bob));
}

pub async fn erasing_a_suspended_account_changes_the_version(store: RegistryHandle) {
    let ann = add(&store, "ann").await;
    change(&store, ann.id, suspend()).await.unwrap();
    let before = store.version().await.unwrap();
    store.erase_account(ann.id, by()).await.unwrap();
    assert_ne!(store.version().await.unwrap(), before);
    assert_eq!(store.suspended().await.unwrap(), Vec::<OwnerId>::new());
}
