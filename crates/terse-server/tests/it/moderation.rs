//! The moderators' API.

use serde_json::{Value, json};
use terse_core::OwnerId;
use terse_core::registry::prelude::*;
use terse_core::registry::{Role, Suspension};

use crate::web::{Answer, MODERATOR, OTHER, OWNER, Web};

const WHY: &str = "it imitates a bank";

/// A link of an owner with three reports.
async fn reported() -> Web {
    let web = Web::new();
    let made = web
        .as_owner(
            "POST /api/v1/urls",
            OWNER.0,
            json!({"long_url": "https://xn--mnchen-3ya.example/", "alias": "abc"}),
        )
        .await;
    assert_eq!(made.status, 201);
    for (address, reason) in
        [("198.51.100.1", "spam"), ("203.0.113.1", "phishing"), ("192.0.2.1", "spam")]
    {
        let body = json!({"reason": reason, "text": format!("from {reason}")});
        assert_eq!(web.from(address, "POST /api/v1/urls/abc/report", body).await.status, 202);
    }
    web
}

async fn act(web: &Web, line: &str) -> Answer {
    web.as_owner(line, MODERATOR.0, json!({"why": WHY})).await
}

async fn look(web: &Web, path: &str) -> Value {
    let answer = web.as_owner(&format!("GET /api/v1/admin{path}"), MODERATOR.0, Value::Null).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[tokio::test]
async fn a_reason_is_a_line_wherever_one_is_given() {
    let web = Web::new();
    let host = |why: &str| json!({ "host": "evil.example.net", "why": why });
    let because = |why: &str| json!({ "why": why });
    for why in ["", " ", "two\nlines", "a\u{7}bell", &"x".repeat(1001)] {
        web.api("POST /api/v1/admin/blocklist", host(why)).await.is_problem(
            400,
            "invalid_request",
            "why",
        );
        for line in
            ["POST /api/v1/admin/links/abc/confirm", "POST /api/v1/admin/users/1000/suspend"]
        {
            web.api(line, because(why)).await.is_problem(400, "invalid_request", "why");
        }
    }
    assert_eq!(
        web.api("POST /api/v1/admin/blocklist", host(" a line ")).await.json()["why"],
        "a line"
    );
}

#[tokio::test]
async fn the_moderation_queue_shows_everything_about_a_link() {
    let web = reported().await;
    web.api("POST /api/v1/urls", json!({"long_url": "https://example.com/", "alias": "other"}))
        .await;
    web.from("192.0.2.1", "POST /api/v1/urls/other/report", json!({"reason": "other"})).await;
    let queue = look(&web, "/reports").await;
    assert_eq!(queue["next_cursor"], Value::Null);
    let (first, second) = (&queue["reports"][0], &queue["reports"][1]);
    assert_eq!((&first["short_code"], &first["count"]), (&json!("abc"), &json!(3)));
    assert_eq!(
        first["reasons"],
        json!([{"reason": "phishing", "count": 1}, {"reason": "spam", "count": 2}])
    );
    assert_eq!(first["texts"], json!(["from spam", "from phishing", "from spam"]));
    let link = &first["link"];
    assert_eq!(
        (&link["host"], &link["host_unicode"]),
        (&json!("xn--mnchen-3ya.example"), &json!("münchen.example"))
    );
    assert_eq!(link["owner"], json!({"id": 1000, "name": "terse-owner"}));
    assert_eq!(
        (&link["standing"], &link["judged_by"], &link["flags"]),
        (&json!("suspicious"), &json!("screen"), &json!(["reported"]))
    );
    assert_eq!(second["link"]["owner"], json!({"id": 1, "name": null}));
    // Page by page.
    let page = look(&web, "/reports?limit=1").await;
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = look(&web, &format!("/reports?limit=1&cursor={cursor}")).await;
    assert_eq!((&page["reports"][0], &rest["reports"][0]), (first, second));
    let forged = format!("GET /api/v1/admin/reports?state=cleared&cursor={cursor}");
    web.as_owner(&forged, MODERATOR.0, Value::Null).await.is_problem(
        400,
        "invalid_request",
        "cursor",
    );
}

#[tokio::test]
async fn confirming_takes_down_settles_and_is_written_down() {
    let web = reported().await;
    let done = act(&web, "POST /api/v1/admin/links/abc/confirm").await;
    assert_eq!(
        (done.status.as_u16(), &done.json()["status"], done.header("etag")),
        (200, &json!("blocked"), "\"3\"")
    );
    assert_eq!(web.page("/r/abc").await.status, 451);
    assert_eq!(look(&web, "/reports").await["reports"], json!([]));
    assert_eq!(look(&web, "/reports?state=confirmed").await["reports"][0]["count"], 3);
    let log = look(&web, "/audit?subject=link:/abc").await;
    let acts: Vec<_> = log["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["act"].as_str().unwrap())
        .collect();
    assert_eq!(acts, ["report_settled", "link_judged"]);
    let line = &log["entries"][1];
    assert_eq!(
        (&line["actor"], &line["why"]),
        (&json!({"id": 1002, "name": "terse-moderator"}), &json!(WHY))
    );
    assert_eq!(
        line["before"],
        json!({"standing": "suspicious", "judged_by": "screen", "flags": ["reported"]})
    );
    assert_eq!(
        line["after"],
        json!({"standing": "blocked", "judged_by": "moderator", "flags": ["reported"]})
    );
    assert!(line["at"].as_str().unwrap().ends_with('Z'));
    // Repeating it succeeds and writes nothing to the audit log.
    assert_eq!(act(&web, "POST /api/v1/admin/links/abc/confirm").await.status, 200);
    assert_eq!(look(&web, "/audit?subject=link:/abc").await, log);
}

#[tokio::test]
async fn a_cleared_link_stays_clear_whatever_is_reported_afterwards() {
    let web = reported().await;
    let done = act(&web, "POST /api/v1/admin/links/abc/clear").await.json();
    assert_eq!(
        (&done["status"], &done["judged_by"], &done["flags"]),
        (&json!("active"), &json!("moderator"), &json!([]))
    );
    for address in ["198.51.100.1", "203.0.113.1", "192.0.2.1", "192.0.3.1"] {
        web.from(address, "POST /api/v1/urls/abc/report", json!({"reason": "spam"})).await;
    }
    let queue = look(&web, "/reports").await;
    assert_eq!(
        (&queue["reports"][0]["count"], &queue["reports"][0]["link"]["status"]),
        (&json!(4), &json!("active"))
    );
    assert_eq!(look(&web, "/reports?state=cleared").await["reports"][0]["count"], 3);
}

#[tokio::test]
async fn nothing_is_done_that_cannot_be_written_down() {
    let web = reported().await;
    web.registry.fail(true);
    let headers = [("authorization", crate::web::KEY), ("content-type", "application/json")];
    let refused = web
        .call("POST /api/v1/admin/links/abc/confirm", &headers, json!({"why": WHY}).to_string())
        .await;
    refused.is_problem(503, "store_unavailable", "");
    web.registry.fail(false);
    assert_eq!(web.page("/r/abc").await.status, 200);
    assert_eq!(look(&web, "/links").await["links"][0]["standing"], "suspicious");
}

#[tokio::test]
async fn the_older_call_is_for_moderators_too_and_written_down() {
    let web = reported().await;
    let judged = web
        .as_owner(
            "PUT /api/v1/admin/links/abc/standing",
            MODERATOR.0,
            json!({"standing": "blocked"}),
        )
        .await;
    assert_eq!((judged.status.as_u16(), &judged.json()["standing"]), (200, &json!("blocked")));
    let log = look(&web, "/audit?act=link_judged").await;
    assert_eq!(
        (log["entries"].as_array().unwrap().len(), &log["entries"][0]["why"]),
        (1, &Value::Null)
    );
    assert_eq!(look(&web, "/reports").await["reports"], json!([]));
}

#[tokio::test]
async fn an_owner_is_banned_by_their_link_but_not_those_above() {
    let web = reported().await;
    let banned = act(&web, "POST /api/v1/admin/links/abc/ban_owner").await;
    assert_eq!(
        (banned.status.as_u16(), &banned.json()["id"]),
        (200, &json!(1000)),
        "{}",
        banned.text()
    );
    assert!(banned.json()["suspended_at"].is_string());
    web.as_owner("GET /api/v1/urls", OWNER.0, Value::Null).await.is_problem(403, "suspended", "");
    assert_eq!(act(&web, "POST /api/v1/admin/links/abc/ban_owner").await.json(), banned.json());
    let log = look(&web, "/audit?subject=user:1000&act=user_suspended").await;
    assert_eq!(
        (log["entries"].as_array().unwrap().len(), &log["entries"][0]["why"]),
        (1, &json!(WHY))
    );
    // Links of anonymous clients, of the operator and of a moderator.
    web.anonymous(
        "POST /api/v1/urls",
        json!({"long_url": "https://example.com/1", "alias": "stranger"}),
    )
    .await;
    web.api("POST /api/v1/urls", json!({"long_url": "https://example.com/2", "alias": "operator"}))
        .await;
    web.as_owner(
        "POST /api/v1/urls",
        MODERATOR.0,
        json!({"long_url": "https://example.com/3", "alias": "moderator"}),
    )
    .await;
    act(&web, "POST /api/v1/admin/links/stranger/ban_owner").await.is_problem(409, "no_owner", "");
    act(&web, "POST /api/v1/admin/links/operator/ban_owner").await.is_problem(403, "forbidden", "");
    act(&web, "POST /api/v1/admin/links/moderator/ban_owner").await.is_problem(
        403,
        "forbidden",
        "",
    );
    assert_eq!(web.registry.account(MODERATOR.1).await.unwrap().unwrap().role, Role::Moderator);
    let by_admin =
        web.api("POST /api/v1/admin/links/moderator/ban_owner", json!({"why": WHY})).await;
    assert_eq!(by_admin.status, 200);
    assert!(web.registry.account(MODERATOR.1).await.unwrap().unwrap().suspended.is_some());
    // Nor can admins ban themselves by mistake.
    let admin = web.person("ada", Role::Admin).await;
    web.give_key(admin, "terse_ada", |_| {}).await;
    web.as_owner(
        "POST /api/v1/urls",
        "terse_ada",
        json!({"long_url": "https://example.com/4", "alias": "adas"}),
    )
    .await;
    let own = web
        .as_owner("POST /api/v1/admin/links/adas/ban_owner", "terse_ada", json!({"why": WHY}))
        .await;
    own.is_problem(403, "forbidden", "");
}

#[tokio::test]
async fn hosts_are_blocked_listed_and_unblocked() {
    let web = Web::new();
    let block = async |host: &str| {
        web.as_owner("POST /api/v1/admin/blocklist", MODERATOR.0, json!({"host": host, "why": WHY}))
            .await
    };
    let blocked = block(" MÜNCHEN.Example. ").await;
    assert_eq!(
        (blocked.status.as_u16(), &blocked.json()["host"]),
        (201, &json!("xn--mnchen-3ya.example"))
    );
    assert_eq!(block("münchen.example").await.status, 200);
    for host in [
        "",
        "a/b",
        "https://evil.example",
        "evil.example:8080",
        "go.example",
        "b.example",
        "example",
        "*.evil.example",
        "evil..example",
    ] {
        block(host).await.is_problem(400, "invalid_request", "host");
    }
    let list = look(&web, "/blocklist").await;
    assert_eq!(list["hosts"], json!([blocked.json()]));
    let unblock = async |host: &str| {
        web.as_owner(&format!("DELETE /api/v1/admin/blocklist/{host}"), MODERATOR.0, Value::Null)
            .await
    };
    unblock("other.example").await.is_problem(404, "not_found", "");
    assert_eq!(unblock("xn--mnchen-3ya.example?why=it+is+fine").await.status, 204);
    unblock("xn--mnchen-3ya.example").await.is_problem(404, "not_found", "");
    assert_eq!(look(&web, "/blocklist").await["hosts"], json!([]));
    let log = look(&web, "/audit?subject=host:xn--mnchen-3ya.example").await;
    let told: Vec<_> = log["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| (line["act"].clone(), line["why"].clone()))
        .collect();
    assert_eq!(
        told,
        [(json!("host_unblocked"), json!("it is fine")), (json!("host_blocked"), json!(WHY))]
    );
}

#[tokio::test]
async fn moderators_see_everyones_links_by_owner() {
    let web = reported().await;
    web.as_owner(
        "POST /api/v1/urls",
        OTHER.0,
        json!({"long_url": "https://example.com/x", "alias": "others"}),
    )
    .await;
    let codes = async |query: &str| {
        let list = look(&web, &format!("/links{query}")).await;
        list["links"]
            .as_array()
            .unwrap()
            .iter()
            .map(|link| link["short_code"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(codes("?sort=created_at").await.len(), 2);
    assert_eq!(codes("?owner=1001").await, ["others"]);
    assert_eq!(codes("?owner=0").await, Vec::<String>::new());
    assert_eq!(codes("?status=suspicious").await, ["abc"]);
    for query in ["owner=x", "owner=", "owner=99999999999999999999"] {
        let line = format!("GET /api/v1/admin/links?{query}");
        web.as_owner(&line, MODERATOR.0, Value::Null).await.is_problem(
            400,
            "invalid_request",
            "owner",
        );
    }
}

#[tokio::test]
async fn only_moderators_come_in_and_only_with_a_reason() {
    let web = reported().await;
    for line in [
        "GET /api/v1/admin/reports",
        "GET /api/v1/admin/links",
        "GET /api/v1/admin/blocklist",
        "GET /api/v1/admin/audit",
        "POST /api/v1/admin/blocklist",
        "DELETE /api/v1/admin/blocklist/a.example",
        "POST /api/v1/admin/links/abc/confirm",
        "POST /api/v1/admin/links/abc/clear",
        "POST /api/v1/admin/links/abc/ban_owner",
        "PUT /api/v1/admin/links/abc/standing",
    ] {
        web.as_owner(line, OTHER.0, json!({})).await.is_problem(403, "forbidden", "Authorization");
        web.anonymous(line, json!({})).await.is_problem(401, "unauthorized", "Authorization");
    }
    for path in ["links/abc/confirm", "links/abc/clear", "links/abc/ban_owner"] {
        for body in
            [json!({}), json!({"why": ""}), json!({"why": " "}), json!({"why": "x".repeat(1001)})]
        {
            let line = format!("POST /api/v1/admin/{path}");
            web.as_owner(&line, MODERATOR.0, body).await.is_problem(400, "invalid_request", "why");
        }
        let line = format!("POST /api/v1/admin/{}", path.replace("abc", "unknown1"));
        web.as_owner(&line, MODERATOR.0, json!({"why": WHY})).await.is_problem(
            404,
            "not_found",
            "",
        );
    }
    assert_eq!(web.registry.suspended().await.unwrap(), Vec::<OwnerId>::new());
}

#[tokio::test]
async fn no_reason_is_taken_for_an_erasure() {
    let web = reported().await;
    let mark = Suspension::of_erasure(web.clock.now()).why;
    for why in [mark.as_str(), "two\nlines", "a\u{0}b", "\u{7f}"] {
        for line in [
            "POST /api/v1/admin/links/abc/ban_owner",
            "POST /api/v1/admin/links/abc/confirm",
            "POST /api/v1/admin/links/abc/clear",
            "POST /api/v1/admin/users/1000/suspend",
        ] {
            web.as_owner(line, MODERATOR.0, json!({"why": why})).await.is_problem(
                400,
                "invalid_request",
                "why",
            );
        }
        let judged = json!({"standing": "blocked", "why": why});
        let line = "PUT /api/v1/admin/links/abc/standing";
        web.as_owner(line, MODERATOR.0, judged).await.is_problem(400, "invalid_request", "why");
        let blocked = json!({"host": "evil.example", "why": why});
        let line = "POST /api/v1/admin/blocklist";
        web.as_owner(line, MODERATOR.0, blocked).await.is_problem(400, "invalid_request", "why");
    }
    assert_eq!(web.registry.suspended().await.unwrap(), Vec::<OwnerId>::new());
}

#[tokio::test]
async fn old_names_of_parameters_are_accepted_and_problems_name_what_was_sent() {
    let web = Web::new();
    for path in [
        "/reports?status=cleared",
        "/reports?state=cleared",
        "/audit?action=link_judged",
        "/audit?act=link_judged",
    ] {
        look(&web, path).await;
    }
    for (path, field) in [
        ("/reports?status=lost", "status"),
        ("/reports?state=lost", "state"),
        ("/reports?status=open&state=open", "state"),
        ("/audit?action=lost", "action"),
        ("/audit?act=lost", "act"),
    ] {
        let line = format!("GET /api/v1/admin{path}");
        web.api(&line, Value::Null).await.is_problem(400, "invalid_request", field);
    }
}
