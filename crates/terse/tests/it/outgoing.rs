//! Page titles and unreachable targets.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;

use crate::harness::TestTerse;
use crate::receiver::{Receiver, until};

fn page(title: &str) -> String {
    let html = format!("<html><head><title>{title}</title>");
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: \
         {}\r\n\r\n{html}",
        html.len()
    )
}

fn terse(change: impl FnOnce(&mut terse::config::Outgoing)) -> TestTerse {
    TestTerse::with(|config| {
        config.safety.allow_private_targets = true;
        config.outgoing.allow_private = true;
        change(&mut config.outgoing);
    })
}

#[test]
fn a_link_without_a_title_gets_that_of_its_page() {
    let site = Receiver::start("127.0.0.2:0", |_| Some(page("A &amp; B")));
    let terse = terse(|outgoing| outgoing.titles = true);
    let titled = terse.create(json!({ "long_url": site.url("/own"), "title": "Mine" }));
    let code = terse.create(json!({ "long_url": site.url("/page") }));
    let title =
        |code: &str| terse.api("GET", &format!("/urls/{code}"), None).json()["title"].clone();
    until("the title is there", || title(&code) == "A & B");
    assert_eq!(title(&titled), "Mine");
    assert_eq!(
        (site.next().line.as_str(), site.waiting()),
        ("GET /page HTTP/1.1", 0),
        "who has a title needs none"
    );
    assert!(terse.get("/metrics").text().contains("terse_titles_total{what=\"found\"} 1"));
    assert_eq!(terse.get(&format!("/{code}")).location(), Some(site.url("/page").as_str()));
}

#[test]
fn private_pages_are_not_read_unless_that_is_switched_on_too() {
    let site = Receiver::start("127.0.0.2:0", |_| Some(page("Secret")));
    let terse = terse(|outgoing| (outgoing.titles, outgoing.allow_private) = (true, false));
    terse.create(json!({ "long_url": site.url("/") }));
    until("it was tried", || {
        terse.get("/metrics").text().contains("terse_titles_total{what=\"none\"} 1")
    });
    assert_eq!(site.accepted(), 0);
}

#[test]
fn a_target_that_does_not_answer_on_three_days_is_marked_until_it_does() {
    let gone = TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap();
    let terse = terse(|outgoing| outgoing.check_targets = true);
    let code = terse.create(json!({ "long_url": format!("http://{gone}/") }));
    let marked = || {
        let flags = terse.api("GET", &format!("/urls/{code}"), None).json()["flags"].clone();
        flags.as_array().unwrap().contains(&json!("unreachable"))
    };
    let looked = |what: &str, count: usize| {
        let line = format!("terse_target_checks_total{{what=\"{what}\"}} {count}\n");
        until(&line, || terse.get("/metrics").text().contains(&line));
    };
    // The check of the creation day may already have run.
    terse.clock().advance(Duration::from_secs(86_400));
    for day in 1..=3 {
        looked("silent", day);
        if day < 3 {
            assert!(!marked());
            terse.clock().advance(Duration::from_secs(86_400));
        }
    }
    until("it is marked", marked);
    assert_eq!(terse.get(&format!("/{code}")).status, 302, "no page stands before it");
    let site = Receiver::start(&gone.to_string(), |_| Some(page("Back")));
    terse.clock().advance(Duration::from_secs(86_401));
    until("it is no longer marked", || !marked());
    assert!(site.accepted() > 0);
}
