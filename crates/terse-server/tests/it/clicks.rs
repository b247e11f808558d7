//! Raw clicks, streamed while the server reads them.

use std::sync::atomic::Ordering;

use axum::body::Body;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use terse_core::clicks::*;
use terse_core::*;

use crate::web::{KEY, Web};

const PATH: &str = "/api/v1/urls/abc/clicks";

async fn with_clicks(count: usize, make: impl Fn(usize, &mut Click)) -> Web {
    let web = Web::new();
    let made = web
        .api("POST /api/v1/urls", json!({"long_url": "https://example.com/", "alias": "abc"}))
        .await
        .json();
    let key = LinkKey { domain: Domain::primary(), code: Code::parse("abc").unwrap() };
    let link =
        LinkId { key, created_at: Timestamp::parse(made["created_at"].as_str().unwrap()).unwrap() };
    web.clicks.add((0..count).map(|n| {
        let mut click = Click::bare(
            Timestamp::from_ms(n as i64 * 1000),
            ClickTarget::Link(link.clone(), OwnerId::ADMIN),
        );
        click.visitor = Some(0xdead_beef);
        make(n, &mut click);
        click
    }));
    web
}

fn pages(web: &Web) -> usize {
    web.clicks.pages.load(Ordering::Relaxed)
}

/// The next piece of a body; `None` at its end.
async fn piece(body: &mut Body) -> Option<Result<Vec<u8>, axum::Error>> {
    Some(body.frame().await?.map(|frame| frame.into_data().unwrap().to_vec()))
}

#[tokio::test]
async fn clicks_of_bots_can_be_left_out() {
    let web = with_clicks(2500, |n, click| {
        click.bot = (n >= 1500).then_some(BotKind::Preview);
        click.repeat = n == 7;
    })
    .await;
    for (bots, want) in [
        ("", 2500),
        ("?bots=include", 2500),
        ("?bots=exclude", 1500),
        ("?bots=false", 1500),
        ("?bots=only", 1000),
    ] {
        let text = web.api(&format!("GET {PATH}{bots}"), Value::Null).await.text();
        assert_eq!(text.lines().count(), want, "{bots}");
    }
    let answer = web.api(&format!("GET {PATH}?bots=some"), Value::Null).await;
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("bots"), "{}", answer.text());
}

#[tokio::test]
async fn each_click_is_a_line() {
    let web = with_clicks(3, |n, click| {
        click.country = Some("DE".into());
        click.bot = (n == 1).then_some(BotKind::Preview);
        click.utm[0] = (n == 2).then(|| "a\nb \"c\" 日本".into());
        click.took_nanos = 1_234_000;
    })
    .await;
    let answer = web.api(&format!("GET {PATH}"), Value::Null).await;
    assert_eq!(answer.header("content-type"), "application/x-ndjson");
    assert_eq!(answer.header("content-disposition"), "attachment; filename=\"abc-clicks.jsonl\"");
    assert_eq!(
        (answer.header("cache-control"), answer.header("x-content-type-options")),
        ("no-store", "nosniff")
    );
    let text = answer.text();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    let want = json!({"at": "1970-01-01T00:00:00Z", "country": "DE", "city": null, "device": null,
        "browser": null,
        "operating_system": null, "language": null, "referrer": null, "utm_source": null,
        "utm_medium": null, "utm_campaign": null,
        "utm_term": null, "utm_content": null, "bot": null, "address": null, "redirect_ms": 1.234,
        "repeat": false});
    assert_eq!(lines[0], want);
    assert_eq!(
        (&lines[1]["bot"], &lines[2]["utm_source"]),
        (&json!("preview"), &json!("a\nb \"c\" 日本"))
    );
    assert!(
        !text.contains("visitor") && !text.contains("3735928559") && !text.contains("deadbeef")
    );
    // Only a part of the period.
    for (query, count) in
        [("from=1970-01-01T00:00:01Z", 2), ("to=1970-01-01T00:00:01Z", 1), ("from=1970-01-02", 0)]
    {
        let part = web.api(&format!("GET {PATH}?format=json&{query}"), Value::Null).await;
        assert_eq!((part.status.as_u16(), part.text().lines().count()), (200, count), "{query}");
    }
    for (query, field) in [
        ("format=xml", "format"),
        ("from=x", "from"),
        ("to=x", "to"),
        ("from=2026-01-02&to=2026-01-01", "from"),
        ("tz=UTC", "tz"),
    ] {
        web.api(&format!("GET {PATH}?{query}"), Value::Null).await.is_problem(
            400,
            "invalid_request",
            field,
        );
    }
}

