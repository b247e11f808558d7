//! Audit records of decisions that the scan makes by itself.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use terse_core::registry::{
    Actor, Attribution, AuditAction, AuditEntry, AuditLog, AuditQuery, RegistryError, subject,
};
use terse_core::*;
use terse_testkit::MemoryRegistry;

use crate::screening::{GOOD, ODD, OWNER, fixture, make};

/// The records about a link, oldest first: why, and the status before and after.
async fn records(registry: &MemoryRegistry, link: &Link) -> Vec<(String, Option<Value>, Value)> {
    let subject = Some(subject::link(&link.key));
    let query = AuditQuery { subject, limit: 100, ..AuditQuery::default() };
    let json = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    let mut records: Vec<_> = registry
        .audit(&query)
        .await
        .unwrap()
        .into_iter()
        .map(|entry| {
            assert_eq!((entry.act, entry.actor), (AuditAction::LinkScreened, Actor::Terse));
            (entry.why.unwrap(), entry.before.map(json), json(entry.after.unwrap()))
        })
        .collect();
    records.reverse();
    records
}

#[tokio::test]
async fn every_automatic_decision_is_recorded_with_its_reason() {
    let (links, screen) = fixture();
    let registry = Arc::new(MemoryRegistry::new());
    let links = links.audited_by(registry.clone());
    let state = |standing: &str, flags: &[&str]| json!({"standing": standing, "judged_by": "screen", "flags": flags});

    // A new link with a warning, and one without.
    let odd = make(&links, OWNER, ODD).await.unwrap();
    let told = records(&registry, &odd).await;
    assert_eq!(told, [("flags: odd".into(), None, state("suspicious", &["odd"]))]);
    let good = make(&links, OWNER, GOOD).await.unwrap();
    assert_eq!(records(&registry, &good).await, []);

    // The re-scan blocks it, the list warns of it only, and then no longer.
    screen.learn(GOOD, "blocked");
    links.rescreen(&good.key).await.unwrap().unwrap();
    assert!(links.rescreen(&good.key).await.unwrap().is_none(), "nothing changes, nothing is told");
    screen.learn(GOOD, "listed");
    links.rescreen(&good.key).await.unwrap().unwrap();
    screen.learn(GOOD, "clear");
    links.rescreen(&good.key).await.unwrap().unwrap();
    let mut blocked = state("blocked", &[]);
    (blocked["list"], blocked["entry"]) = ("the list".into(), "host".into());
    let mut listed = state("suspicious", &["listed"]);
    (listed["list"], listed["entry"]) = ("new domains".into(), "url".into());
    let clear = state("clear", &[]);
    assert_eq!(
        records(&registry, &good).await,
        [
            (
                "the target is on the list the list, by its host".into(),
                Some(clear.clone()),
                blocked
            ),
            (
                "the target is on the list new domains, by its url; flags: listed".into(),
                Some(state("blocked", &[])),
                listed
            ),
            ("nothing is found any more".into(), Some(state("suspicious", &["listed"])), clear),
        ]
    );

    // Reports, and a change of the target.
    links.warn(&good.key, good.created_at).await.unwrap().unwrap();
    let told = records(&registry, &good).await;
    assert_eq!(told.last().unwrap().0, "several visitors have reported the link");
    let patch = LinkPatch { long_url: Some(ODD.into()), ..LinkPatch::default() };
    links.patch(OWNER, &good.key, &patch, None).await.unwrap();
    let told = records(&registry, &good).await;
    let count = told.len();
    assert_eq!(
        told.last().unwrap().0,
        "several visitors have reported the link",
        "the log says so already"
    );

    // Neither a moderator's decision nor another change is automatic.
    let blocked_by_operator =
        LinkPatch { moderation: Some(ModerationStatus::Blocked), ..LinkPatch::default() };
    links.patch(Caller::OPERATOR, &good.key, &blocked_by_operator, None).await.unwrap();
    let title = LinkPatch { title: PatchField::Set("New".into()), ..LinkPatch::default() };
    links.patch(OWNER, &odd.key, &title, None).await.unwrap();
    links.set_unreachable(&odd.key, &odd.target, false).await.unwrap();
    assert_eq!(records(&registry, &good).await.len(), count);
    assert_eq!(records(&registry, &odd).await.len(), 1);
    let blocked = links.get(Caller::OPERATOR, &good.key).await.unwrap();
    assert_eq!(links.list_match(&blocked), None, "a moderator decided");
}

