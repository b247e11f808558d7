//! A CDN in front: a real Varnish, and servers that speak the protocols of the others.

use std::time::Duration;

use serde_json::{Value, json};
use terse::config::{CdnProvider, Secret};
use terse_testkit::{VarnishServer, wait_until};

use crate::harness::{Answer, HOST, TestTerse};
use crate::receiver::{Got, Receiver, status_line};

/// A server that purges this CDN. Its edges keep redirects for an hour, so that only a purge
/// explains a change that arrives within a test.
fn terse(purge: CdnProvider, url: String) -> TestTerse {
    terse_with(purge, vec![url])
}

fn terse_with(purge: CdnProvider, urls: Vec<String>) -> TestTerse {
    TestTerse::with(|config| {
        config.cdn.enabled = true;
        config.cdn.ttl = "1h".parse().unwrap();
        config.cdn.purge = purge;
        config.cdn.url = urls;
        config.cdn.service = Some("SERVICE1".into());
        config.cdn.key_id = Some("AKIDEXAMPLE".into());
        config.cdn.token = Some(Secret::new("token/of+tests"));
    })
}

/// A visit through Varnish, and whether Varnish answered it by itself.
fn through(varnish: &VarnishServer, path: &str) -> (u16, Option<String>, bool) {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .max_redirects(0)
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(30)))
        .build()
        .into();
    let url = format!("{}{path}", varnish.url());
    let answer = agent.get(&url).header("host", HOST).call().unwrap();
    let field =
        |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    for name in ["surrogate-key", "cache-tag", "cdn-cache-control", "xkey"] {
        assert_eq!(field(name), None, "{name} is for edges only");
    }
    // The number of the request, and of the one whose answer was kept.
    let is_hit = field("x-varnish").unwrap().split(' ').count() == 2;
    (answer.status().as_u16(), field("location"), is_hit)
}

#[test]
fn varnish_keeps_redirects_and_forgets_what_changes() {
    let varnish = VarnishServer::new();
    let terse = terse(CdnProvider::Varnish, varnish.url());
    let vcl = std::fs::read_to_string("../../deploy/varnish.vcl").unwrap();
    let port = terse.address.port().to_string();
    varnish.start(&vcl.replace("\"8080\"", &format!("\"{port}\"")));
    let visit = |code: &str| through(&varnish, &format!("/{code}"));
    let to = |target: &str| (302, Some(target.to_owned()));
    let answers = |code: &str, expected: (u16, Option<String>)| {
        wait_until(&format!("/{code} answers {expected:?}"), || {
            let (status, location, _) = visit(code);
            (status, location) == expected
        });
    };

    // An alias that was asked for before it existed.
    assert_eq!(visit("news").0, 404);
    assert!(visit("news").2, "a missing code is kept, too");
    terse.alias("news", "https://example.com/1");
    terse.alias("other", "https://example.com/other");
    answers("news", to("https://example.com/1"));
    answers("other", to("https://example.com/other"));
    wait_until("Varnish answers by itself", || visit("news").2 && visit("other").2);

    let patch = |body: Value| assert_eq!(terse.api("PATCH", "/urls/news", Some(body)).status, 200);
    patch(json!({ "long_url": "https://example.com/2" }));
    answers("news", to("https://example.com/2"));
    wait_until("Varnish keeps the new answer", || visit("news").2);
    let moderate = |standing: &str| {
        let body = json!({ "standing": standing, "why": "a test" });
        let answer = terse.api("PUT", "/admin/links/news/standing", Some(body));
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    moderate("blocked");
    answers("news", (451, None));
    moderate("clear");
    answers("news", to("https://example.com/2"));
    assert_eq!(terse.api("DELETE", "/urls/news", None).status, 204);
    answers("news", (404, None));
    assert_eq!(terse.api("POST", "/urls/news/restore", None).status, 200);
    answers("news", to("https://example.com/2"));
    assert!(visit("other").2, "purges name single links");

    // A suspension changes no link, and ends all links of an account.
    let account = terse.api("POST", "/admin/users", Some(json!({ "name": "ann" }))).json();
    let path = format!("/admin/users/{}", account["id"]);
    let key = json!({ "name": "k", "scope": "full" });
    let key = terse.api("POST", &format!("{path}/keys"), Some(key)).json();
    let key = format!("Bearer {}", key["key"].as_str().unwrap());
    let body = json!({ "long_url": "https://example.com/ann", "custom_alias": "anns" });
    let fields = [("authorization", key.as_str())];
    let made = terse.send("POST", "/api/v1/urls", &fields, Some(body.to_string().as_bytes()));
    assert_eq!(made.status, 201, "{}", made.text());
    answers("anns", to("https://example.com/ann"));
    wait_until("Varnish answers by itself", || visit("anns").2);
    let body = json!({ "suspended": true, "why": "a test" });
    let answer = terse.api("PATCH", &path, Some(body));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answers("anns", (451, None));

    // What depends on the visit reaches the node each time.
    let body =
        json!({ "long_url": "https://example.com/", "custom_alias": "few", "max_clicks": 3 });
    terse.create(body);
    let spent: Vec<_> = (0..4).map(|_| visit("few")).map(|(status, ..)| status).collect();
    assert_eq!(spent, [302, 302, 302, 410]);

    // Only the worker may purge.
    let purge = format!("{}/.terse/purge", varnish.url());
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).build().into();
    assert_eq!(agent.get(&purge).call().unwrap().status(), 403);
}

