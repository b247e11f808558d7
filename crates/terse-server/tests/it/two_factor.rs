//! Two-factor sign-in in the browser.

use std::time::Duration;

use serde_json::Value;
use terse_core::registry::Role;
use totp_rs::{Builder, Secret};

use crate::web::{Answer, OWNER, Web};

const PASSWORD: &str = "correct+horse+9";

async fn send(web: &Web, cookie: &str, path: &str, body: &str) -> Answer {
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("host", "go.example"),
        ("sec-fetch-site", "same-origin"),
        ("cookie", cookie),
    ];
    web.call(&format!("POST {path}"), &headers, body.to_owned()).await
}

async fn open(web: &Web, cookie: &str, path: &str) -> Answer {
    let headers = [("accept", "text/html"), ("host", "go.example"), ("cookie", cookie)];
    web.call(&format!("GET {path}"), &headers, "").await
}

/// The text between two others.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("{before} in {text}")).1;
    rest.split_once(after).expect("an end").0
}

fn code(web: &Web, secret: &str) -> String {
    let secret = Secret::try_from_base32(secret.replace(' ', "")).unwrap();
    let seconds = (web.clock.now().as_ms() / 1000).cast_unsigned();
    Builder::new().with_secret(secret).build().unwrap().generate(seconds).to_string()
}

/// Sets a password and turns two-factor sign-in on. Returns the cookie, the secret and the recovery
/// codes.
async fn turned_on(web: &Web) -> (String, String, Vec<String>) {
    let cookie = web.sign_in(OWNER.1, "terse_owner-browser").await;
    let none = open(web, &cookie, "/account/two-factor").await;
    assert_eq!(none.header("location"), "/account", "an account without a password");
    let body = format!("password={PASSWORD}&again={PASSWORD}");
    let set = send(web, &cookie, "/account/password", &body).await;
    let cookie = set.header("set-cookie").split(';').next().unwrap().to_owned();
    let page = open(web, &cookie, "/account/two-factor").await.text();
    assert!(page.contains("<svg class=\"qr\"") && !page.contains("otpauth:"), "{page}");
    let secret = between(&page, "<code id=\"secret\">", "</code>").to_owned();
    let seed = between(&page, "name=\"seed\" value=\"", "\"").to_owned();
    let form = |password: &str, code: &str| format!("seed={seed}&password={password}&code={code}");
    for (form, said) in [
        (form("wrong", &code(web, &secret)), "The password is wrong"),
        (form(PASSWORD, "000000"), "The code is wrong or was already used"),
    ] {
        let again = send(web, &cookie, "/account/two-factor", &form).await;
        assert_eq!(again.status, 403);
        let text = again.text();
        assert!(text.contains(said) && text.contains(&secret), "the same secret: {text}");
        assert!(text.contains("aria-invalid"), "{text}");
    }
    let body = form(PASSWORD, &code(web, &secret));
    let done = send(web, &cookie, "/account/two-factor", &body).await;
    assert_eq!(done.status, 201, "{}", done.text());
    assert_eq!(done.header("cache-control"), "no-store");
    let text = done.text();
    assert!(!text.contains(&secret), "the secret is not shown again");
    let codes = text.split("<li><code>").skip(1);
    let codes: Vec<_> = codes.map(|rest| rest.split('<').next().unwrap().to_owned()).collect();
    assert_eq!(codes.len(), 10);
    let page = open(web, &cookie, "/account").await.text();
    assert!(page.contains("10 recovery codes are left"), "{page}");
    assert!(codes.iter().all(|code| !page.contains(code)), "shown once");
    web.clock.advance(Duration::from_secs(30));
    (cookie, secret, codes)
}

/// Gives the password, and returns the ticket of the second page.
async fn ticket(web: &Web) -> String {
    let form = format!("name=terse-owner&password={PASSWORD}&next=/links");
    let page = send(web, "", "/login", &form).await;
    assert_eq!(page.status, 200, "{}", page.text());
    assert_eq!(page.header("set-cookie"), "", "no session before the code");
    assert_eq!(page.header("cache-control"), "no-store");
    let text = page.text();
    assert!(text.contains("autocomplete=\"one-time-code\""), "{text}");
    between(&text, "name=\"ticket\" value=\"", "\"").to_owned()
}

