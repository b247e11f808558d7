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
struct RecordedEvents {
    told: Mutex<Vec<(String, EventKind, Revision)>>,
    refuses: std::sync::atomic::AtomicBool,
    woken: std::sync::atomic::AtomicUsize,
}

impl RecordedEvents {
    fn take(&self) -> Vec<(EventKind, u64)> {
        std::mem::take(&mut *self.told.lock().unwrap())
            .into_iter()
            .map(|(_, kind, revision)| (kind, revision.0))
            .collect()
    }
}

#[async_trait]
impl LinkEvents for RecordedEvents {
    fn wants(&self, owner: OwnerId) -> bool {
        owner == OWNER
    }

    fn subscribers(&self) -> Vec<OwnerId> {
        vec![OWNER]
    }

    fn created(&self, _: &Link) {}

    fn written(&self) {
        self.woken.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }

    async fn deliver(&self, entries: &[OutboxEntry]) -> Result<(), BoxError> {
        if self.refuses.load(std::sync::atomic::Ordering::SeqCst) {
            return Err("not now".into());
        }
        for OutboxEntry { id, event, link, .. } in entries {
            assert_eq!(link.owner, OWNER);
            self.told.lock().unwrap().push((id.to_string(), event.kind, link.revision));
        }
        Ok(())
    }
}

/// A screening that can start to block.
#[derive(Default)]
struct Learning(std::sync::atomic::AtomicBool);

impl Screening for Learning {
    fn screen(&self, _: &Target, _: ScreenInput<'_>) -> ScreenResult {
        match self.0.load(std::sync::atomic::Ordering::SeqCst) {
            true => ScreenResult::Blocked { source: "list".into() },
            false => ScreenResult::Clear(LinkFlags::default()),
        }
    }
}

struct Fixture {
    store: Arc<MemoryStore>,
    drain: OutboxDrain,
    links: Links,
    recorded: Arc<RecordedEvents>,
    screen: Arc<Learning>,
    clock: Clock,
}

fn fixture() -> Fixture {
    let (recorded, screen, clock) =
        (Arc::new(RecordedEvents::default()), Arc::new(Learning::default()), Clock::default());
    let base = url::Url::parse("https://go.example/").unwrap();
    let rules = LinkPolicy {
        targets: TargetRules::default(),
        hosts: Hosts::new(&base, &[], vec![]).unwrap(),
        anonymous_create: true,
        anonymous_ttl: Duration::from_secs(3600),
        grace: Duration::from_secs(3600),
        keep_expired: Duration::from_secs(3600),
        quarantine: Duration::ZERO,
        unwanted_aliases: Default::default(),
    };
    let store = Arc::new(MemoryStore::new());
    let codes = Arc::new(RandomCodes::new(Alphabet::Base62, 7));
    let links = Links::new(
        store.clone(),
        codes,
        Arc::new(NoRouteCache),
        screen.clone(),
        rules,
        clock.clone(),
    )
    .with_events(recorded.clone());
    let drain = OutboxDrain::new(store.clone(), recorded.clone(), clock.clone());
    Fixture { store, drain, links, recorded, screen, clock }
}

fn request() -> CreateLink {
    CreateLink { long_url: "https://example.com/".into(), ..CreateLink::default() }
}

#[tokio::test]
async fn every_change_sends_one_event_and_no_change_sends_none() {
    let Fixture { links, recorded, screen, drain, .. } = fixture();
    let sent = async || {
        drain.next_page().await.unwrap();
        recorded.take()
    };
    let mine = Caller::Owner(OWNER);
    let key = links.create(mine, request(), None).await.unwrap().link.key;
    assert_eq!(sent().await, [(LinkCreated, 1)]);
    assert!(!links.create(mine, request(), None).await.unwrap().new);
    links.create(Caller::Owner(OTHER), request(), None).await.unwrap();
    assert_eq!(sent().await, []);
    let titled = LinkPatch { title: PatchField::Set("Mine".into()), ..LinkPatch::default() };
    for _ in 0..2 {
        links.patch(mine, &key, &titled, None).await.unwrap();
    }
    assert_eq!(sent().await, [(LinkChanged, 2)]);
    let judged = |moderation| LinkPatch { moderation: Some(moderation), ..LinkPatch::default() };
    links.patch(Caller::OPERATOR, &key, &judged(ModerationStatus::Suspicious), None).await.unwrap();
    links.patch(Caller::OPERATOR, &key, &judged(ModerationStatus::Blocked), None).await.unwrap();
    links.patch(Caller::OPERATOR, &key, &judged(ModerationStatus::Clear), None).await.unwrap();
    assert_eq!(sent().await, [(LinkFlagged, 3), (LinkBlocked, 4), (LinkChanged, 5)]);
    for _ in 0..2 {
        links.delete(mine, &key).await.unwrap();
    }
    links.restore(mine, &key).await.unwrap();
    assert_eq!(sent().await, [(LinkDeleted, 6), (LinkChanged, 7)]);
    assert!(links.get(Caller::Owner(OTHER), &key).await.is_err());
    let other = links
        .create(mine, CreateLink { reuse: Some(false), ..request() }, None)
        .await
        .unwrap()
        .link
        .key;
    screen.0.store(true, std::sync::atomic::Ordering::SeqCst);
    links.rescreen(&other).await.unwrap().unwrap();
    assert_eq!(sent().await, [(LinkCreated, 1), (LinkBlocked, 2)]);
}

