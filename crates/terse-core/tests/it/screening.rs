//! Effects of screening on links.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use terse_core::*;
use terse_testkit::MemoryStore;

/// A scripted screening: blocks and flags targets by prefix.
#[derive(Default)]
pub(crate) struct ScriptedScreening {
    words: Mutex<BTreeMap<String, &'static str>>,
    version: AtomicU64,
    /// The results of external requests, and whether they succeed.
    external: Mutex<BTreeMap<String, &'static str>>,
    silent: AtomicBool,
    revisits: Mutex<Vec<LinkKey>>,
    revisited: Mutex<Vec<String>>,
}

impl ScriptedScreening {
    pub(crate) fn learn(&self, place: &str, word: &'static str) {
        self.words.lock().unwrap().insert(place.into(), word);
        self.version.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Screening for ScriptedScreening {
    async fn prepare(&self, target: &Target) {
        if let Some(word) = self
            .external
            .lock()
            .unwrap()
            .get(target.as_str())
            .filter(|_| !self.silent.load(Ordering::SeqCst))
        {
            self.learn(target.as_str(), word);
        }
    }

    fn needs_lookup(&self, target: &Target) -> bool {
        self.external.lock().unwrap().contains_key(target.as_str())
            && !self.words.lock().unwrap().contains_key(target.as_str())
    }

    fn revisit(&self, key: &LinkKey, target: &Target) {
        self.revisited.lock().unwrap().push(target.as_str().to_owned());
        self.revisits.lock().unwrap().push(key.clone());
    }

    fn screen(&self, target: &Target, input: ScreenInput<'_>) -> ScreenResult {
        let mut flags: Vec<&str> = match input {
            ScreenInput::Text(text) => {
                text.contains('!').then_some("exclaimed").into_iter().collect()
            }
            ScreenInput::Stored { flags, .. } => {
                flags.iter().filter(|word| *word == "exclaimed").collect()
            }
        };
        match self
            .words
            .lock()
            .unwrap()
            .iter()
            .find(|(place, _)| target.as_str().starts_with(place.as_str()))
            .map(|(_, word)| *word)
        {
            Some("blocked") => return ScreenResult::Blocked { source: "the list".into() },
            Some("clear") | None => {}
            Some(word) => flags.push(word),
        }
        if self.needs_lookup(target) {
            flags.push(UNSCREENED);
        }
        let flags = LinkFlags::new(flags);
        if flags.is_empty() { ScreenResult::Clear(flags) } else { ScreenResult::Suspicious(flags) }
    }

    fn list_match(&self, target: &Target, status: ModerationStatus) -> Option<ListMatch> {
        let words = self.words.lock().unwrap();
        let (_, word) = words.iter().find(|(place, _)| target.as_str().starts_with(*place))?;
        let (list, kind) = match (*word, status) {
            ("blocked", ModerationStatus::Blocked) => ("the list", EntryKind::Host),
            ("listed", ModerationStatus::Suspicious) => ("new domains", EntryKind::Url),
            _ => return None,
        };
        Some(ListMatch { list: list.into(), kind })
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    fn sentence(&self, flag: &str) -> Option<&'static str> {
        (flag == "exclaimed").then_some("It is loud.")
    }
}

const BAD: &str = "https://bad.example/";
pub(crate) const ODD: &str = "https://odd.example/";
pub(crate) const GOOD: &str = "https://good.example/";
pub(crate) const OWNER: Caller = Caller::Owner(OwnerId(7));

pub(crate) fn fixture() -> (Links, Arc<ScriptedScreening>) {
    let (store, screen) = (Arc::new(MemoryStore::new()), Arc::new(ScriptedScreening::default()));
    screen.learn(BAD, "blocked");
    screen.learn(ODD, "odd");
    (links(store, Arc::new(RandomCodes::new(Alphabet::Base62, 7)), &screen), screen)
}

fn links(
    store: Arc<MemoryStore>,
    codes: Arc<dyn CodeSource>,
    screen: &Arc<ScriptedScreening>,
) -> Links {
    let base = "https://go.example/".parse().unwrap();
    let rules = LinkPolicy {
        targets: TargetRules::default(),
        hosts: Hosts::new(&base, &[], vec![]).unwrap(),
        anonymous_create: true,
        anonymous_ttl: Duration::from_hours(8),
        grace: Duration::from_hours(24),
        keep_expired: Duration::from_hours(24),
        quarantine: Duration::ZERO,
        unwanted_aliases: Default::default(),
    };
    let screen: Arc<dyn Screening> = screen.clone();
    Links::new(store, codes, Arc::new(NoRouteCache), screen, rules, Clock::default())
}

pub(crate) async fn make(links: &Links, caller: Caller, target: &str) -> Result<Link, LinkError> {
    links
        .create(caller, CreateLink { long_url: target.into(), ..CreateLink::default() }, None)
        .await
        .map(|created| created.link)
}

fn refused(outcome: Result<Link, LinkError>) -> String {
    match outcome {
        Err(LinkError::Refused(refusal))
            if refusal.kind == ValidationErrorKind::BlockedDestination =>
        {
            assert_eq!(refusal.field, "long_url");
            refusal.detail.into_owned()
        }
        other => panic!("{other:?}"),
    }
}

fn to(target: &str) -> LinkPatch {
    LinkPatch { long_url: Some(target.into()), ..LinkPatch::default() }
}

fn moderated(moderation: ModerationStatus) -> LinkPatch {
    LinkPatch { moderation: Some(moderation), ..LinkPatch::default() }
}

#[tokio::test]
async fn a_blocked_target_is_refused_and_only_the_operator_learns_by_whom() {
    let (links, _) = fixture();
    for caller in [Caller::Anonymous, OWNER] {
        assert_eq!(refused(make(&links, caller, BAD).await), "this destination is blocked");
    }
    assert_eq!(
        refused(make(&links, Caller::OPERATOR, BAD).await),
        "this destination is blocked by the list"
    );
    let draft = CreateLink {
        long_url: BAD.into(),
        custom_alias: Some("abc".into()),
        ..CreateLink::default()
    };
    let mut imported = links.import(OWNER, vec![(draft, None)]).await;
    refused(imported.remove(0).map(|created| created.link));
    let link = make(&links, OWNER, GOOD).await.unwrap();
    refused(links.patch(OWNER, &link.key, &to(BAD), None).await);
    assert_eq!(links.get(OWNER, &link.key).await.unwrap(), link);
}

#[tokio::test]
async fn the_screening_may_request_data_first_and_gets_unscreened_links_queued() {
    let (links, screen) = fixture();
    let (danger, harmless) = ("https://danger.example/", "https://harmless.example/");
    *screen.external.lock().unwrap() =
        [(danger.into(), "blocked"), (harmless.into(), "clear")].into();
    refused(make(&links, OWNER, danger).await);
    let link = make(&links, OWNER, harmless).await.unwrap();
    refused(links.patch(OWNER, &link.key, &to(danger), None).await);
    links.queue_rescreen_if_undecided(&link);
    assert!(screen.revisits.lock().unwrap().is_empty(), "it is sure of everything");

    screen.silent.store(true, Ordering::SeqCst);
    screen.words.lock().unwrap().clear();
    let made = make(&links, OWNER, danger).await.unwrap();
    assert!(made.flags.contains(UNSCREENED));
    let patched = links.patch(OWNER, &link.key, &to(danger), None).await.unwrap();
    links.queue_rescreen_if_undecided(&patched);
    assert_eq!(
        *screen.revisits.lock().unwrap(),
        [made.key.clone(), link.key.clone(), link.key.clone()]
    );
    let cleared = links
        .patch(Caller::OPERATOR, &made.key, &moderated(ModerationStatus::Clear), None)
        .await
        .unwrap();
    screen.revisits.lock().unwrap().clear();
    links.queue_rescreen_if_undecided(&cleared);
    assert!(screen.revisits.lock().unwrap().is_empty(), "a moderator's word stays");
}

#[tokio::test]
async fn every_unscreened_target_is_queued_again() {
    let (links, screen) = fixture();
    let place = |n: usize| format!("https://unsure.example/{n}");
    let places: Vec<String> = (0..8).map(place).collect();
    // More targets than are requested during a create.
    screen.external.lock().unwrap().extend(places.iter().map(|place| (place.clone(), "clear")));
    screen.silent.store(true, Ordering::SeqCst);
    let rules: Vec<_> =
        places.iter().map(|place| json!({"device": "mobile", "to": place})).collect();
    let draft = CreateLink {
        long_url: GOOD.into(),
        rules: Some(rules::RawRules(rules.into())),
        ..CreateLink::default()
    };
    let made = links.create(OWNER, draft, None).await.unwrap().link;
    assert!(made.flags.contains(UNSCREENED));
    let asked = || std::mem::take(&mut *screen.revisited.lock().unwrap());
    assert_eq!(asked(), places);
    links.queue_rescreen_if_undecided(&made);
    assert_eq!(asked(), places);
}

#[tokio::test]
async fn an_odd_target_is_made_with_a_warning_but_not_for_the_operator() {
    let (links, _) = fixture();
    for (caller, moderation) in [
        (Caller::Anonymous, ModerationStatus::Suspicious),
        (OWNER, ModerationStatus::Suspicious),
        (Caller::OPERATOR, ModerationStatus::Clear),
    ] {
        let link = make(&links, caller, ODD).await.unwrap();
        assert_eq!((link.moderation, link.flags.joined()), (moderation, "odd"));
        assert_eq!(link.reusable, caller != Caller::Anonymous, "a new one would be no better");
    }
    let link = make(&links, OWNER, "https://good.example/!").await.unwrap();
    assert_eq!(
        (link.moderation, links.reasons(&link)),
        (ModerationStatus::Suspicious, vec![("exclaimed", "It is loud.")])
    );
    // Flags of the entered text survive a re-scan.
    assert_eq!(links.rescreen(&link.key).await.unwrap(), None);
}

#[tokio::test]
async fn the_scan_undoes_only_its_own_decisions() {
    let (links, screen) = fixture();
    let link = make(&links, OWNER, GOOD).await.unwrap();
    assert_eq!(links.rescreen(&link.key).await.unwrap(), None);
    for (word, moderation) in [
        ("blocked", ModerationStatus::Blocked),
        ("odd", ModerationStatus::Suspicious),
        ("clear", ModerationStatus::Clear),
    ] {
        screen.learn(GOOD, word);
        let new = links.rescreen(&link.key).await.unwrap().unwrap();
        assert_eq!(
            (new.moderation, new.moderated_by),
            (moderation, ModerationSource::Screen),
            "{word}"
        );
        assert_eq!(links.get(OWNER, &link.key).await.unwrap(), new);
        assert_eq!(links.rescreen(&link.key).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_moderators_decision_stays() {
    let (links, screen) = fixture();
    let cleared = make(&links, OWNER, ODD).await.unwrap();
    let blocked = make(&links, OWNER, GOOD).await.unwrap();
    links
        .patch(Caller::OPERATOR, &cleared.key, &moderated(ModerationStatus::Clear), None)
        .await
        .unwrap();
    links
        .patch(Caller::OPERATOR, &blocked.key, &moderated(ModerationStatus::Blocked), None)
        .await
        .unwrap();
    screen.learn(ODD, "blocked");
    for link in [&cleared, &blocked] {
        assert_eq!(links.rescreen(&link.key).await.unwrap(), None);
    }
    // A moderator can also confirm a clear link.
    let link = make(&links, OWNER, "https://good.example/2").await.unwrap();
    let link = links
        .patch(Caller::OPERATOR, &link.key, &moderated(ModerationStatus::Clear), None)
        .await
        .unwrap();
    assert_eq!(link.moderated_by, ModerationSource::Moderator);
    screen.learn("https://good.example/2", "blocked");
    assert_eq!(links.rescreen(&link.key).await.unwrap(), None);
}

#[tokio::test]
async fn a_new_target_is_screened_unless_a_moderator_blocked_the_link() {
    let (links, _) = fixture();
    let link = make(&links, OWNER, GOOD).await.unwrap();
    links
        .patch(Caller::OPERATOR, &link.key, &moderated(ModerationStatus::Clear), None)
        .await
        .unwrap();
    let odd = links.patch(OWNER, &link.key, &to(ODD), None).await.unwrap();
    assert_eq!(
        (odd.moderation, odd.moderated_by, odd.flags.joined()),
        (ModerationStatus::Suspicious, ModerationSource::Screen, "odd")
    );
    let good = links.patch(OWNER, &link.key, &to(GOOD), None).await.unwrap();
    assert_eq!((good.moderation, good.flags.is_empty()), (ModerationStatus::Clear, true));
    links
        .patch(Caller::OPERATOR, &link.key, &moderated(ModerationStatus::Blocked), None)
        .await
        .unwrap();
    let still = links.patch(OWNER, &link.key, &to(ODD), None).await.unwrap();
    assert_eq!(
        (still.moderation, still.moderated_by),
        (ModerationStatus::Blocked, ModerationSource::Moderator)
    );
}

#[tokio::test]
async fn a_reported_link_has_a_warning_until_a_moderator_clears_it() {
    let (links, screen) = fixture();
    for caller in [OWNER, Caller::OPERATOR] {
        let link = make(&links, caller, GOOD).await.unwrap();
        assert!(link.reusable);
        let elder = Timestamp::from_ms(link.created_at.as_ms() - 1);
        assert_eq!(links.warn(&link.key, elder).await.unwrap(), None, "that was another link");
        let warned = links.warn(&link.key, link.created_at).await.unwrap().unwrap();
        assert_eq!(
            (warned.moderation, warned.moderated_by, warned.flags.joined()),
            (ModerationStatus::Suspicious, ModerationSource::Screen, REPORTED)
        );
        assert_eq!(
            (warned.reusable, links.reasons(&warned)),
            (true, vec![(REPORTED, "Several visitors have reported it.")]),
            "a new link must not get around the reports"
        );
        assert_eq!(links.warn(&link.key, link.created_at).await.unwrap(), None);
        assert_eq!(
            links.rescreen(&link.key).await.unwrap(),
            None,
            "the screen has nothing to say about it"
        );
        // Neither list changes nor a new target undo it.
        for (word, moderation) in
            [("blocked", ModerationStatus::Blocked), ("clear", ModerationStatus::Suspicious)]
        {
            screen.learn(GOOD, word);
            assert_eq!(
                links.rescreen(&link.key).await.unwrap().unwrap().moderation,
                moderation,
                "{word}"
            );
        }
        let external =
            links.patch(caller, &link.key, &to("https://fine.example/"), None).await.unwrap();
        assert_eq!(
            (external.moderation, external.flags.joined()),
            (ModerationStatus::Suspicious, REPORTED)
        );
        links.delete(caller, &link.key).await.unwrap();
        assert_eq!(
            links.restore(caller, &link.key).await.unwrap().moderation,
            ModerationStatus::Suspicious
        );
        let cleared = links
            .patch(Caller::OPERATOR, &link.key, &moderated(ModerationStatus::Clear), None)
            .await
            .unwrap();
        assert_eq!(
            (cleared.moderated_by, cleared.flags.is_empty()),
            (ModerationSource::Moderator, true)
        );
        assert_eq!(
            links.warn(&link.key, link.created_at).await.unwrap(),
            None,
            "a moderator has the last word"
        );
    }
}

#[tokio::test]
async fn an_owner_cannot_undo_the_warning_of_reports() {
    let (links, _) = fixture();
    let link = make(&links, OWNER, GOOD).await.unwrap();
    let first = link.revision;
    links.patch(OWNER, &link.key, &to("https://fine.example/"), None).await.unwrap();
    links.warn(&link.key, link.created_at).await.unwrap().unwrap();
    // Undo to before the report, and back.
    for to in [Some(first), None] {
        let undone = links.undo(OWNER, &link.key, to, None).await.unwrap();
        assert_eq!(
            (undone.moderation, undone.flags.joined()),
            (ModerationStatus::Suspicious, REPORTED),
            "{to:?}"
        );
    }
}

#[tokio::test]
async fn undoing_asks_about_the_target_as_any_change_does() {
    let (links, screen) = fixture();
    let link = make(&links, OWNER, GOOD).await.unwrap();
    links.patch(OWNER, &link.key, &to("https://fine.example/"), None).await.unwrap();
    screen.external.lock().unwrap().insert(GOOD.into(), "blocked");
    // The external service does not answer: the link is queued for another scan.
    screen.silent.store(true, Ordering::SeqCst);
    assert!(links.undo(OWNER, &link.key, None, None).await.unwrap().flags.contains(UNSCREENED));
    assert_eq!(*screen.revisits.lock().unwrap(), std::slice::from_ref(&link.key));
    links.patch(OWNER, &link.key, &to("https://fine.example/"), None).await.unwrap();
    screen.silent.store(false, Ordering::SeqCst);
    let refused = links.undo(OWNER, &link.key, None, None).await;
    let Err(LinkError::Refused(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(error.kind, ValidationErrorKind::BlockedDestination);
}

#[tokio::test]
async fn a_restored_link_is_queued_if_no_service_answers() {
    let (links, screen) = fixture();
    let link = make(&links, OWNER, GOOD).await.unwrap();
    links.delete(OWNER, &link.key).await.unwrap();
    screen.external.lock().unwrap().insert(GOOD.into(), "blocked");
    assert!(links.restore(OWNER, &link.key).await.unwrap().flags.contains(UNSCREENED));
    assert_eq!(*screen.revisits.lock().unwrap(), std::slice::from_ref(&link.key));
}

#[tokio::test]
async fn a_restored_link_is_screened_again() {
    let (links, screen) = fixture();
    let link = make(&links, OWNER, GOOD).await.unwrap();
    links.delete(OWNER, &link.key).await.unwrap();
    screen.learn(GOOD, "blocked");
    assert_eq!(
        links.restore(OWNER, &link.key).await.unwrap().moderation,
        ModerationStatus::Blocked
    );
}

/// Starts to block a target between screening and writing.
struct Late(Arc<ScriptedScreening>);

#[async_trait]
impl CodeSource for Late {
    async fn next(&self, _wanted: CodeRequest<'_>) -> Result<Code, CodeSourceError> {
        self.0.learn(GOOD, "blocked");
        Ok(Code::parse("late123").unwrap())
    }
}

#[tokio::test]
async fn a_block_that_begins_while_a_link_is_written_applies() {
    let screen = Arc::new(ScriptedScreening::default());
    let links = links(Arc::new(MemoryStore::new()), Arc::new(Late(screen.clone())), &screen);
    let link = make(&links, OWNER, GOOD).await.unwrap();
    assert_eq!(link.moderation, ModerationStatus::Blocked);
    assert_eq!(links.get(OWNER, &link.key).await.unwrap(), link);
}

fn ruled(rules: serde_json::Value) -> LinkPatch {
    LinkPatch { rules: PatchField::Set(rules::RawRules(rules)), ..LinkPatch::default() }
}

#[tokio::test]
async fn targets_of_rules_are_screened() {
    let (links, screen) = fixture();
    let draft = |rules: serde_json::Value| CreateLink {
        long_url: GOOD.into(),
        rules: Some(rules::RawRules(rules)),
        ..CreateLink::default()
    };
    let field = |outcome: Result<Link, LinkError>| match outcome {
        Err(LinkError::Refused(refusal))
            if refusal.kind == ValidationErrorKind::BlockedDestination =>
        {
            refusal.field.into_owned()
        }
        other => panic!("{other:?}"),
    };
    let hidden = json!([{"to": GOOD}, {"device": "mobile", "to": [{"url": GOOD}, {"url": BAD}]}]);
    assert_eq!(
        field(links.create(OWNER, draft(hidden.clone()), None).await.map(|made| made.link)),
        "rules[1].to[1].url"
    );
    let link = make(&links, OWNER, GOOD).await.unwrap();
    assert!(link.reusable);
    assert_eq!(
        field(links.patch(OWNER, &link.key, &ruled(hidden), None).await),
        "rules[1].to[1].url"
    );
    assert_eq!(links.get(OWNER, &link.key).await.unwrap(), link);

    // One suspicious target puts a warning on the link until it is removed.
    let made = links
        .create(OWNER, draft(json!([{"device": "mobile", "to": ODD}])), None)
        .await
        .unwrap()
        .link;
    assert_eq!(
        (made.moderation, made.flags.joined(), made.reusable),
        (ModerationStatus::Suspicious, "odd", true)
    );
    assert_eq!(links.rescreen(&made.key).await.unwrap(), None);
    let odd = links.patch(OWNER, &link.key, &ruled(json!([{"to": ODD}])), None).await.unwrap();
    assert_eq!(
        (odd.moderation, odd.flags.joined(), odd.reusable),
        (ModerationStatus::Suspicious, "odd", true)
    );
    let good = links.patch(OWNER, &link.key, &ruled(json!([])), None).await.unwrap();
    assert_eq!(
        (good.moderation, good.flags.is_empty(), good.rules),
        (ModerationStatus::Clear, true, None)
    );
    // A new target does not hide the targets of the rules.
    links.patch(OWNER, &link.key, &ruled(json!([{"to": ODD}])), None).await.unwrap();
    let moved =
        links.patch(OWNER, &link.key, &to("https://good.example/external"), None).await.unwrap();
    assert_eq!(moved.moderation, ModerationStatus::Suspicious);

    // Later list changes apply and are undone.
    let late = "https://late.example/";
    let link = links
        .create(OWNER, draft(json!([{"country": "AT", "to": late}])), None)
        .await
        .unwrap()
        .link;
    assert_eq!((link.moderation, link.reusable), (ModerationStatus::Clear, true));
    for (word, moderation) in [
        ("blocked", ModerationStatus::Blocked),
        ("odd", ModerationStatus::Suspicious),
        ("clear", ModerationStatus::Clear),
    ] {
        screen.learn(late, word);
        assert_eq!(
            links.rescreen(&link.key).await.unwrap().unwrap().moderation,
            moderation,
            "{word}"
        );
        assert_eq!(links.rescreen(&link.key).await.unwrap(), None);
    }
}

#[tokio::test]
async fn flags_of_all_targets_of_a_link_are_gathered() {
    let (links, _) = fixture();
    let rules = rules::RawRules(json!([{"to": ODD}, {"to": "https://good.example/!"}]));
    let draft = CreateLink { long_url: GOOD.into(), rules: Some(rules), ..CreateLink::default() };
    let link = links.create(OWNER, draft, None).await.unwrap().link;
    assert_eq!(
        (link.moderation, link.flags.joined()),
        (ModerationStatus::Suspicious, "exclaimed,odd")
    );
    assert_eq!(links.rescreen(&link.key).await.unwrap(), None);
    // The flagged target is removed; the stored flags do not say which target raised them.
    let link = links.patch(OWNER, &link.key, &ruled(json!([{"to": ODD}])), None).await.unwrap();
    assert_eq!(link.flags.joined(), "exclaimed,odd");
}
