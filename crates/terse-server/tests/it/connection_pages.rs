//! The pages of webhooks and of short domains.

use terse_core::registry::Role;
use terse_core::registry::prelude::*;
use terse_core::registry::{DeliveryClaim, DeliveryResult, WebhookId};

use crate::web::{Answer, OTHER, OWNER, Web};

const NASTY: &str = "https://hooks.example/?a=%22%3E%3Cscript%3E";

async fn open(web: &Web, cookie: &str, path: &str) -> Answer {
    let headers = [("accept", "text/html"), ("host", "go.example"), ("cookie", cookie)];
    let answer = web.call(&format!("GET {path}"), &headers, "").await;
    let text = answer.text();
    assert!(!text.contains("<script>") && text.len() < 50_000, "{path}: {text}");
    answer
}

async fn send(web: &Web, cookie: &str, path: &str, body: &str) -> Answer {
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("host", "go.example"),
        ("sec-fetch-site", "same-origin"),
        ("cookie", cookie),
    ];
    web.call(&format!("POST {path}"), &headers, body.to_owned()).await
}

#[tokio::test]
async fn a_webhook_is_created_changed_and_deleted_on_its_page() {
    let web = Web::with_webhooks();
    let mine = web.sign_in(OWNER.1, "terse_mine").await;
    let other = web.sign_in(OTHER.1, "terse_others").await;
    assert!(open(&web, &mine, "/webhooks").await.text().contains("Create your first webhook"));
    for (body, words) in [
        ("url=nonsense&event.link.created=1", "aria-invalid=\"true\""),
        ("url=http%3A%2F%2Fhooks.example%2F&event.link.created=1", "Events are sent by https only"),
        ("url=https%3A%2F%2Fhooks.example%2F", "Must be one or more of link.created"),
        ("url=https%3A%2F%2Fhooks.example%2F&event.link.eaten=1", "Must be one or more of"),
    ] {
        let refused = send(&web, &mine, "/webhooks", body).await;
        assert!(refused.status == 400 && refused.text().contains(words), "{body}");
    }
    let body =
        format!("url={}&event.link.created=1", NASTY.replace('%', "%25").replace('&', "%26"));
    let made = send(&web, &mine, "/webhooks", &body).await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert!(made.text().contains("whsec_") && made.text().contains("shown only once"));
    let page = open(&web, &mine, "/webhooks/1").await;
    assert!(page.status == 200 && !page.text().contains("whsec_"), "shown once");
    assert_eq!(open(&web, &other, "/webhooks/1").await.status, 404);
    assert_eq!(open(&web, &mine, "/webhooks/x").await.status, 404);
    assert_eq!(send(&web, &other, "/webhooks/1", "action=delete").await.status, 404);
    for (action, done) in [("off", "off"), ("on", "on"), ("test", "test")] {
        let answer = send(&web, &mine, "/webhooks/1", &format!("action={action}")).await;
        assert_eq!(answer.header("location"), format!("/webhooks/1?done={done}"));
    }
    let body = "action=save&url=https%3A%2F%2Fnew.example%2F&event.link.blocked=1";
    let saved = send(&web, &mine, "/webhooks/1", body).await;
    assert_eq!(saved.header("location"), "/webhooks/1?done=saved");
    let text = open(&web, &mine, "/webhooks").await.text();
    assert!(text.contains("https://new.example/") && text.contains("link.blocked"), "{text}");
    let wrong = send(&web, &mine, "/webhooks/1", "action=save&url=nonsense").await;
    assert!(wrong.status == 400 && wrong.text().contains("value=\"nonsense\""));
    let rotated = send(&web, &mine, "/webhooks/1", "action=secret").await;
    assert!(rotated.status == 201 && rotated.text().contains("whsec_"));
    assert_eq!(send(&web, &mine, "/webhooks/1", "action=explode").await.status, 400);
    // Deleting it needs a second step.
    let text = open(&web, &mine, "/webhooks/1").await.text();
    // So does a new secret.
    let steps = text.split("<details class=\"confirm\">").skip(1);
    let steps: Vec<&str> = steps.map(|step| step.split("</details>").next().unwrap()).collect();
    assert!(steps.len() == 2 && steps.iter().all(|step| step.contains("cannot be undone")));
    assert!(steps[0].contains("value=\"secret\"") && steps[1].contains("value=\"delete\""));
    assert_eq!(text.matches("value=\"delete\"").count(), 1, "{text}");
    let deleted = send(&web, &mine, "/webhooks/1", "action=delete").await;
    assert_eq!(deleted.header("location"), "/webhooks?done=deleted");
    assert_eq!(open(&web, &mine, "/webhooks/1").await.status, 404);
}

