//! Click statistics, and counts on links.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use terse_core::clicks::*;
use terse_core::*;

use crate::web::{KEY, MODERATOR, OTHER, OWNER, Web};

const HOUR: i64 = 3_600_000;

/// An owner's link `abc`, created at the given time.
async fn with_link(created_at: &str) -> (Web, LinkId) {
    let web = Web::new();
    let row = json!([{"long_url": "https://example.com/", "short_code": "abc",
        "created_at": created_at}]);
    let made = web.api("POST /api/v1/admin/import", row).await.json();
    assert_eq!(made["results"][0]["status"], 201, "{made}");
    let key = LinkKey { domain: Domain::primary(), code: Code::parse("abc").unwrap() };
    (web, LinkId { key, created_at: at(created_at) })
}

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn click(link: &LinkId, ms: i64) -> Click {
    Click::bare(Timestamp::from_ms(ms), ClickTarget::Link(link.clone(), OWNER.1))
}

async fn stats(web: &Web, query: &str) -> Value {
    let answer = web.api(&format!("GET /api/v1/urls/abc/stats{query}"), Value::Null).await;
    assert_eq!(answer.status, 200, "{query} {}", answer.text());
    answer.json()
}

#[tokio::test]
async fn the_sums_of_a_link_look_like_this() {
    let (web, link) = with_link("2026-01-01T00:00:00Z").await;
    let start = at("2026-01-02T10:00:00Z").as_ms();
    let mut first = click(&link, start);
    (first.country, first.city, first.device) =
        (Some("DE".into()), Some("Berlin, DE".into()), Some("mobile".into()));
    (first.browser, first.system, first.language) =
        (Some("Firefox".into()), Some("Android".into()), Some("de".into()));
    (first.referrer, first.visitor, first.took_nanos) =
        (Some("news.example".into()), Some(9), 20_000);
    first.utm = ["newsletter", "email", "spring", "shoes", "top"].map(|word| Some(word.into()));
    let mut second = click(&link, start + 5 * HOUR);
    (second.country, second.bot, second.took_nanos) =
        (Some("FR".into()), Some(BotKind::Crawler), 40_001);
    let third = click(&link, start + 6 * HOUR);
    web.clicks.add([first, second, third]);
    let body = stats(&web, "?from=2026-01-01&to=2026-01-04").await;
    let both = |name: &str, clicks: u64| {
        json!([
            {"name": name, "clicks": clicks}, {"name": "unknown", "clicks": 3 - clicks}
        ])
    };
    let one = |name: &str| json!([{"name": name, "clicks": 1}]);
    let point = |day: u64, humans: u64, bots: u64| {
        json!({"start": format!("2026-01-0{day}T00:00:00+00:00"), "clicks": humans + bots,
            "human_clicks": humans,
            "bot_clicks": bots})
    };
    let want = json!({
        "short_code": "abc", "short_url": "https://go.example/abc", "from": "2026-01-01T00:00:00Z",
        "to": "2026-01-04T00:00:00Z",
        "interval": "day", "time_zone": "UTC", "bots": "include", "total_clicks": 3,
        "clicks_24h": 0, "unique_visitors": 1,
        "human_clicks": 2, "bot_clicks": 1, "repeat_clicks": 0, "warned": 0, "went_on": 0, "avg_redirect_ms": 0.02,
        "last_click_at": "2026-01-02T16:00:00Z",
        "series": [point(1, 0, 0), point(2, 2, 1), point(3, 0, 0)],
        "top_referrers": both("news.example", 1),
        "top_countries": [{"name": "DE", "clicks": 1}, {"name": "FR", "clicks": 1},
            {"name": "unknown", "clicks": 1}],
        "top_cities": both("Berlin, \
            DE", 1), "devices": both("mobile", 1), "browsers": both("Firefox", 1),
        "operating_systems": both("Android", 1), "languages": both("de", 1),
        "utm_sources": one("newsletter"),
        "utm_mediums": one("email"), "utm_campaigns": one("spring"), "utm_terms": one("shoes"),
        "utm_contents": one("top"),
        "bot_reasons": one("crawler")
    });
    assert_eq!(body, want, "{body:#}");
    // The fields are in the documented order.
    assert_eq!(body.to_string(), want.to_string());
}

