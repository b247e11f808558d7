//! Webhooks with real receivers.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use terse_core::webhooks::{WebhookSecret, verify};
use terse_testkit::wait_until;

use crate::crash::Killable;
use crate::harness::{KEY, TestTerse};
use crate::receiver::{Got, Receiver, status_line};

fn terse() -> TestTerse {
    TestTerse::with(|config| {
        config.outgoing.webhooks = true;
        config.outgoing.allow_private = true;
    })
}

/// The id and secret of a new webhook.
fn hook(terse: &TestTerse, url: &str, events: &[&str]) -> (String, String) {
    let body = match events {
        [] => json!({ "url": url }),
        events => json!({ "url": url, "events": events }),
    };
    let answer = terse.api("POST", "/webhooks", Some(body));
    assert_eq!(answer.status, 201, "{}", answer.text());
    let text = |name: &str| answer.json()[name].as_str().unwrap().to_owned();
    (text("id"), text("secret"))
}

fn seen(terse: &TestTerse, id: &str) -> Value {
    terse.api("GET", &format!("/webhooks/{id}"), None).json()
}

fn deliveries(terse: &TestTerse, id: &str) -> Vec<Value> {
    let list = terse.api("GET", &format!("/webhooks/{id}/deliveries?limit=100"), None).json();
    list["deliveries"].as_array().unwrap().clone()
}

fn now(terse: &TestTerse) -> u64 {
    u64::try_from(terse.clock().now().as_ms() / 1000).unwrap()
}

fn kind(got: &Got) -> String {
    got.header("terse-event").to_owned()
}

#[test]
fn a_receiver_can_verify_the_signature() {
    let (terse, receiver) = (terse(), Receiver::responding(204));
    let (id, secret) = hook(&terse, &receiver.url("/hook?a=b"), &[]);
    let code = terse.create(json!({ "long_url": "https://example.com/?q=1", "title": "One" }));
    let got = receiver.next();
    assert_eq!(
        (got.line.as_str(), got.header("content-type")),
        ("POST /hook?a=b HTTP/1.1", "application/json")
    );
    let check = |secret: &str, got: &Got, body: &[u8]| {
        verify(&WebhookSecret::new(secret), got.header("terse-signature"), body, now(&terse), 60)
            .is_ok()
    };
    assert!(check(&secret, &got, &got.body));
    assert!(!check("whsec_other", &got, &got.body) && !check(&secret, &got, b"{}"));
    let body = got.json();
    assert_eq!(
        (&body["type"], &body["id"]),
        (&json!("link.created"), &json!(got.header("terse-delivery")))
    );
    assert_eq!(kind(&got), "link.created");
    let mut link = terse.api("GET", &format!("/urls/{code}"), None).json();
    link.as_object_mut().unwrap().remove("click_count");
    assert_eq!(body["link"], link, "as the API shows it");
    // After a change, the new and the old secret both sign for a while.
    let rotated = terse
        .api("PATCH", &format!("/webhooks/{id}"), Some(json!({ "rotate_secret": true })))
        .json();
    terse.api("DELETE", &format!("/urls/{code}"), None);
    let got = receiver.next();
    assert_eq!(kind(&got), "link.deleted");
    assert!(
        check(rotated["secret"].as_str().unwrap(), &got, &got.body)
            && check(&secret, &got, &got.body)
    );
    wait_until("it is noted", || seen(&terse, &id)["waiting"] == 0);
    assert!(
        deliveries(&terse, &id)
            .iter()
            .all(|one| one["state"] == "delivered" && one["attempts"] == 1)
    );
}

#[test]
fn a_webhook_receives_its_events_for_its_owners_links() {
    let (terse, receiver) = (terse(), Receiver::responding(200));
    hook(&terse, &receiver.url("/"), &["link.changed", "link.blocked", "link.expired"]);
    let anonymous =
        terse.anonymous("POST", "/urls", Some(json!({ "long_url": "https://example.com/a" })));
    assert_eq!(anonymous.status, 201);
    let code = terse.create(json!({ "long_url": "https://example.com/b" }));
    let path = format!("/urls/{code}");
    terse.api("PATCH", &path, Some(json!({ "title": "New" })));
    terse.api(
        "PUT",
        &format!("/admin/links/{code}/standing"),
        Some(json!({ "standing": "blocked" })),
    );
    terse.api("DELETE", &path, None);
    let got = [receiver.next(), receiver.next()];
    assert_eq!(got.each_ref().map(kind), ["link.changed", "link.blocked"]);
    assert!(got.iter().all(|got| got.json()["link"]["short_code"] == code));
    assert_eq!(receiver.waiting(), 0);
}

