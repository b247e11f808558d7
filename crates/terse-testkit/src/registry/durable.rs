//! Data of every kind, to test whether it survives a restart.

use std::fmt::Write as _;
use std::time::Duration;

use terse_core::OwnerId;
use terse_core::registry::{
    AccountChange, AlarmKind, AlarmState, AuditAction, Invitation, KeyUsage, NewAccount, NewKey,
    NodeId, OidcIdentity, PasswordReset, RemovalAlarm, ReportState, Role, Scope, TwoFactor,
    WebhookChange,
};

use super::domains::{blocked, branding, domain_config};
use super::reports::report;
use super::two_factor::{on, set};
use super::webhooks::{due, event, hook, record};
use super::{
    RegistryHandle, add, add_as, add_key, by, change, log, name, new, new_key, reinstate, sign_in,
    suspend, token,
};
use crate::{key, timestamp};

/// Performs every kind of write, and leaves data of every kind behind.
pub async fn fill(store: &RegistryHandle) {
    store.offer_setup(token(900)).await.unwrap();
    let (node, ttl) = (NodeId::parse("a").unwrap(), Duration::from_secs(60));
    let lease = store.acquire_lease("filling", &node, ttl).await.unwrap().unwrap();
    let (kind, state) = (AlarmKind::Clock, AlarmState::Waiting);
    let alarm = RemovalAlarm { round: 1, kind, why: "a jump".into(), state };
    store.put_removal_alarm(lease.token, alarm).await.unwrap();
    store.confirm_removal(1, by()).await.unwrap();
    let root = store.take_setup(&token(900), new("root")).await.unwrap();
    let identity = OidcIdentity { issuer: "https://id.example".into(), subject: "7".into() };
    let ann = store
        .add_account(NewAccount { identity: Some(identity), password: None, ..new("Ann") }, by())
        .await
        .unwrap();
    let bob = add_as(store, "bob", Role::Moderator).await;
    let gone = add(store, "gone").await;
    let renamed = AccountChange {
        name: Some(name("bobby")),
        password: Some(Some(super::HASH.into())),
        plan: Some(Some("500/h".into())),
        ..AccountChange::default()
    };
    change(store, bob.id, renamed).await.unwrap();
    let reset = |n| Some(PasswordReset { token: token(n), expires_at: timestamp(9) });
    let offer = |n| AccountChange { reset: Some(reset(n)), ..AccountChange::default() };
    change(store, bob.id, offer(801)).await.unwrap();
    let password = Some(Some("$argon2id$reset".to_owned()));
    let used = AccountChange { password, reset: Some(None), ..AccountChange::default() };
    change(store, bob.id, used).await.unwrap();
    change(store, ann.id, offer(802)).await.unwrap();
    for what in [on(5, 10), on(6, 9), set(None), on(7, 2)] {
        change(store, ann.id, what).await.unwrap();
    }
    for what in [suspend(), reinstate(), suspend()] {
        change(store, bob.id, what).await.unwrap();
    }
    let key_id = add_key(store, ann.id, 1).await.id;
    let limited = NewKey {
        scope: Scope::Create,
        plan: Some("5/m".into()),
        expires_at: Some(timestamp(9)),
        ..new_key(ann.id, 2)
    };
    store.add_key(limited, by()).await.unwrap();
    add_key(store, bob.id, 3).await;
    let revoked = add_key(store, root.id, 4).await.id;
    store.revoke_key(root.id, revoked, by()).await.unwrap();
    let used = KeyUsage { key: key_id, last_at: timestamp(60_000), requests: 7 };
    store.add_key_usage(&[used]).await.unwrap();
    sign_in(store, ann.id, 1).await;
    sign_in(store, root.id, 2).await;
    for n in [1, 2, 3] {
        let invitation = Invitation {
            token: token(n),
            role: Role::User,
            by: OwnerId::ADMIN,
            expires_at: timestamp(9),
        };
        store.invite(invitation, by()).await.unwrap();
    }
    store.accept(&token(1), new("guest")).await.unwrap();
    store.revoke_invitation(&token(3), by()).await.unwrap();
    store.erase_account(gone.id, by()).await.unwrap();
    for host in ["a.example", "b.example"] {
        store.put_domain(domain_config(host), by()).await.unwrap();
        store.block_host(blocked(host), by()).await.unwrap();
    }
    store.remove_domain(&domain_config("b.example").domain, by()).await.unwrap();
    store.put_branding(branding(), by()).await.unwrap();
    store.unblock_host("b.example", by()).await.unwrap();
    for reporter in 1..=3 {
        store.report(report("abc", reporter)).await.unwrap();
        store.report(report("def", reporter)).await.unwrap();
    }
    let (kept, other) = (hook(store, ann.id).await, hook(store, ann.id).await);
    store.enqueue(event(ann.id, 1)).await.unwrap();
    for (due, status) in due(store, 10).await.iter().zip([200, 410]) {
        record(store, due, status, 10).await;
    }
    let rotate = WebhookChange { rotate: Some(timestamp(5)), ..WebhookChange::default() };
    store.change_webhook(ann.id, kept.id, rotate, by()).await.unwrap();
    store.enqueue(event(ann.id, 2)).await.unwrap();
    record(store, &due(store, 20).await[0], 500, 20).await;
    let removed = hook(store, ann.id).await;
    store.remove_webhook(ann.id, removed.id, by()).await.unwrap();
    assert!(other.id > kept.id);
    store
        .settle_reports(None, &key("def"), timestamp(-5), ReportState::Confirmed, by())
        .await
        .unwrap();
    for act in [AuditAction::LinkModerated, AuditAction::LinkScreened] {
        store.record(act, "link:/def", (None, Some("{}".into())), by()).await.unwrap();
    }
}