/// The fields for edges in an answer.
fn edge_fields(answer: &Answer) -> [Option<&str>; 4] {
    ["cache-control", "cdn-cache-control", "surrogate-key", "cache-tag"]
        .map(|name| answer.header(name))
}

#[test]
fn only_answers_that_are_the_same_for_all_visitors_are_for_edges() {
    let receiver = Receiver::responding(200);
    let terse = terse(CdnProvider::Varnish, receiver.url(""));
    let create = |alias: &str, more: Value| {
        let mut body = json!({ "long_url": "https://example.com/", "custom_alias": alias });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        terse.create(body);
        format!("/{alias}")
    };
    let private = Some("private, max-age=0, no-store");
    let plain = create("plain", json!({}));
    for path in [plain.clone(), format!("{plain}?utm=1")] {
        for method in ["GET", "HEAD"] {
            let answer = terse.send(method, &path, &[], None);
            let [control, edge, key, tag] = edge_fields(&answer);
            assert_eq!((control, edge), (private, Some("max-age=3600")), "{method} {path}");
            let (key, tag) = (key.unwrap(), tag.unwrap());
            assert_eq!(key.replace(' ', ","), tag);
            assert!(key.starts_with('l') && key.contains(" o"), "{key}");
        }
    }
    let permanent = create("forever", json!({ "redirect": 301 }));
    let [control, edge, ..] = edge_fields(&terse.get(&permanent)).map(|f| f.map(str::to_owned));
    assert_eq!(control.as_deref(), Some("public, max-age=86400"));
    assert_eq!(edge.as_deref(), Some("max-age=3600"));
    let missing = terse.get("/nothere");
    assert_eq!((missing.status, missing.header("cdn-cache-control")), (404, Some("max-age=5")));
    // Nodes keep an answer for up to five minutes, an hour more while their store is away, and
    // edges never past the expiry.
    let ends = create("ends", json!({ "ttl": 4500 }));
    let seconds = terse.get(&ends).header("cdn-cache-control").unwrap().to_owned();
    let seconds: u64 = seconds.strip_prefix("max-age=").unwrap().parse().unwrap();
    assert!((500..=600).contains(&seconds), "{seconds}");
    let rules = json!({ "rules": [{ "device": "mobile", "to": "https://m.example.com/" }] });
    for (alias, more) in [
        ("soon", json!({ "ttl": 200 })),
        ("limited", json!({ "max_clicks": 5 })),
        ("locked", json!({ "password": "a long password" })),
        ("ruled", rules),
    ] {
        let answer = terse.get(&create(alias, more));
        let [_, edge, key, tag] = edge_fields(&answer);
        assert_eq!((edge, key, tag), (None, None, None), "{alias}");
    }
    let without = TestTerse::start();
    without.alias("plain", "https://example.com/");
    let answer = without.get("/plain");
    assert_eq!(edge_fields(&answer), [private, None, None, None]);
}

/// What the CDN was asked after a change of the link `news`: for the change, and once more when all
/// nodes know of it.
fn purges(purge: CdnProvider, status: u16) -> (TestTerse, Receiver, [Got; 2]) {
    let receiver = Receiver::responding(status);
    let terse = terse(purge, receiver.url("/base"));
    terse.alias("news", "https://example.com/1");
    let first = receiver.next();
    terse.clock().advance(Duration::from_secs(8));
    let second = receiver.next();
    assert_eq!(receiver.waiting(), 0);
    (terse, receiver, [first, second])
}

fn tag_of(terse: &TestTerse, alias: &str) -> String {
    let answer = terse.get(&format!("/{alias}"));
    answer.header("surrogate-key").unwrap().split(' ').next().unwrap().to_owned()
}

#[test]
fn fastly_is_asked_to_purge_a_surrogate_key() {
    let (terse, receiver, got) = purges(CdnProvider::Fastly, 200);
    let tag = tag_of(&terse, "news");
    for got in got {
        assert_eq!(got.line, "POST /base/service/SERVICE1/purge HTTP/1.1");
        assert_eq!(got.header("fastly-key"), "token/of+tests");
        assert_eq!(got.json(), json!({ "surrogate_keys": [tag] }));
    }
    // Fastly reads neither `CDN-Cache-Control` nor anything of an answer that is `private`.
    let answer = terse.get("/news");
    assert_eq!(answer.header("cache-control"), Some("max-age=0, s-maxage=3600"));
    // A blocked host may be the target of any link.
    let body = json!({ "host": "bad.example", "why": "a test" });
    let answer = terse.api("POST", "/admin/blocklist", Some(body));
    assert!(answer.status < 300, "{}", answer.text());
    assert_eq!(receiver.next().line, "POST /base/service/SERVICE1/purge_all HTTP/1.1");
}

