//! Events about links.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::registry::EventKind::{self, *};
use terse_core::*;
use terse_testkit::MemoryStore;

const OWNER: OwnerId = OwnerId(1000);
const OTHER: OwnerId = OwnerId(1001);

#[derive(Default)]
struct Diary(Mutex<Vec<(EventKind, Revision)>>);

impl Diary {
    fn take(&self) -> Vec<(EventKind, u64)> {
        std::mem::take(&mut *self.0.lock().unwrap())
            .into_iter()
            .map(|(kind, revision)| (kind, revision.0))
            .collect()
    }
}

#[async_trait]
impl LinkEvents for Diary {
    fn listens(&self) -> bool {
        true
    }

    fn wants(&self, owner: OwnerId) -> bool {
        owner == OWNER
    }

    async fn happened(&self, kind: EventKind, link: &Link, _: Timestamp) {
        assert_eq!(link.owner, OWNER);
        self.0.lock().unwrap().push((kind, link.revision));
    }
}

/// A screening that can start to block.
#[derive(Default)]
struct Learning(std::sync::atomic::AtomicBool);

impl Screening for Learning {
    fn judge(&self, _: &Target, _: Evidence<'_>) -> Judgement {
        match self.0.load(std::sync::atomic::Ordering::SeqCst) {
            true => Judgement::Blocked { source: "list".into() },
            false => Judgement::Clear(Flags::default()),
        }
    }
}

struct Room {
    links: Links,
    diary: Arc<Diary>,
    screen: Arc<Learning>,
    clock: Clock,
}

fn room() -> Room {
    let (diary, screen, clock) =
        (Arc::new(Diary::default()), Arc::new(Learning::default()), Clock::default());
    let base = url::Url::parse("https://go.example/").unwrap();
    let rules = LinkPolicy {
        targets: TargetRules::default(),
        hosts: Hosts::new(&base, &[], vec![]).unwrap(),
        anonymous_create: true,
        anonymous_ttl: Duration::from_secs(3600),
        grace: Duration::from_secs(3600),
        quarantine: Duration::ZERO,
    };
    let store = Arc::new(MemoryStore::new());
    let codes = Arc::new(Random::new(Alphabet::Base62, 7));
    let links =
        Links::new(store, codes, Arc::new(NoRouteCache), screen.clone(), rules, clock.clone())
            .telling(diary.clone());
    Room { links, diary, screen, clock }
}

fn request() -> CreateLink {
    CreateLink { long_url: "https://example.com/".into(), ..CreateLink::default() }
}

#[tokio::test]
async fn every_change_sends_one_event_and_no_change_sends_none() {
    let Room { links, diary, screen, .. } = room();
    let mine = Caller::Owner(OWNER);
    let key = links.create(mine, request(), None).await.unwrap().link.key;
    assert_eq!(diary.take(), [(LinkCreated, 1)]);
    assert!(!links.create(mine, request(), None).await.unwrap().new);
    links.create(Caller::Owner(OTHER), request(), None).await.unwrap();
    assert_eq!(diary.take(), []);
    let titled = Patch { title: PatchField::Set("Mine".into()), ..Patch::default() };
    for _ in 0..2 {
        links.patch(mine, &key, &titled, None).await.unwrap();
    }
    assert_eq!(diary.take(), [(LinkChanged, 2)]);
    let judged = |standing| Patch { standing: Some(standing), ..Patch::default() };
    links.patch(Caller::OPERATOR, &key, &judged(ModerationStatus::Suspicious), None).await.unwrap();
    links.patch(Caller::OPERATOR, &key, &judged(ModerationStatus::Blocked), None).await.unwrap();
    links.patch(Caller::OPERATOR, &key, &judged(ModerationStatus::Clear), None).await.unwrap();
    assert_eq!(diary.take(), [(LinkFlagged, 3), (LinkBlocked, 4), (LinkChanged, 5)]);
    for _ in 0..2 {
        links.delete(mine, &key).await.unwrap();
    }
    links.restore(mine, &key).await.unwrap();
    assert_eq!(diary.take(), [(LinkDeleted, 6), (LinkChanged, 7)]);
    assert!(links.get(Caller::Owner(OTHER), &key).await.is_err());
    let other = links
        .create(mine, CreateLink { reuse: Some(false), ..request() }, None)
        .await
        .unwrap()
        .link
        .key;
    screen.0.store(true, std::sync::atomic::Ordering::SeqCst);
    links.rejudge(&other).await.unwrap().unwrap();
    assert_eq!(diary.take(), [(LinkCreated, 1), (LinkBlocked, 2)]);
}