#[tokio::test]
async fn a_csv_table_escapes_what_visitors_sent() {
    let nasty = [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\tx",
        "\rx",
        "a,b",
        "say \"hi\"",
        "two\r\nlines",
        "日本語 🙂",
        "'=x",
        "",
    ];
    let web = with_clicks(nasty.len(), |n, click| {
        click.utm = [const { None }; 5].map(|_: Option<Interned>| Some(nasty[n].into()));
        click.referrer = Some(nasty[n].into());
        click.bot = (n == 0).then_some(BotKind::Ai);
        click.address = Some("203.0.113.0/24".into());
        click.took_nanos = 14_000;
    })
    .await;
    let answer = web.api(&format!("GET {PATH}?format=csv"), Value::Null).await;
    assert_eq!(answer.header("content-type"), "text/csv; charset=utf-8; header=present");
    assert_eq!(answer.header("content-disposition"), "attachment; filename=\"abc-clicks.csv\"");
    let text = answer.text();
    assert!(text.starts_with("at,country,city,device,browser,operating_system,language,referrer,utm_source,utm_medium,utm_campaign,utm_term,utm_content,bot,address,redirect_ms,repeat\r\n1970-01-01T00:00:00Z,,,,,,,'=1+1,'=1+1,"), "{text}");
    assert!(text.contains("\"say \"\"hi\"\"\"") && text.contains("\"two\r\nlines\""), "{text}");
    let mut table = csv::Reader::from_reader(text.as_bytes());
    let rows: Vec<csv::StringRecord> = table.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), nasty.len());
    for (n, (row, sent)) in rows.iter().zip(nasty).enumerate() {
        assert!(
            row.iter().all(|cell| !cell.starts_with(['=', '+', '-', '@', '\t', '\r'])),
            "{row:?}"
        );
        let want = if n < 6 { format!("'{sent}") } else { sent.to_owned() };
        assert_eq!((&row[7], &row[12]), (&*want, &*want));
        assert_eq!((&row[14], &row[15]), ("203.0.113.0/24", "0.014"));
    }
    assert_eq!((&rows[0][13], &rows[1][13]), ("ai", ""));
    let none = with_clicks(0, |_, _| ()).await;
    assert_eq!(
        none.api(&format!("GET {PATH}?format=csv"), Value::Null).await.text().lines().count(),
        1
    );
}

#[tokio::test]
async fn fifty_thousand_clicks_are_read_only_as_fast_as_they_are_taken() {
    let web = with_clicks(50_000, |_, click| click.browser = Some("Firefox".into())).await;
    let mut response = web.open(PATH, KEY).await;
    assert_eq!(response.status(), 200);
    let mut lines = 0;
    let settle = async || {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    };
    settle().await;
    // The server does not read ahead of a client that reads nothing.
    assert_eq!(pages(&web), 1);
    while let Some(bytes) = piece(response.body_mut()).await {
        let bytes = bytes.unwrap();
        lines += bytes.iter().filter(|byte| **byte == b'\n').count();
        assert!(bytes.len() <= 32 * 1024, "{}", bytes.len());
        settle().await;
        assert!(pages(&web) <= lines / 1000 + 2, "{} pages for {lines} lines", pages(&web));
    }
    assert_eq!((lines, pages(&web)), (50_000, 50));
}

#[tokio::test]
async fn a_client_that_leaves_is_not_read_for() {
    let web = with_clicks(50_000, |_, _| ()).await;
    let mut response = web.open(PATH, KEY).await;
    piece(response.body_mut()).await.unwrap().unwrap();
    drop(response);
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert!(pages(&web) <= 2, "{} pages", pages(&web));
}

#[tokio::test]
async fn an_answer_that_cannot_be_finished_is_broken_off() {
    for format in ["json", "csv"] {
        let web = with_clicks(5000, |_, _| ()).await;
        *web.clicks.last_page.lock().unwrap() = Some(3);
        let mut response = web.open(&format!("{PATH}?format={format}"), KEY).await;
        assert_eq!(response.status(), 200);
        let (mut rows, mut broken) = (0, 0);
        while let Some(piece) = piece(response.body_mut()).await {
            match piece {
                Ok(bytes) => rows += bytes.iter().filter(|byte| **byte == b'\n').count(),
                Err(_) => broken += 1,
            }
        }
        let head = usize::from(format == "csv");
        assert_eq!((rows, broken), (3000 + head, 1), "a part must not look like the whole");
    }
    let web = with_clicks(5000, |_, _| ()).await;
    *web.clicks.last_page.lock().unwrap() = Some(0);
    web.api(&format!("GET {PATH}"), Value::Null).await.is_problem(503, "store_unavailable", "");
}

#[tokio::test(start_paused = true)]
async fn the_time_a_request_may_take_does_not_cut_a_long_answer() {
    let web = with_clicks(5000, |_, _| ()).await;
    let mut response = web.open(PATH, KEY).await;
    let mut lines = 0;
    while let Some(bytes) = piece(response.body_mut()).await {
        lines += bytes.unwrap().iter().filter(|byte| **byte == b'\n').count();
        // Together longer than the time limit of a request.
        tokio::time::sleep(std::time::Duration::from_secs(50)).await;
    }
    assert_eq!(lines, 5000);
    // But the server does not wait for a client that reads nothing at all.
    let mut response = web.open(PATH, KEY).await;
    tokio::time::sleep(std::time::Duration::from_secs(300)).await;
    let mut last = None;
    while let Some(bytes) = piece(response.body_mut()).await {
        last = Some(bytes.is_ok());
    }
    assert_eq!(last, Some(false));
}
