//! Every state of a link for every kind of client, as one table.
//!
//! Details of single states are in `following.rs`, `passwords.rs`, `rules.rs` and `bans.rs`.

use std::time::Duration;

use serde_json::{Value, json};
use terse_core::registry::Role;

use crate::bans::TestAccount;
use crate::harness::{Answer, TestTerse};

/// A name that appears nowhere else on a page or in a header.
const TARGET: &str = "https://hidden-place.example.net/a?b=c#d";
const SECRET: &str = "hidden-place";
const FOR_NOBODY: &str = "private, max-age=0, no-store";

/// A state of a link and the result of a visit.
struct State {
    name: &'static str,
    /// The fields with which the link is created.
    made_with: fn() -> Value,
    /// What happens to the link afterwards.
    then: fn(&TestTerse, &str),
    /// The status for a browser, and for a program or a HEAD request.
    page: u16,
    program: u16,
    /// The problem code for programs; none if the link redirects or shows a page to everyone.
    word: Option<&'static str>,
    /// Whether it redirects to its target.
    leads: bool,
    /// Whether the page may show the target.
    tells: bool,
    /// The reason in the URL of the error page if `redirect.errors` is `page`; none if unaffected.
    error: Option<&'static str>,
}

const NORMAL: State = State {
    name: "active",
    made_with: || json!({}),
    then: |_, _| (),
    page: 302,
    program: 302,
    word: None,
    leads: true,
    tells: true,
    error: None,
};

/// A state without a redirect and without a visible target.
const fn fails(name: &'static str, status: u16, word: &'static str) -> State {
    State {
        name,
        page: status,
        program: status,
        word: Some(word),
        error: Some(word),
        leads: false,
        tells: false,
        ..NORMAL
    }
}

fn states() -> Vec<State> {
    vec![
        NORMAL,
        State {
            name: "archived",
            then: |terse, code| patch(terse, code, json!({"archived": true})),
            ..NORMAL
        },
        State { name: "visits-left", made_with: || json!({"max_clicks": 100}), ..NORMAL },
        // The rule decides for every visitor, never the link's own target.
        State {
            name: "rules",
            made_with: || {
                json!({
                    "long_url": "https://example.org/other",
                    "rules": [{"from": "2020-01-01", "to": TARGET}]
                })
            },
            ..NORMAL
        },
        State {
            made_with: || json!({"valid_from": "2999-01-01"}),
            ..fails("not-yet", 404, "not_found")
        },
        State { made_with: || json!({"ttl": 60}), ..fails("expired", 410, "expired") },
        State {
            made_with: || json!({"max_clicks": 1}),
            then: |terse, code| assert_eq!(terse.get(&format!("/{code}")).status, 302),
            ..fails("used-up", 410, "expired")
        },
        State {
            then: |terse, code| {
                assert_eq!(terse.api("DELETE", &format!("/urls/{code}"), None).status, 204);
            },
            ..fails("deleted", 404, "not_found")
        },
        State {
            then: |terse, code| moderate(terse, code, "blocked"),
            ..fails("blocked", 451, "blocked")
        },
        State {
            made_with: || json!({"rules": [{"to": TARGET}], "password": "open sesame"}),
            then: |terse, code| moderate(terse, code, "blocked"),
            ..fails("blocked-with-all", 451, "blocked")
        },
        fails(SUSPENDED, 451, "blocked"),
        // No redirect: the page shows the target, and continuing takes a click.
        State {
            name: "suspicious",
            then: |terse, code| moderate(terse, code, "suspicious"),
            page: 200,
            program: 200,
            leads: false,
            ..NORMAL
        },
        State {
            name: "password",
            made_with: || json!({"password": "open sesame", "title": SECRET, "notes": SECRET}),
            page: 200,
            program: 401,
            word: Some("password_needed"),
            leads: false,
            tells: false,
            ..NORMAL
        },
        // The password page also shows the warning.
        State {
            name: "suspicious-with-password",
            made_with: || json!({"password": "open sesame", "title": SECRET}),
            then: |terse, code| moderate(terse, code, "suspicious"),
            page: 200,
            program: 200,
            leads: false,
            tells: false,
            ..NORMAL
        },
    ]
}

/// The only state whose owner is not the operator.
const SUSPENDED: &str = "suspended-owner";

fn patch(terse: &TestTerse, code: &str, change: Value) {
    assert_eq!(terse.api("PATCH", &format!("/urls/{code}"), Some(change)).status, 200);
}

fn moderate(terse: &TestTerse, code: &str, standing: &str) {
    let moderated = terse.api(
        "PUT",
        &format!("/admin/links/{code}/standing"),
        Some(json!({"standing": standing})),
    );
    assert_eq!(moderated.status, 200, "{}", moderated.text());
}