#[test]
fn an_expired_link_sends_an_event() {
    let receiver = Receiver::responding(200);
    let terse = TestTerse::with(|config| {
        config.outgoing.webhooks = true;
        config.outgoing.allow_private = true;
        config.links.reap_every = "1s".parse().unwrap();
    });
    hook(&terse, &receiver.url("/"), &["link.expired"]);
    let code = terse.create(json!({ "long_url": "https://example.com/", "ttl": 60 }));
    terse.clock().advance(Duration::from_secs(61));
    let got = receiver.next();
    assert_eq!(
        (kind(&got), &got.json()["link"]["status"]),
        ("link.expired".into(), &json!("expired"))
    );
    assert_eq!(got.json()["link"]["short_code"], code);
}

#[test]
fn what_a_receiver_does_not_take_comes_again_under_the_same_name() {
    let terse = terse();
    let receiver = Receiver::start("127.0.0.1:0", |n| Some(status_line([500, 302, 200][n.min(2)])));
    let (id, _) = hook(&terse, &receiver.url("/"), &[]);
    terse.create(json!({ "long_url": "https://example.com/" }));
    let first = receiver.next();
    wait_until("the first attempt is noted", || deliveries(&terse, &id)[0]["last_status"] == 500);
    terse.clock().advance(Duration::from_secs(13));
    let second = receiver.next();
    wait_until("the second attempt is noted", || deliveries(&terse, &id)[0]["last_status"] == 302);
    terse.clock().advance(Duration::from_secs(37));
    let third = receiver.next();
    wait_until("it is delivered", || deliveries(&terse, &id)[0]["state"] == "delivered");
    assert_eq!(deliveries(&terse, &id)[0]["attempts"], 3);
    assert_eq!((&second.body, &third.body), (&first.body, &first.body));
    assert_eq!(second.header("terse-delivery"), first.header("terse-delivery"));
    terse.clock().advance(Duration::from_secs(86_400));
    terse.api("POST", &format!("/webhooks/{id}/test"), None);
    assert_eq!(kind(&receiver.next()), "webhook.test", "nothing came in between");
}

#[test]
fn a_receiver_that_answers_410_gets_no_more_events() {
    let (terse, receiver) = (terse(), Receiver::responding(410));
    let (id, _) = hook(&terse, &receiver.url("/"), &[]);
    terse.create(json!({ "long_url": "https://example.com/a" }));
    receiver.next();
    wait_until("it is switched off", || seen(&terse, &id)["enabled"] == false);
    assert!(seen(&terse, &id)["disabled_reason"].as_str().unwrap().contains("410"));
    terse.create(json!({ "long_url": "https://example.com/b" }));
    assert_eq!(deliveries(&terse, &id).len(), 1);
    // Enabled again, it receives only new events: not even one that no job has read yet.
    terse.clock().advance(Duration::from_millis(2));
    terse.api("PATCH", &format!("/webhooks/{id}"), Some(json!({ "enabled": true })));
    let code = terse.create(json!({ "long_url": "https://example.com/c" }));
    assert_eq!(receiver.next().json()["link"]["short_code"], code);
    assert_eq!(receiver.accepted(), 2);
}

#[test]
fn a_slow_receiver_delays_no_other() {
    let terse = terse();
    let slow = Receiver::start("127.0.0.2:0", |_| None);
    let quick = Receiver::responding(200);
    for _ in 0..19 {
        hook(&terse, &slow.url("/"), &[]);
    }
    hook(&terse, &quick.url("/"), &[]);
    let codes: Vec<String> = (0..20)
        .map(|n| terse.create(json!({ "long_url": format!("https://example.com/{n}") })))
        .collect();
    let got: Vec<Value> =
        codes.iter().map(|_| quick.next().json()["link"]["short_code"].clone()).collect();
    assert_eq!(got, codes, "in order");
    assert!(
        slow.accepted() > 0 && slow.most_open.load(Ordering::SeqCst) <= 3,
        "{:?}",
        slow.most_open
    );
}

