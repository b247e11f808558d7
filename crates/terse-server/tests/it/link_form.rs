//! The form that creates and edits a link.

use std::time::Duration;

use serde_json::{Value, json};

use crate::web::{Answer, OWNER, Web};

const NASTY: &str = "\"><script>alert(1)</script>";

/// A server on which an account has signed in; returns its session cookie, with a time zone.
async fn signed_in() -> (Web, String) {
    let web = Web::new();
    let cookie = web.sign_in(OWNER.1, "terse_a-browser").await;
    (web, format!("{cookie}; terse_zone=Asia/Tokyo"))
}

async fn open(web: &Web, cookie: &str, path: &str) -> Answer {
    let headers = [("accept", "text/html"), ("host", "go.example"), ("cookie", cookie)];
    web.call(&format!("GET {path}"), &headers, "").await
}

async fn send(web: &Web, cookie: &str, path: &str, fields: &[(&str, &str)]) -> Answer {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("host", "go.example"),
        ("sec-fetch-site", "same-origin"),
        ("cookie", cookie),
    ];
    web.call(&format!("POST {path}"), &headers, body).await
}

/// The tag of the element with this id.
fn tag<'a>(text: &'a str, id: &str) -> &'a str {
    let rest = text.split(&format!(" id=\"{id}\"")).nth(1);
    rest.unwrap_or_else(|| panic!("{id} in {text}")).split('>').next().unwrap()
}

async fn link(web: &Web, code: &str) -> Value {
    web.as_owner(&format!("GET /api/v1/urls/{code}"), OWNER.0, Value::Null).await.json()
}

#[tokio::test]
async fn a_link_is_created_with_every_field_and_changed() {
    let (web, cookie) = signed_in().await;
    let rules = r#"[{"country": "AT", "to": "https://example.com/at"}]"#;
    let fields = [
        ("long_url", "example.com/a?x=1"),
        ("alias", "mine"),
        ("title", NASTY),
        ("tags", "news, q4 ,, q4"),
        ("notes", "two\r\nlines"),
        ("expires_at", "2999-11-30T18:00"),
        ("valid_from", "2026-01-01T09:00"),
        ("max_clicks", "100"),
        ("password", "sesame!"),
        ("redirect", "307"),
        ("forward_query", "1"),
        ("crawlable", "1"),
        ("archived", "1"),
        ("reuse", "false"),
        ("preview.title", "Shown in chats"),
        ("preview.description", NASTY),
        ("preview.image_url", "https://example.com/picture.png"),
        ("rules", rules),
        ("utm_source", "mail"),
    ];
    let made = send(&web, &cookie, "/links/new", &fields).await;
    assert_eq!(made.status, 303, "{}", made.text());
    assert_eq!(made.header("location"), "/links/mine?done=created");
    let found = link(&web, "mine").await;
    for (field, want) in [
        ("long_url", json!("https://example.com/a?x=1&utm_source=mail")),
        ("title", json!(NASTY)),
        ("tags", json!(["news", "q4"])),
        ("notes", json!("two\nlines")),
        ("expires_at", json!("2999-11-30T09:00:00Z")),
        ("valid_from", json!("2026-01-01T00:00:00Z")),
        ("max_clicks", json!(100)),
        ("has_password", json!(true)),
        ("redirect", json!(307)),
        ("forward_query", json!(true)),
        ("crawlable", json!(true)),
        ("archived", json!(true)),
        (
            "preview",
            json!({"title": "Shown in chats", "description": NASTY,
                "image_url": "https://example.com/picture.png"}),
        ),
        ("rules", serde_json::from_str(rules).unwrap()),
    ] {
        assert_eq!(found[field], want, "{field}: {found:#}");
    }
    let text = open(&web, &cookie, "/links/mine/edit").await.text();
    for shown in [
        "value=\"https://example.com/a?x=1&#38;utm_source=mail\"",
        "value=\"2999-11-30T18:00\"",
        "value=\"news, q4\"",
        "<option value=\"307\" selected>",
        "name=\"revision\" value=\"1\"",
        "placeholder=\"unchanged\"",
        "name=\"archived\" value=\"1\" checked",
        "value=\"Shown in chats\"",
        "value=\"https://example.com/picture.png\"",
        "&#60;script&#62;",
    ] {
        assert!(text.contains(shown), "{shown} in {text}");
    }
    assert!(!text.contains("<script>") && !text.contains("sesame") && text.len() < 50_000);
    // What is not sent is cleared, and a password stays unless it is removed.
    let plain = [("long_url", "https://example.com/b"), ("redirect", "302"), ("revision", "1")];
    let changed = send(&web, &cookie, "/links/mine/edit", &plain).await;
    assert_eq!(changed.header("location"), "/links/mine?done=changed", "{}", changed.text());
    let found = link(&web, "mine").await;
    assert_eq!(found["long_url"], "https://example.com/b");
    assert_eq!((&found["title"], &found["max_clicks"]), (&Value::Null, &Value::Null));
    assert_eq!((&found["rules"], &found["expires_at"]), (&Value::Null, &Value::Null));
    assert_eq!((&found["preview"], &found["archived"]), (&Value::Null, &json!(false)));
    assert_eq!(found["has_password"], true);
    // A form that was opened before another change changes nothing.
    let stale = send(&web, &cookie, "/links/mine/edit", &plain).await;
    assert_eq!(stale.status, 409);
    let text = stale.text();
    assert!(text.contains("changed elsewhere while you edited it"), "{text}");
    let open = [("long_url", "https://example.com/b"), ("no_password", "1"), ("revision", "2")];
    send(&web, &cookie, "/links/mine/edit", &open).await;
    assert_eq!(link(&web, "mine").await["has_password"], false);
    let same = [("long_url", "https://example.com/b"), ("revision", "3")];
    let same = send(&web, &cookie, "/links/mine/edit", &same).await;
    assert_eq!(same.header("location"), "/links/mine?done=unchanged");
}