/// The kinds of clients.
const CLIENTS: [(&str, &str, &str); 3] = [
    ("html", "GET", "text/html,*/*;q=0.8"),
    ("json", "GET", "application/json"),
    ("head", "HEAD", "*/*"),
];

/// One link per state and client, so that each visit is the first.
fn everything(page_mode: bool) -> TestTerse {
    let mut terse = TestTerse::with(|config| {
        if page_mode {
            config.redirect.errors = terse::config::ErrorAnswers::Page;
        }
    });
    let ann = TestAccount::new(&terse, "ann", Role::User);
    for state in states() {
        for (client, ..) in CLIENTS {
            let mut body = json!({
                "long_url": TARGET, "reuse": false, "alias": format!("{}-{client}", state.name)
            });
            let with = (state.made_with)();
            body.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
            let made = match state.name {
                SUSPENDED => ann.api(&terse, "POST", "/urls", Some(body)),
                _ => terse.api("POST", "/urls", Some(body)),
            };
            assert_eq!(made.status, 201, "{} {}", state.name, made.text());
            (state.then)(&terse, made.json()["short_code"].as_str().unwrap());
        }
    }
    ann.suspend(&terse, true);
    // After a restart the cache is empty, and links have expired.
    terse.restart();
    terse.clock().advance(Duration::from_secs(60));
    terse
}

/// What is wrong with a response, if anything.
fn wrong(state: &State, client: &str, answer: &Answer) -> Option<String> {
    let html = client == "html";
    let status = if html { state.page } else { state.program };
    let location = state.leads.then_some(TARGET);
    if (answer.status, answer.location()) != (status, location) {
        return Some(format!(
            "{} {:?}, not {status} {location:?}",
            answer.status,
            answer.location()
        ));
    }
    let (control, kind) = (
        answer.header("cache-control").unwrap_or_default(),
        answer.header("content-type").unwrap_or_default(),
    );
    // Every response may change with the next visit, so it must not be cached.
    if if state.leads { control != FOR_NOBODY } else { !control.contains("no-store") } {
        return Some(format!("Cache-Control: {control:?}"));
    }
    let body = answer.text();
    let all = format!("{:?} {body}", answer.headers).to_lowercase();
    if !state.tells && (all.contains(SECRET) || all.contains("sesame") || all.contains("argon2")) {
        return Some(format!("it tells {all}"));
    }
    if answer.header("refresh").is_some() || body.contains("http-equiv") {
        return Some("it goes on by itself".into());
    }
    match (client, state.word) {
        ("head", _) | (_, None) if body.is_empty() => None,
        ("head", _) => Some("HEAD has a body".into()),
        ("json", Some(word))
            if kind == "application/problem+json" && answer.json()["code"] == word =>
        {
            None
        }
        ("html", _) | (_, None)
            if kind.starts_with("text/html")
                && body.to_lowercase().starts_with("<!doctype html>") =>
        {
            None
        }
        _ => Some(format!("{kind} {body}")),
    }
}

#[test]
fn every_state_is_answered_as_it_should_be_remembered_or_not() {
    let (terse, mut failed) = (everything(false), Vec::new());
    for state in states() {
        for (client, method, accept) in CLIENTS {
            for visit in ["first", "second", "third"] {
                let answer = terse.send(
                    method,
                    &format!("/{}-{client}", state.name),
                    &[("accept", accept)],
                    None,
                );
                if let Some(what) = wrong(&state, client, &answer) {
                    failed.push(format!("{} {client}, {visit} visit: {what}", state.name));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn in_page_mode_only_failures_lead_to_a_page_of_ours() {
    let (terse, mut failed) = (everything(true), Vec::new());
    for state in states() {
        for (client, method, accept) in CLIENTS {
            let code = format!("{}-{client}", state.name);
            for visit in ["first", "second"] {
                let answer = terse.send(method, &format!("/{code}"), &[("accept", accept)], None);
                let what = match state.error {
                    None => wrong(&state, client, &answer),
                    Some(word) => {
                        let page = format!("/r/{code}?error={word}");
                        let browsed = terse.browse(&page);
                        let shown =
                            State { page: state.page, ..fails(state.name, state.page, word) };
                        match (answer.status, answer.location()) == (302, Some(&*page)) {
                            true if answer
                                .header("cache-control")
                                .is_some_and(|control| control.contains("no-store")) =>
                            {
                                wrong(&shown, "html", &browsed)
                            }
                            _ => Some(format!("{answer:?}")),
                        }
                    }
                };
                failed.extend(what.map(|what| format!("{code}, {visit} visit: {what}")));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
