//! Erasing the links of an owner.
#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::sync::Arc;
use std::time::Duration;

use terse_core::*;
use terse_testkit::MemoryStore;

const ANN: OwnerId = OwnerId(1000);
const BOB: OwnerId = OwnerId(1001);

/// Allows every target.
struct Trusting;

impl Screening for Trusting {
    fn screen(&self, _target: &Target, _input: ScreenInput<'_>) -> ScreenResult {
        ScreenResult::Clear(LinkFlags::default())
    }
}

fn fixture() -> Links {
    links_on(Arc::new(MemoryStore::new()))
}

/// The service on a store, without limits and lists.
pub(crate) fn links_on(store: Arc<MemoryStore>) -> Links {
    let base = url::Url::parse("https://go.example/").unwrap();
    let rules = LinkPolicy {
        targets: TargetRules::default(),
        hosts: Hosts::new(&base, &[], vec![]).unwrap(),
        anonymous_create: true,
        anonymous_ttl: Duration::from_secs(3600),
        grace: Duration::MAX,
        keep_expired: Duration::MAX,
        quarantine: Duration::ZERO,
        unwanted_aliases: Default::default(),
    };
    let codes = Arc::new(RandomCodes::new(Alphabet::Base62, 7));
    Links::new(store, codes, Arc::new(NoRouteCache), Arc::new(Trusting), rules, Clock::default())
}

async fn make(links: &Links, owner: OwnerId, target: &str) -> LinkKey {
    let draft = CreateLink {
        long_url: target.into(),
        title: Some("Ann's own".into()),
        tags: Some(vec!["ann".into()]),
        ..CreateLink::default()
    };
    links.create(Caller::Owner(owner), draft, None).await.unwrap().link.key
}

#[tokio::test]
async fn an_erased_link_ends_at_once_and_the_purge_deletes_it() {
    let links = fixture();
    let (anns, bobs) = (
        make(&links, ANN, "https://example.com/a").await,
        make(&links, BOB, "https://example.com/b").await,
    );
    for _ in 0..2 {
        links.erase(ANN, &anns).await.unwrap();
    }
    // After any grace period.
    assert!(matches!(links.restore(Caller::Owner(ANN), &anns).await, Err(LinkError::NotFound)));
    links.erase(ANN, &bobs).await.unwrap();
    assert_eq!(links.purge_erased(10).await.unwrap(), 1);
    assert_eq!(links.purge_erased(10).await.unwrap(), 0);
    assert!(links.preview(&anns).await.unwrap().is_none());
    assert!(
        links.preview(&bobs).await.unwrap().unwrap().deleted_at.is_none(),
        "another's is not touched"
    );
    links.erase(ANN, &anns).await.unwrap();
}

#[tokio::test]
async fn a_blocked_link_stays_without_its_owners_texts() {
    let links = fixture();
    let key = make(&links, ANN, "https://example.com/a").await;
    let blocked = LinkPatch { moderation: Some(ModerationStatus::Blocked), ..LinkPatch::default() };
    links.patch(Caller::OPERATOR, &key, &blocked, None).await.unwrap();
    links.erase(ANN, &key).await.unwrap();
    assert_eq!(links.purge_erased(10).await.unwrap(), 0);
    let left = links.preview(&key).await.unwrap().unwrap();
    assert_eq!(
        (left.moderation, left.title, left.tags),
        (ModerationStatus::Blocked, None, Tags::default())
    );
    assert!(left.deleted_at.is_some());
}

#[tokio::test]
async fn a_repeated_change_is_confirmed_before_it_is_answered() {
    let store = Arc::new(MemoryStore::new());
    let links = Arc::new(links_on(Arc::clone(&store)));
    let key = make(&links, ANN, "https://example.com/a").await;
    let ann = Caller::Owner(ANN);
    let title = LinkPatch { title: PatchField::Set("New".into()), ..LinkPatch::default() };
    for repeated in [false, true] {
        let before = store.confirmations();
        links.patch(ann, &key, &title, None).await.unwrap();
        links.retag_all(ann, "ann", Some("anna")).await.unwrap();
        links.delete(ann, &key).await.unwrap();
        links.delete(ann, &key).await.unwrap();
        links.restore(ann, &key).await.unwrap();
        let more = store.confirmations() - before;
        assert_eq!(more, if repeated { 3 } else { 1 }, "repeated: {repeated}");
    }
}
