//! Safe Browsing from the outside: a terse, a server after the protocol, and what becomes of links
//! when one of them has a bad day.

use std::time::Duration;

use serde_json::{Value, json};
use terse::Config;
use terse::config::Secret;

use crate::harness::{Answer, TestTerse};
use crate::safe_browsing_server::{KEY, Mood, SafeBrowsingServer};
use crate::screening::{metric, until};

const LISTS: &str = "/v5/hashLists:batchGet";
const SEARCH: &str = "/v5/hashes:search";
const HALF_AN_HOUR: Duration = Duration::from_secs(1801);

/// A terse whose lists are there, unless the server is not well.
fn terse(server: &SafeBrowsingServer) -> TestTerse {
    terse_that(server, |_| ())
}

fn terse_that(server: &SafeBrowsingServer, change: impl FnOnce(&mut Config)) -> TestTerse {
    let url = format!("http://{}/", server.address);
    TestTerse::with(|config| {
        config.safety.safe_browsing_key = Some(Secret::new(KEY));
        config.safety.safe_browsing_url = Some(url.parse().unwrap());
        change(config);
    })
}

/// Turns the clock. Serving threads look at it now and then only, and end connections that seem
/// idle since before it was turned: they are given time for that.
fn turn(terse: &TestTerse, by: Duration) {
    terse.clock().advance(by);
    std::thread::sleep(Duration::from_secs(1));
}

fn with_lists(server: &SafeBrowsingServer) -> TestTerse {
    let terse = terse(server);
    until("the lists are there", || metric(&terse, "terse_safe_browsing_entries") >= 2000);
    terse
}

fn make(terse: &TestTerse, alias: &str, target: &str) -> Answer {
    terse.api("POST", "/urls", Some(json!({"long_url": target, "custom_alias": alias})))
}

fn flags(terse: &TestTerse, alias: &str) -> Value {
    terse.api("GET", &format!("/urls/{alias}"), None).json()["flags"].clone()
}

fn status(terse: &TestTerse, alias: &str) -> Value {
    terse.api("GET", &format!("/urls/{alias}"), None).json()["status"].clone()
}

#[test]
fn a_dangerous_target_is_refused_and_only_what_may_be_one_is_asked_for() {
    let server = SafeBrowsingServer::start(&[
        "bad.example.net/",
        "by-chance.example.net/",
        "canary.example.net/a/",
    ]);
    server.threat("bad.example.net/", 2, &[]);
    server.threat("canary.example.net/a/", 1, &[1]);
    let terse = with_lists(&server);
    assert_eq!(server.last(LISTS, "names"), ["se-4b", "mw-4b", "uws-4b", "uwsa-4b", "pha-4b"]);
    assert!(server.last(LISTS, "version").is_empty());

    assert_eq!(make(&terse, "good1", "https://good.example.net/").status, 201);
    assert_eq!(server.asked(SEARCH), 0, "what is on no list is nobody's business");
    for target in ["https://bad.example.net/", "http://u@www.bad.example.net:81/a/b?c#d"] {
        let refused = terse.anonymous("POST", "/urls", Some(json!({"long_url": target})));
        assert_eq!(
            (refused.status, &refused.json()["code"]),
            (422, &json!("blocked_destination")),
            "{target}"
        );
        assert!(!refused.text().contains("Safe"), "strangers are not told who says so");
    }
    assert!(make(&terse, "bad1", "https://bad.example.net/x").text().contains("by Safe Browsing"));
    assert_eq!(server.asked(SEARCH), 1, "an answer is remembered");
    assert_eq!(server.last(SEARCH, "hashPrefixes").len(), 1);
    for (alias, target) in [
        ("chance1", "https://by-chance.example.net/"),
        ("canary1", "https://canary.example.net/a/b"),
    ] {
        assert_eq!(make(&terse, alias, target).status, 201);
        assert_eq!(
            (flags(&terse, alias), terse.get(&format!("/{alias}")).status),
            (json!([]), 302),
            "{alias}"
        );
    }
    let patched =
        terse.api("PATCH", "/urls/good1", Some(json!({"long_url": "https://bad.example.net/"})));
    assert_eq!(
        (patched.status, terse.get("/good1").location()),
        (422, Some("https://good.example.net/"))
    );
    assert!(!terse.get("/metrics").text().contains(KEY));
}