#[tokio::test]
async fn bots_are_recognised() {
    let (web, link) = with_link("2026-01-01T00:00:00Z").await;
    let start = at("2026-01-02T10:00:00Z").as_ms();
    web.clicks.add((0..10).map(|n| {
        let bot = (n < 4).then_some(BotKind::Preview);
        Click {
            bot,
            device: Some(if n < 2 { "tablet" } else { "mobile" }.into()),
            ..click(&link, start + n * HOUR)
        }
    }));
    for (bots, word, total, devices) in [
        (
            "",
            "include",
            10,
            json!([{"name": "mobile", "clicks": 8}, {"name": "tablet", "clicks": 2}]),
        ),
        (
            "&bots=true",
            "include",
            10,
            json!([{"name": "mobile", "clicks": 8}, {"name": "tablet", "clicks": 2}]),
        ),
        ("&bots=exclude", "exclude", 6, json!([{"name": "mobile", "clicks": 6}])),
        ("&bots=false", "exclude", 6, json!([{"name": "mobile", "clicks": 6}])),
        (
            "&bots=only",
            "only",
            4,
            json!([{"name": "mobile", "clicks": 2}, {"name": "tablet", "clicks": 2}]),
        ),
    ] {
        let body = stats(&web, &format!("?from=2026-01-02&to=2026-01-03{bots}")).await;
        assert_eq!(
            (&body["bots"], &body["total_clicks"], &body["devices"]),
            (&json!(word), &json!(total), &devices),
            "{bots}"
        );
        assert_eq!((&body["human_clicks"], &body["bot_clicks"]), (&json!(6), &json!(4)));
        let points = body["series"].as_array().unwrap();
        assert_eq!(points.len(), 24);
        assert_eq!(
            points.iter().map(|point| point["clicks"].as_u64().unwrap()).sum::<u64>(),
            total
        );
        assert_eq!(
            points.iter().map(|point| point["bot_clicks"].as_u64().unwrap()).sum::<u64>(),
            4
        );
    }
}

#[tokio::test]
async fn lists_have_twenty_names_then_the_unknown_and_the_others() {
    let (web, link) = with_link("2026-01-01T00:00:00Z").await;
    let start = at("2026-01-02T10:00:00Z").as_ms();
    for n in 0..25_u32 {
        web.clicks.add((0..=n).map(|_| Click {
            referrer: Some(format!("{n:02}.example").into()),
            ..click(&link, start)
        }));
    }
    let campaigns = ["other", "other", "unknown"];
    web.clicks.add(campaigns.map(|word| Click {
        utm: [const { None }; 5].map(|_: Option<Interned>| Some(word.into())),
        ..click(&link, start)
    }));
    let body = stats(&web, "").await;
    let list = body["top_referrers"].as_array().unwrap();
    assert_eq!(list.len(), 22);
    assert_eq!(list[0], json!({"name": "24.example", "clicks": 25}));
    assert_eq!(list[19], json!({"name": "05.example", "clicks": 6}));
    assert_eq!(list[20], json!({"name": "unknown", "clicks": 3}));
    assert_eq!(list[21], json!({"name": "other", "clicks": 15}));
    assert_eq!(
        body["utm_sources"],
        json!([{"name": "unknown", "clicks": 1}, {"name": "other", "clicks": 2}])
    );
    assert_eq!(body["total_clicks"], 25 * 26 / 2 + 3);
}

