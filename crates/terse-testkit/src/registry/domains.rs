//! Short domains and blocked hosts, and the version that rises when they change.

use terse_core::registry::{
    AuditAction, BlockedHost, DomainConfig, KeyUsage, RegistryError, RegistryVersion, Role, subject,
};
use terse_core::{Branding, Domain, FooterLink, Logo, Target};

use super::{RegistryHandle, acts, add, add_key, by, change, log, refused, role, sign_in, token};
use crate::timestamp;

pub(crate) fn domain_config(host: &str) -> DomainConfig {
    let target = |path: &str| Some(Target::from_stored(format!("https://example.com/{path}?q=1")));
    let domain = Domain::parse(host).unwrap();
    DomainConfig {
        domain,
        root: target("root"),
        not_found: target("not-found"),
        expired: target("expired"),
    }
}

pub(crate) fn blocked(host: &str) -> BlockedHost {
    BlockedHost { host: host.into(), at: timestamp(3), why: Some("phishing".into()) }
}

async fn version(store: &RegistryHandle) -> RegistryVersion {
    store.version().await.unwrap()
}

pub async fn a_domain_is_added_changed_and_removed(store: RegistryHandle) {
    for host in ["b.example", "a.example"] {
        store.put_domain(domain_config(host), by()).await.unwrap();
    }
    assert_eq!(
        store.domain_configs().await.unwrap(),
        [domain_config("a.example"), domain_config("b.example")]
    );
    let bare = DomainConfig { root: None, expired: None, ..domain_config("b.example") };
    store.put_domain(bare.clone(), by()).await.unwrap();
    assert_eq!(store.domain_configs().await.unwrap(), [domain_config("a.example"), bare]);
    let a = Domain::parse("a.example").unwrap();
    store.remove_domain(&a, by()).await.unwrap();
    refused!(store.remove_domain(&a, by()).await, Missing);
    assert_eq!(store.domain_configs().await.unwrap().len(), 1);
    let changed = AuditAction::DomainChanged;
    assert_eq!(acts(&store).await, [changed, changed, changed, AuditAction::DomainRemoved]);
    let lines = log(&store).await;
    assert_eq!(lines[0].subject, subject::domain(&a));
    assert!(lines[0].after.is_none() && lines[0].before.as_ref().unwrap().contains("root?q=1"));
    assert!(lines[1].before.is_some() && !lines[1].after.as_ref().unwrap().contains("root?q=1"));
    assert!(lines[2].before.is_none());
}

pub async fn an_unchanged_domain_writes_no_audit_record(store: RegistryHandle) {
    store.put_domain(domain_config("a.example"), by()).await.unwrap();
    let before = version(&store).await;
    store.put_domain(domain_config("a.example"), by()).await.unwrap();
    assert_eq!((acts(&store).await.len(), version(&store).await), (1, before));
}

pub async fn a_host_is_blocked_once_and_unblocked(store: RegistryHandle) {
    refused!(store.unblock_host("evil.example", by()).await, Missing);
    store.block_host(blocked("evil.example"), by()).await.unwrap();
    store.block_host(BlockedHost { why: None, ..blocked("bad.example") }, by()).await.unwrap();
    let before = version(&store).await;
    store
        .block_host(BlockedHost { at: timestamp(99), why: None, ..blocked("evil.example") }, by())
        .await
        .unwrap();
    assert_eq!(version(&store).await, before);
    let bad = BlockedHost { why: None, ..blocked("bad.example") };
    assert_eq!(store.blocked_hosts().await.unwrap(), [bad.clone(), blocked("evil.example")]);
    store.unblock_host("evil.example", by()).await.unwrap();
    refused!(store.unblock_host("evil.example", by()).await, Missing);
    assert_eq!(store.blocked_hosts().await.unwrap(), [bad]);
    assert_eq!(
        acts(&store).await,
        [AuditAction::HostBlocked, AuditAction::HostBlocked, AuditAction::HostUnblocked]
    );
}

pub(crate) fn branding() -> Branding {
    Branding {
        name: Some("Example & Sons".parse().unwrap()),
        logo: Some(Logo::parse([b"\x89PNG\r\n\x1a\n".as_slice(), &[0, 255, 7]].concat()).unwrap()),
        accent: Some("#0a5c8f".parse().unwrap()),
        links: vec![FooterLink::parse("Privacy \u{2764}", "https://example.com/p?a=1").unwrap()],
        abuse_contact: Some("abuse@example.com".parse().unwrap()),
    }
}

pub async fn the_branding_is_put_replaced_and_taken_back(store: RegistryHandle) {
    assert_eq!(store.branding().await.unwrap(), Branding::default());
    let first = version(&store).await;
    store.put_branding(branding(), by()).await.unwrap();
    assert_eq!(store.branding().await.unwrap(), branding());
    let second = version(&store).await;
    assert_ne!(first, second, "other nodes must see it");
    store.put_branding(branding(), by()).await.unwrap();
    assert_eq!((version(&store).await, acts(&store).await.len()), (second, 1), "it is the same");
    assert_eq!(store.snapshot().await.unwrap().branding, branding());
    let bare = Branding { logo: None, links: vec![], ..branding() };
    store.put_branding(bare.clone(), by()).await.unwrap();
    assert_eq!(store.branding().await.unwrap(), bare);
    store.put_branding(Branding::default(), by()).await.unwrap();
    assert_eq!(store.branding().await.unwrap(), Branding::default());
    assert_eq!(acts(&store).await, [AuditAction::BrandingChanged; 3]);
    let lines = log(&store).await;
    assert_eq!(lines[2].subject, subject::BRANDING);
    assert!(lines[2].after.as_ref().unwrap().contains("Example & Sons"));
    assert!(lines[1].before.as_ref().unwrap().contains("image/png"));
}

pub async fn the_version_changes_for_what_visitors_meet_alone(store: RegistryHandle) {
    let mut versions = vec![version(&store).await];
    // Writes that raise the version.
    let domain = domain_config("a.example").domain;
    for step in 0..4 {
        match step {
            0 => store.put_domain(domain_config("a.example"), by()).await.unwrap(),
            1 => store.remove_domain(&domain, by()).await.unwrap(),
            2 => store.block_host(blocked("evil.example"), by()).await.unwrap(),
            _ => store.unblock_host("evil.example", by()).await.unwrap(),
        }
        let now = version(&store).await;
        assert!(!versions.contains(&now), "{step}");
        versions.push(now);
    }
    // Writes that do not.
    let ann = add(&store, "ann").await.id;
    let key = add_key(&store, ann, 1).await.id;
    sign_in(&store, ann, 2).await;
    change(&store, ann, role(Role::Moderator)).await.unwrap();
    let used = KeyUsage { key, last_at: timestamp(1), requests: 1 };
    store.add_key_usage(&[used]).await.unwrap();
    store.revoke_key(ann, key, by()).await.unwrap();
    store.end_session(&token(2)).await.unwrap();
    store.record(AuditAction::LinkModerated, "link:/abc", (None, None), by()).await.unwrap();
    store.erase_account(ann, by()).await.unwrap();
    refused!(store.unblock_host("evil.example", by()).await, Missing);
    assert_eq!(Some(&version(&store).await), versions.last());
}
