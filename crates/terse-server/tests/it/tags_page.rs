//! The page of an account's tags.

use serde_json::{Value, json};

use crate::web::{Answer, OTHER, OWNER, Web};

const NASTY: &str = "\"><script>alert(1)</script>";

async fn open(web: &Web, cookie: &str, path: &str) -> String {
    let headers = [("accept", "text/html"), ("host", "go.example"), ("cookie", cookie)];
    let answer = web.call(&format!("GET {path}"), &headers, "").await;
    let text = answer.text();
    assert_eq!(answer.status, 200, "{path}: {text}");
    assert!(!text.contains("<script>") && text.len() < 50_000, "{path}: {}", text.len());
    text
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

async fn make(web: &Web, key: &str, alias: &str, tags: &[&str]) {
    let body = json!({"long_url": "https://example.com/", "alias": alias, "tags": tags});
    let made = web.as_owner("POST /api/v1/urls", key, body).await;
    assert_eq!(made.status, 201, "{}", made.text());
}

async fn tags(web: &Web, key: &str, alias: &str) -> Value {
    let line = format!("GET /api/v1/urls/{alias}");
    web.as_owner(&line, key, Value::Null).await.json()["tags"].clone()
}

#[tokio::test]
async fn tags_are_listed_renamed_and_removed() {
    let web = Web::new();
    let cookie = web.sign_in(OWNER.1, "terse_mine").await;
    assert!(open(&web, &cookie, "/tags").await.contains("You have no tags yet."));
    make(&web, OWNER.0, "one", &["spring", "q & a", NASTY]).await;
    make(&web, OWNER.0, "two", &["spring"]).await;
    make(&web, OTHER.0, "theirs", &["spring", "secret"]).await;
    let text = open(&web, &cookie, "/tags").await;
    for shown in [
        "<a href=\"/links?tag=spring\">spring</a></p><p class=\"hint\">2 links</p>",
        "<a href=\"/links?tag=q+%26+a\">q &#38; a</a></p><p class=\"hint\">1 link</p>",
        "href=\"/tags\" aria-current=\"page\"",
        "Remove from 2 links",
    ] {
        assert!(text.contains(shown), "{shown} in {text}");
    }
    assert!(!text.contains("secret"), "{text}");
    let renamed =
        send(&web, &cookie, "/tags/rename", &[("tag", "spring"), ("name", " summer ")]).await;
    assert_eq!(renamed.header("location"), "/tags?done=renamed&count=2", "{}", renamed.text());
    let text = open(&web, &cookie, "/tags?done=renamed&count=2").await;
    assert!(text.contains("The tag is renamed on 2 links.") && !text.contains(">spring<"));
    assert_eq!(tags(&web, OWNER.0, "one").await, json!(["summer", "q & a", NASTY]));
    assert_eq!(tags(&web, OTHER.0, "theirs").await, json!(["spring", "secret"]));
    let removed = send(&web, &cookie, "/tags/remove", &[("tag", NASTY)]).await;
    assert_eq!(removed.header("location"), "/tags?done=removed&count=1", "{}", removed.text());
    assert_eq!(tags(&web, OWNER.0, "one").await, json!(["summer", "q & a"]));
    let text = open(&web, &cookie, "/tags?done=removed&count=1000&more=1").await;
    assert!(text.contains("from 1,000 links so far. Remove it again to continue."), "{text}");
    // One that is gone changes nothing.
    let gone = send(&web, &cookie, "/tags/remove", &[("tag", "gone")]).await;
    assert_eq!(gone.header("location"), "/tags?done=removed&count=0");
}

#[tokio::test]
async fn a_wrong_name_is_reported_in_the_row_of_the_tag() {
    let web = Web::new();
    let cookie = web.sign_in(OWNER.1, "terse_mine").await;
    make(&web, OWNER.0, "one", &["spring", "autumn"]).await;
    for (name, words) in [
        ("", "A tag must have 1 to 50 characters."),
        ("a,b", "A tag must not contain commas"),
        (NASTY, ""),
    ] {
        let fields = [("tag", "spring"), ("name", name), ("from", "0")];
        let answer = send(&web, &cookie, "/tags/rename", &fields).await;
        if words.is_empty() {
            assert_eq!(answer.status, 303, "a name may have any other characters");
            continue;
        }
        let text = answer.text();
        assert_eq!(answer.status, 400, "{name}");
        let row = text.split("data-menu open>").nth(1).unwrap();
        let row = row.split("Rename</button>").next().unwrap();
        assert!(row.contains("Change the tag spring") && row.contains(words), "{row}");
        let marked = format!("value=\"{name}\" aria-invalid=\"true\"");
        assert!(row.contains(&marked), "{row}");
        assert_eq!(text.matches("role=\"alert\"").count(), 1, "{text}");
    }
    let unknown = send(&web, &cookie, "/tags/rename", &[("tag", "gone"), ("name", "")]).await;
    assert!(unknown.status == 400 && unknown.text().contains("role=\"alert\""));
}

#[tokio::test]
async fn many_tags_have_pages() {
    let web = Web::new();
    let cookie = web.sign_in(OWNER.1, "terse_mine").await;
    for link in 0..3 {
        let tags: Vec<String> = (0..20)
            .map(|n| format!("{}-{:02}", "long words in a tag".repeat(2), link * 20 + n))
            .collect();
        let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
        make(&web, OWNER.0, &format!("link-{link}"), &tags).await;
    }
    let (mut path, mut seen) = ("/tags".to_owned(), 0);
    for page in 0..3 {
        let text = open(&web, &cookie, &path).await;
        seen += text.matches("class=\"place-name\"").count();
        assert_eq!(text.contains(">First page<"), page > 0, "{text}");
        match text.split("class=\"quiet button next\" href=\"").nth(1) {
            Some(next) => path = next.split('"').next().unwrap().to_owned(),
            None => assert_eq!(page, 2),
        }
    }
    assert_eq!(seen, 60);
    assert!(open(&web, &cookie, "/tags?from=500").await.contains("There are no more tags."));
    web.store.away.store(true, std::sync::atomic::Ordering::Relaxed);
    let headers = [("accept", "text/html"), ("host", "go.example"), ("cookie", &*cookie)];
    assert_eq!(web.call("GET /tags", &headers, "").await.status, 503);
}