#[tokio::test]
async fn a_day_is_as_long_as_in_the_time_zone_of_the_request() {
    let (web, link) = with_link("2026-01-01T00:00:00Z").await;
    let start = at("2026-03-27T00:00:00Z").as_ms();
    web.clicks.add((0..120).map(|n| click(&link, start + n * HOUR)));
    let body =
        stats(&web, "?from=2026-03-28&to=2026-03-31&interval=day&time_zone=Europe/Berlin").await;
    assert_eq!(
        (&body["time_zone"], &body["from"]),
        (&json!("Europe/Berlin"), &json!("2026-03-27T23:00:00Z"))
    );
    assert_eq!(body["to"], "2026-03-30T22:00:00Z");
    let points = body["series"].as_array().unwrap();
    let points: Vec<_> = points
        .iter()
        .map(|point| (point["start"].as_str().unwrap(), point["clicks"].as_u64().unwrap()))
        .collect();
    let want = [
        ("2026-03-28T00:00:00+01:00", 24),
        ("2026-03-29T00:00:00+01:00", 23),
        ("2026-03-30T00:00:00+02:00", 24),
    ];
    assert_eq!(points, want);
    assert_eq!(body["total_clicks"], 71);
    let hours = stats(&web, "?from=2026-03-29&to=2026-03-30&interval=hour&tz=Europe/Berlin").await;
    assert_eq!(hours["series"].as_array().unwrap().len(), 23);
    for (tz, name) in [
        ("%2B05:30", "+05:30"),
        ("+05:30", "+05:30"),
        ("-03:00", "-03:00"),
        ("utc", "UTC"),
        ("Etc/UTC", "Etc/UTC"),
    ] {
        assert_eq!(
            stats(&web, &format!("?tz={tz}&from=2026-03-28")).await["time_zone"],
            name,
            "{tz}"
        );
    }
}

#[tokio::test]
async fn every_parameter_is_read_strictly() {
    let (web, link) = with_link("2026-01-01T00:00:00Z").await;
    web.clicks.add([click(&link, at("2026-01-02T10:00:00Z").as_ms())]);
    let bad = [
        ("from=yesterday", "from"),
        ("from=", "from"),
        ("from=2026-02-30", "from"),
        ("to=2026-01-01T00:00:00", "to"),
        ("from=2026-02-02&to=2026-02-02", "from"),
        ("from=2026-02-03&to=2026-02-02", "from"),
        ("from=2199-01-01", "from"),
        ("interval=year", "interval"),
        ("interval=Day", "interval"),
        ("interval=", "interval"),
        ("from=2020-01-01&to=2020-06-01&interval=hour", "interval"),
        ("from=0001-01-01&to=9999-01-01", "interval"),
        ("bots=maybe", "bots"),
        ("time_zone=Mars/Olympus", "time_zone"),
        ("time_zone=", "time_zone"),
        ("tz=%2B25:00", "tz"),
        ("tz=UTC&time_zone=UTC", "time_zone"),
        ("colour=red", "colour"),
        ("from=2026-01-01&from=2026-01-02", "from"),
    ];
    for path in ["/api/v1/urls/abc/stats", "/api/v1/stats", "/api/v1/admin/orphans"] {
        for (query, field) in bad {
            web.api(&format!("GET {path}?{query}"), Value::Null).await.is_problem(
                400,
                "invalid_request",
                field,
            );
        }
    }
    web.api("GET /api/v1/urls/abc/stats?to=2025-01-01", Value::Null).await.is_problem(
        400,
        "invalid_request",
        "to",
    );
    web.api("GET /api/v1/urls/abc/stats?domain=x.example", Value::Null).await.is_problem(
        400,
        "invalid_request",
        "domain",
    );
    web.api("GET /api/v1/stats?domain=b.example", Value::Null).await.is_problem(
        400,
        "invalid_request",
        "domain",
    );
    for (query, field) in [
        ("minutes=0", "minutes"),
        ("minutes=61", "minutes"),
        ("limit=101", "limit"),
        ("limit=x", "limit"),
        ("q=1", "q"),
    ] {
        web.api(&format!("GET /api/v1/top?{query}"), Value::Null).await.is_problem(
            400,
            "invalid_request",
            field,
        );
    }
    for path in
        ["urls/abc/stats", "urls/abc/clicks", "urls/abc/live", "stats", "top", "admin/orphans"]
    {
        web.call(&format!("GET /api/v1/{path}"), &[], "").await.is_problem(
            401,
            "unauthorized",
            "Authorization",
        );
    }
    // Ten minutes of an hour show that hour.
    let body =
        stats(&web, "?from=2026-01-02T10:20:00Z&to=2026-01-02T10:30:00%2B00:00&interval=hour")
            .await;
    assert_eq!(
        (&body["total_clicks"], &body["series"][0]["start"]),
        (&json!(1), &json!("2026-01-02T10:00:00+00:00"))
    );
}

