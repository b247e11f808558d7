//! Every state of a link, as each kind of client meets it: the whole table on one page.
//!
//! What is special about a single state is told where it is at home: `following.rs`,
//! `passwords.rs`, `rules.rs`, `bans.rs`.

use std::time::Duration;

use serde_json::{Value, json};
use terse_core::registry::Role;

use crate::bans::Somebody;
use crate::harness::{Answer, TestTerse};

/// Nothing else on any page or in any field is called like this.
const TARGET: &str = "https://hidden-place.example.net/a?b=c#d";
const SECRET: &str = "hidden-place";
const FOR_NOBODY: &str = "private, max-age=0, no-store";

/// A state of a link, and what comes of a visit.
struct State {
    name: &'static str,
    /// What the link is made with besides its target.
    made_with: fn() -> Value,
    /// What happens to it then.
    then: fn(&TestTerse, &str),
    /// For a browser, and for a program or one that only looks.
    page: u16,
    program: u16,
    /// The word of the problem that programs are given; none where a link leads on or shows a page
    /// to everybody.
    word: Option<&'static str>,
    /// Whether it leads to its target.
    leads: bool,
    /// Whether the page may say where the link leads.
    tells: bool,
    /// The word in the address of the page that visitors are sent to where `redirect.errors` is
    /// `page`; none where nothing changes.
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

/// One that leads nowhere and says nothing.
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
        // Their own target is nobody's: each visitor goes where the rule sends them.
        State {
            name: "rules",
            made_with: || json!({"long_url": "https://example.org/other", "rules": [{"from": "2020-01-01", "to": TARGET}]}),
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
            then: |terse, code| judge(terse, code, "blocked"),
            ..fails("blocked", 451, "blocked")
        },
        State {
            made_with: || json!({"rules": [{"to": TARGET}], "password": "open sesame"}),
            then: |terse, code| judge(terse, code, "blocked"),
            ..fails("blocked-with-all", 451, "blocked")
        },
        fails(SUSPENDED, 451, "blocked"),
        // Nobody is forwarded: the page says where the link leads, and going on takes a click.
        State {
            name: "suspicious",
            then: |terse, code| judge(terse, code, "suspicious"),
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
        // Warned first, whoever they are, by a page that asks for the password too.
        State {
            name: "suspicious-with-password",
            made_with: || json!({"password": "open sesame", "title": SECRET}),
            then: |terse, code| judge(terse, code, "suspicious"),
            page: 200,
            program: 200,
            leads: false,
            tells: false,
            ..NORMAL
        },
    ]
}

/// The only one whose owner is somebody else than the operator.
const SUSPENDED: &str = "suspended-owner";

fn patch(terse: &TestTerse, code: &str, change: Value) {
    assert_eq!(terse.api("PATCH", &format!("/urls/{code}"), Some(change)).status, 200);
}

fn judge(terse: &TestTerse, code: &str, standing: &str) {
    let judged = terse.api(
        "PUT",
        &format!("/admin/links/{code}/standing"),
        Some(json!({"standing": standing})),
    );
    assert_eq!(judged.status, 200, "{}", judged.text());
}

/// How links are visited.
const CLIENTS: [(&str, &str, &str); 3] = [
    ("html", "GET", "text/html,*/*;q=0.8"),
    ("json", "GET", "application/json"),
    ("head", "HEAD", "*/*"),
];

/// A link in each state for each client, so that each meets one that nobody has visited before.
fn everything(page_mode: bool) -> TestTerse {
    let mut terse = TestTerse::with(|config| {
        if page_mode {
            config.redirect.errors = terse::config::Errors::Page;
        }
    });
    let ann = Somebody::new(&terse, "ann", Role::User);
    for state in states() {
        for (client, ..) in CLIENTS {
            let mut body = json!({"long_url": TARGET, "reuse": false, "alias": format!("{}-{client}", state.name)});
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
    // It remembers nothing; and what was to expire does.
    terse.restart();
    terse.clock().advance(Duration::from_secs(60));
    terse
}

/// What is the matter with an answer, if anything.
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
    // Whatever is not a page may be something else at the next visit, and so may a page: nobody
    // else may keep it.
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
                        let told = terse.browse(&page);
                        let shown =
                            State { page: state.page, ..fails(state.name, state.page, word) };
                        match (answer.status, answer.location()) == (302, Some(&*page)) {
                            true if answer
                                .header("cache-control")
                                .is_some_and(|control| control.contains("no-store")) =>
                            {
                                wrong(&shown, "html", &told)
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