#[tokio::test]
async fn a_conflict_keeps_what_was_typed_and_saves_it_the_second_time() {
    let (web, cookie) = signed_in().await;
    let body = json!({"long_url": "https://example.com/?utm_source=mail", "alias": "mine"});
    assert_eq!(web.as_owner("POST /api/v1/urls", OWNER.0, body).await.status, 201);
    let text = open(&web, &cookie, "/links/mine/edit").await.text();
    assert!(text.contains("name=\"utm_source\"") && text.contains("value=\"mail\""), "{text}");
    let elsewhere = json!({"title": "By another"});
    assert_eq!(web.as_owner("PATCH /api/v1/urls/mine", OWNER.0, elsewhere).await.status, 200);
    let revision = |text: &str| {
        let (_, rest) = text.split_once("name=\"revision\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let typed = |revision: &str| {
        [
            ("long_url", "https://example.com/?utm_source=mail".to_owned()),
            ("utm_source", "post".to_owned()),
            ("title", "Typed by me".to_owned()),
            ("notes", "a long text".to_owned()),
            ("revision", revision.to_owned()),
        ]
    };
    let first = revision(&text);
    let fields = typed(&first);
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, text)| (*name, &**text)).collect();
    let refused = send(&web, &cookie, "/links/mine/edit", &fields).await;
    assert_eq!(refused.status, 409);
    let text = refused.text();
    for shown in ["value=\"Typed by me\"", "a long text", "changed elsewhere", "value=\"post\""] {
        assert!(text.contains(shown), "{shown} in {text}");
    }
    assert_ne!(revision(&text), first);
    assert_eq!(link(&web, "mine").await["title"], "By another");
    let fields = typed(&revision(&text));
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, text)| (*name, &**text)).collect();
    let saved = send(&web, &cookie, "/links/mine/edit", &fields).await;
    assert_eq!(saved.header("location"), "/links/mine?done=changed");
    let saved = link(&web, "mine").await;
    assert_eq!(saved["title"], "Typed by me");
    assert_eq!(saved["long_url"], "https://example.com/?utm_source=post");
}

#[tokio::test]
async fn a_link_for_the_same_target_is_given_back_unless_a_new_one_is_wanted() {
    let (web, cookie) = signed_in().await;
    let target = ("long_url", "https://example.com/same");
    let mut made = Vec::new();
    for (fields, done) in [
        (&[target][..], "created"),
        (&[target], "existing"),
        (&[target, ("reuse", "false")], "created"),
    ] {
        let answer = send(&web, &cookie, "/links/new", fields).await;
        let location = answer.header("location").to_owned();
        assert!(location.ends_with(&format!("?done={done}")), "{location}: {}", answer.text());
        made.push(location.split('?').next().unwrap().to_owned());
    }
    assert_eq!(made[0], made[1]);
    assert_ne!(made[0], made[2]);
    // The form keeps the choice while it has a problem.
    let refused = [("long_url", "ftp://example.com/"), ("reuse", "false")];
    let text = send(&web, &cookie, "/links/new", &refused).await.text();
    assert!(text.contains("name=\"reuse\" value=\"false\" checked"), "{text}");
}

