use serde_json::{Value, json};

use crate::web::{KEY, Web};

async fn with_link(code: &str) -> Web {
    let web = Web::new();
    let body = json!({
        "long_url": "https://example.com/a", "custom_alias": code, "title": "T",
        "expires_at": "2199-01-01", "max_clicks": 5
    });
    assert_eq!(web.api("POST /api/v1/urls", body).await.status, 201);
    web
}

#[tokio::test]
async fn a_patch_changes_what_it_names_and_clears_what_it_nulls() {
    let web = with_link("abc").await;
    let line = "PATCH /api/v1/urls/abc";
    let same = web.api(line, json!({})).await;
    assert_eq!((same.status.as_u16(), same.header("etag")), (200, "\"1\""));
    let answer = web.api(line, json!({"title": null, "longUrl": "https://example.org/"})).await;
    assert_eq!((answer.status.as_u16(), answer.header("etag")), (200, "\"2\""));
    let body = answer.json();
    assert_eq!((&body["title"], &body["long_url"]), (&Value::Null, &json!("https://example.org/")));
    assert_eq!(
        (&body["expires_at"], &body["max_clicks"]),
        (&json!("2199-01-01T00:00:00Z"), &json!(5))
    );
    let body = web
        .api(line, json!({"expires_at": null, "max_clicks": null, "tags": ["x"], "redirect": 308}))
        .await
        .json();
    assert_eq!(
        (&body["expires_at"], &body["max_clicks"], &body["redirect"]),
        (&Value::Null, &Value::Null, &json!(308))
    );
    for (change, code, field) in [
        (json!({"long_url": null}), "invalid_request", "long_url"),
        (json!({"tags": null}), "invalid_request", "tags"),
        (json!({"ttl": null}), "invalid_request", "ttl"),
        (json!({"custom_alias": "other"}), "invalid_request", "custom_alias"),
        (json!({"standing": "blocked"}), "invalid_request", "standing"),
        (json!({"expires_at": "2001-01-01"}), "invalid_expiry", "expires_at"),
        (json!({"long_url": "ftp://example.com/"}), "scheme_not_allowed", "long_url"),
    ] {
        web.api(line, change).await.is_problem(400, code, field);
    }
    web.api(line, json!([])).await.is_problem(400, "invalid_request", "");
    web.api("PATCH /api/v1/urls/none", json!({})).await.is_problem(404, "not_found", "");
}

#[tokio::test]
async fn notes_and_the_archive_are_the_owners() {
    let web = with_link("abc").await;
    let line = "PATCH /api/v1/urls/abc";
    let body =
        web.api(line, json!({"notes": " for Ann\r\nand Bob ", "archived": true})).await.json();
    assert_eq!(
        (&body["notes"], &body["archived"], &body["status"]),
        (&json!("for Ann\nand Bob"), &json!(true), &json!("active"))
    );
    assert_eq!(
        web.api(line, json!({"archived": true})).await.header("etag"),
        "\"2\"",
        "nothing changed"
    );
    let body = web.api(line, json!({"notes": null, "archived": false})).await.json();
    assert_eq!((&body["notes"], &body["archived"]), (&Value::Null, &json!(false)));
    for (change, field) in [
        (json!({"notes": "x".repeat(2001)}), "notes"),
        (json!({"archived": null}), "archived"),
        (json!({"archived": "yes"}), "archived"),
        (json!({"has_password": true}), "has_password"),
    ] {
        web.api(line, change).await.is_problem(400, "invalid_request", field);
    }
}

#[tokio::test]
async fn a_password_is_accepted_and_never_returned() {
    let web = with_link("abc").await;
    let line = "PATCH /api/v1/urls/abc";
    let answer = web.api(line, json!({"password": "open sesame"})).await;
    assert_eq!(answer.json()["has_password"], true, "{}", answer.text());
    assert!(!answer.text().contains("argon2") && !answer.text().contains("sesame"));
    assert_eq!(
        web.api(line, json!({"title": "x"})).await.json()["has_password"],
        true,
        "what is not named stays"
    );
    assert_eq!(web.api(line, json!({"password": null})).await.json()["has_password"], false);
    for bad in [json!(""), json!("x".repeat(1025)), json!(7), json!("ü".repeat(513))] {
        web.api(line, json!({"password": bad})).await.is_problem(
            400,
            "invalid_request",
            "password",
        );
    }
    let made = web
        .api("POST /api/v1/urls", json!({"long_url": "https://example.com/a", "password": "p"}))
        .await;
    assert_eq!((made.status.as_u16(), &made.json()["has_password"]), (201, &json!(true)));
    let again = web
        .api("POST /api/v1/urls", json!({"long_url": "https://example.com/a", "password": "p"}))
        .await;
    assert_eq!(again.status, 200, "the same password");
    assert_eq!(again.json()["short_code"], made.json()["short_code"]);
    let other = web
        .api("POST /api/v1/urls", json!({"long_url": "https://example.com/a", "password": "q"}))
        .await;
    assert_eq!(other.status, 201, "another password is another link");
    let plain = web.api("POST /api/v1/urls", json!({"long_url": "https://example.com/a"})).await;
    assert_eq!((plain.status.as_u16(), &plain.json()["has_password"]), (201, &json!(false)));
}

