//! A link's own social preview: who gets it, and when.

use serde_json::{Value, json};
use terse_testkit::wait_until;

use crate::harness::{Answer, TestTerse};

const TARGET: &str = "https://example.com/sale";
const WHATSAPP: &str = "WhatsApp/2.23.20.0 A";
const BROWSER: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like \
    Gecko) Chrome/126.0.0.0 Safari/537.36";

fn preview() -> Value {
    json!({
        "title": "Spring <sale>", "description": "Only \"today\"",
        "image_url": "https://cdn.example/sale.png",
    })
}

fn visit(terse: &TestTerse, code: &str, agent: &str) -> Answer {
    terse.send("GET", &format!("/{code}"), &[("user-agent", agent), ("accept", "*/*")], None)
}

#[test]
fn preview_fetchers_get_the_owners_preview_and_everybody_else_the_redirect() {
    let terse = TestTerse::start();
    let code = terse.create(json!({"long_url": TARGET, "preview": preview()}));
    for _ in 0..2 {
        let page = visit(&terse, &code, WHATSAPP);
        assert_eq!((page.status, page.location()), (200, None), "{}", page.text());
        assert_eq!(page.header("cache-control"), Some("private, max-age=0, no-store"));
        let text = page.text();
        for part in [
            "<title>Spring &lt;sale&gt;</title>",
            "<meta property=\"og:description\" content=\"Only &quot;today&quot;\">",
            "<meta property=\"og:image\" content=\"https://cdn.example/sale.png\">",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        for agent in [BROWSER, "Mozilla/5.0 (compatible; Googlebot/2.1)", ""] {
            let answer = visit(&terse, &code, agent);
            assert_eq!((answer.status, answer.location()), (302, Some(TARGET)), "{agent}");
        }
    }
    let looked = terse.send("HEAD", &format!("/{code}"), &[("user-agent", WHATSAPP)], None);
    assert_eq!(looked.status, 200);
    // A fetch counts as the click of a bot, as it does for other links.
    let stats = || terse.api("GET", &format!("/urls/{code}/stats?bots=true"), None).json();
    wait_until("the clicks are counted", || stats()["total_clicks"] == 9);
    assert_eq!(stats()["human_clicks"], 2, "{}", stats());
}

#[test]
fn a_link_with_a_password_a_limit_a_warning_or_an_end_shows_no_preview() {
    let terse = TestTerse::start();
    let body = |more: Value| {
        let mut body = json!({"long_url": TARGET, "preview": preview(), "reuse": false});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let shows = |code: &str| visit(&terse, code, WHATSAPP).text().contains("Spring");
    let plain = terse.create(body(json!({"forward_query": true, "redirect": 301})));
    assert!(shows(&plain));
    let moved = visit(&terse, &plain, BROWSER);
    assert_eq!(moved.header("cache-control"), Some("private, max-age=0, no-store"));
    for more in [
        json!({"password": "open sesame"}),
        json!({"max_clicks": 5}),
        json!({"valid_from": "2999-01-01"}),
    ] {
        let code = terse.create(body(more.clone()));
        assert!(!shows(&code), "{more}");
    }
    let standing = format!("/admin/links/{plain}/standing");
    for word in ["suspicious", "blocked"] {
        let set = terse.api("PUT", &standing, Some(json!({"standing": word, "why": "a test"})));
        assert_eq!(set.status, 200, "{}", set.text());
        assert!(!shows(&plain), "{word}");
    }
    terse.api("PUT", &standing, Some(json!({"standing": "clear", "why": "a test"})));
    assert!(shows(&plain));
    terse.api("DELETE", &format!("/urls/{plain}"), None);
    assert!(!shows(&plain));
}

#[test]
fn a_preview_is_set_replaced_removed_and_undone_through_the_api() {
    let terse = TestTerse::start();
    let code = terse.create(json!({"long_url": TARGET, "preview": preview()}));
    let path = format!("/urls/{code}");
    let shown = |answer: Answer| answer.json()["preview"].clone();
    assert_eq!(shown(terse.api("GET", &path, None)), preview());
    let title = json!({"title": "New", "description": null, "image_url": null});
    let patched = terse.api("PATCH", &path, Some(json!({"preview": {"title": " New "}})));
    assert_eq!(shown(patched), title, "the whole preview is replaced");
    assert_eq!(shown(terse.api("PATCH", &path, Some(json!({"title": "x"})))), title);
    assert_eq!(shown(terse.api("PATCH", &path, Some(json!({"preview": null})))), Value::Null);
    assert_eq!(visit(&terse, &code, WHATSAPP).status, 302);
    assert_eq!(shown(terse.api("POST", &format!("{path}/undo"), Some(json!({})))), title);
    let revisions = terse.api("GET", &format!("{path}/revisions"), None).json();
    assert_eq!(revisions["revisions"][0]["changes"][0]["field"], "preview", "{revisions}");
    for (preview, status, field) in [
        (json!({"title": "x".repeat(201)}), 400, "preview.title"),
        (json!({"image_url": "data:image/png;base64,AA"}), 400, "preview.image_url"),
        (json!({"imageUrl": "https://evil.example/a.png"}), 422, "preview.imageUrl"),
        (json!({"titel": "x"}), 400, "titel"),
        (json!("x"), 400, "preview"),
    ] {
        let refused = terse.api("PATCH", &path, Some(json!({"preview": preview})));
        assert_eq!(refused.status, status, "{}", refused.text());
        assert_eq!(refused.json()["field"], field, "{}", refused.text());
    }
    assert_eq!(shown(terse.api("GET", &path, None)), title, "a refused change changes nothing");
    let camel = terse.api(
        "POST",
        "/urls",
        Some(json!({"longUrl": TARGET, "preview": {"imageUrl": "https://cdn.example/a.png"}})),
    );
    assert_eq!(camel.status, 201, "another preview is another link: {}", camel.text());
}