#[tokio::test]
async fn each_problem_is_beside_its_field_and_what_was_typed_stays() {
    let (web, cookie) = signed_in().await;
    let taken = json!({"long_url": "https://example.com/", "alias": "taken"});
    web.as_owner("POST /api/v1/urls", OWNER.0, taken).await;
    for (field, value, id, status) in [
        ("long_url", "javascript:alert(1)", "long_url", 400),
        ("alias", "taken", "alias", 409),
        ("alias", "a/b", "alias", 400),
        ("tags", "x", "tags", 303),
        ("expires_at", "soon", "expires_at", 400),
        ("expires_at", "2001-01-01T00:00", "expires_at", 400),
        ("expires", "12", "expires_at", 400),
        ("valid_from", "x", "valid_from", 400),
        ("max_clicks", "many", "max_clicks", 400),
        ("redirect", "200", "redirect", 400),
        ("rules", "{", "rules_text", 400),
        ("rules", r#"[{"to": "x"}]"#, "rules_text", 400),
        ("preview.image_url", "nonsense", "preview-image", 400),
        ("preview.title", &"x".repeat(201), "preview-title", 400),
        ("nonsense", "1", "", 400),
    ] {
        let mut fields = vec![("title", "kept & <b>")];
        if field != "long_url" {
            fields.push(("long_url", "https://example.com/else"));
        }
        fields.push((field, value));
        let answer = send(&web, &cookie, "/links/new", &fields).await;
        let text = answer.text();
        assert_eq!(answer.status, status, "{field}={value}: {text}");
        if status == 303 {
            continue;
        }
        assert!(text.contains("role=\"alert\"") && text.contains("kept &#38; &#60;b&#62;"));
        if !id.is_empty() {
            let marked = tag(&text, id);
            assert!(marked.contains("aria-invalid=\"true\""), "{field}={value}: {text}");
            assert!(marked.contains(" autofocus"), "{field}={value}: {text}");
        }
    }
}

#[tokio::test]
async fn a_period_of_the_form_counts_from_the_time_of_saving() {
    const DAY: Duration = Duration::from_secs(86_400);
    let (web, cookie) = signed_in().await;
    web.clock.advance(100 * DAY);
    let target = ("long_url", "https://example.com/");
    let week = [target, ("alias", "week"), ("expires", "604800"), ("expires_at", "")];
    let made = send(&web, &cookie, "/links/new", &week).await;
    assert_eq!(made.status, 303, "{}", made.text());
    let found = web.store.everything().remove(0);
    assert_eq!(found.expires_at, found.created_at.checked_add(7 * DAY));
    // The date that the form shows of a link is not one that was typed beside the period.
    web.clock.advance(DAY);
    let text = open(&web, &cookie, "/links/week/edit").await.text();
    let (_, shown) = tag(&text, "expires_at").split_once("value=\"").unwrap();
    let shown = shown.split('"').next().unwrap();
    assert_eq!(shown.len(), "2026-11-30T18:00".len(), "{shown}");
    let hour = [target, ("revision", "1"), ("expires", "3600"), ("expires_at", shown)];
    let changed = send(&web, &cookie, "/links/week/edit", &hour).await;
    assert_eq!(changed.status, 303, "{}", changed.text());
    let found = web.store.everything().remove(0);
    assert_eq!(found.expires_at, found.updated_at.checked_add(Duration::from_secs(3600)));
    assert!(found.updated_at >= found.created_at.checked_add(DAY).unwrap());
}

#[tokio::test]
async fn a_period_and_another_date_are_refused_together() {
    let (web, cookie) = signed_in().await;
    let both = [
        ("long_url", "https://example.com/"),
        ("alias", "both"),
        ("expires", "604800"),
        ("expires_at", "2999-11-30T18:00"),
    ];
    let check = |answer: Answer| {
        let text = answer.text();
        assert_eq!(answer.status, 400, "{text}");
        let tag = tag(&text, "expires_at");
        for shown in ["aria-invalid=\"true\"", " autofocus", "value=\"2999-11-30T18:00\""] {
            assert!(tag.contains(shown), "{shown} in {tag}");
        }
        assert!(text.contains("<option value=\"604800\" selected>"), "{text}");
        assert_eq!(text.matches("id=\"problem\" role=\"alert\"").count(), 1, "{text}");
    };
    check(send(&web, &cookie, "/links/new", &both).await);
    assert_eq!(web.store.everything().len(), 0, "no link is made");
    // The same for a link that ends at another time, and for one that does not end.
    let ends = json!({"long_url": "https://example.com/", "alias": "ends", "ttl": 600});
    let stays = json!({"long_url": "https://example.com/", "alias": "stays"});
    for (alias, body) in [("ends", ends), ("stays", stays)] {
        assert_eq!(web.as_owner("POST /api/v1/urls", OWNER.0, body).await.status, 201);
        let before = link(&web, alias).await;
        let fields = [both[0], ("revision", "1"), both[2], both[3]];
        check(send(&web, &cookie, &format!("/links/{alias}/edit"), &fields).await);
        assert_eq!(link(&web, alias).await, before, "{alias} is as it was");
    }
}

#[tokio::test]
async fn an_alias_is_checked_while_it_is_typed() {
    let (web, cookie) = signed_in().await;
    let taken = json!({"long_url": "https://example.com/", "alias": "taken"});
    web.as_owner("POST /api/v1/urls", OWNER.0, taken).await;
    for (alias, status, words) in [
        ("free-one", 200, "Free."),
        ("taken", 409, "This alias is taken."),
        ("new", 409, "This alias is reserved for pages of this server."),
        ("a%2Fb", 409, "An alias may contain only A-Z, a-z, 0-9, - and _."),
    ] {
        let answer = open(&web, &cookie, &format!("/links/new/alias?alias={alias}")).await;
        assert_eq!((answer.status.as_u16(), &*answer.text()), (status, words), "{alias}");
        assert!(answer.header("content-type").starts_with("text/plain"));
    }
}

#[tokio::test]
async fn the_domain_before_the_alias_is_the_chosen_one() {
    let (web, cookie) = signed_in().await;
    let prefix = |text: &str| {
        let rest = text.split("data-alias-prefix>").nth(1).unwrap();
        rest.split('<').next().unwrap().to_owned()
    };
    assert_eq!(prefix(&open(&web, &cookie, "/links/new").await.text()), "go.example/");
    for (domain, shown) in [("b.example", "b.example/"), ("other.example", "go.example/")] {
        let fields = [("long_url", "ftp://example.com/"), ("domain", domain)];
        let refused = send(&web, &cookie, "/links/new", &fields).await;
        assert_eq!((refused.status.as_u16(), &*prefix(&refused.text())), (400, shown));
    }
}

#[tokio::test]
async fn a_target_in_the_address_fills_in_the_form() {
    let (web, cookie) = signed_in().await;
    let value = "value=\"https://example.com/?a=%22%3E&#38;b\"";
    let target = "https%3A%2F%2Fexample.com%2F%3Fa%3D%2522%253E%26b";
    let text = open(&web, &cookie, &format!("/links/new?url={target}")).await.text();
    assert!(text.contains(value), "{text}");
    let answer = open(&web, &cookie, &format!("/?url={target}")).await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("location")),
        (303, &*format!("/links/new?url={target}"))
    );
    let text = open(&web, "x=1", &format!("/?url={target}")).await.text();
    assert!(text.contains(value), "{text}");
    let script = open(&web, &cookie, "/links/new?url=%22%3E%3Cscript%3E").await.text();
    assert!(!script.contains("<script>"), "{script}");
}