#[tokio::test]
async fn signing_in_asks_for_a_code_on_a_second_page() {
    let web = Web::new();
    let (_, secret, codes) = turned_on(&web).await;
    let first = ticket(&web).await;
    let form = format!("ticket={first}&code=000000&next=/links");
    let wrong = send(&web, "", "/login/code", &form).await;
    assert_eq!(wrong.status, 403);
    assert!(wrong.text().contains(&first) && wrong.text().contains("value=\"/links\""));
    assert_eq!(wrong.header("set-cookie"), "");
    let form = format!("ticket={first}&code={}&next=/links", code(&web, &secret));
    let done = send(&web, "", "/login/code", &form).await;
    assert_eq!(done.header("location"), "/links", "{}", done.text());
    let cookie = done.header("set-cookie").split(';').next().unwrap().to_owned();
    assert_eq!(open(&web, &cookie, "/account").await.status, 200);
    let again = send(&web, "", "/login/code", &form).await;
    assert_eq!(again.status, 403);
    assert!(again.text().contains("sign in again") && again.text().contains("action=\"/login\""));
    // A recovery code.
    let form = format!("ticket={}&code={}", ticket(&web).await, codes[0]);
    let done = send(&web, "", "/login/code", &form).await;
    assert_eq!(done.header("location"), "/dashboard", "{}", done.text());
    let used = format!("ticket={}&code={}", ticket(&web).await, codes[0]);
    assert_eq!(send(&web, "", "/login/code", &used).await.status, 403);
    assert_eq!(open(&web, "", "/login/code").await.header("location"), "/login");
    // API keys need no code.
    let account = web.as_owner("GET /api/v1/account", OWNER.0, Value::Null).await;
    assert_eq!(account.json()["two_factor"], true, "{}", account.text());
}

#[tokio::test]
async fn a_code_or_a_secret_from_another_site_is_refused() {
    let web = Web::new();
    let (cookie, secret, _) = turned_on(&web).await;
    let right = format!("ticket={}&code={}", ticket(&web).await, code(&web, &secret));
    let off = format!("proof={PASSWORD}");
    for (path, cookie, body) in [
        ("/login/code", "", &*right),
        ("/account/two-factor", &*cookie, "seed=x&password=x&code=1"),
        ("/account/two-factor/off", &*cookie, &*off),
    ] {
        for from in [
            &[("origin", "https://evil.example")][..],
            &[("origin", "null")],
            &[("origin", "http://go.example.evil.example")],
            &[("sec-fetch-site", "cross-site"), ("origin", "https://go.example")],
            &[("sec-fetch-site", "same-site")],
            &[],
        ] {
            let form = [
                ("content-type", "application/x-www-form-urlencoded"),
                ("host", "go.example"),
                ("cookie", cookie),
            ];
            let headers = [&form[..], from].concat();
            let answer = web.call(&format!("POST {path}"), &headers, body.to_owned()).await;
            let got = (answer.status.as_u16(), answer.header("set-cookie"));
            assert_eq!(got, (403, ""), "{path} {from:?} {}", answer.text());
        }
    }
    // Nothing of it has used the code up.
    let done = send(&web, "", "/login/code", &right).await;
    assert_eq!(done.status, 303, "{}", done.text());
    assert!(!done.header("set-cookie").is_empty());
    let account = web.as_owner("GET /api/v1/account", OWNER.0, Value::Null).await;
    assert_eq!(account.json()["two_factor"], true, "it is still on");
}

#[tokio::test]
async fn it_is_turned_off_by_its_owner_or_by_an_admin() {
    let web = Web::new();
    let (cookie, ..) = turned_on(&web).await;
    let wrong = send(&web, &cookie, "/account/two-factor/off", "proof=wrong").await;
    assert_eq!(wrong.status, 403);
    assert!(wrong.text().contains("neither your password nor a valid code"), "{}", wrong.text());
    let form = format!("proof={PASSWORD}");
    let off = send(&web, &cookie, "/account/two-factor/off", &form).await;
    assert_eq!(off.header("location"), "/account?done=two-factor-off");
    let sign_in = format!("name=terse-owner&password={PASSWORD}");
    let signed_in = send(&web, "", "/login", &sign_in).await;
    assert_eq!(signed_in.header("location"), "/dashboard", "{}", signed_in.text());
}

#[tokio::test]
async fn an_admin_turns_it_off_for_a_lost_device() {
    let web = Web::new();
    turned_on(&web).await;
    let admin = web.person("ada", Role::Admin).await;
    let admin = web.sign_in(admin, "terse_admin-browser").await;
    let page = open(&web, &admin, "/accounts").await.text();
    assert!(page.contains("Turn two-factor sign-in off"), "{page}");
    let form = format!("id={}&action=two-factor-off", OWNER.1.0);
    let done = send(&web, &admin, "/accounts/change", &form).await;
    assert_eq!(done.header("location"), "/accounts?done=two-factor-off");
    let line = format!("DELETE /api/v1/admin/users/{}/two_factor", OWNER.1.0);
    let off = web.api(&line, Value::Null).await;
    assert_eq!((off.status.as_u16(), &off.json()["two_factor"]), (200, &Value::Bool(false)));
    let page = open(&web, &admin, "/accounts").await.text();
    assert!(!page.contains("Turn two-factor sign-in off"), "{page}");
}
