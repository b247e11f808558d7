//! Domains that are added at run time, and their fallbacks.

use std::time::Duration;

use terse_core::Answered;
use terse_core::limits::Limit;
use terse_core::registry::DomainConfig;
use terse_core::{Domain, Link, LinkKey, Target};
use terse_redirect::{ErrorStyle, Visitor};
use terse_testkit::alias;

use crate::fixture::{Fixture, visitor};

const TARGET: &str = "https://example.com/";

fn config(name: &str) -> DomainConfig {
    let domain =
        if name.is_empty() { Domain::primary() } else { Domain::parse(name).expect("a host") };
    DomainConfig { domain, root: None, not_found: None, expired: None }
}

fn to(path: &str) -> Option<Target> {
    Some(Target::from_stored(format!("https://elsewhere.example/{path}")))
}

fn on(name: &str, link: Link) -> Link {
    Link { key: LinkKey { domain: Domain::parse(name).expect("a host"), ..link.key }, ..link }
}

fn get(host: &str, code: &str) -> Vec<u8> {
    format!("GET /{code} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes()
}

#[tokio::test]
async fn an_added_domain_has_links_of_its_own_and_is_unknown_again_when_removed() {
    let fixture = Fixture::new(|_| ());
    fixture.insert(alias("same", "https://example.com/primary")).await;
    fixture.insert(on("b.example", alias("same", "https://example.com/b"))).await;
    let served = fixture.serve();
    assert!(served.exchange(&get("b.example", "same")).contains("418"), "an unknown host");
    fixture.redirector.set_domains(&[config("b.example")]);
    for host in ["b.example", "B.example.:80"] {
        assert!(
            served.exchange(&get(host, "same")).contains("location: https://example.com/b\r\n"),
            "{host}"
        );
    }
    assert!(
        served
            .exchange(&get("go.example", "same"))
            .contains("location: https://example.com/primary\r\n")
    );
    let reads = fixture.store.gets();
    fixture.redirector.set_domains(&[config("c.example"), config("b.example")]);
    assert!(
        served.exchange(&get("b.example", "same")).contains("location: https://example.com/b\r\n")
    );
    assert_eq!(fixture.store.gets(), reads, "its links stay cached");
    fixture.redirector.set_domains(&[config("c.example")]);
    assert!(served.exchange(&get("b.example", "same")).contains("418"));
    assert!(served.exchange(&get("c.example", "same")).contains("404"));
}

#[tokio::test]
async fn each_failure_has_its_fallback_with_and_without_the_fast_path() {
    let fixture = Fixture::new(|_| ());
    let past = fixture.clock.now().saturating_sub(Duration::from_hours(1));
    fixture.insert(on("b.example", Link { expires_at: Some(past), ..alias("over", TARGET) })).await;
    fixture
        .insert(on(
            "b.example",
            Link { moderation: terse_core::ModerationStatus::Blocked, ..alias("bad", TARGET) },
        ))
        .await;
    fixture.insert(on("b.example", alias("good", TARGET))).await;
    let whole = DomainConfig {
        root: to("root"),
        not_found: to("lost"),
        expired: to("over"),
        ..config("b.example")
    };
    fixture
        .redirector
        .set_domains(&[whole.clone(), DomainConfig { not_found: to("home"), ..config("") }]);
    let (served, domain) = (fixture.serve(), fixture.redirector.domain(b"b.example").unwrap());
    for (code, status, location) in [
        ("good", 302, Some(TARGET)),
        ("none", 302, Some("https://elsewhere.example/lost")),
        ("over", 302, Some("https://elsewhere.example/over")),
        ("bad", 451, None),
    ] {
        let answer = served.exchange(&get("b.example", code));
        let sent = answer.lines().find_map(|line| line.strip_prefix("location: "));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert_eq!(sent, location, "{code}");
        assert!(answer.contains("no-store") && !answer.contains("<p>"), "{answer}");
        let slow = fixture.visit_as(Visitor { domain, html: true, ..visitor(code) }).await;
        assert_eq!(slow, (status, location.map(str::to_owned)), "{code}");
    }
    assert_eq!(
        fixture.visit("none").await.1.as_deref(),
        Some("https://elsewhere.example/home"),
        "the primary domain has its own"
    );
    assert_eq!(
        fixture.redirector.root(domain).unwrap().headers()["location"],
        "https://elsewhere.example/root"
    );
    assert!(fixture.redirector.root(0).is_none());
    let filled = DomainConfig { root: to("?c={code}&e={error}"), ..config("b.example") };
    fixture.redirector.set_domains(&[filled, DomainConfig { not_found: to("home"), ..config("") }]);
    assert_eq!(
        fixture.redirector.root(domain).unwrap().headers()["location"],
        "https://elsewhere.example/?c=&e=",
        "a root has no code and no error"
    );
    fixture
        .redirector
        .set_domains(&[whole.clone(), DomainConfig { not_found: to("home"), ..config("") }]);
    // Without the fallback the error response comes back.
    fixture.redirector.set_domains(&[DomainConfig { expired: None, ..whole }]);
    assert_eq!(fixture.visit_as(Visitor { domain, ..visitor("over") }).await.0, 410);
    assert_eq!(fixture.visit("none").await.0, 404);
}

#[tokio::test]
async fn a_fallback_comes_before_the_error_pages() {
    let fixture = Fixture::new(|settings| settings.errors = ErrorStyle::Page);
    fixture.redirector.set_domains(&[DomainConfig { not_found: to("lost"), ..config("") }]);
    let served = fixture.serve();
    assert!(
        served
            .exchange(&get("go.example", "none"))
            .contains("location: https://elsewhere.example/lost\r\n")
    );
}

#[tokio::test]
async fn a_visitor_who_gets_a_fallback_counts_as_not_found_and_as_a_guess() {
    let fixture = Fixture::new(|settings| settings.guesses_per_address = Limit::per_minute(3));
    fixture
        .redirector
        .set_domains(&[DomainConfig { not_found: to("lost"), ..config("b.example") }]);
    let served = fixture.serve_journaled(|_| ());
    let requests: Vec<u8> = (0..5).flat_map(|n| get("b.example", &format!("none-{n}"))).collect();
    let answers = served.exchange(&requests);
    assert_eq!(
        (answers.matches("302 Found").count(), answers.matches("429 ").count()),
        (3, 2),
        "{answers}"
    );
    let visits = served.journaled();
    assert_eq!(visits.len(), 3);
    assert!(
        visits
            .iter()
            .all(|visit| visit.outcome == Answered::NotFound && visit.domain == "b.example"),
        "{visits:?}"
    );
}