#[test]
fn nothing_is_sent_unless_it_is_switched_on() {
    let receiver = Receiver::start("127.0.0.2:0", |_| Some(status_line(200)));
    let mut terse = TestTerse::with(|config| {
        config.safety.allow_private_targets = true;
        config.outgoing.allow_private = true;
    });
    let answer = terse.api("POST", "/webhooks", Some(json!({ "url": receiver.url("/") })));
    assert_eq!((answer.status, &answer.json()["code"]), (403, &json!("webhooks_off")));
    for n in 0..20 {
        terse.create(json!({ "long_url": receiver.url(&format!("/{n}")) }));
    }
    terse.clock().advance(Duration::from_secs(86_400));
    let metrics = terse.get("/metrics").text();
    for line in [
        "terse_titles_total{what=\"skipped\"} 0",
        "terse_webhook_events_total{what=\"enqueued\"} 0",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    terse.stop();
    assert_eq!(receiver.accepted(), 0);
}

#[test]
fn webhooks_that_were_there_are_silent_while_switched_off() {
    let (mut terse, receiver) = (terse(), Receiver::responding(200));
    hook(&terse, &receiver.url("/"), &[]);
    terse.create(json!({ "long_url": "https://example.com/a" }));
    receiver.next();
    terse.config.outgoing.webhooks = false;
    terse.restart();
    terse.create(json!({ "long_url": "https://example.com/b" }));
    terse.config.outgoing.webhooks = true;
    terse.restart();
    let code = terse.create(json!({ "long_url": "https://example.com/c" }));
    // The first event may be sent twice: the server may stop before it records the delivery.
    let last = std::iter::repeat_with(|| receiver.next().json()["link"].clone())
        .find(|link| link["long_url"] != "https://example.com/a");
    assert_eq!(last.unwrap()["short_code"], code);
}

/// The sender is killed after delivery but before the response: the event is sent once more.
#[test]
fn an_event_outlives_the_sender() {
    let folder = tempfile::TempDir::new().unwrap();
    let data_dir = folder.path().join("data");
    let on = [("TERSE_OUTGOING__WEBHOOKS", "true"), ("TERSE_OUTGOING__ALLOW_PRIVATE", "true")];
    let receiver = Receiver::start("127.0.0.1:0", |n| (n > 0).then(|| status_line(200)));
    let call = |terse: &Killable, method: &str, path: &str, body: Option<Value>| -> Value {
        let request = http::Request::builder()
            .method(method)
            .uri(format!("http://{}/api/v1{path}", terse.address))
            .header("authorization", format!("Bearer {KEY}"))
            .header("content-type", "application/json");
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let sent = match method {
            "GET" => agent.run(request.body(()).unwrap()),
            _ => agent.run(request.body(body).unwrap()),
        };
        sent.unwrap().body_mut().read_json().unwrap()
    };
    let first = Killable::start_with(&data_dir, &on);
    let made = call(&first, "POST", "/webhooks", Some(json!({ "url": receiver.url("/") })));
    let (id, secret) =
        (made["id"].as_str().unwrap(), WebhookSecret::new(made["secret"].as_str().unwrap()));
    let link = call(&first, "POST", "/urls", Some(json!({ "long_url": "https://example.com/" })));
    let before = receiver.next();
    first.kill();
    let second = Killable::start_with(&data_dir, &on);
    let again = receiver.next();
    assert_eq!(
        (again.header("terse-delivery"), &again.body),
        (before.header("terse-delivery"), &before.body)
    );
    assert_eq!(again.json()["link"]["short_code"], link["short_code"]);
    let seconds =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert_eq!(
        verify(&secret, again.header("terse-signature"), &again.body, seconds, 60),
        Ok(()),
        "the secret is the same"
    );
    let path = format!("/webhooks/{id}/deliveries");
    wait_until("it is delivered", || {
        call(&second, "GET", &path, None)["deliveries"][0]["state"] == "delivered"
    });
    second.kill();
    let third = Killable::start_with(&data_dir, &on);
    call(&third, "POST", &format!("/webhooks/{id}/test"), Some(json!({})));
    assert_eq!(
        receiver.next().header("terse-event"),
        "webhook.test",
        "what was taken is not sent again"
    );
    assert_eq!(receiver.accepted(), 3);
}

/// The process dies between the commit of a link and the delivery of its event: the links file is
/// all that is left.
#[test]
fn an_event_outlives_a_crash_behind_its_link() {
    use terse_core::registry::EventKind;
    use terse_core::{Insert, LinkStore as _, OutboxEvent};
    let receiver = Receiver::responding(200);
    let mut terse = terse();
    hook(&terse, &receiver.url("/"), &["link.created"]);
    let at = terse.clock().now();
    terse.stop();
    let link = terse_testkit::alias("survivor", "https://example.com/");
    let events = vec![OutboxEvent { kind: EventKind::LinkCreated, at }];
    let insert = Insert { events, ..Insert::new(link, None) };
    let file = terse_embedded::EmbeddedOptions::new(terse.config.store_file());
    let store = terse_embedded::EmbeddedLinks::open(file).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(store.insert(insert)).unwrap();
    store.close();
    terse.restart();
    let got = receiver.next();
    assert_eq!(kind(&got), "link.created");
    assert_eq!(got.json()["link"]["short_code"], "survivor");
    assert_eq!(got.json()["created_at"], at.to_string());
    let next = terse.create(json!({ "long_url": "https://example.com/next" }));
    assert_eq!(receiver.next().json()["link"]["short_code"], next, "and it came once");
}