#[tokio::test]
async fn hours_that_are_no_longer_kept_are_not_made_up() {
    let (web, link) = with_link("2026-01-01T00:00:00Z").await;
    web.clicks.add([
        click(&link, at("2026-01-02T10:00:00Z").as_ms()),
        click(&link, at("2026-01-05T10:00:00Z").as_ms()),
    ]);
    *web.clicks.days_before.lock().unwrap() = Some(at("2026-01-04"));
    let line = "GET /api/v1/urls/abc/stats?from=2026-01-02&to=2026-01-03";
    let answer = web.api(&format!("{line}&interval=hour"), Value::Null).await;
    answer.is_problem(400, "invalid_request", "interval");
    assert!(answer.text().contains("no longer kept by the hour"));
    // Without an explicit interval, the server chooses days.
    assert_eq!(web.api(line, Value::Null).await.json()["interval"], "day");
    let kept = stats(&web, "?from=2026-01-05&to=2026-01-06&interval=hour").await;
    assert_eq!(kept["series"][10]["clicks"], 1);
}

#[tokio::test]
async fn a_link_without_clicks_has_sums_too() {
    let web = Web::new();
    assert_eq!(
        web.api("POST /api/v1/urls", json!({"long_url": "https://example.com/", "alias": "abc"}))
            .await
            .status,
        201
    );
    let body = stats(&web, "").await;
    for field in ["avg_redirect_ms", "last_click_at"] {
        assert!(body[field].is_null(), "{body}");
    }
    assert_eq!(
        (&body["total_clicks"], &body["top_countries"], &body["interval"]),
        (&json!(0), &json!([]), &json!("hour"))
    );
    assert_eq!(body["series"].as_array().unwrap().len(), 1);
    // A link that is older than any click can be.
    let row = json!([
        {"long_url": "https://example.com/2", "short_code": "old-1", "created_at": "0001-01-01"}
    ]);
    assert_eq!(web.api("POST /api/v1/admin/import", row).await.json()["results"][0]["status"], 201);
    assert_eq!(web.api("GET /api/v1/urls/old-1/stats", Value::Null).await.status, 200);
}

/// `mine` of OWNER has two clicks, `theirs` of OTHER three, and the operator has none.
async fn admins_ask_for_clicks_of_others(web: &Web) {
    let seen = async |key: &str, query: &str| {
        let mut found = Vec::new();
        for (path, list) in [("stats", "top_links"), ("top", "links")] {
            let line = format!("GET /api/v1/{path}{query}");
            let answer = web.as_owner(&line, key, Value::Null).await;
            let body = answer.json();
            let links = body[list].as_array().into_iter().flatten();
            let codes: Vec<_> = links.map(|link| link["short_code"].as_str().unwrap()).collect();
            found.push(format!("{} {}", answer.status.as_u16(), codes.join(" ")));
        }
        found.dedup();
        found.join(", ")
    };
    let (owner, other) = (format!("?owner={}", OWNER.1.0), format!("?owner={}", OTHER.1.0));
    for (key, query, want) in [
        (KEY, "", "200 "),
        (KEY, "?owner=all", "200 theirs mine"),
        (KEY, &owner, "200 mine"),
        (KEY, &other, "200 theirs"),
        (KEY, "?owner=0", "200 "),
        (OWNER.0, "?owner=all", "200 mine"),
        (OWNER.0, &owner, "200 mine"),
        (OWNER.0, &other, "403 "),
        // A moderator sees links of others, but not their clicks.
        (MODERATOR.0, "?owner=all", "200 "),
        (MODERATOR.0, &other, "403 "),
    ] {
        assert_eq!(seen(key, query).await, want, "{key} {query}");
    }
    for path in ["stats?owner=x", "stats?owner=", "top?owner=99999999999999999999"] {
        let answer = web.api(&format!("GET /api/v1/{path}"), Value::Null).await;
        answer.is_problem(400, "invalid_request", "owner");
    }
}