#[tokio::test]
async fn only_expired_links_send_expiry_events() {
    let Room { links, diary, clock, .. } = room();
    let mine = Caller::Owner(OWNER);
    let short =
        links.create(mine, CreateLink { ttl: Some(60), ..request() }, None).await.unwrap().link.key;
    let long = links
        .create(mine, CreateLink { ttl: Some(600), ..request() }, None)
        .await
        .unwrap()
        .link
        .key;
    let gone =
        links.create(mine, CreateLink { ttl: Some(60), ..request() }, None).await.unwrap().link.key;
    links.delete(mine, &gone).await.unwrap();
    diary.take();
    clock.advance(Duration::from_secs(61));
    links.tell_expired(&[short, long, gone]).await.unwrap();
    assert_eq!(diary.take(), [(LinkExpired, 1)]);
}

#[tokio::test]
async fn a_title_is_given_only_to_a_link_that_has_none_and_still_leads_there() {
    let Room { links, .. } = room();
    let mine = Caller::Owner(OWNER);
    let title = |text: &str| Title::parse(text).unwrap().unwrap();
    let link = links.create(mine, request(), None).await.unwrap().link;
    let elsewhere = Target::from_stored("https://example.org/".into());
    assert_eq!(links.entitle(&link.key, &elsewhere, title("Other")).await.unwrap(), None);
    let given = links.entitle(&link.key, &link.target, title("Found")).await.unwrap().unwrap();
    assert_eq!(
        (given.title, given.revision, given.reusable),
        (Some(title("Found")), Revision(2), link.reusable)
    );
    assert_eq!(links.entitle(&link.key, &link.target, title("Again")).await.unwrap(), None);
    let missing =
        LinkKey { domain: link.key.domain.clone(), code: Code::parse("nothere").unwrap() };
    assert_eq!(links.entitle(&missing, &link.target, title("Lost")).await.unwrap(), None);
    links
        .patch(mine, &link.key, &Patch { title: PatchField::Clear, ..Patch::default() }, None)
        .await
        .unwrap();
    links.delete(mine, &link.key).await.unwrap();
    assert_eq!(links.entitle(&link.key, &link.target, title("Gone")).await.unwrap(), None);
}

#[tokio::test]
async fn a_mark_for_silence_survives_the_screen_and_goes_with_the_target() {
    let Room { links, screen, .. } = room();
    let mine = Caller::Owner(OWNER);
    let link = links.create(mine, request(), None).await.unwrap().link;
    let marked = async || links.get(mine, &link.key).await.unwrap().flags.contains(UNREACHABLE);
    links.mark_reach(&link.key, &link.target, false).await.unwrap();
    assert!(marked().await);
    links.mark_reach(&link.key, &link.target, false).await.unwrap();
    assert_eq!(links.get(mine, &link.key).await.unwrap().revision, Revision(2), "once is enough");
    assert_eq!(links.rejudge(&link.key).await.unwrap(), None);
    screen.0.store(true, std::sync::atomic::Ordering::SeqCst);
    assert!(links.rejudge(&link.key).await.unwrap().unwrap().flags.contains(UNREACHABLE));
    screen.0.store(false, std::sync::atomic::Ordering::SeqCst);
    assert!(links.rejudge(&link.key).await.unwrap().unwrap().flags.contains(UNREACHABLE));
    links.mark_reach(&link.key, &link.target, true).await.unwrap();
    assert!(!marked().await);
    links.mark_reach(&link.key, &link.target, false).await.unwrap();
    let elsewhere = Patch { long_url: Some("https://example.org/".into()), ..Patch::default() };
    links.patch(mine, &link.key, &elsewhere, None).await.unwrap();
    assert!(!marked().await, "nobody has looked there yet");
    links.mark_reach(&link.key, &link.target, false).await.unwrap();
    assert!(!marked().await, "it was another target that did not answer");
}
