//! Safe Browsing with a protocol server, including its failures.

use std::time::Duration;

use serde_json::{Value, json};
use terse::Config;
use terse::config::Secret;
use terse_testkit::wait_until;

use crate::harness::{Answer, TestTerse};
use crate::safe_browsing_server::{Behaviour, KEY, SafeBrowsingServer};
use crate::screening::metric;

const LISTS: &str = "/v5/hashLists:batchGet";
const SEARCH: &str = "/v5/hashes:search";
const HALF_AN_HOUR: Duration = Duration::from_secs(1801);

/// A server with loaded lists, unless the Safe Browsing server fails.
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

/// Advances the clock and waits. Serving threads read the clock only periodically and close
/// connections that then seem idle.
fn turn(terse: &TestTerse, by: Duration) {
    terse.clock().advance(by);
    std::thread::sleep(Duration::from_secs(1));
}

fn with_lists(server: &SafeBrowsingServer) -> TestTerse {
    let terse = terse(server);
    wait_until("the lists are there", || metric(&terse, "terse_safe_browsing_entries") >= 2000);
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
    assert_eq!(server.requests(SEARCH), 0, "unlisted targets cause no request");
    for target in ["https://bad.example.net/", "http://u@www.bad.example.net:81/a/b?c#d"] {
        let refused = terse.anonymous("POST", "/urls", Some(json!({"long_url": target})));
        assert_eq!(
            (refused.status, &refused.json()["code"]),
            (422, &json!("blocked_destination")),
            "{target}"
        );
        assert!(!refused.text().contains("Safe"), "the response does not name the source");
    }
    assert!(make(&terse, "bad1", "https://bad.example.net/x").text().contains("by Safe Browsing"));
    assert_eq!(server.requests(SEARCH), 1, "the response is cached");
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
    wait_until("it is taken down", || terse.get("/link1").status == 451);
    wait_until("the store knows", || status(&terse, "link1") == "blocked");
    assert_eq!((terse.get("/other1").status, terse.get("/byhand1").status), (302, 302));
    assert_eq!(server.last(LISTS, "version").len(), 5, "only the differences are fetched");

    // The response has expired and the server is down: the link stays blocked.
    server.change(|state| state.search = Behaviour::Status(503));
    server.list(&["bad.example.net/", "z.example.net/"]);
    let rounds = metric(&terse, "terse_rescans_total");
    turn(&terse, HALF_AN_HOUR);
    wait_until("all links are scanned again", || metric(&terse, "terse_rescans_total") > rounds);
    wait_until("the service does not answer", || {
        metric(&terse, "terse_safe_browsing_questions_total{outcome=\"failed\"}") >= 1
    });
    assert_eq!((terse.get("/link1").status, status(&terse, "link1")), (451, json!("blocked")));
    assert_eq!((terse.get("/other1").status, flags(&terse, "other1")), (302, json!([])));

    server.remove_threat("bad.example.net/");
    server.change(|state| state.search = Behaviour::Well);
    server.list(&["z.example.net/"]);
    turn(&terse, HALF_AN_HOUR);
    wait_until("it works again", || terse.get("/link1").status == 302);
}