#[test]
fn cloudflare_is_asked_to_purge_a_cache_tag() {
    let (terse, _receiver, got) = purges(CdnProvider::Cloudflare, 200);
    let tag = terse.get("/news").header("cache-tag").unwrap().split(',').next().unwrap().to_owned();
    for got in got {
        assert_eq!(got.line, "POST /base/zones/SERVICE1/purge_cache HTTP/1.1");
        assert_eq!(got.header("authorization"), "Bearer token/of+tests");
        assert_eq!(got.json(), json!({ "tags": [tag] }));
    }
    // It answers for all visitors alike, whatever `Vary` says.
    assert_eq!(terse.get("/nothere").header("cdn-cache-control"), None);
}

#[test]
fn cloudfront_gets_signed_invalidations_of_paths() {
    let (terse, receiver, got) = purges(CdnProvider::CloudFront, 201);
    for got in &got {
        let path = "/base/2020-05-31/distribution/SERVICE1/invalidation";
        assert_eq!(got.line, format!("POST {path} HTTP/1.1"));
        let body = String::from_utf8(got.body.clone()).unwrap();
        assert!(body.contains("<Quantity>2</Quantity>"), "{body}");
        assert!(body.contains("<Path>/news</Path><Path>/news?*</Path>"), "{body}");
        assert_eq!(got.header("authorization"), signature(got, path, &receiver));
    }
    let reference = |got: &Got| {
        let body = String::from_utf8(got.body.clone()).unwrap();
        body.split("CallerReference>").nth(1).unwrap().to_owned()
    };
    assert_ne!(reference(&got[0]), reference(&got[1]), "the same reference would do nothing");
    // CloudFront reads no other field.
    assert_eq!(terse.get("/news").header("cache-control"), Some("max-age=0, s-maxage=3600"));
}

/// The `Authorization` that AWS computes for a request.
fn signature(got: &Got, path: &str, receiver: &Receiver) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let hash = |bytes: &[u8]| hex(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref());
    let mac = |key: &[u8], text: &str| {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key);
        ring::hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
    };
    let (date, body) = (got.header("x-amz-date"), hash(&got.body));
    assert_eq!(got.header("host"), receiver.address.to_string());
    assert_eq!(got.header("x-amz-content-sha256"), body);
    let fields = ["host", "x-amz-content-sha256", "x-amz-date"];
    let lines: String =
        fields.iter().map(|name| format!("{name}:{}\n", got.header(name))).collect();
    let names = fields.join(";");
    let request = hash(format!("POST\n{path}\n\n{lines}\n{names}\n{body}").as_bytes());
    let scope = [&date[..8], "us-east-1", "cloudfront", "aws4_request"];
    let key = scope.iter().fold(b"AWS4token/of+tests".to_vec(), |key, part| mac(&key, part));
    let scope = scope.join("/");
    let signed = hex(&mac(&key, &format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{request}")));
    format!(
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/{scope}, SignedHeaders={names}, Signature={signed}"
    )
}

#[test]
fn a_purge_that_the_cdn_refuses_is_repeated_after_a_restart_too() {
    let receiver = Receiver::start("127.0.0.1:0", |n| {
        Some(match n {
            0 => status_line(500),
            1 => "HTTP/1.1 429 Said\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n".to_owned(),
            _ => status_line(200),
        })
    });
    let mut terse = terse(CdnProvider::Fastly, receiver.url(""));
    terse.alias("news", "https://example.com/1");
    let body = receiver.next().json();
    assert_eq!(receiver.next().json(), body);
    assert_eq!(receiver.next().json(), body);
    // The process ends before the second purge.
    terse.restart();
    assert_eq!(receiver.next().json(), body);
    let metrics = terse.get("/metrics").text();
    assert!(metrics.contains("terse_cdn_purges_total{what=\"links\"}"), "{metrics}");
}

#[test]
fn a_varnish_that_is_away_holds_up_no_other_and_the_doctor_says_which() {
    let healthy = Receiver::responding(200);
    let away = Receiver::start("127.0.0.1:0", |_| {
        Some("HTTP/1.1 503 Away\r\nRetry-After: 30\r\nContent-Length: 0\r\n\r\n".to_owned())
    });
    let terse = terse_with(CdnProvider::Varnish, vec![away.url(""), healthy.url("")]);
    terse.alias("one", "https://example.com/1");
    assert_eq!(healthy.next().header("terse-purge"), tag_of(&terse, "one"));
    assert_eq!(away.next().header("terse-purge"), tag_of(&terse, "one"));
    terse.alias("two", "https://example.com/2");
    assert_eq!(healthy.next().header("terse-purge"), tag_of(&terse, "two"));
    assert_eq!(away.waiting(), 0, "it asked for a pause, and gets one");

    let findings = terse.api("GET", "/admin/doctor", None).text();
    let (healthy, away) = (healthy.address, away.address);
    assert!(findings.contains(&format!("cdn purge {healthy}: accepted")), "{findings}");
    assert!(findings.contains(&format!("cdn purge {away}: the CDN answered")), "{findings}");
}
