//! Domains are added, used, given fallbacks and removed at run time.

use serde_json::{Value, json};
use terse_core::registry::{DomainConfig, Role};
use terse_core::{Domain, Target};
use terse_testkit::wait_until;

use crate::bans::{TestAccount, by, wait};
use crate::harness::{Answer, HOST, TestTerse};

const NEW: &str = "b.example";

fn at(terse: &TestTerse, host: &str, path: &str) -> Answer {
    terse.send("GET", path, &[("host", host), ("accept", "text/html")], None)
}

fn code(answer: &Answer) -> (u16, Value) {
    (answer.status, answer.json()["code"].clone())
}

#[test]
fn a_domain_is_added_used_and_removed_while_running() {
    let mut terse = TestTerse::start();
    let body = |alias: &str| {
        Some(json!({"long_url": "https://example.com/b", "custom_alias": alias, "domain": NEW}))
    };
    assert_eq!(terse.api("POST", "/urls", body("same")).status, 400);
    assert_eq!((at(&terse, NEW, "/same").status, at(&terse, NEW, "/").status), (421, 421));
    // Not one of our hosts yet.
    terse.alias("there", &format!("https://{NEW}/x"));

    let put = terse.api("PUT", &format!("/domains/{}", NEW.to_uppercase()), Some(json!({})));
    assert_eq!(put.status, 200, "{}", put.text());
    assert_eq!(
        (&put.json()["domain"], &put.json()["base_url"]),
        (&json!(NEW), &json!("http://b.example"))
    );
    assert_eq!((&put.json()["primary"], &put.json()["settled"]), (&json!(false), &json!(false)));
    terse.alias("same", "https://example.com/primary");
    let made = terse.api("POST", "/urls", body("same"));
    assert_eq!((made.status, &made.json()["short_url"]), (201, &json!("http://b.example/same")));
    assert_eq!(at(&terse, NEW, "/same").location(), Some("https://example.com/b"));
    assert_eq!(at(&terse, HOST, "/same").location(), Some("https://example.com/primary"));
    assert_eq!(at(&terse, NEW, "/").status, 200, "our own page");
    assert!(at(&terse, NEW, "/same+").text().contains("example.com/b"));
    assert_eq!(
        terse.api("GET", "/urls?domain=b.example", None).json()["links"].as_array().unwrap().len(),
        1
    );
    let loops = terse.api("POST", "/urls", Some(json!({"long_url": "https://B.example./same"})));
    assert_eq!(code(&loops), (422, json!("self_reference")));
    assert!(terse.get("/openapi.json").text().contains("\"b.example\""), "it is described");
    terse.restart();
    assert_eq!(at(&terse, NEW, "/same").location(), Some("https://example.com/b"));

    assert_eq!(
        code(&terse.api("DELETE", "/domains/b.example", None)),
        (409, json!("domain_in_use"))
    );
    assert_eq!(terse.api("DELETE", "/urls/same?domain=b.example", None).status, 204);
    assert_eq!(terse.api("DELETE", "/domains/b.example", None).status, 204);
    assert_eq!((at(&terse, NEW, "/same").status, at(&terse, NEW, "/").status), (421, 421));
    assert_eq!(code(&terse.api("DELETE", "/domains/b.example", None)), (404, json!("not_found")));
    assert_eq!(terse.api("POST", "/urls", body("other")).status, 400);
}

#[test]
fn a_fallback_may_contain_the_code_and_the_error() {
    let terse = TestTerse::start();
    terse.create(json!({"long_url": "https://example.com/", "ttl": 1, "custom_alias": "over"}));
    let fallbacks = json!({
        "root": "https://example.org/?from={code}",
        "not_found": "https://example.org/lost/{code}?why={error}&again={code}#{error}",
        "expired": "https://example.org/over?{code}={error}"
    });
    assert_eq!(terse.api("PUT", &format!("/domains/{HOST}"), Some(fallbacks)).status, 200);
    terse.clock().advance(std::time::Duration::from_secs(2));
    let lost = "https://example.org/lost/no-ne_1?why=not_found&again=no-ne_1#not_found";
    for (method, path, location) in [
        ("GET", "/no-ne_1", lost),
        ("HEAD", "/no-ne_1", lost),
        ("GET", "/%6Eo-ne_1", lost),
        ("GET", "/over", "https://example.org/over?over=expired"),
        ("GET", "/", "https://example.org/?from="),
    ] {
        let answer = terse.send(method, path, &[("accept", "text/html")], None);
        assert_eq!((answer.status, answer.location()), (302, Some(location)), "{method} {path}");
    }
}