#[test]
fn links_are_taken_down_when_they_become_dangerous_and_come_back() {
    let server = SafeBrowsingServer::start(&["x.example.net/"]);
    let terse = with_lists(&server);
    for alias in ["link1", "other1", "byhand1"] {
        let target = if alias == "other1" {
            "https://other.example.net/"
        } else {
            "https://bad.example.net/y"
        };
        assert_eq!(make(&terse, alias, target).status, 201);
        assert_eq!(terse.get(&format!("/{alias}")).status, 302);
    }
    terse.api("PUT", "/admin/links/byhand1/standing", Some(json!({"standing": "clear"})));
    server.threat("bad.example.net/", 1, &[]);
    server.list(&["bad.example.net/", "y.example.net/"]);
    turn(&terse, HALF_AN_HOUR);
    until("it is taken down", || terse.get("/link1").status == 451);
    until("the store knows", || status(&terse, "link1") == "blocked");
    assert_eq!((terse.get("/other1").status, terse.get("/byhand1").status), (302, 302));
    assert_eq!(server.last(LISTS, "version").len(), 5, "only the differences are fetched");

    // The answer has expired, and nobody can be asked: it stays down, whatever else is listed.
    server.change(|state| state.search = Mood::Status(503));
    server.list(&["bad.example.net/", "z.example.net/"]);
    let rounds = metric(&terse, "terse_rescans_total");
    turn(&terse, HALF_AN_HOUR);
    until("all links are judged again", || metric(&terse, "terse_rescans_total") > rounds);
    until("nobody answers", || {
        metric(&terse, "terse_safe_browsing_questions_total{outcome=\"failed\"}") >= 1
    });
    assert_eq!((terse.get("/link1").status, status(&terse, "link1")), (451, json!("blocked")));
    assert_eq!((terse.get("/other1").status, flags(&terse, "other1")), (302, json!([])));

    server.harmless("bad.example.net/");
    server.change(|state| state.search = Mood::Well);
    server.list(&["z.example.net/"]);
    turn(&terse, HALF_AN_HOUR);
    until("it works again", || terse.get("/link1").status == 302);
}

#[test]
fn a_link_is_made_though_nobody_answers_and_judged_when_somebody_does() {
    let server = SafeBrowsingServer::start(&["bad.example.net/", "by-chance.example.net/"]);
    server.threat("bad.example.net/", 2, &[]);
    let terse = with_lists(&server);
    let unscreened = json!(["unscreened"]);
    for (at, mood) in
        [Mood::Stuck, Mood::Status(429), Mood::Status(503), Mood::Garbage].into_iter().enumerate()
    {
        server.change(|state| state.search = mood);
        let (bad, chance) = (format!("bad{at}"), format!("chance{at}"));
        for (alias, target) in
            [(&bad, "https://bad.example.net/"), (&chance, "https://by-chance.example.net/")]
        {
            let made = make(&terse, alias, target);
            assert_eq!((made.status, &made.json()["flags"]), (201, &unscreened), "{mood:?}");
            assert_eq!(
                (made.json()["status"].clone(), terse.get(&format!("/{alias}")).status),
                (json!("active"), 302)
            );
        }
        server.change(|state| state.search = Mood::Well);
        // Past the time for which it is left alone, and past the answers of before.
        until("both are judged", || {
            turn(&terse, Duration::from_secs(60));
            terse.get(&format!("/{bad}")).status == 451 && flags(&terse, &chance) == json!([])
        });
        assert_eq!(terse.get(&format!("/{chance}")).status, 302);
        turn(&terse, 2 * HALF_AN_HOUR);
    }
    assert_eq!(metric(&terse, "terse_safe_browsing_revisits_total{outcome=\"dropped\"}"), 0);
}

