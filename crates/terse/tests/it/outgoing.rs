//! Page titles and unreachable targets.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;
use terse_testkit::wait_until;

use crate::harness::TestTerse;
use crate::receiver::Receiver;

fn page(title: &str) -> String {
    let html = format!("<html><head><title>{title}</title>");
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: \
         {}\r\n\r\n{html}",
        html.len()
    )
}

fn terse(change: impl FnOnce(&mut terse::config::OutgoingConfig)) -> TestTerse {
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
    wait_until("the title is there", || title(&code) == "A & B");
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
    wait_until("it was tried", || {
        terse.get("/metrics").text().contains("terse_titles_total{what=\"none\"} 1")
    });
    assert_eq!(site.accepted(), 0);
}

#[test]
fn a_target_that_does_not_answer_on_three_days_is_marked_until_it_does() {
    let terse = terse(|outgoing| outgoing.check_targets = true);
    let site = Receiver::start("127.0.0.2:0", |_| Some(page("Here")));
    let url = site.url("/");
    let code = terse.create(json!({ "long_url": url }));
    let marked = || {
        let flags = terse.api("GET", &format!("/urls/{code}"), None).json()["flags"].clone();
        flags.as_array().unwrap().contains(&json!("unreachable"))
    };
    let looked = |what: &str, count: usize| {
        let line = format!("terse_target_checks_total{{what=\"{what}\"}} {count}\n");
        wait_until(&line, || terse.get("/metrics").text().contains(&line));
    };
    terse.clock().advance(Duration::from_secs(15));
    looked("answered", 1);
    let gone = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
    drop(site);
    // The check of the creation day may already have run.
    terse.clock().advance(Duration::from_secs(86_400));
    for day in 1..=3 {
        looked("silent", day);
        if day < 3 {
            assert!(!marked());
            // Setting the wall clock delays no check.
            terse.clock().shift_wall_clock([-365, 730][day - 1] * 86_400_000);
            terse.clock().advance(Duration::from_secs(86_400));
        }
    }
    wait_until("it is marked", marked);
    assert_eq!(terse.get(&format!("/{code}")).status, 302, "no page stands before it");
    let site = Receiver::start(&gone, |_| Some(page("Back")));
    terse.clock().advance(Duration::from_secs(86_401));
    wait_until("it is no longer marked", || !marked());
    assert!(site.accepted() > 0);
}

#[test]
fn a_new_link_is_checked_soon_and_marked_if_its_target_does_not_answer_twice() {
    let gone = TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap();
    let site = Receiver::start("127.0.0.3:0", |_| Some(page("Here")));
    let terse = terse(|outgoing| outgoing.check_targets = true);
    let wrong = terse.create(json!({ "long_url": format!("http://{gone}/") }));
    let right = terse.create(json!({ "long_url": site.url("/") }));
    let marked = |code: &str| {
        let flags = terse.api("GET", &format!("/urls/{code}"), None).json()["flags"].clone();
        flags.as_array().unwrap().contains(&json!("unreachable"))
    };
    let checked = |what: &str| {
        let text = terse.get("/metrics").text();
        let name = format!("terse_target_checks_total{{what=\"{what}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name).map(str::to_owned));
        line.unwrap().parse::<u64>().unwrap()
    };
    // The checker looks for new links every 15 seconds, and the walk asks no host twice in a
    // minute.
    terse.clock().advance(Duration::from_secs(15));
    wait_until("both were checked", || checked("silent") == 1 && checked("answered") == 1);
    assert!(!marked(&wrong), "one failure may be chance");
    terse.clock().advance(Duration::from_secs(60));
    wait_until("the wrong one is marked", || marked(&wrong));
    assert!(!marked(&right));
    assert_eq!(terse.get(&format!("/{wrong}")).status, 302, "no page stands before it");
}