#[tokio::test]
async fn only_expired_links_are_announced_as_expired() {
    let Fixture { links, recorded, clock, drain, .. } = fixture();
    let sent = async || {
        drain.next_page().await.unwrap();
        recorded.take()
    };
    let mine = Caller::Owner(OWNER);
    let short =
        links.create(mine, CreateLink { ttl: Some(60), ..request() }, None).await.unwrap().link.key;
    let long = links
        .create(mine, CreateLink { ttl: Some(600), ..request() }, None)
        .await
        .unwrap()
        .link
        .key;
    let gone = links
        .create(mine, CreateLink { ttl: Some(60), reuse: Some(false), ..request() }, None)
        .await
        .unwrap()
        .link
        .key;
    links.delete(mine, &gone).await.unwrap();
    sent().await;
    clock.advance(Duration::from_secs(61));
    let marked = links.expire(clock.now(), 10).await.unwrap();
    assert_eq!(marked.len(), 2);
    assert!(marked.contains(&short) && marked.contains(&gone) && !marked.contains(&long));
    assert_eq!(sent().await, [(LinkExpired, 1)]);
}

#[tokio::test]
async fn a_title_is_given_only_to_a_link_that_has_none_and_still_leads_there() {
    let Fixture { links, .. } = fixture();
    let mine = Caller::Owner(OWNER);
    let title = |text: &str| Title::parse(text).unwrap().unwrap();
    let link = links.create(mine, request(), None).await.unwrap().link;
    let elsewhere = Target::from_stored("https://example.org/".into());
    assert_eq!(links.set_fetched_title(&link.key, &elsewhere, title("Other")).await.unwrap(), None);
    let given =
        links.set_fetched_title(&link.key, &link.target, title("Found")).await.unwrap().unwrap();
    assert_eq!(
        (given.title, given.revision, given.reusable),
        (Some(title("Found")), Revision(2), link.reusable)
    );
    assert_eq!(
        links.set_fetched_title(&link.key, &link.target, title("Again")).await.unwrap(),
        None
    );
    let missing =
        LinkKey { domain: link.key.domain.clone(), code: Code::parse("nothere").unwrap() };
    assert_eq!(links.set_fetched_title(&missing, &link.target, title("Lost")).await.unwrap(), None);
    links
        .patch(
            mine,
            &link.key,
            &LinkPatch { title: PatchField::Clear, ..LinkPatch::default() },
            None,
        )
        .await
        .unwrap();
    links.delete(mine, &link.key).await.unwrap();
    assert_eq!(
        links.set_fetched_title(&link.key, &link.target, title("Gone")).await.unwrap(),
        None
    );
}

#[tokio::test]
async fn a_mark_for_silence_survives_the_screen_and_goes_with_the_target() {
    let Fixture { links, screen, .. } = fixture();
    let mine = Caller::Owner(OWNER);
    let link = links.create(mine, request(), None).await.unwrap().link;
    let marked = async || links.get(mine, &link.key).await.unwrap().flags.contains(UNREACHABLE);
    links.set_unreachable(&link.key, &link.target, false).await.unwrap();
    assert!(marked().await);
    links.set_unreachable(&link.key, &link.target, false).await.unwrap();
    assert_eq!(links.get(mine, &link.key).await.unwrap().revision, Revision(2), "once is enough");
    assert_eq!(links.rescreen(&link.key).await.unwrap(), None);
    screen.0.store(true, std::sync::atomic::Ordering::SeqCst);
    assert!(links.rescreen(&link.key).await.unwrap().unwrap().flags.contains(UNREACHABLE));
    screen.0.store(false, std::sync::atomic::Ordering::SeqCst);
    assert!(links.rescreen(&link.key).await.unwrap().unwrap().flags.contains(UNREACHABLE));
    links.set_unreachable(&link.key, &link.target, true).await.unwrap();
    assert!(!marked().await);
    links.set_unreachable(&link.key, &link.target, false).await.unwrap();
    let elsewhere =
        LinkPatch { long_url: Some("https://example.org/".into()), ..LinkPatch::default() };
    links.patch(mine, &link.key, &elsewhere, None).await.unwrap();
    assert!(!marked().await, "nobody has looked there yet");
    links.set_unreachable(&link.key, &link.target, false).await.unwrap();
    assert!(!marked().await, "it was another target that did not answer");
}