#[test]
fn without_lists_or_with_old_ones_new_links_are_unscreened_until_they_are_back() {
    let server = SafeBrowsingServer::start(&["bad.example.net/"]);
    server.threat("bad.example.net/", 2, &[]);
    server.change(|state| state.lists = Mood::Status(503));
    // Not by the schedule: the lists that are back have them judged.
    let terse = terse_that(&server, |config| config.safety.rescan_every = "365d".parse().unwrap());
    until("it was asked in vain", || {
        metric(&terse, "terse_safe_browsing_updates_total{outcome=\"failed\"}") >= 1
    });
    for (alias, target) in
        [("good1", "https://good.example.net/"), ("bad1", "https://bad.example.net/")]
    {
        assert_eq!(make(&terse, alias, target).json()["flags"], json!(["unscreened"]));
        assert_eq!(terse.get(&format!("/{alias}")).status, 302);
    }
    server.change(|state| state.lists = Mood::Well);
    turn(&terse, 2 * HALF_AN_HOUR);
    until("both are judged", || {
        terse.get("/bad1").status == 451 && flags(&terse, "good1") == json!([])
    });

    for (at, mood) in [Mood::Status(429), Mood::Garbage].into_iter().enumerate() {
        server.change(|state| state.lists = mood);
        turn(&terse, Duration::from_secs(25 * 3600));
        let alias = format!("late{at}");
        assert_eq!(
            make(&terse, &alias, "https://good.example.net/").json()["flags"],
            json!(["unscreened"]),
            "{mood:?}"
        );
        assert_eq!(flags(&terse, "good1"), json!([]), "it was screened once");
        server.change(|state| state.lists = Mood::Well);
        until("it is judged, though the lists are the same", || {
            turn(&terse, HALF_AN_HOUR);
            flags(&terse, &alias) == json!([])
        });
    }
    assert_eq!(terse.get("/bad1").status, 451);
}

#[test]
fn a_list_that_is_not_the_servers_is_fetched_as_a_whole() {
    let server = SafeBrowsingServer::start(&["x.example.net/"]);
    server.threat("bad.example.net/", 2, &[]);
    let terse = with_lists(&server);
    let asked = server.asked(LISTS);
    server.list(&["bad.example.net/"]);
    server.change(|state| state.lists = Mood::WrongSum);
    turn(&terse, HALF_AN_HOUR);
    until("it was asked twice", || server.asked(LISTS) == asked + 2);
    until("the list is in force", || {
        make(&terse, "bad1", "https://bad.example.net/").status == 422
    });
    assert_eq!(metric(&terse, "terse_safe_browsing_updates_total{outcome=\"reset\"}"), 1);
    assert_eq!(server.last(LISTS, "version").len(), 4, "one list as a whole");
}

#[test]
fn the_lists_are_there_after_a_restart_and_nobody_is_asked_too_early() {
    let server = SafeBrowsingServer::start(&["bad.example.net/"]);
    let mut terse = with_lists(&server);
    until("they are kept", || terse.config.data_dir.join("lists/safe-browsing.lists").exists());
    let asked = server.asked(LISTS);
    server.change(|state| (state.lists, state.search) = (Mood::Status(503), Mood::Status(503)));
    terse.restart();
    assert_eq!(metric(&terse, "terse_safe_browsing_entries"), 2001);
    assert_eq!(make(&terse, "good1", "https://good.example.net/").json()["flags"], json!([]));
    assert_eq!(
        make(&terse, "bad1", "https://bad.example.net/").json()["flags"],
        json!(["unscreened"])
    );
    assert_eq!(server.asked(LISTS), asked);
    // A copy that is broken is as good as none.
    terse.stop();
    let copy = terse.config.data_dir.join("lists/safe-browsing.lists");
    let mut bytes = std::fs::read(&copy).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&copy, bytes).unwrap();
    terse.restart();
    assert_eq!(
        make(&terse, "good2", "https://good.example.net/2").json()["flags"],
        json!(["unscreened"])
    );
}

#[test]
fn an_operator_may_warn_of_what_nobody_could_check() {
    let server = SafeBrowsingServer::start(&[]);
    server.change(|state| state.lists = Mood::Status(500));
    let terse = terse_that(&server, |config| config.safety.warn_on = vec!["unscreened".into()]);
    let made = terse.anonymous(
        "POST",
        "/urls",
        Some(json!({"long_url": "https://good.example.net/", "alias": "good1"})),
    );
    assert_eq!(made.json()["status"], "suspicious");
    assert!(terse.browse("/good1").text().contains("This site has not been checked yet"));
    server.change(|state| state.lists = Mood::Well);
    turn(&terse, 2 * HALF_AN_HOUR);
    until("it was checked", || terse.get("/good1").status == 302);
}