#[test]
fn each_fallback_leads_where_it_says_on_every_domain() {
    let terse = TestTerse::with(|config| config.domains = vec!["fixed.example".into()]);
    let past = json!({"long_url": "https://example.com/", "ttl": 1, "custom_alias": "over"});
    let used = json!({"long_url": "https://example.com/", "max_clicks": 1, "custom_alias": "once"});
    for host in [HOST, "fixed.example", NEW] {
        let fallbacks = json!({
            "root": "https://example.org/", "not_found": "https://example.org/lost",
            "expired": "https://example.org/over"
        });
        let put = terse.api("PUT", &format!("/domains/{host}"), Some(fallbacks));
        assert_eq!(
            (put.status, &put.json()["root"]),
            (200, &json!("https://example.org/")),
            "{host}"
        );
        for body in [&past, &used] {
            let mut body = body.clone();
            body["domain"] = json!(host);
            terse.create(body);
        }
        assert_eq!(at(&terse, host, "/once").location(), Some("https://example.com/"));
    }
    terse.clock().advance(std::time::Duration::from_secs(2));
    for host in [HOST, "fixed.example", NEW] {
        for (path, location) in [
            ("/", "https://example.org/"),
            ("/none", "https://example.org/lost"),
            ("/over", "https://example.org/over"),
            ("/once", "https://example.org/over"),
        ] {
            for _ in 0..2 {
                let answer = at(&terse, host, path);
                assert_eq!(
                    (answer.status, answer.location()),
                    (302, Some(location)),
                    "{host}{path}"
                );
                assert!(answer.header("cache-control").unwrap().contains("no-store"));
            }
        }
    }
    let listed = terse.api("GET", "/domains", None).json();
    let shown: Vec<_> = listed["domains"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (&one["domain"], &one["settled"]))
        .collect();
    assert_eq!(
        shown,
        [
            (&json!(HOST), &json!(true)),
            (&json!("fixed.example"), &json!(true)),
            (&json!(NEW), &json!(false))
        ]
    );
    // Of a configured domain, only the fallbacks are removed.
    for host in [HOST, "fixed.example"] {
        assert_eq!(terse.api("DELETE", &format!("/domains/{host}"), None).status, 204);
        assert_eq!(
            (
                at(&terse, host, "/").status,
                at(&terse, host, "/none").status,
                at(&terse, host, "/over").status
            ),
            (200, 404, 410)
        );
    }
    // Fallbacks can be changed one by one.
    terse.api("PUT", "/domains/b.example", Some(json!({"notFound": "https://example.org/lost"})));
    assert_eq!(
        (
            at(&terse, NEW, "/").status,
            at(&terse, NEW, "/none").status,
            at(&terse, NEW, "/over").status
        ),
        (200, 302, 410)
    );
}

#[test]
fn a_domain_added_on_another_node_is_found_within_seconds() {
    let terse = TestTerse::start();
    let not_found = Some(Target::from_stored("https://example.org/lost".into()));
    let place =
        DomainConfig { domain: Domain::parse(NEW).unwrap(), root: None, not_found, expired: None };
    wait(terse.registry().put_domain(place, by())).unwrap();
    wait_until("the domain is answered for", || {
        at(&terse, NEW, "/none").location() == Some("https://example.org/lost")
    });
    wait(terse.registry().remove_domain(&Domain::parse(NEW).unwrap(), by())).unwrap();
    wait_until("the domain is strange again", || at(&terse, NEW, "/none").status == 421);
}

