//! Reset links and invitations by mail, through a mail server with STARTTLS and AUTH.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use terse_testkit::wait_until;

use crate::harness::{Answer, TestTerse};
use crate::sign_in::{self, set_up};
use crate::smtp_server::{PASSWORD, SmtpServer, USER};

fn with_mail(server: &SmtpServer) -> TestTerse {
    TestTerse::with(|config| {
        config.mail.server = Some(format!("localhost:{}", server.address.port()));
        config.mail.username = Some(USER.to_owned());
        config.mail.password = Some(terse::config::Secret::new(PASSWORD));
        config.mail.from = Some("links@go.example".to_owned());
        config.mail.ca = Some(server.ca.clone());
    })
}

fn form(terse: &TestTerse, path: &str, cookie: &str, body: &str) -> Answer {
    let fields = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("sec-fetch-site", "same-origin"),
        ("accept", "text/html"),
        ("cookie", cookie),
    ];
    terse.send("POST", path, &fields, Some(body.as_bytes()))
}

/// The path of the link in a mail.
fn link_in(text: &str) -> String {
    let line = text.lines().find(|line| line.starts_with("http")).expect("a link");
    line.trim().trim_start_matches("http://go.example").to_owned()
}

#[test]
fn a_forgotten_password_is_reset_by_mail_and_the_answer_tells_nothing() {
    let server = SmtpServer::start();
    let terse = with_mail(&server);
    let cookie = set_up(&terse, "ann").cookie;
    let page = terse.send("GET", "/login", &[("accept", "text/html")], None).text();
    assert!(page.contains("href=\"/login/forgot\""), "{page}");
    // Without an email address nothing is sent.
    let unknown = form(&terse, "/login/forgot", "", "name=nobody-here");
    let without = form(&terse, "/login/forgot", "", "name=ann");
    assert_eq!((unknown.status, without.status), (200, 200));
    assert_eq!(unknown.text(), without.text().replace("ann", "nobody-here"));
    // Another address needs the password.
    let edit = "email=ann%40example.com&time_zone=Asia%2FTokyo&language=de";
    assert_eq!(form(&terse, "/account/preferences", &cookie, edit).status, 403);
    let edit = format!("{edit}&proof={}", sign_in::PASSWORD.replace(' ', "+"));
    let saved = form(&terse, "/account/preferences", &cookie, &edit);
    assert_eq!(saved.location(), Some("/account?done=preferences"), "{}", saved.text());
    let account = terse.send("GET", "/account", &[("cookie", &cookie)], None).text();
    assert!(account.contains("value=\"ann@example.com\"") && account.contains("Asia/Tokyo"));

    server.shared.busy.store(1, Ordering::SeqCst);
    let asked = form(&terse, "/login/forgot", "", "name=ANN");
    assert_eq!(asked.text().replace("ANN", "ann"), without.text(), "the same answer");
    let put_off = || server.shared.put_off.load(Ordering::SeqCst) == 1;
    wait_until("a mail arrives", put_off);
    terse.clock().advance(Duration::from_secs(11));
    wait_until("a mail arrives", || server.mails().len() == 1);
    let mail = server.mails().remove(0);
    assert_eq!((mail.from.as_str(), mail.to.as_str()), ("links@go.example", "ann@example.com"));
    assert!(mail.head.contains("Subject: A new password for terse"), "{}", mail.head);
    assert!(mail.text.contains("your account ann"), "{}", mail.text);
    let path = link_in(&mail.text);
    let page = terse.send("GET", &path, &[("accept", "text/html")], None);
    assert_eq!(page.status, 200, "{path} {}", page.text());
    let token = path.split_once("token=").unwrap().1;
    let body = format!("token={token}&password=battery+staple&again=battery+staple");
    let set = form(&terse, "/login/reset", "", &body);
    assert_eq!(set.location(), Some("/login?done=reset"), "{}", set.text());
    let signed_in = form(&terse, "/login", "", "name=ann&password=battery+staple");
    assert_eq!(signed_in.status, 303, "{}", signed_in.text());
}

#[test]
fn an_invitation_is_sent_by_mail_and_a_refused_address_is_given_up() {
    let server = SmtpServer::start();
    let terse = with_mail(&server);
    let cookie = set_up(&terse, "ada").cookie;
    let wrong = form(&terse, "/accounts/invite", &cookie, "role=user&email=not+an+address");
    assert_eq!(wrong.status, 400, "{}", wrong.text());
    let lost = form(&terse, "/accounts/invite", &cookie, "role=user&email=nobody%40example.com");
    assert_eq!(lost.status, 201, "{}", lost.text());
    let sent = form(&terse, "/accounts/invite", &cookie, "role=user&email=bob%40example.com");
    assert!(sent.text().contains("on its way by mail"), "{}", sent.text());
    wait_until("a mail arrives", || server.mails().len() == 1);
    let mail = server.mails().remove(0);
    assert_eq!(mail.to, "bob@example.com");
    let body = json!({ "email": "eve@example.com" });
    let by_api = terse.api("POST", "/invitations", Some(body));
    assert_eq!((by_api.status, &by_api.json()["mailed"]), (201, &json!(true)));
    wait_until("a mail arrives", || server.mails().len() == 2);
    assert_eq!(server.mails()[1].to, "eve@example.com");
    let page = terse.send("GET", &link_in(&mail.text), &[("accept", "text/html")], None);
    assert!(page.status == 200 && page.text().contains("Accept your invitation"));
    let metrics = terse.get("/metrics").text();
    assert!(metrics.contains("terse_mails_total{outcome=\"failed\"} 1"), "{metrics}");
}

#[test]
fn without_a_mail_server_there_is_no_such_page() {
    let terse = TestTerse::start();
    assert_eq!(terse.browse("/login/forgot").status, 404);
    assert!(terse.browse("/login").text().contains("Ask an admin"));
}