#[tokio::test]
async fn a_bulk_request_has_few_passwords() {
    let web = Web::new();
    let items: Vec<Value> = (0..52)
        .map(|n| json!({"long_url": format!("https://example.com/{n}"), "password": "p"}))
        .collect();
    let results = web.api("POST /api/v1/urls/bulk", json!(items)).await.json();
    let refused: Vec<_> = results["results"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|result| result["status"] == 400)
        .collect();
    assert_eq!(refused.len(), 2);
    assert_eq!(refused[0]["problem"]["field"], "password");
}

#[tokio::test]
async fn a_patch_with_if_match_is_done_only_at_that_revision() {
    let web = with_link("abc").await;
    let send = async |tag: &str, body: &'static str| {
        let headers =
            [("authorization", KEY), ("content-type", "application/json"), ("if-match", tag)];
        web.call("PATCH /api/v1/urls/abc", &headers, body).await
    };
    assert_eq!(send("\"1\"", r#"{"title": "second"}"#).await.status, 200);
    send("\"1\"", r#"{"title": "third"}"#).await.is_problem(412, "precondition_failed", "If-Match");
    assert_eq!(send("*", r#"{"title": "third"}"#).await.header("etag"), "\"3\"");
    assert_eq!(send("3", r#"{"title": "fourth"}"#).await.header("etag"), "\"4\"");
    for bad in ["\"4", "4\"", "-4", "W/\"4\"", "\"x\"", "\"3\", \"4\"", ""] {
        send(bad, "{}").await.is_problem(400, "invalid_request", "If-Match");
    }
}

#[tokio::test]
async fn a_deleted_link_is_gone_until_it_is_restored() {
    let web = with_link("abc").await;
    let deleted = web.api("DELETE /api/v1/urls/abc", Value::Null).await;
    assert_eq!((deleted.status.as_u16(), deleted.bytes.len()), (204, 0));
    assert_eq!(web.api("DELETE /api/v1/urls/abc", Value::Null).await.status, 204);
    web.api("GET /api/v1/urls/abc", Value::Null).await.is_problem(404, "not_found", "");
    assert_eq!(
        web.api("GET /api/v1/urls?status=deleted", Value::Null).await.json()["links"][0]["status"],
        "deleted"
    );
    assert_eq!(web.page("/abc+").await.status, 404);
    let restored = web.api("POST /api/v1/urls/abc/restore", Value::Null).await;
    assert_eq!((restored.status.as_u16(), &restored.json()["status"]), (200, &json!("active")));
    assert_eq!(web.api("GET /api/v1/urls/abc", Value::Null).await.status, 200);
    web.api("DELETE /api/v1/urls/none", Value::Null).await.is_problem(404, "not_found", "");
    web.api("DELETE /api/v1/urls/a.b", Value::Null).await.is_problem(404, "not_found", "");
    web.api("GET /api/v1/urls/abc?x=1", Value::Null).await.is_problem(400, "invalid_request", "x");
    web.api("GET /api/v1/urls/abc?domain=x.example", Value::Null).await.is_problem(
        400,
        "invalid_request",
        "domain",
    );
}

#[tokio::test]
async fn the_operator_judges_links() {
    let web = with_link("abc").await;
    let line = "PUT /api/v1/admin/links/abc/standing";
    assert_eq!(
        web.api(line, json!({"standing": "suspicious"})).await.json()["status"],
        "suspicious"
    );
    assert_eq!(web.api(line, json!({"standing": "blocked"})).await.json()["status"], "blocked");
    web.api(line, json!({"standing": "odd"})).await.is_problem(400, "invalid_request", "standing");
    web.api(line, json!({})).await.is_problem(400, "invalid_request", "standing");
}

#[tokio::test]
async fn many_links_are_made_in_order_each_with_its_own_outcome() {
    let web = Web::new();
    let good = json!({"long_url": "https://example.com/1"});
    let items = json!([
        good, {"long_url": "nope"}, 7,
        {"long_url": "https://example.com/2", "custom_alias": "abc"}, good
    ]);
    for body in [items.clone(), json!({"links": items}), json!({"urls": items})] {
        let fresh = Web::new();
        let answer = fresh.api("POST /api/v1/urls/bulk", body).await;
        assert_eq!(answer.status, 207, "{}", answer.text());
        let results = answer.json()["results"].as_array().unwrap().clone();
        let statuses: Vec<_> = results.iter().map(|one| one["status"].as_u64().unwrap()).collect();
        // The first and the last ask for the same link: one of them creates it, the other gets it.
        assert_eq!(statuses[1..4], [400, 400, 201]);
        assert_eq!(statuses[0] + statuses[4], 201 + 200);
        assert_eq!(results[0]["link"]["short_code"], results[4]["link"]["short_code"]);
        for (index, result) in results.iter().enumerate() {
            assert_eq!(result["index"], index);
            assert_eq!(result["link"].is_null(), !result["problem"].is_null());
        }
        assert_eq!(results[1]["problem"]["code"], "invalid_url");
        assert_eq!(results[3]["link"]["short_code"], "abc");
    }
    // Long ones, so that the whole is several megabytes.
    let long = |n: usize| format!("https://example.com/{}/{n}", "x".repeat(5000));
    let many: Vec<_> = (0..1000).map(|n| json!({"long_url": long(n)})).collect();
    let results = web.api("POST /api/v1/urls/bulk", json!(many)).await.json()["results"].take();
    for (n, result) in results.as_array().unwrap().iter().enumerate() {
        assert_eq!(result["link"]["long_url"], long(n));
    }
    let too_many: Vec<_> = (0..1001).map(|_| good.clone()).collect();
    for bad in [json!([]), json!(too_many), json!({"links": []}), json!({}), json!("x")] {
        assert_eq!(web.api("POST /api/v1/urls/bulk", bad).await.problem().1, "invalid_request");
    }
    let huge = json!([{"long_url": "x".repeat(10 * 1024 * 1024)}]);
    web.api("POST /api/v1/urls/bulk", huge).await.is_problem(413, "too_large", "");
    web.api("POST /api/v1/urls/bulk", json!({"items": []})).await.is_problem(
        400,
        "invalid_request",
        "items",
    );
}

#[tokio::test]
async fn a_bulk_request_can_be_sent_again() {
    let web = Web::new();
    let body = json!([
        {"long_url": "https://example.com/", "reuse": false},
        {"long_url": "https://example.com/", "reuse": false}
    ]);
    let send = async || {
        let headers = [
            ("authorization", KEY),
            ("content-type", "application/json"),
            ("idempotency-key", "k"),
        ];
        web.call("POST /api/v1/urls/bulk", &headers, body.to_string()).await.json()["results"]
            .take()
    };
    let (first, second) = (send().await, send().await);
    assert_ne!(first[0]["link"]["short_code"], first[1]["link"]["short_code"]);
    for n in 0..2 {
        assert_eq!((&first[n]["status"], &second[n]["status"]), (&json!(201), &json!(201)));
        assert_eq!(first[n]["link"]["short_code"], second[n]["link"]["short_code"]);
    }
}

#[tokio::test]
async fn an_import_can_be_tried_and_answered_briefly() {
    let web = Web::new();
    let rows = json!([
        {"long_url": "https://example.com/a", "short_code": "first", "imported_clicks": 12},
        {"long_url": "javascript:alert(1)", "short_code": "second"},
        {"long_url": "https://example.com/b", "short_code": "third", "imported_clicks": -1},
        {"long_url": "https://example.com/b", "short_code": "third", "created_at": "yesterday"},
    ]);
    let statuses = async |query: &str| {
        let path = format!("POST /api/v1/admin/import{query}");
        let results = web.api(&path, rows.clone()).await.json()["results"].take();
        let results = results.as_array().unwrap().clone();
        assert!(results.iter().all(|result| result["link"].is_null()), "{query}");
        results.iter().map(|result| result["status"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(statuses("?dry_run=true").await, [201, 400, 400, 400]);
    assert!(web.store.everything().is_empty(), "nothing was written");
    assert_eq!(statuses("?brief=true").await, [201, 400, 400, 400]);
    assert_eq!(statuses("?dry_run=true").await, [200, 400, 400, 400]);
    let link = web.api("GET /api/v1/urls/first", Value::Null).await.json();
    assert_eq!((&link["click_count"], &link["imported_clicks"]), (&json!(12), &json!(12)));
    for name in ["dry_run", "brief"] {
        let path = format!("POST /api/v1/admin/import?{name}=yes");
        web.api(&path, rows.clone()).await.is_problem(400, "invalid_request", name);
    }
    // The dry run also finds rows that conflict with an earlier one of the same request.
    let again = json!([
        {"long_url": "https://example.com/c", "short_code": "fourth"},
        {"long_url": "https://EXAMPLE.com/c", "short_code": "fourth", "title": "another"},
        {"long_url": "https://example.com/d", "short_code": "fourth"},
        {"long_url": "javascript:alert(1)", "short_code": "fifth"},
        {"long_url": "https://example.com/d", "short_code": "fifth"},
        {"long_url": "https://example.com/e?a=1", "title": "same"},
        {"long_url": "https://example.com/e?a=1", "title": "same", "created_at": "2021-05-04"},
        {"long_url": "https://example.com/e?a=2", "title": "same"},
        {"long_url": "https://example.com/e?a=1", "title": "same", "reuse": false},
    ]);
    let foreseen = web.api("POST /api/v1/admin/import?dry_run=true", again.clone()).await.json();
    let done = web.api("POST /api/v1/admin/import?brief=true", again.clone()).await.json();
    let statuses = |answer: &Value| -> Vec<u64> {
        let results = answer["results"].as_array().unwrap().iter();
        results.map(|result| result["status"].as_u64().unwrap()).collect()
    };
    assert_eq!(statuses(&foreseen), [201, 200, 409, 400, 201, 201, 200, 201, 201]);
    assert_eq!(statuses(&done), statuses(&foreseen));
    assert_eq!(foreseen["results"][2]["problem"]["field"], "short_code");
    let taken = json!([{"long_url": "https://example.com/else", "short_code": "first"}]);
    let answer = web.api("POST /api/v1/admin/import?dry_run=true", taken).await.json();
    assert_eq!(answer["results"][0]["problem"]["code"], "alias_taken");
}

#[tokio::test]
async fn links_are_imported_once_with_code_and_creation_date() {
    let web = Web::new();
    let rows = json!([
        {"long_url": "https://example.com/1", "short_code": "old-1",
            "created_at": "2020-02-03T04:05:06Z"},
        {"longUrl": "https://example.com/2", "shortCode": "api"},
        {"long_url": "https://example.com/3", "created_at": "yesterday"},
        {"long_url": "https://example.com/4", "custom_alias": "x-y-z"},
    ]);
    let results = web.api("POST /api/v1/admin/import", rows.clone()).await.json()["results"].take();
    assert_eq!(
        (&results[0]["status"], &results[0]["link"]["created_at"]),
        (&json!(201), &json!("2020-02-03T04:05:06Z"))
    );
    for (n, code, field) in [
        (1, "reserved_alias", "shortCode"),
        (2, "invalid_request", "created_at"),
        (3, "invalid_request", "custom_alias"),
    ] {
        assert_eq!(
            (&results[n]["problem"]["code"], &results[n]["problem"]["field"]),
            (&json!(code), &json!(field))
        );
    }
    assert_eq!(
        web.api("POST /api/v1/admin/import", rows).await.json()["results"][0]["status"],
        200
    );
}

#[tokio::test]
async fn a_list_is_walked_by_cursors_that_fit_only_it() {
    let web = Web::new();
    for n in 0..5 {
        let body = json!({"long_url": format!("https://example.com/{n}"), "tags": ["t"]});
        assert_eq!(web.api("POST /api/v1/urls", body).await.status, 201);
        web.clock.advance(std::time::Duration::from_secs(1));
    }
    let mut seen = Vec::new();
    let mut path = "GET /api/v1/urls?limit=02".to_owned();
    let mut cursors = Vec::new();
    loop {
        let body = web.api(&path, Value::Null).await.json();
        seen.extend(
            body["links"]
                .as_array()
                .unwrap()
                .iter()
                .map(|link| link["long_url"].as_str().unwrap().to_owned()),
        );
        let Some(cursor) = body["next_cursor"].as_str() else { break };
        path = format!("GET /api/v1/urls?limit=2&cursor={cursor}");
        cursors.push(cursor.to_owned());
    }
    let want: Vec<_> = (0..5).rev().map(|n| format!("https://example.com/{n}")).collect();
    assert_eq!(seen, want);
    let oldest = web.api("GET /api/v1/urls?sort=created_at", Value::Null).await.json();
    assert_eq!(oldest["links"][0]["long_url"], "https://example.com/0");
    let cursor = &cursors[0];
    for query in [
        format!("cursor={cursor}&tag=t"),
        format!("cursor={cursor}&sort=created_at"),
        format!("cursor={cursor}&status=active"),
        format!("cursor={}", &cursor[..cursor.len() - 2]),
        format!("cursor=AA{cursor}"),
        "cursor=".into(),
        "cursor=BA".into(),
    ] {
        web.api(&format!("GET /api/v1/urls?{query}"), Value::Null).await.is_problem(
            400,
            "invalid_request",
            "cursor",
        );
    }
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=-1", "limit"),
        ("limit=+5", "limit"),
        ("limit=", "limit"),
        ("limit=1&limit=2", "limit"),
        ("status=odd", "status"),
        ("sort=title", "sort"),
        ("domain=x.example", "domain"),
        ("tag=", "tag"),
        ("q=%ff", "q"),
        ("colour=red", "colour"),
        ("api_key=secret", "api_key"),
    ] {
        web.api(&format!("GET /api/v1/urls?{query}"), Value::Null).await.is_problem(
            400,
            "invalid_request",
            field,
        );
    }
    let twice = web.api("GET /api/v1/urls?limit=1&limit=2", Value::Null).await;
    assert_eq!(twice.json()["detail"], "`limit` is given twice");
    let long = "q".repeat(257);
    web.api(&format!("GET /api/v1/urls?q={long}"), Value::Null).await.is_problem(
        400,
        "invalid_request",
        "q",
    );
    let found = web
        .api("GET /api/v1/urls?q=com%2F3&tag=t&domain=go.example&status=active", Value::Null)
        .await
        .json();
    assert_eq!(found["links"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn archived_links_are_listed_only_on_request() {
    let web = with_link("here").await;
    for code in ["away", "gone"] {
        let body = json!({"long_url": "https://example.com/b", "custom_alias": code});
        assert_eq!(web.api("POST /api/v1/urls", body).await.status, 201);
        assert_eq!(
            web.api(&format!("PATCH /api/v1/urls/{code}"), json!({"archived": true})).await.status,
            200
        );
    }
    web.api("DELETE /api/v1/urls/gone", Value::Null).await;
    let listed = async |query: &str| -> Vec<String> {
        let body = web.api(&format!("GET /api/v1/urls?{query}"), Value::Null).await.json();
        let codes = body["links"]
            .as_array()
            .unwrap()
            .iter()
            .map(|link| link["short_code"].as_str().unwrap().to_owned());
        let mut codes: Vec<String> = codes.collect();
        codes.sort();
        codes
    };
    assert_eq!(listed("").await, ["here"]);
    assert_eq!(listed("archived=false").await, ["here"]);
    assert_eq!(listed("archived=true").await, ["away"]);
    assert_eq!(listed("archived=all").await, ["away", "here"]);
    assert_eq!(listed("status=deleted").await, ["gone"], "whoever restores it need not know");
    assert_eq!(listed("status=deleted&archived=false").await, [""; 0]);
    web.api("GET /api/v1/urls?archived=yes", Value::Null).await.is_problem(
        400,
        "invalid_request",
        "archived",
    );
}

#[tokio::test]
async fn rules_are_given_changed_and_taken_away() {
    let web = Web::new();
    let rules = json!([{"country": ["DE", "AT"], "to": "https://example.com/de"}]);
    let made = web
        .api("POST /api/v1/urls", json!({"long_url": "https://example.com/", "rules": rules}))
        .await
        .json();
    assert_eq!(made["rules"], rules);
    let plain = web.api("POST /api/v1/urls", json!({"long_url": "https://example.com/"})).await;
    assert_ne!(
        plain.json()["short_code"],
        made["short_code"],
        "a link with rules is not what somebody without such a draft gets"
    );
    let line = format!("PATCH /api/v1/urls/{}", made["short_code"].as_str().unwrap());
    let changed = web.api(&line, json!({"title": "x"})).await.json();
    assert_eq!(changed["rules"], rules);
    let split = json!([
        {"to": [{"url": "https://example.com/a", "weight": 1}, {"url": "https://example.com/b",
            "weight": 9}]}
    ]);
    for (sent, want) in [
        (split.clone(), split),
        (json!([]), Value::Null),
        (rules.clone(), rules),
        (Value::Null, Value::Null),
    ] {
        let answer = web.api(&line, json!({"rules": sent})).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["rules"], want);
    }
    web.api(&line, json!({"rules": [{}]})).await.is_problem(400, "invalid_request", "rules[0].to");
    let twice = r#"{"rules": [{"to": "https://example.com/", "os": "iOS", "os": "Android"}]}"#;
    let answer = web
        .call(
            &line,
            &[("authorization", &format!("Bearer {KEY}")), ("content-type", "application/json")],
            twice,
        )
        .await;
    answer.is_problem(400, "invalid_request", "os");
}