#[tokio::test]
async fn a_time_is_in_the_zone_that_the_form_was_shown_in() {
    let (web, cookie) = signed_in().await;
    let text = open(&web, cookie.split(';').next().unwrap(), "/links/new").await.text();
    assert!(text.contains("name=\"tz\" value=\"UTC\""), "{text}");
    let fields = [
        ("long_url", "https://example.com/"),
        ("alias", "timed"),
        ("tz", "UTC"),
        ("expires_at", "2999-11-30T18:00"),
        ("password", " x "),
    ];
    let made = send(&web, &cookie, "/links/new", &fields).await;
    assert_eq!(made.status, 303, "{}", made.text());
    assert_eq!(link(&web, "timed").await["expires_at"], "2999-11-30T18:00:00Z");
}

#[tokio::test]
async fn rules_are_edited_as_rows_and_tried_before_they_are_saved() {
    let (web, cookie) = signed_in().await;
    let base = [("long_url", "https://example.com/"), ("alias", "ruled"), ("tz", "UTC")];
    let rows = [
        ("rule.0.device", "mobile"),
        ("rule.0.country", "at, de"),
        ("rule.0.url.0", "https://example.com/a"),
        ("rule.0.weight.0", "3"),
        ("rule.0.url.1", "https://example.com/b"),
        ("rule.1.country", "FR"),
        ("rule.1.days", "mon, tue"),
        ("rule.1.tz", "UTC"),
        ("rule.1.url.0", "https://example.com/c"),
        ("rule.2.device", ""),
        ("rule.2.tz", "UTC"),
        ("rule.2.url.0", ""),
    ];
    let with = |more: &[(&'static str, &'static str)]| [&base, &rows[..], more].concat();
    // A button of the editor saves nothing, and keeps what was typed.
    for (word, field, value) in
        [("add", "r2-query", ""), ("up.1", "r0-days", "mon, tue"), ("remove.0", "r0-country", "FR")]
    {
        let answer = send(&web, &cookie, "/links/new", &with(&[("rows", word)])).await;
        let text = answer.text();
        assert_eq!(answer.status, 200, "{word}: {text}");
        let tag = tag(&text, field);
        assert!(tag.contains(&format!(" value=\"{value}\"")), "{word}: {tag}");
        assert!(text.contains("value=\"ruled\"") && text.len() < 50_000, "{word}");
        assert!(answer.header("content-security-policy").contains("connect-src 'self'"));
    }
    let answer =
        send(&web, &cookie, "/links/new", &with(&[("rows", "try"), ("try.country", "DE")])).await;
    assert!(answer.text().contains("no rule matches"), "{}", answer.text());
    let wrong =
        send(&web, &cookie, "/links/new", &with(&[("rows", "try"), ("try.country", "??")])).await;
    assert!(wrong.status == 400 && wrong.text().contains("The two letters of a country"));
    assert_eq!(web.store.everything().len(), 0);
    let made = send(&web, &cookie, "/links/new", &with(&[])).await;
    assert_eq!(made.header("location"), "/links/ruled?done=created", "{}", made.text());
    let rules = json!([
        {"device": "mobile", "country": ["AT", "DE"], "to": [
            {"url": "https://example.com/a", "weight": 3},
            {"url": "https://example.com/b", "weight": 1}]},
        {"country": "FR", "days": ["mon", "tue"], "tz": "UTC", "to": "https://example.com/c"}]);
    assert_eq!(link(&web, "ruled").await["rules"], rules);
    let text = open(&web, &cookie, "/links/ruled/edit").await.text();
    assert!(text.contains("value=\"AT, DE\"") && text.contains("value=\"https://example.com/b\""));
    // A problem stands in its row.
    let mut refused = with(&[("revision", "1")]);
    refused[6].1 = "heavy";
    let answer = send(&web, &cookie, "/links/ruled/edit", &refused[..]).await;
    let text = answer.text();
    assert!(
        answer.status == 400 && text.contains("Must be a whole number from 1 to 10000"),
        "{text}"
    );
    // The JSON counts where the form says so.
    let json = ("rules", "[{\"to\": \"https://example.com/d\"}]");
    let saved = with(&[("revision", "1"), ("as_json", "1"), json]);
    let saved = send(&web, &cookie, "/links/ruled/edit", &saved).await;
    assert_eq!(saved.header("location"), "/links/ruled?done=changed", "{}", saved.text());
    assert_eq!(link(&web, "ruled").await["rules"], json!([{"to": "https://example.com/d"}]));
}

#[tokio::test]
async fn rules_that_rows_cannot_show_are_kept() {
    let (web, cookie) = signed_in().await;
    let rules = json!([{"query": {"name": "a,b"}, "to": "https://example.com/x"}]);
    let body = json!({"long_url": "https://example.com/", "alias": "odd-rule", "rules": rules});
    assert_eq!(web.as_owner("POST /api/v1/urls", OWNER.0, body).await.status, 201);
    let text = open(&web, &cookie, "/links/odd-rule/edit").await.text();
    assert!(text.contains("name=\"as_json\" value=\"1\"") && !text.contains("rule.0.device"));
}