#[tokio::test]
async fn a_delivery_is_sent_again_from_the_page() {
    let web = Web::with_webhooks();
    let mine = web.sign_in(OWNER.1, "terse_mine").await;
    let body = "url=https%3A%2F%2Fhooks.example%2F&event.link.created=1";
    assert_eq!(send(&web, &mine, "/webhooks", body).await.status, 201);
    send(&web, &mine, "/webhooks/1", "action=test").await;
    let due = async || {
        let now = web.clock.now();
        let claim_duration = std::time::Duration::from_secs(60);
        let claim = DeliveryClaim { now, claim_duration, after: WebhookId(0), limit: 10 };
        web.registry.due(claim).await.unwrap()
    };
    let sent = due().await;
    let text = open(&web, &mine, "/webhooks/1").await.text();
    assert!(text.contains("not sent yet · due now") && text.contains("Send now"), "{text}");
    let result = DeliveryResult::Answered { status: 204, retry_after: None };
    web.registry.record_attempt(sent[0].attempt(result, web.clock.now(), 0.0)).await.unwrap();
    let text = open(&web, &mine, "/webhooks/1").await.text();
    assert!(text.contains("answered 204") && text.contains(">Resend<"), "{text}");
    assert!(due().await.is_empty());
    let event = &sent[0].delivery.event;
    let again = send(&web, &mine, "/webhooks/1", &format!("action=resend&event={event}")).await;
    assert_eq!(again.header("location"), "/webhooks/1?done=resent");
    let second = due().await;
    assert_eq!(second[0].delivery.event, *event);
    assert_eq!(second[0].delivery.body, sent[0].delivery.body, "the receiver gets the same");
    assert_eq!(send(&web, &mine, "/webhooks/1", "action=resend&event=evt_none").await.status, 404);
    send(&web, &mine, "/webhooks/1", "action=off").await;
    let off = send(&web, &mine, "/webhooks/1", &format!("action=resend&event={event}")).await;
    assert!(off.status == 400 && off.text().contains("switch it on first"));
}

#[tokio::test]
async fn a_server_without_webhooks_says_so() {
    let web = Web::new();
    let mine = web.sign_in(OWNER.1, "terse_mine").await;
    assert!(open(&web, &mine, "/webhooks").await.text().contains("outgoing.webhooks = true"));
    assert_eq!(open(&web, &mine, "/webhooks/1").await.status, 404);
    assert_eq!(send(&web, &mine, "/webhooks", "url=x").await.status, 404);
}

#[tokio::test]
async fn the_page_of_domains_says_what_dns_says() {
    let web = Web::new();
    let admin = web.person("ada", Role::Admin).await;
    let admin = web.sign_in(admin, "terse_admin").await;
    let user = web.sign_in(OWNER.1, "terse_user").await;
    for name in ["good.example", "new.example", "slow.example"] {
        let added = send(&web, &admin, "/domains", &format!("domain={name}")).await;
        assert_eq!(added.header("location"), "/domains?done=saved", "{}", added.text());
    }
    let text = open(&web, &admin, "/domains").await.text();
    for words in [
        "points here</span>",
        "Its DNS record leads to 9.9.9.9, but go.example is elsewhere.",
        "A b.example → 8.8.8.8",
        "no DNS record</span>",
        "CNAME new.example → go.example",
        "The DNS lookup gave no result.",
        "Its certificate is valid until 2027-02-03.",
        "no certificate</span>",
        "Port 80 is &#60;closed&#62;. terse tries again at 2027-01-01T00:00:00Z.",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    let text = open(&web, &user, "/domains").await.text();
    assert!(text.contains("new.example") && !text.contains("DNS"), "{text}");
    assert!(!text.contains("certificate"), "{text}");
    assert_eq!(send(&web, &user, "/domains", "domain=mine.example").await.status, 404);
    assert_eq!(send(&web, &user, "/domains/remove", "domain=new.example").await.status, 404);
    let body = "domain=new.example&root=https%3A%2F%2Fexample.com%2F&not_found=&expired=";
    assert_eq!(
        send(&web, &admin, "/domains", body).await.header("location"),
        "/domains?done=saved"
    );
    assert!(open(&web, &admin, "/domains").await.text().contains("https://example.com/"));
    for (body, status, words) in [
        ("domain=not+a+host", 400, "Not a host name."),
        ("domain=", 400, "Not a host name."),
        ("domain=x.example&root=nonsense", 400, "aria-invalid=\"true\""),
    ] {
        let refused = send(&web, &admin, "/domains", body).await;
        assert!(refused.status == status && refused.text().contains(words), "{body}");
    }
    // A problem with a domain that exists is in the menu of its row.
    let body = "domain=new.example&from=0&root=nonsense&not_found=https%3A%2F%2Fexample.com%2Flost";
    let refused = send(&web, &admin, "/domains", body).await;
    let text = refused.text();
    let (rows, add) = text.split_once("Add a domain</h2>").unwrap();
    let row = rows.split("data-menu open>").nth(1).unwrap().split("</details>").next().unwrap();
    assert_eq!((refused.status.as_u16(), rows.matches("data-menu open").count()), (400, 1));
    for shown in [
        "aria-label=\"Change new.example\"",
        "role=\"alert\"",
        "value=\"nonsense\" aria-invalid=\"true\"",
        "value=\"https://example.com/lost\"",
    ] {
        assert!(row.contains(shown), "{shown} in {row}");
    }
    assert!(!add.contains("role=\"alert\"") && !add.contains("nonsense"), "{add}");
    assert!(text.contains("<title>Error · Domains"), "{text}");
    for _ in 0..2 {
        let removed = send(&web, &admin, "/domains/remove", "domain=new.example").await;
        assert_eq!(removed.header("location"), "/domains?done=removed");
    }
}