/// Everything that can be read, as text, with the tokens that [`fill`] used.
pub async fn everything(store: &RegistryHandle) -> String {
    let mut text = String::new();
    let mut tell = |what: &dyn std::fmt::Debug| writeln!(text, "{what:?}").unwrap();
    tell(&(
        store.version().await.unwrap(),
        store.awaits_setup().await.unwrap(),
        store.suspended().await.unwrap(),
    ));
    for account in store.accounts(None, 1000).await.unwrap() {
        // The debug form of an account hides most of its fields.
        tell(&(
            &account.id,
            account.name.as_str(),
            account.role,
            account.created_at,
            &account.password,
            &account.identity,
        ));
        tell(&(&account.reset, &account.plan, &account.two_factor));
        let recovery = account.two_factor.as_ref().map(TwoFactor::stored_recovery);
        tell(&(account.two_factor.as_ref().map(|state| state.seed.to_text()), recovery));
        tell(&(&account.suspended, account.revision, store.keys(account.id).await.unwrap()));
        tell(&store.sessions(account.id, timestamp(1)).await.unwrap());
        assert_eq!(store.account_by_name(&account.name).await.unwrap(), Some(account));
    }
    for owner in store.owners_with_webhooks().await.unwrap() {
        for webhook in store.webhooks(owner).await.unwrap() {
            tell(&(store.deliveries(owner, webhook.id, 1000).await.unwrap(), webhook));
        }
    }
    for n in 0..10 {
        tell(&(
            n,
            store.key(&token(n)).await.unwrap(),
            store.session(&token(n), timestamp(1)).await.unwrap(),
        ));
    }
    tell(&store.invitations(timestamp(1), 100).await.unwrap());
    tell(&(store.domain_configs().await.unwrap(), store.blocked_hosts().await.unwrap()));
    tell(&store.branding().await.unwrap().to_stored());
    for state in ReportState::ALL {
        tell(&store.reports(state, None, 1000).await.unwrap());
    }
    tell(&log(store).await);
    text
}