#[tokio::test]
async fn owners_see_their_own_and_nobody_elses() {
    let web = Web::new();
    let made = web
        .as_owner(
            "POST /api/v1/urls",
            OWNER.0,
            json!({"long_url": "https://example.com/", "alias": "mine"}),
        )
        .await
        .json();
    let key = LinkKey { domain: Domain::primary(), code: Code::parse("mine").unwrap() };
    let link = LinkId { key, created_at: at(made["created_at"].as_str().unwrap()) };
    let now = web.clock.now();
    let clicks = [
        Click { bot: Some(BotKind::Tool), ..click(&link, now.as_ms()) },
        click(&link, now.as_ms()),
    ];
    web.live.publish(&Batch::of(vec![], clicks.clone()).clicks, now);
    web.clicks.add(clicks);
    let others = LinkId {
        key: LinkKey {
            domain: Domain::parse("b.example").unwrap(),
            code: Code::parse("theirs").unwrap(),
        },
        created_at: now,
    };
    let theirs = vec![Click::bare(now, ClickTarget::Link(others, OTHER.1)); 3];
    web.live.publish(&Batch::of(vec![], theirs.clone()).clicks, now);
    web.clicks.add(theirs);
    let gone = LinkKey { domain: Domain::primary(), code: Code::parse("nowhere").unwrap() };
    web.clicks.add([Click {
        weight: 50,
        ..Click::bare(now, ClickTarget::Orphan(gone, Answered::NotFound))
    }]);
    for path in ["stats", "clicks", "live", "stats?interval=odd"] {
        web.call(&format!("GET /api/v1/urls/mine/{path}"), &[("authorization", OTHER.0)], "")
            .await
            .is_problem(404, "not_found", "");
        web.api(&format!("GET /api/v1/urls/none/{path}"), Value::Null).await.is_problem(
            404,
            "not_found",
            "",
        );
        web.api(&format!("GET /api/v1/urls/a.b/{path}"), Value::Null).await.is_problem(
            404,
            "not_found",
            "",
        );
    }
    let get = async |path: &str, key: &str| {
        let answer = web.call(&format!("GET /api/v1/{path}"), &[("authorization", key)], "").await;
        assert_eq!(answer.status, 200, "{path} {}", answer.text());
        answer.json()
    };
    assert_eq!(get("urls/mine/stats", OWNER.0).await["total_clicks"], 2);
    for (key, total, tops) in
        [(OWNER.0, 2, vec![("mine", "go.example")]), (OTHER.0, 3, vec![("theirs", "b.example")])]
    {
        let body = get("stats", key).await;
        let links: Vec<_> = body["top_links"]
            .as_array()
            .unwrap()
            .iter()
            .map(|link| (link["short_code"].as_str().unwrap(), link["domain"].as_str().unwrap()))
            .collect();
        assert_eq!((body["total_clicks"].as_u64(), links), (Some(total), tops));
    }
    let all = get("stats?owner=all", KEY).await;
    assert_eq!((&all["total_clicks"], &all["clicks_24h"]), (&json!(5), &json!(5)));
    assert_eq!(all["series"].as_array().unwrap().len(), 31);
    assert_eq!(
        all["top_links"][0],
        json!({
            "short_code": "theirs", "domain": "b.example",
            "short_url": "https://b.example/theirs", "clicks": 3
        })
    );
    let bots = get("stats?owner=all&bots=only", KEY).await;
    assert_eq!(
        (&bots["top_links"].as_array().unwrap().len(), &bots["top_links"][0]["clicks"]),
        (&1, &json!(1))
    );
    let top = get("top?minutes=60", OWNER.0).await;
    let want = json!({"minutes": 60, "links": [{"short_code": "mine", "domain": "go.example",
        "short_url": "https://go.example/mine",
        "clicks": 2, "human_clicks": 1, "bot_clicks": 1, "last_click_at": now.to_string()}]});
    assert_eq!(top, want);
    assert_eq!(get("top?owner=all&limit=1", KEY).await["links"].as_array().unwrap().len(), 1);
    assert_eq!(get("top?owner=all", KEY).await["links"].as_array().unwrap().len(), 2);
    admins_ask_for_clicks_of_others(&web).await;
    let orphans = get("admin/orphans", KEY).await;
    assert_eq!(
        (&orphans["total_clicks"], &orphans["outcomes"]),
        (&json!(50), &json!([{"name": "not_found", "clicks": 50}]))
    );
    assert_eq!(orphans["top_codes"], json!([{"name": "nowhere", "clicks": 50}]));
    assert!(orphans.get("short_code").is_none() && orphans.get("top_links").is_none());
    web.call("GET /api/v1/admin/orphans", &[("authorization", OWNER.0)], "").await.is_problem(
        403,
        "forbidden",
        "Authorization",
    );
    // A deleted link is missing here too.
    assert_eq!(web.api("DELETE /api/v1/urls/mine", Value::Null).await.status, 204);
    for path in ["stats", "clicks", "live"] {
        web.api(&format!("GET /api/v1/urls/mine/{path}"), Value::Null).await.is_problem(
            404,
            "not_found",
            "",
        );
    }
}

