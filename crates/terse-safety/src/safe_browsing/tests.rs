//! The lists and the answers together, by the protocol.

use super::message::ListUpdate;
use super::rice::tests::encode;
use super::*;
use crate::{Flag, FlagSet, SAFE_BROWSING, Screen, Verdict};
use sha2::{Digest as _, Sha256};
use terse_core::ModerationStatus;

fn target(text: &str) -> Target {
    Target::from_stored(text.into())
}

fn hash(expression: &str) -> [u8; 32] {
    Sha256::digest(expression).into()
}

fn checksum(prefixes: &[u32]) -> Option<[u8; 32]> {
    let bytes: Vec<u8> = prefixes.iter().flat_map(|prefix| prefix.to_be_bytes()).collect();
    Some(Sha256::digest(bytes).into())
}

fn whole(version: &[u8], prefixes: &[u32]) -> ListUpdate {
    let additions = (!prefixes.is_empty()).then(|| encode(prefixes, 30));
    ListUpdate {
        version: version.into(),
        additions,
        checksum: checksum(prefixes),
        ..ListUpdate::default()
    }
}

fn partial(version: &[u8], removals: &[u32], additions: &[u32], after: &[u32]) -> ListUpdate {
    ListUpdate {
        partial: true,
        removals: (!removals.is_empty()).then(|| encode(removals, 3)),
        checksum: checksum(after),
        ..whole(version, additions)
    }
}

/// The answer that these expressions are dangerous.
fn answer(expressions: &[&str], seconds: u8) -> Vec<u8> {
    let mut answer = vec![0x12, 2, 0x08, seconds];
    for expression in expressions {
        answer.extend([0x0a, 38, 0x0a, 32]);
        answer.extend(hash(expression));
        answer.extend([0x12, 2, 0x08, 2]);
    }
    answer
}

fn listing(clock: &Clock, expressions: &[&str]) -> SafeBrowsing {
    let known = SafeBrowsing::new(clock.clone());
    let mut prefixes: Vec<u32> =
        expressions.iter().map(|expression| beginning(&hash(expression))).collect();
    prefixes.sort_unstable();
    let list = HashList::new("se-4b").updated(&whole(b"1", &prefixes)).unwrap();
    known.replace(&[list], clock.now());
    known
}

#[test]
fn a_list_follows_the_servers_by_what_is_removed_and_added() {
    let one = HashList::new("se-4b").updated(&whole(b"1", &[10, 20, 30, 40])).unwrap();
    assert_eq!((one.version(), one.prefixes()), (&b"1"[..], &[10, 20, 30, 40][..]));
    let two = one.updated(&partial(b"2", &[0, 2], &[5, 25, 50], &[5, 20, 25, 40, 50])).unwrap();
    assert_eq!((two.version(), two.prefixes()), (&b"2"[..], &[5, 20, 25, 40, 50][..]));
    // Nothing new: the server leaves out what has not changed.
    let same = ListUpdate { partial: true, ..ListUpdate::default() };
    assert_eq!(two.updated(&same), Ok(two.clone()));
    // Not partial: what was there is gone.
    let three = two.updated(&whole(b"3", &[7])).unwrap();
    assert_eq!(three.prefixes(), [7]);
    assert_eq!(three.updated(&whole(b"4", &[])).map(|list| list.len()), Ok(0));
    let again = HashList::from_bytes("se-4b", b"2".into(), &two.to_bytes(), two.checksum());
    assert_eq!(again, Some(two.clone()));
    assert_eq!(
        HashList::from_bytes("se-4b", b"2".into(), &two.to_bytes()[..16], two.checksum()),
        None
    );
}

#[test]
fn a_list_that_would_not_be_the_servers_is_not_taken() {
    let one = HashList::new("se-4b").updated(&whole(b"1", &[10, 20])).unwrap();
    for update in [
        partial(b"2", &[], &[30], &[10, 20, 31]),
        partial(b"2", &[2], &[], &[10, 20]),
        ListUpdate { checksum: None, ..partial(b"2", &[], &[30], &[]) },
        ListUpdate { checksum: None, ..whole(b"2", &[30]) },
        ListUpdate { other_length: true, ..whole(b"2", &[]) },
    ] {
        assert!(one.updated(&update).is_err(), "{update:?}");
    }
}

#[test]
fn what_is_on_no_list_is_clean_and_what_may_be_is_asked_for() {
    let clock = Clock::default();
    let known = listing(&clock, &["bad.example.net/"]);
    assert_eq!(known.word(&target("https://good.example.net/")), Word::Clean);
    for text in ["https://bad.example.net/", "http://a.b.bad.example.net:81/x/y?z#q"] {
        assert_eq!(known.word(&target(text)), Word::Unsure, "{text}");
        assert_eq!(known.wanted(&target(text)), [beginning(&hash("bad.example.net/"))]);
    }
    // Where a known redirector leads on to counts as well.
    let through = target("https://www.google.com/url?q=https://bad.example.net/");
    assert_eq!(known.word(&through), Word::Unsure);

    let asked = known.wanted(&target("https://bad.example.net/"));
    assert_eq!(known.learn(&asked, &answer(&["bad.example.net/"], 60)), Ok(Learned { threats: 1 }));
    assert_eq!(
        (known.word(&target("https://bad.example.net/x")), known.word(&through)),
        (Word::Threat, Word::Threat)
    );
    clock.advance(Duration::from_secs(61));
    assert_eq!(
        known.word(&target("https://bad.example.net/x")),
        Word::Unsure,
        "the answer has expired"
    );
    assert_eq!(known.learn(&asked, &answer(&[], 0)), Ok(Learned::default()));
    assert_eq!(
        known.word(&target("https://bad.example.net/x")),
        Word::Clean,
        "that there is nothing is an answer"
    );
    assert!(known.learn(&asked, b"<html>").is_err());
}