#[test]
fn a_link_is_created_while_safe_browsing_is_down_and_scanned_later() {
    let server = SafeBrowsingServer::start(&["bad.example.net/", "by-chance.example.net/"]);
    server.threat("bad.example.net/", 2, &[]);
    let terse = with_lists(&server);
    let unscreened = json!(["unscreened"]);
    for (at, behaviour) in
        [Behaviour::Stuck, Behaviour::Status(429), Behaviour::Status(503), Behaviour::Garbage]
            .into_iter()
            .enumerate()
    {
        server.change(|state| state.search = behaviour);
        let (bad, chance) = (format!("bad{at}"), format!("chance{at}"));
        for (alias, target) in
            [(&bad, "https://bad.example.net/"), (&chance, "https://by-chance.example.net/")]
        {
            let made = make(&terse, alias, target);
            assert_eq!((made.status, &made.json()["flags"]), (201, &unscreened), "{behaviour:?}");
            assert_eq!(
                (made.json()["status"].clone(), terse.get(&format!("/{alias}")).status),
                (json!("active"), 302)
            );
        }
        server.change(|state| state.search = Behaviour::Well);
        // After the back-off and after the cached responses have expired.
        wait_until("both are scanned", || {
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
    server.change(|state| state.lists = Behaviour::Status(503));
    // Not by the schedule: the reloaded lists trigger the scan.
    let terse = terse_that(&server, |config| config.safety.rescan_every = "365d".parse().unwrap());
    wait_until("the request failed", || {
        metric(&terse, "terse_safe_browsing_updates_total{outcome=\"failed\"}") >= 1
    });
    for (alias, target) in
        [("good1", "https://good.example.net/"), ("bad1", "https://bad.example.net/")]
    {
        assert_eq!(make(&terse, alias, target).json()["flags"], json!(["unscreened"]));
        assert_eq!(terse.get(&format!("/{alias}")).status, 302);
    }
    server.change(|state| state.lists = Behaviour::Well);
    turn(&terse, 2 * HALF_AN_HOUR);
    wait_until("both are scanned", || {
        terse.get("/bad1").status == 451 && flags(&terse, "good1") == json!([])
    });

    for (at, behaviour) in [Behaviour::Status(429), Behaviour::Garbage].into_iter().enumerate() {
        server.change(|state| state.lists = behaviour);
        turn(&terse, Duration::from_secs(25 * 3600));
        let alias = format!("late{at}");
        assert_eq!(
            make(&terse, &alias, "https://good.example.net/").json()["flags"],
            json!(["unscreened"]),
            "{behaviour:?}"
        );
        assert_eq!(flags(&terse, "good1"), json!([]), "it was screened once");
        server.change(|state| state.lists = Behaviour::Well);
        wait_until("it is scanned, although the lists are unchanged", || {
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
    let requests = server.requests(LISTS);
    server.list(&["bad.example.net/"]);
    server.change(|state| state.lists = Behaviour::WrongSum);
    turn(&terse, HALF_AN_HOUR);
    wait_until("two requests were sent", || server.requests(LISTS) == requests + 2);
    wait_until("the list is in force", || {
        make(&terse, "bad1", "https://bad.example.net/").status == 422
    });
    assert_eq!(metric(&terse, "terse_safe_browsing_updates_total{outcome=\"reset\"}"), 1);
    assert_eq!(server.last(LISTS, "version").len(), 4, "one list as a whole");
}

#[test]
fn lists_survive_a_restart_and_are_not_requested_too_early() {
    let server = SafeBrowsingServer::start(&["bad.example.net/"]);
    let mut terse = with_lists(&server);
    wait_until("they are kept", || {
        terse.config.data_dir.join("lists/safe-browsing.lists").exists()
    });
    let requests = server.requests(LISTS);
    server.change(|state| {
        (state.lists, state.search) = (Behaviour::Status(503), Behaviour::Status(503));
    });
    terse.restart();
    assert_eq!(metric(&terse, "terse_safe_browsing_entries"), 2001);
    assert_eq!(make(&terse, "good1", "https://good.example.net/").json()["flags"], json!([]));
    assert_eq!(
        make(&terse, "bad1", "https://bad.example.net/").json()["flags"],
        json!(["unscreened"])
    );
    assert_eq!(server.requests(LISTS), requests);
    // A damaged copy is ignored.
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
fn an_operator_may_warn_of_unscreened_links() {
    let server = SafeBrowsingServer::start(&[]);
    server.change(|state| state.lists = Behaviour::Status(500));
    let terse = terse_that(&server, |config| config.safety.warn_on = vec!["unscreened".into()]);
    let made = terse.anonymous(
        "POST",
        "/urls",
        Some(json!({"long_url": "https://good.example.net/", "alias": "good1"})),
    );
    assert_eq!(made.json()["status"], "suspicious");
    assert!(terse.browse("/good1").text().contains("This site has not been checked yet"));
    server.change(|state| state.lists = Behaviour::Well);
    turn(&terse, 2 * HALF_AN_HOUR);
    wait_until("it was checked", || terse.get("/good1").status == 302);
}
