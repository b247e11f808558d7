//! Where the focus is after a problem.

use serde_json::json;

use crate::web::{OWNER, Web};

/// A branch of a template that marks a field as wrong also focuses it. The sign-in form marks both
/// of its fields, and focuses the password.
#[test]
fn every_field_that_is_marked_as_wrong_has_the_focus() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/templates");
    let mut marked = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for (at, _) in text.match_indices("aria-invalid=\"true\"") {
            let branch = text[at..].split("{%").next().unwrap();
            let tag = text[..at].rsplit('<').next().unwrap();
            let is_name = path.ends_with("login.html") && tag.contains("id=\"name\"");
            let always = tag.split("{%").next().unwrap().contains(" autofocus");
            assert!(
                is_name || always || branch.contains(" autofocus"),
                "{}: {tag}{branch}",
                path.display()
            );
            marked += 1;
        }
    }
    assert!(marked > 20, "{marked}");
}

#[tokio::test]
async fn a_problem_of_statistics_or_of_a_tried_visitor_has_the_focus() {
    let web = Web::new();
    let cookie = web.sign_in(OWNER.1, "terse_a-browser").await;
    let rules = json!([{"country": "AT", "to": "https://example.com/at"}]);
    let body = json!({"long_url": "https://example.com/", "alias": "abc", "rules": rules});
    assert_eq!(web.as_owner("POST /api/v1/urls", OWNER.0, body).await.status, 201);
    for (path, field) in [
        ("/links/abc?period=custom&from=2026-02-01&to=2026-01-01", "to"),
        ("/links/abc?period=custom&from=nonsense&to=2026-01-01", "from"),
        ("/links/abc?tz=Mars/Olympus", "tz"),
        ("/links/abc/rules?try=1&country=X", "country"),
    ] {
        let headers = [("accept", "text/html"), ("host", "go.example"), ("cookie", &*cookie)];
        let answer = web.call(&format!("GET {path}"), &headers, "").await;
        let text = answer.text();
        assert_eq!(answer.status, 400, "{path}: {text}");
        let tag = text.split(&format!("id=\"{field}\"")).nth(1).expect(field);
        let tag = tag.split('>').next().unwrap();
        assert!(tag.contains("aria-invalid=\"true\"") && tag.contains(" autofocus"), "{tag}");
        assert_eq!(text.matches(" autofocus").count(), 1, "{path}");
    }
}
