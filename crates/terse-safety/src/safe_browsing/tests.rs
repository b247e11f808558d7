//! Lists and cached responses together.

use super::message::HashListUpdate;
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

fn whole(version: &[u8], prefixes: &[u32]) -> HashListUpdate {
    let additions = (!prefixes.is_empty()).then(|| encode(prefixes, 30));
    HashListUpdate {
        version: version.into(),
        additions,
        checksum: checksum(prefixes),
        ..HashListUpdate::default()
    }
}

fn partial(version: &[u8], removals: &[u32], additions: &[u32], after: &[u32]) -> HashListUpdate {
    HashListUpdate {
        partial: true,
        removals: (!removals.is_empty()).then(|| encode(removals, 3)),
        checksum: checksum(after),
        ..whole(version, additions)
    }
}

/// A response that names these expressions as dangerous.
fn response(expressions: &[&str], seconds: u8) -> Vec<u8> {
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
        expressions.iter().map(|expression| prefix_of(&hash(expression))).collect();
    prefixes.sort_unstable();
    let list = HashList::new("se-4b").updated(&whole(b"1", &prefixes)).unwrap();
    known.replace(&[list], clock.now());
    known
}

#[test]
fn removals_and_additions_are_applied() {
    let one = HashList::new("se-4b").updated(&whole(b"1", &[10, 20, 30, 40])).unwrap();
    assert_eq!((one.version(), one.prefixes()), (&b"1"[..], &[10, 20, 30, 40][..]));
    let two = one.updated(&partial(b"2", &[0, 2], &[5, 25, 50], &[5, 20, 25, 40, 50])).unwrap();
    assert_eq!((two.version(), two.prefixes()), (&b"2"[..], &[5, 20, 25, 40, 50][..]));
    // Without changes the server omits unchanged fields.
    let same = HashListUpdate { partial: true, ..HashListUpdate::default() };
    assert_eq!(two.updated(&same), Ok(two.clone()));
    // A full update replaces all entries.
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
fn an_update_with_a_wrong_checksum_is_rejected() {
    let one = HashList::new("se-4b").updated(&whole(b"1", &[10, 20])).unwrap();
    for update in [
        partial(b"2", &[], &[30], &[10, 20, 31]),
        partial(b"2", &[2], &[], &[10, 20]),
        HashListUpdate { checksum: None, ..partial(b"2", &[], &[30], &[]) },
        HashListUpdate { checksum: None, ..whole(b"2", &[30]) },
        HashListUpdate { other_length: true, ..whole(b"2", &[]) },
    ] {
        assert!(one.updated(&update).is_err(), "{update:?}");
    }
}

#[test]
fn unlisted_targets_are_clean_and_listed_prefixes_are_requested() {
    let clock = Clock::default();
    let known = listing(&clock, &["bad.example.net/"]);
    assert_eq!(known.status(&target("https://good.example.net/")), SafeBrowsingStatus::Clean);
    for text in ["https://bad.example.net/", "http://a.b.bad.example.net:81/x/y?z#q"] {
        assert_eq!(known.status(&target(text)), SafeBrowsingStatus::Unknown, "{text}");
        assert_eq!(known.unknown_prefixes(&target(text)), [prefix_of(&hash("bad.example.net/"))]);
    }
    // The target of an open redirect is checked as well.
    let through = target("https://www.google.com/url?q=https://bad.example.net/");
    assert_eq!(known.status(&through), SafeBrowsingStatus::Unknown);

    let prefixes = known.unknown_prefixes(&target("https://bad.example.net/"));
    assert_eq!(
        known.store_response(&prefixes, &response(&["bad.example.net/"], 60)),
        Ok(LookupSummary { threats: 1 })
    );
    assert_eq!(
        (known.status(&target("https://bad.example.net/x")), known.status(&through)),
        (SafeBrowsingStatus::Threat, SafeBrowsingStatus::Threat)
    );
    clock.advance(Duration::from_secs(61));
    assert_eq!(
        known.status(&target("https://bad.example.net/x")),
        SafeBrowsingStatus::Unknown,
        "the answer has expired"
    );
    assert_eq!(known.store_response(&prefixes, &response(&[], 0)), Ok(LookupSummary::default()));
    assert_eq!(
        known.status(&target("https://bad.example.net/x")),
        SafeBrowsingStatus::Clean,
        "that there is nothing is an answer"
    );
    assert!(known.store_response(&prefixes, b"<html>").is_err());
}

#[test]
fn nothing_is_hashed_while_no_response_names_a_threat() {
    let clock = Clock::default();
    let known = Arc::new(listing(&clock, &["bad.example.net/", "fine.example.net/"]));
    let screen = Screen::default().with_safe_browsing(Arc::clone(&known));
    let (bad, fine) = (target("https://bad.example.net/x"), target("https://fine.example.net/"));
    let blocked = || {
        let before = expressions::HASHED.get();
        let both = [screen.blocks(&bad), screen.blocks(&fine)];
        (both, expressions::HASHED.get() > before)
    };
    assert_eq!(blocked(), ([false, false], false), "no prefix was looked up yet");
    known.store_response(&known.unknown_prefixes(&fine), &response(&[], 0)).unwrap();
    assert_eq!(blocked(), ([false, false], false), "there was nothing");
    known
        .store_response(&known.unknown_prefixes(&bad), &response(&["bad.example.net/"], 60))
        .unwrap();
    assert_eq!(blocked(), ([true, false], true));
    clock.advance(Duration::from_secs(30));
    known
        .store_response(
            &[prefix_of(&hash("fine.example.net/"))],
            &response(&["fine.example.net/"], 10),
        )
        .unwrap();
    assert_eq!(blocked(), ([true, true], true));
    clock.advance(Duration::from_secs(11));
    assert_eq!(blocked(), ([true, false], true), "the older answer holds for longer");
    clock.advance(Duration::from_secs(20));
    assert_eq!(blocked(), ([false, false], false), "all have expired");
}

#[test]
fn a_full_hash_that_was_not_requested_is_ignored() {
    let clock = Clock::default();
    let known = listing(&clock, &["bad.example.net/", "worse.example.net/"]);
    let prefixes = known.unknown_prefixes(&target("https://bad.example.net/"));
    assert_eq!(
        known.store_response(&prefixes, &response(&["worse.example.net/"], 60)),
        Ok(LookupSummary::default())
    );
    assert_eq!(known.status(&target("https://bad.example.net/")), SafeBrowsingStatus::Clean);
    assert_eq!(known.status(&target("https://worse.example.net/")), SafeBrowsingStatus::Unknown);
}

#[test]
fn stale_and_missing_lists_are_not_trusted() {
    let clock = Clock::default();
    let none = SafeBrowsing::new(clock.clone());
    assert_eq!(
        (none.status(&target("https://good.example.net/")), none.age()),
        (SafeBrowsingStatus::Unknown, None)
    );
    assert!(
        none.unknown_prefixes(&target("https://good.example.net/")).is_empty(),
        "there is nothing to ask for"
    );
    let known = listing(&clock, &["bad.example.net/"]);
    clock.advance(MAX_LIST_AGE + Duration::from_secs(5));
    assert_eq!(
        known.status(&target("https://good.example.net/")),
        SafeBrowsingStatus::CleanByStaleLists
    );
    assert_eq!(known.status(&target("https://bad.example.net/")), SafeBrowsingStatus::Unknown);
    known.confirm(clock.now());
    assert_eq!(known.status(&target("https://good.example.net/")), SafeBrowsingStatus::Clean);
}

#[test]
fn the_screen_applies_the_safe_browsing_status() {
    let clock = Clock::default();
    let known = Arc::new(listing(&clock, &["bad.example.net/"]));
    let screen = Screen::default().with_safe_browsing(Arc::clone(&known));
    let (good, bad) = (target("https://good.example.net/"), target("https://bad.example.net/"));
    let unscreened: FlagSet = [Flag::Unscreened].into_iter().collect();
    let typed = |target: &Target| screen.check_input(target.as_str(), target);
    let again = |target: &Target, kept, moderation| screen.recheck(target, kept, moderation);
    let blocked = |verdict: Verdict| match verdict {
        Verdict::Blocked(block) => block.source == SAFE_BROWSING,
        _ => false,
    };

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
        "it stays blocked until the server answers"
    );
    assert_eq!(again(&good, unscreened, ModerationStatus::Blocked), Verdict::Clear(FlagSet::NONE));
    assert!(!screen.blocks(&bad));

    clock.advance(MAX_LIST_AGE + Duration::from_secs(5));
    assert_eq!(typed(&good), Verdict::Clear(unscreened));
    assert_eq!(again(&good, unscreened, ModerationStatus::Clear), Verdict::Clear(unscreened));
    assert_eq!(
        again(&good, FlagSet::NONE, ModerationStatus::Blocked),
        Verdict::Clear(FlagSet::NONE),
        "an old list is one"
    );

    known
        .store_response(&known.unknown_prefixes(&bad), &response(&["bad.example.net/"], 60))
        .unwrap();
    assert!(
        blocked(typed(&bad))
            && blocked(again(&bad, unscreened, ModerationStatus::Clear))
            && screen.blocks(&bad)
    );
    let strict = Screen::new(unscreened).with_safe_browsing(known);
    assert_eq!(strict.check_input(good.as_str(), &good), Verdict::Suspicious(unscreened));
}

#[test]
fn a_wall_clock_that_jumps_forgets_no_threat_and_makes_no_list_stale() {
    const YEAR_MS: i64 = 365 * 86_400_000;
    let clock = Clock::default();
    let known = SafeBrowsing::new(clock.clone());
    known.replace(&[], clock.now());
    let target = Target::from_stored("https://example.com/".into());
    known.store_response(&[7], &[]).unwrap();
    for by_ms in [YEAR_MS, -2 * YEAR_MS, YEAR_MS] {
        clock.shift_wall_clock(by_ms);
        assert_eq!(known.status(&target), SafeBrowsingStatus::Clean, "after {by_ms} ms");
        assert!(known.age().unwrap() < MAX_LIST_AGE);
        let responses = known.responses.read().unwrap();
        assert!(responses.get(7, clock.steady()).is_some(), "after {by_ms} ms");
    }
    clock.advance(MAX_LIST_AGE + Duration::from_secs(5));
    assert_eq!(known.status(&target), SafeBrowsingStatus::CleanByStaleLists);
    assert!(known.responses.read().unwrap().get(7, clock.steady()).is_none());
}