#[tokio::test]
async fn a_block_names_the_list_that_blocks_whichever_target_it_is_about() {
    let (links, screen) = fixture();
    let registry = Arc::new(MemoryRegistry::new());
    let links = links.audited_by(registry.clone());
    let later = "https://later.example/";
    screen.learn(GOOD, "listed");
    let rules = rules::RawRules(json!([{ "device": ["mobile"], "to": later }]));
    let new = CreateLink { long_url: GOOD.into(), rules: Some(rules), ..CreateLink::default() };
    let link = links.create(OWNER, new, None).await.unwrap().link;
    screen.learn(later, "blocked");
    let link = links.rescreen(&link.key).await.unwrap().unwrap();
    let found = links.list_match(&link).unwrap();
    assert_eq!((found.list.as_str(), found.kind), ("the list", EntryKind::Host));
    let told = records(&registry, &link).await;
    assert_eq!(told.last().unwrap().0, "the target is on the list the list, by its host");
}

#[tokio::test]
async fn an_owner_cannot_flood_the_log_and_a_decision_that_lapses_is_recorded() {
    let (links, _screen) = fixture();
    let registry = Arc::new(MemoryRegistry::new());
    let links = links.audited_by(registry.clone());
    let link = make(&links, OWNER, GOOD).await.unwrap();
    let patch = |target: &str| LinkPatch { long_url: Some(target.into()), ..LinkPatch::default() };
    for _ in 0..20 {
        links.patch(OWNER, &link.key, &patch(ODD), None).await.unwrap();
        links.patch(OWNER, &link.key, &patch(GOOD), None).await.unwrap();
    }
    let told = records(&registry, &link).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].0, "the owner changed the target; flags: odd");
    // Later, another record says that it happens again.
    links.clock().advance(Duration::from_hours(1));
    links.patch(OWNER, &link.key, &patch(ODD), None).await.unwrap();
    assert_eq!(records(&registry, &link).await.len(), 2);
    // A moderator clears the link; the next target is clear by itself.
    let cleared = LinkPatch { moderation: Some(ModerationStatus::Clear), ..LinkPatch::default() };
    links.patch(Caller::OPERATOR, &link.key, &cleared, None).await.unwrap();
    links.patch(OWNER, &link.key, &patch(GOOD), None).await.unwrap();
    let told = records(&registry, &link).await;
    let (why, before, after) = told.last().unwrap();
    assert!(why.contains("the moderator's decision no longer applies"), "{why}");
    assert_eq!(before.as_ref().unwrap()["judged_by"], "moderator");
    assert_eq!((&after["judged_by"], &after["standing"]), (&json!("screen"), &json!("clear")));
}

/// An audit log that cannot be reached.
struct Away;

#[async_trait]
impl AuditLog for Away {
    async fn record(
        &self,
        _: AuditAction,
        _: &str,
        _: (Option<String>, Option<String>),
        _: Attribution,
    ) -> Result<(), RegistryError> {
        Err(RegistryError::Store(StoreError::Busy))
    }

    async fn audit(&self, _: &AuditQuery) -> Result<Vec<AuditEntry>, RegistryError> {
        Err(RegistryError::Store(StoreError::Busy))
    }
}

#[tokio::test]
async fn nothing_is_decided_that_cannot_be_recorded_but_a_created_link_stays() {
    let (links, screen) = fixture();
    let links = links.audited_by(Arc::new(Away));
    let (good, odd) = (make(&links, OWNER, GOOD).await.unwrap(), make(&links, OWNER, ODD).await);
    assert_eq!(odd.unwrap().moderation, ModerationStatus::Suspicious);
    screen.learn(GOOD, "blocked");
    assert!(links.rescreen(&good.key).await.is_err());
    assert!(links.warn(&good.key, good.created_at).await.is_err());
    let same = links.get(OWNER, &good.key).await.unwrap();
    assert_eq!((same.moderation, same.revision), (ModerationStatus::Clear, good.revision));
    let patch = LinkPatch { long_url: Some(ODD.into()), ..LinkPatch::default() };
    assert!(links.patch(OWNER, &good.key, &patch, None).await.is_err());
    assert_eq!(links.get(OWNER, &good.key).await.unwrap().target, good.target);
}