#[test]
fn a_control_character_in_a_domain_name_is_refused_and_not_removed() {
    let terse = TestTerse::start();
    let names = || terse.api("GET", "/domains", None).json()["domains"].as_array().unwrap().len();
    assert_eq!(terse.api("PUT", "/domains/b.example", Some(json!({}))).status, 200);
    let before = names();
    for character in ["\t", "\n", "\r", "\0", "\u{1b}", "\u{7f}", "\u{85}"] {
        for name in [
            format!("b.exam{character}ple"),
            format!("b.example{character}"),
            format!("{character}b.example"),
        ] {
            let encoded: String =
                name.bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat();
            let put = terse.api("PUT", &format!("/domains/{encoded}"), Some(json!({})));
            assert_eq!((put.status, &put.json()["field"]), (400, &json!("domain")), "{name:?}");
            let link = json!({"long_url": "https://example.com/", "domain": name});
            let made = terse.api("POST", "/urls", Some(link));
            assert_eq!((made.status, &made.json()["field"]), (400, &json!("domain")), "{name:?}");
            let target = json!({"long_url": format!("https://b.exam{character}ple/x")});
            let made = terse.api("POST", "/urls", Some(target));
            assert!((400..500).contains(&made.status), "{name:?}: {}", made.status);
            let block = json!({"host": name, "why": "a test"});
            let blocked = terse.api("POST", "/admin/blocklist", Some(block));
            assert!((400..500).contains(&blocked.status), "{name:?}: {}", blocked.status);
        }
        // The server refuses it as a `Host`.
        let raw =
            format!("GET /x HTTP/1.1\r\nhost: b.exam{character}ple\r\nconnection: close\r\n\r\n");
        let answer = terse.raw(raw.as_bytes());
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{character:?}");
    }
    assert_eq!(names(), before);
}

#[test]
fn only_an_admin_changes_domains_and_no_fallback_breaks_a_rule() {
    let terse = TestTerse::start();
    let (ann, mod_) = (
        TestAccount::new(&terse, "ann", Role::User),
        TestAccount::new(&terse, "mod", Role::Moderator),
    );
    for who in [&ann, &mod_] {
        assert_eq!(who.api(&terse, "PUT", "/domains/b.example", Some(json!({}))).status, 403);
        assert_eq!(who.api(&terse, "DELETE", "/domains/b.example", None).status, 403);
        assert_eq!(
            who.api(&terse, "GET", "/domains", None).json()["domains"].as_array().unwrap().len(),
            1
        );
    }
    assert_eq!(terse.anonymous("GET", "/domains", None).status, 401);
    assert_eq!(terse.anonymous("PUT", "/domains/b.example", Some(json!({}))).status, 401);
    for (body, want, field) in [
        (json!({"root": "javascript:alert(1)"}), (400, "scheme_not_allowed"), "root"),
        (json!({"not_found": "http://10.0.0.1/"}), (422, "destination_not_public"), "not_found"),
        (json!({"expired": "https://evil.example/"}), (422, "blocked_destination"), "expired"),
        (json!({"root": "https://go.example/x"}), (422, "self_reference"), "root"),
        (json!({"root": "https://B.example./x"}), (422, "self_reference"), "root"),
        (json!({"rooot": "https://example.com/"}), (400, "invalid_request"), "rooot"),
    ] {
        let refused = terse.api("PUT", "/domains/b.example", Some(body.clone()));
        assert_eq!(code(&refused), (want.0, json!(want.1)), "{body}");
        assert_eq!(refused.json()["field"], json!(field), "{body}");
    }
    for name in [
        "localhost",
        "127.0.0.1",
        "10.0.0.1",
        "[::1]",
        "a..b",
        "b.example:8080",
        "%20",
        &"a".repeat(64),
    ] {
        let refused = terse.api("PUT", &format!("/domains/{name}"), Some(json!({})));
        assert_eq!(code(&refused), (400, json!("invalid_request")), "{name}");
    }
    assert_eq!(at(&terse, NEW, "/none").status, 421, "nothing was added");
    let audit = wait(
        terse
            .registry()
            .audit(&terse_core::registry::AuditQuery { limit: 10, ..Default::default() }),
    )
    .unwrap();
    assert!(audit.iter().all(|line| line.act != terse_core::registry::AuditAction::DomainChanged));
}