#[tokio::test]
async fn links_carry_their_count_and_do_not_need_it() {
    let (web, link) = with_link("2026-01-01T00:00:00Z").await;
    web.clicks.add([click(&link, 1), Click { bot: Some(BotKind::Head), ..click(&link, 2) }]);
    let asked = || web.clicks.counted.load(Ordering::Relaxed);
    let before = asked();
    let fresh = json!({"long_url": "https://example.com/new"});
    let made = web.api("POST /api/v1/urls", fresh.clone()).await;
    assert_eq!((made.status.as_u16(), &made.json()["click_count"]), (201, &json!(0)));
    assert_eq!(asked(), before, "a new link has no clicks");
    let calls = [
        ("GET /api/v1/urls/abc", Value::Null),
        ("PATCH /api/v1/urls/abc", json!({"title": "t"})),
        ("POST /api/v1/urls/abc/restore", Value::Null),
    ];
    for (line, body) in calls {
        let before = asked();
        assert_eq!(web.api(line, body).await.json()["click_count"], 2, "{line}");
        assert_eq!(asked(), before + 1);
    }
    let before = asked();
    let list = web.api("GET /api/v1/urls", Value::Null).await.json();
    let counts: Vec<_> =
        list["links"].as_array().unwrap().iter().map(|link| link["click_count"].as_u64()).collect();
    assert_eq!(counts, [Some(0), Some(2)]);
    let items = json!([
        fresh, {"long_url": "https://example.com/newer"}, {"long_url": "nope"},
        {"long_url": "https://example.com/new"}
    ]);
    let results = web.api("POST /api/v1/urls/bulk", items).await.json();
    assert_eq!(results["results"][0]["link"]["click_count"], 0);
    let row = json!([{"long_url": "https://example.com/", "short_code": "abc"}]);
    assert_eq!(
        web.api("POST /api/v1/admin/import", row).await.json()["results"][0]["link"]["click_count"],
        2
    );
    assert_eq!(asked(), before + 3, "once for a page, once for a bulk");
    // If the click store fails or hangs, the API returns links without counts.
    for trouble in [&web.clicks.away, &web.clicks.stuck] {
        trouble.store(true, Ordering::Relaxed);
        let body = web.api("GET /api/v1/urls/abc", Value::Null).await.json();
        assert_eq!((&body["short_code"], &body["click_count"]), (&json!("abc"), &Value::Null));
        let list = web.api("GET /api/v1/urls", Value::Null).await.json();
        assert!(list["links"].as_array().unwrap().iter().all(|link| link["click_count"].is_null()));
        assert_eq!(
            web.api(
                "POST /api/v1/urls",
                json!({"long_url": "https://example.com/", "reuse": false})
            )
            .await
            .json()["click_count"],
            0
        );
        trouble.store(false, Ordering::Relaxed);
    }
    web.clicks.away.store(true, Ordering::Relaxed);
    for path in ["urls/abc/stats", "urls/abc/clicks", "stats", "admin/orphans"] {
        let answer = web.api(&format!("GET /api/v1/{path}"), Value::Null).await;
        answer.is_problem(503, "store_unavailable", "");
        assert_eq!(answer.header("retry-after"), "1");
    }
    web.clock.advance(Duration::from_secs(1));
    assert_eq!(
        web.api("GET /api/v1/top", Value::Null).await.status,
        200,
        "what is in memory needs no store"
    );
}
