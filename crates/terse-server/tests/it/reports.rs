//! Abuse reports, from the reporters' side.

use serde_json::{Value, json};
use terse_core::Timestamp;
use terse_core::registry::ReportState;
use terse_core::registry::prelude::*;

use crate::web::{Answer, OTHER, OWNER, Web};

const REPORT: &str = "POST /api/v1/urls/abc/report";
const FORM: [(&str, &str); 2] =
    [("content-type", "application/x-www-form-urlencoded"), ("host", "go.example")];

async fn web() -> Web {
    let web = Web::new();
    let made = web
        .api("POST /api/v1/urls", json!({"long_url": "https://example.com/", "alias": "abc"}))
        .await;
    assert_eq!(made.status, 201);
    web
}

async fn status(web: &Web) -> String {
    web.api("GET /api/v1/urls/abc", Value::Null).await.json()["status"].as_str().unwrap().to_owned()
}

async fn report(web: &Web, address: &str) -> Answer {
    web.from(address, REPORT, json!({"reason": "phishing"})).await
}

#[tokio::test]
async fn three_networks_warn_and_one_does_not() {
    let web = web().await;
    for n in 1..=20 {
        assert_eq!(report(&web, &format!("198.51.100.{n}")).await.status, 202);
    }
    assert_eq!(report(&web, "2001:db8:1:2::1").await.status, 202);
    assert_eq!(report(&web, "2001:db8:1:3::1").await.status, 202);
    assert_eq!(status(&web).await, "active", "two networks");
    assert_eq!(report(&web, "203.0.113.1").await.status, 202);
    assert_eq!(status(&web).await, "suspicious");
    let page = web.page("/r/abc").await;
    assert!(page.text().contains("Several visitors have reported it."), "{}", page.text());
    assert_eq!(web.registry.reports(ReportState::Open, None, 100).await.unwrap().len(), 3);
}

#[tokio::test]
async fn accounts_count_wherever_they_are() {
    let web = web().await;
    for key in [OWNER.0, OWNER.0, OTHER.0] {
        assert_eq!(
            web.as_owner(REPORT, key, json!({"reason": "spam", "text": " why \n"})).await.status,
            202
        );
    }
    assert_eq!(status(&web).await, "active");
    let kept = web.registry.reports(ReportState::Open, None, 100).await.unwrap();
    assert_eq!(
        kept.iter().map(|one| one.account).collect::<Vec<_>>(),
        [Some(OWNER.1), Some(OTHER.1)]
    );
    assert_eq!(kept[0].text.as_deref(), Some("why"));
    report(&web, "203.0.113.1").await;
    assert_eq!(status(&web).await, "suspicious");
    web.call(REPORT, &[("authorization", "wrong"), ("content-type", "application/json")], "{}")
        .await
        .is_problem(401, "unauthorized", "Authorization");
}

#[tokio::test]
async fn what_is_no_report_is_refused() {
    let web = web().await;
    for (body, field) in [
        (json!({}), "reason"),
        (json!({"reason": "dislike"}), "reason"),
        (json!({"reason": "spam", "text": "x".repeat(2001)}), "text"),
        (json!({"reason": "spam", "name": "x"}), "name"),
    ] {
        web.anonymous(REPORT, body.clone()).await.is_problem(400, "invalid_request", field);
    }
    for path in ["/api/v1/urls/unknown1/report", "/api/v1/urls/~/report"] {
        web.anonymous(&format!("POST {path}"), json!({"reason": "spam"})).await.is_problem(
            404,
            "not_found",
            "",
        );
    }
    web.api("DELETE /api/v1/urls/abc", Value::Null).await;
    web.anonymous(REPORT, json!({"reason": "spam"})).await.is_problem(404, "not_found", "");
    assert_eq!(web.registry.reports(ReportState::Open, None, 100).await.unwrap(), []);
}

#[tokio::test]
async fn a_report_that_is_not_kept_is_not_acknowledged() {
    let web = web().await;
    web.registry.fail(true);
    report(&web, "203.0.113.1").await.is_problem(503, "store_unavailable", "");
    web.registry.fail(false);
    assert_eq!(web.registry.reports(ReportState::Open, None, 100).await.unwrap(), []);
    assert_eq!(report(&web, "203.0.113.1").await.status, 202);
    assert!(
        web.registry.reports(ReportState::Open, None, 100).await.unwrap()[0].created_at
            > Timestamp::from_ms(0)
    );
}

#[tokio::test]
async fn the_form_is_shown_sent_and_thanked_for() {
    let web = web().await;
    let form = web.page("/r/abc/report").await;
    assert_eq!(form.status, 200);
    let text = form.text();
    assert!(text.contains("action=\"/abc?report\"") && !text.contains("<script"), "{text}");
    for word in ["phishing", "malware", "spam", "illegal", "other"] {
        assert!(text.contains(&format!("value=\"{word}\"")), "{word}");
    }
    let sent = web.call("POST /r/abc/report", &FORM, "reason=malware&text=a%0D%0A%3Cb%3E").await;
    assert_eq!((sent.status.as_u16(), sent.header("location")), (303, "/r/abc/report?sent"));
    let kept = web.registry.reports(ReportState::Open, None, 100).await.unwrap();
    assert_eq!((&*kept[0].reason, kept[0].text.as_deref()), ("malware", Some("a\n<b>")));
    assert!(web.page("/r/abc/report?sent").await.text().contains("Thank you"));
    // The form returns the typed text, escaped, and names the error.
    let again = web.call("POST /r/abc/report", &FORM, "reason=&text=%3Cb%3E").await;
    assert_eq!(again.status, 400);
    assert!(
        again.text().contains("Choose a reason.") && !again.text().contains("<b>"),
        "{}",
        again.text()
    );
    assert_eq!(web.page("/r/unknown1/report").await.status, 404);
    assert_eq!(web.call("POST /r/unknown1/report", &FORM, "reason=spam").await.status, 404);
}

#[tokio::test]
async fn no_other_site_reports_in_a_visitors_name() {
    let web = web().await;
    for (name, value) in [("sec-fetch-site", "cross-site"), ("origin", "https://elsewhere.example")]
    {
        let headers = [FORM[0], FORM[1], (name, value)];
        assert_eq!(web.call("POST /r/abc/report", &headers, "reason=spam").await.status, 403);
    }
    assert_eq!(web.registry.reports(ReportState::Open, None, 100).await.unwrap(), []);
}