#[test]
fn nothing_is_hashed_while_no_answer_names_a_threat() {
    let clock = Clock::default();
    let known = Arc::new(listing(&clock, &["bad.example.net/", "fine.example.net/"]));
    let screen = Screen::default().with_safe_browsing(Arc::clone(&known));
    let (bad, fine) = (target("https://bad.example.net/x"), target("https://fine.example.net/"));
    let blocked = || {
        let before = expressions::HASHED.get();
        let both = [screen.blocks(&bad), screen.blocks(&fine)];
        (both, expressions::HASHED.get() > before)
    };
    assert_eq!(blocked(), ([false, false], false), "nobody was asked");
    known.learn(&known.wanted(&fine), &answer(&[], 0)).unwrap();
    assert_eq!(blocked(), ([false, false], false), "there was nothing");
    known.learn(&known.wanted(&bad), &answer(&["bad.example.net/"], 60)).unwrap();
    assert_eq!(blocked(), ([true, false], true));
    clock.advance(Duration::from_secs(30));
    known
        .learn(&[beginning(&hash("fine.example.net/"))], &answer(&["fine.example.net/"], 10))
        .unwrap();
    assert_eq!(blocked(), ([true, true], true));
    clock.advance(Duration::from_secs(11));
    assert_eq!(blocked(), ([true, false], true), "the older answer holds for longer");
    clock.advance(Duration::from_secs(20));
    assert_eq!(blocked(), ([false, false], false), "all have expired");
}

#[test]
fn a_whole_hash_that_was_not_asked_for_says_nothing() {
    let clock = Clock::default();
    let known = listing(&clock, &["bad.example.net/", "worse.example.net/"]);
    let asked = known.wanted(&target("https://bad.example.net/"));
    assert_eq!(known.learn(&asked, &answer(&["worse.example.net/"], 60)), Ok(Learned::default()));
    assert_eq!(known.word(&target("https://bad.example.net/")), Word::Clean);
    assert_eq!(known.word(&target("https://worse.example.net/")), Word::Unsure);
}

#[test]
fn old_lists_and_none_are_not_trusted() {
    let clock = Clock::default();
    let none = SafeBrowsing::new(clock.clone());
    assert_eq!((none.word(&target("https://good.example.net/")), none.age()), (Word::Unsure, None));
    assert!(
        none.wanted(&target("https://good.example.net/")).is_empty(),
        "there is nothing to ask for"
    );
    let known = listing(&clock, &["bad.example.net/"]);
    clock.advance(MAX_TRUST + Duration::from_secs(5));
    assert_eq!(known.word(&target("https://good.example.net/")), Word::CleanOfOld);
    assert_eq!(known.word(&target("https://bad.example.net/")), Word::Unsure);
    known.confirm(clock.now());
    assert_eq!(known.word(&target("https://good.example.net/")), Word::Clean);
}

#[test]
fn the_screen_says_what_follows_for_a_link() {
    let clock = Clock::default();
    let known = Arc::new(listing(&clock, &["bad.example.net/"]));
    let screen = Screen::default().with_safe_browsing(Arc::clone(&known));
    let (good, bad) = (target("https://good.example.net/"), target("https://bad.example.net/"));
    let unscreened: FlagSet = [Flag::Unscreened].into_iter().collect();
    let typed = |target: &Target| screen.judge_typed(target.as_str(), target);
    let again = |target: &Target, kept, standing| screen.judge_again(target, kept, standing);
    let blocked = |verdict: Verdict| matches!(verdict, Verdict::Blocked(block) if block.source == SAFE_BROWSING);

    assert_eq!(
        (typed(&good), typed(&bad)),
        (Verdict::Clear(FlagSet::NONE), Verdict::Clear(unscreened))
    );
    assert_eq!(again(&bad, unscreened, ModerationStatus::Clear), Verdict::Clear(unscreened));
    assert_eq!(
        again(&bad, FlagSet::NONE, ModerationStatus::Clear),
        Verdict::Clear(FlagSet::NONE),
        "it was screened once"
    );
    assert!(
        blocked(again(&bad, FlagSet::NONE, ModerationStatus::Blocked)),
        "it stays down until somebody knows"
    );
    assert_eq!(again(&good, unscreened, ModerationStatus::Blocked), Verdict::Clear(FlagSet::NONE));
    assert!(!screen.blocks(&bad));

    clock.advance(MAX_TRUST + Duration::from_secs(5));
    assert_eq!(typed(&good), Verdict::Clear(unscreened));
    assert_eq!(again(&good, unscreened, ModerationStatus::Clear), Verdict::Clear(unscreened));
    assert_eq!(
        again(&good, FlagSet::NONE, ModerationStatus::Blocked),
        Verdict::Clear(FlagSet::NONE),
        "an old list is one"
    );

    known.learn(&known.wanted(&bad), &answer(&["bad.example.net/"], 60)).unwrap();
    assert!(
        blocked(typed(&bad))
            && blocked(again(&bad, unscreened, ModerationStatus::Clear))
            && screen.blocks(&bad)
    );
    let strict = Screen::new(unscreened).with_safe_browsing(known);
    assert_eq!(strict.judge_typed(good.as_str(), &good), Verdict::Suspicious(unscreened));
}