/// The process dies right after the write: only the store is left.
#[tokio::test]
async fn a_crash_behind_the_write_loses_no_event() {
    let Fixture { links, store, recorded, drain, .. } = fixture();
    let mine = Caller::Owner(OWNER);
    let key = links.create(mine, request(), None).await.unwrap().link.key;
    links.delete(mine, &key).await.unwrap();
    links.create(Caller::Owner(OTHER), request(), None).await.unwrap();
    assert_eq!(recorded.woken.load(std::sync::atomic::Ordering::SeqCst), 2, "OTHER has no webhook");
    drop((links, drain));
    assert_eq!(recorded.take(), []);
    let next = Arc::new(RecordedEvents::default());
    let drain = OutboxDrain::new(store, next.clone(), Clock::default());
    assert_eq!(drain.next_page().await.unwrap().rows, 2);
    assert_eq!(next.take(), [(LinkCreated, 1), (LinkDeleted, 2)]);
    assert_eq!((drain.next_page().await.unwrap().rows, next.take()), (0, vec![]));
}

/// A client that disconnects in the middle of a request leaves the link with its event, or neither.
#[tokio::test]
async fn a_dropped_request_leaves_link_and_event_or_neither() {
    let Fixture { links, store, recorded, drain, .. } = fixture();
    store.delay(Duration::from_millis(1));
    let mut done = 0;
    for polls in 0..20 {
        let body = CreateLink { reuse: Some(false), ..request() };
        let mut create = Box::pin(links.create(Caller::Owner(OWNER), body, None));
        for _ in 0..polls {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            if create.as_mut().poll(&mut context).is_ready() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(create);
        let query = ListQuery::all(Sort::Newest, 100, store_now());
        let links = store.list(&query).await.unwrap().links.len();
        done += drain.next_page().await.unwrap().rows;
        assert_eq!(done, links, "after {polls} polls");
    }
    assert!(done > 0);
    assert_eq!(recorded.take().len(), done);
}

fn store_now() -> Timestamp {
    Clock::default().now()
}

#[tokio::test]
async fn a_refused_event_is_sent_again_with_the_same_id() {
    let Fixture { links, store, recorded, drain, .. } = fixture();
    let mine = Caller::Owner(OWNER);
    for code in ["one", "two"] {
        let body = CreateLink { custom_alias: Some(code.to_owned() + "-x"), ..request() };
        links.create(mine, body, None).await.unwrap();
    }
    recorded.refuses.store(true, std::sync::atomic::Ordering::SeqCst);
    assert!(drain.next_page().await.is_err());
    recorded.refuses.store(false, std::sync::atomic::Ordering::SeqCst);
    let entries = store.outbox(None, 10).await.unwrap().entries;
    assert_eq!(entries.len(), 2, "none of them is gone");
    assert_eq!(drain.next_page().await.unwrap().rows, 2);
    let first = std::mem::take(&mut *recorded.told.lock().unwrap());
    assert!(first[0].0 != first[1].0 && first[0].0.starts_with("evt_"), "{first:?}");
    // As if it had died before it removed them, and had been restored from a copy since.
    store.raise_incarnation(store.incarnation().await.unwrap()).await.unwrap();
    for entry in entries {
        drain_again(&store, &recorded, &entry).await;
    }
    let again = std::mem::take(&mut *recorded.told.lock().unwrap());
    assert_eq!(again, first);
}

async fn drain_again(
    store: &Arc<MemoryStore>,
    recorded: &Arc<RecordedEvents>,
    entry: &OutboxEntry,
) {
    store.put_back(entry.clone());
    let drain = OutboxDrain::new(store.clone(), recorded.clone(), Clock::default());
    drain.next_page().await.unwrap();
}

/// A newer node wrote events while this one has the lease: they wait for it and block nothing.
#[tokio::test]
async fn events_of_a_later_version_stay_and_do_not_block_others() {
    let Fixture { links, store, recorded, drain, clock, .. } = fixture();
    let mine = Caller::Owner(OWNER);
    let create = async |count: usize| {
        for _ in 0..count {
            let body = CreateLink { reuse: Some(false), ..request() };
            links.create(mine, body, None).await.unwrap();
        }
    };
    let held = OutboxDrain::PAGE + 10;
    create(held).await;
    store.make_outbox_later();
    create(3).await;
    // The first page is full of them; the pass goes on behind it, and then begins again.
    let passes = async || {
        let mut left = 0;
        for _ in 0..4 {
            let page = drain.next_page().await.unwrap();
            assert_eq!(page.given_up, 0);
            left += page.left;
        }
        left
    };
    assert_eq!(passes().await, 2 * held);
    assert_eq!(recorded.take().len(), 3);
    create(1).await;
    assert_eq!(passes().await, 2 * held);
    assert_eq!(recorded.take().len(), 1);
    // No later version has come.
    clock.advance(OutboxDrain::KEEP_LATER + Duration::from_secs(60));
    let pages = [drain.next_page().await.unwrap(), drain.next_page().await.unwrap()];
    assert_eq!(pages.map(|page| page.given_up), [OutboxDrain::PAGE, 10]);
    assert_eq!(store.outbox(None, 10).await.unwrap(), OutboxPage::default());
    assert_eq!(recorded.take(), []);
}
