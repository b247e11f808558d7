//! Live clicks.

use axum::body::Body;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use terse_core::clicks::*;
use terse_core::*;

use crate::web::{KEY, OWNER, Web};

const PATH: &str = "/api/v1/urls/abc/live";

async fn with_link() -> (Web, LinkId) {
    let web = Web::new();
    let made = web
        .api("POST /api/v1/urls", json!({"long_url": "https://example.com/", "alias": "abc"}))
        .await
        .json();
    let key = LinkKey { domain: Domain::primary(), code: Code::parse("abc").unwrap() };
    (
        web,
        LinkId { key, created_at: Timestamp::parse(made["created_at"].as_str().unwrap()).unwrap() },
    )
}

fn click(link: &LinkId) -> Click {
    let click =
        Click::bare(Timestamp::from_ms(1000), ClickTarget::Link(link.clone(), OwnerId::ADMIN));
    Click { visitor: Some(7), address: Some("203.0.113.0/24".into()), ..click }
}

async fn piece(body: &mut Body) -> Option<String> {
    let frame = body.frame().await?.unwrap();
    Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
}

#[tokio::test]
async fn clicks_arrive_as_events() {
    let (web, link) = with_link().await;
    let mut response = web.open(PATH, KEY).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["cache-control"], "no-store");
    let body = response.body_mut();
    assert_eq!(piece(body).await.unwrap(), "retry: 2000\n\n");
    let other = LinkId {
        key: LinkKey { domain: Domain::primary(), code: Code::parse("other").unwrap() },
        ..link.clone()
    };
    let bot = Click { bot: Some(BotKind::Ai), referrer: Some("a\nb".into()), ..click(&link) };
    web.live
        .publish(&Batch::of(vec![], [click(&other), click(&link), bot]).clicks, web.clock.now());
    let mut text = String::new();
    while text.matches("\n\n").count() < 2 {
        text.push_str(&piece(body).await.unwrap());
    }
    let events: Vec<Value> = text
        .split_terminator("\n\n")
        .map(|event| {
            serde_json::from_str(event.strip_prefix("event: click\ndata: ").unwrap()).unwrap()
        })
        .collect();
    let want = json!({"at": "1970-01-01T00:00:01Z", "country": null, "city": null, "device": null,
        "browser": null,
        "operating_system": null, "language": null, "referrer": null, "bot": null, "repeat": false, "own": false});
    assert_eq!(events[0], want);
    assert_eq!((&events[1]["bot"], &events[1]["referrer"]), (&json!("ai"), &json!("a\nb")));
    assert!(!text.contains("203.0.113"));
    web.api(&format!("GET {PATH}?x=1"), Value::Null).await.is_problem(400, "invalid_request", "x");
}

#[tokio::test(start_paused = true)]
async fn silence_is_kept_alive() {
    let (web, link) = with_link().await;
    let mut response = web.open(PATH, KEY).await;
    let body = response.body_mut();
    piece(body).await.unwrap();
    // Minutes of keep-alives, longer than the time limit of a request.
    for _ in 0..20 {
        assert!(piece(body).await.unwrap().starts_with(':'));
    }
    web.live.publish(&Batch::of(vec![], [click(&link)]).clicks, web.clock.now());
    assert!(piece(body).await.unwrap().starts_with("event: click\n"));
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_its_reader_loses_access() {
    let ends: [(&str, &str); 3] = [
        ("DELETE /api/v1/admin/users/1000/keys/", ""),
        ("POST /api/v1/admin/users/1000/suspend", r#"{"why":"spam"}"#),
        ("DELETE /api/v1/urls/theirs", ""),
    ];
    for (line, body) in ends {
        let web = Web::new();
        let id = web.give_key(OWNER.1, "terse_live", |_| {}).await;
        let made = json!({"long_url": "https://example.com/", "alias": "theirs"});
        let made = web.as_owner("POST /api/v1/urls", "terse_live", made).await.json();
        let created_at = Timestamp::parse(made["created_at"].as_str().unwrap()).unwrap();
        let link = LinkId {
            key: LinkKey { domain: Domain::primary(), code: Code::parse("theirs").unwrap() },
            created_at,
        };
        let mut response = web.open("/api/v1/urls/theirs/live", "terse_live").await;
        let line = if line.ends_with('/') { format!("{line}{}", id.0) } else { line.to_owned() };
        let done = web.api(&line, serde_json::from_str(body).unwrap_or_default()).await;
        assert!(done.status.is_success(), "{line}: {}", done.text());
        // The stream ends however busy the link is.
        let mut told = 0;
        while told < 60 && piece(response.body_mut()).await.is_some() {
            web.live.publish(&Batch::of(vec![], [click(&link)]).clicks, web.clock.now());
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            told += 1;
        }
        assert!(told < 60, "{line}");
    }
}

#[tokio::test]
async fn watching_ends_when_the_server_stops() {
    let (web, _) = with_link().await;
    let mut response = web.open(PATH, KEY).await;
    piece(response.body_mut()).await.unwrap();
    let silent = web.open(PATH, KEY).await;
    web.stop.send(true).unwrap();
    assert_eq!(piece(response.body_mut()).await, None);
    // The same for a client that has read nothing yet, and for one that connects too late.
    for response in [silent, web.open(PATH, KEY).await] {
        assert!(
            response.into_body().collect().await.unwrap().to_bytes().len()
                <= "retry: 2000\n\n".len()
        );
    }
}

#[tokio::test]
async fn live_streams_are_limited_and_a_closed_one_makes_room() {
    let (web, link) = with_link().await;
    let watching: Vec<_> = (0..2000).map_while(|_| web.live.watch(link.clone())).collect();
    web.api(&format!("GET {PATH}"), Value::Null).await.is_problem(503, "store_unavailable", "");
    let room = watching.len();
    drop(watching);
    let mut response = web.open(PATH, KEY).await;
    assert_eq!(response.status(), 200);
    piece(response.body_mut()).await.unwrap();
    drop(response);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let again = (0..2000).map_while(|_| web.live.watch(link.clone())).collect::<Vec<_>>().len();
    assert_eq!(again, room, "the one who left holds no place");
}
