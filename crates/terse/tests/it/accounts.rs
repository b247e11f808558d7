//! The account page: keys, invitations, passwords and the account's links.

use serde_json::json;
use terse::config::SignUpMode;

use crate::harness::{KEY, TestTerse};
use crate::sign_in::{Browser, PASSWORD, invite, is_private, join, set_up, sign_in};

#[test]
fn keys_are_made_shown_once_used_and_revoked() {
    let terse = TestTerse::start();
    let mut ann = set_up(&terse, "ann");
    let refused =
        ann.send(&terse, "/account/keys", &[("key", " "), ("scope", "read"), ("days", "365")]);
    assert_eq!(refused.status, 400);
    assert!(
        refused.text().contains("value=\"read\" selected")
            && refused.text().contains("value=\"365\" selected")
    );
    for (scope, days) in [("root", "30"), ("full", "31"), ("", "")] {
        assert_eq!(
            ann.send(&terse, "/account/keys", &[("key", "x"), ("scope", scope), ("days", days)])
                .status,
            400
        );
    }
    let made = ann.send(
        &terse,
        "/account/keys",
        &[("key", "My <script>"), ("scope", "create"), ("days", "30")],
    );
    assert_eq!(made.status, 201);
    is_private(&made);
    let key = made
        .text()
        .split("id=\"fresh\">")
        .nth(1)
        .and_then(|rest| rest.split('<').next())
        .expect("a key")
        .to_owned();
    assert!(!ann.open(&terse, "/account").text().contains(&key), "shown once");
    let authorization = format!("Bearer {key}");
    let create = |status| {
        let body = json!({"long_url": "https://example.com/"}).to_string();
        let answer = terse.send(
            "POST",
            "/api/v1/urls",
            &[("authorization", &authorization)],
            Some(body.as_bytes()),
        );
        assert_eq!(answer.status, status, "{}", answer.text());
    };
    create(201);
    assert_eq!(
        terse.send("GET", "/api/v1/urls", &[("authorization", &authorization)], None).status,
        403
    );
    let page = ann.open(&terse, "/account").text();
    assert!(page.contains(&key[..12]) && page.contains("Create links"), "{page}");
    let id = page
        .split("name=\"id\" value=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .expect("an id")
        .to_owned();

    // Another account cannot revoke it.
    let mut bob = join(&terse, "bob");
    bob.send(&terse, "/account/keys/revoke", &[("id", &id)]);
    create(200);
    let revoked = ann.send(&terse, "/account/keys/revoke", &[("id", &id)]);
    assert_eq!((revoked.status, revoked.location()), (303, Some("/account?done=revoked")));
    assert!(ann.open(&terse, "/account?done=revoked").text().contains("The key is revoked."));
    assert!(!ann.open(&terse, "/account?done=%3Cscript%3E").text().contains("class=\"done\""));
    create(401);
}

#[test]
fn an_invitation_is_good_once_and_for_its_role() {
    let terse = TestTerse::start();
    set_up(&terse, "ann");
    let stranger = Browser::default();
    assert_eq!(stranger.open(&terse, "/join").status, 404);
    let token = invite(&terse, terse_core::registry::Role::Moderator);
    let form = stranger.open(&terse, &format!("/join?token={token}"));
    assert_eq!(form.status, 200);
    is_private(&form);
    let join = |token: &str, name: &str| {
        let mut browser = Browser::default();
        let fields =
            [("token", token), ("name", name), ("password", PASSWORD), ("again", PASSWORD)];
        (browser.send(&terse, "/join", &fields), browser)
    };
    // A taken name does not use up the invitation, and the entered name stays.
    let (taken, _) = join(&token, "ANN");
    assert_eq!(taken.status, 409);
    assert!(
        taken.text().contains("Another account has this name.")
            && taken.text().contains("value=\"ANN\"")
    );
    assert!(taken.text().contains(&token), "the way in is not lost");
    let (answer, bob) = join(&token, "bob");
    assert_eq!(answer.status, 303);
    assert!(bob.open(&terse, "/account").text().contains("<dd>moderator</dd>"));
    for token in [&*token, "made-up"] {
        let (answer, browser) = join(token, "cid");
        assert_eq!((answer.status, &*browser.cookie), (404, ""));
        assert!(answer.text().contains("This invitation is no longer valid"));
    }
    let late = invite(&terse, terse_core::registry::Role::User);
    terse.clock().advance(std::time::Duration::from_secs(3600));
    assert_eq!(join(&late, "dora").0.status, 404);
}

#[test]
fn sign_up_is_closed_unless_the_operator_opens_it() {
    let fields = [("name", "eve"), ("password", PASSWORD), ("again", PASSWORD)];
    let closed = TestTerse::start();
    let mut eve = Browser::default();
    assert_eq!(eve.open(&closed, "/signup").status, 404);
    assert_eq!(eve.send(&closed, "/signup", &fields).status, 404);
    assert!(eve.cookie.is_empty() && !closed.browse("/login").text().contains("/signup"));

    let open = TestTerse::with(|config| config.accounts.sign_up = SignUpMode::Open);
    assert!(open.browse("/login").text().contains("href=\"/signup\""));
    assert_eq!(eve.open(&open, "/signup").status, 200);
    assert_eq!(eve.send(&open, "/signup", &fields).status, 303);
    assert!(eve.open(&open, "/account").text().contains("<dd>user</dd>"));
    assert_eq!(Browser::default().send(&open, "/signup", &fields).status, 409);
}

#[test]
fn a_new_password_ends_all_other_sessions() {
    let terse = TestTerse::start();
    let mut ann = set_up(&terse, "ann");
    let (_, elsewhere) = sign_in(&terse, "ann", PASSWORD);
    let next = "another password";
    let change = |browser: &mut Browser, current: &str, password: &str, again: &str| {
        browser.send(
            &terse,
            "/account/password",
            &[("current", current), ("password", password), ("again", again)],
        )
    };
    for (current, password, again, status, words) in [
        ("wrong", next, next, 403, "The password is wrong."),
        (PASSWORD, "nine char", "nine char", 400, "at least 10 characters"),
        (PASSWORD, next, "another passworD", 400, "The two passwords differ"),
    ] {
        let answer = change(&mut ann, current, password, again);
        assert_eq!(answer.status, status, "{words}");
        assert!(
            answer.text().contains(words) && !answer.text().contains(password),
            "{}",
            answer.text()
        );
    }
    assert!(elsewhere.is_signed_in(&terse));
    let before = ann.clone();
    let answer = change(&mut ann, PASSWORD, next, next);
    assert_eq!(
        (answer.status, answer.location()),
        (303, Some("/account?done=password")),
        "{}",
        answer.text()
    );
    assert!(
        ann.is_signed_in(&terse) && !elsewhere.is_signed_in(&terse) && !before.is_signed_in(&terse)
    );
    assert_eq!(sign_in(&terse, "ann", PASSWORD).0.status, 403);
    let (_, third) = sign_in(&terse, "ann", next);
    assert_eq!(
        ann.send(&terse, "/account/sessions/end", &[]).location(),
        Some("/account?done=signed-out")
    );
    assert!(ann.is_signed_in(&terse) && !third.is_signed_in(&terse));
}

#[test]
fn deleting_an_account_needs_its_password() {
    let terse = TestTerse::start();
    let mut ann = set_up(&terse, "ann");
    let last = ann.send(&terse, "/account/delete", &[("typed", "ann"), ("proof", PASSWORD)]);
    assert_eq!(last.status, 409, "the last admin stays");
    let mut bob = join(&terse, "bob");
    for (typed, proof, status) in [("ann", PASSWORD, 400), ("bob", "wrong", 403), ("", "", 400)] {
        let answer = bob.send(&terse, "/account/delete", &[("typed", typed), ("proof", proof)]);
        assert_eq!(answer.status, status);
        assert!(answer.text().contains("<details class=\"erase\" open>"));
    }
    let gone = bob.clone();
    assert_eq!(
        bob.send(&terse, "/account/delete", &[("typed", "bob"), ("proof", PASSWORD)]).location(),
        Some("/")
    );
    assert!(!gone.is_signed_in(&terse) && sign_in(&terse, "bob", PASSWORD).0.status == 403);
}

#[test]
fn links_created_on_the_home_page_belong_to_the_signed_in_account() {
    let terse = TestTerse::with(|config| config.anonymous.create = false);
    set_up(&terse, "admin");
    let mut ann = join(&terse, "ann");
    let form = [("long_url", "https://example.com/mine"), ("alias", "mine-1"), ("ttl", "")];
    assert_eq!(
        Browser::default().send(&terse, "/", &form).status,
        401,
        "anonymous creates are off"
    );
    assert!(
        !Browser { cookie: "terse_session=ended".into() }
            .send(&terse, "/", &form)
            .text()
            .contains("Your short link")
    );
    let foreign = ann.send_from(&terse, "/", &form, &[("origin", "https://evil.example")]);
    let silent = ann.send_from(&terse, "/", &form, &[]);
    assert_eq!((foreign.status, silent.status), (403, 403), "nor does another site in her name");
    let made = ann.send(&terse, "/", &form);
    assert_eq!(made.location(), Some("/?made=mine-1"), "{}", made.text());
    assert!(!ann.open(&terse, "/?made=mine-1").text().contains("Expires <time"));
    let listed = terse.send("GET", "/api/v1/urls", &[("cookie", &ann.cookie)], None).json();
    assert_eq!(
        (listed["links"][0]["short_code"].as_str(), listed["links"][0]["expires_at"].is_null()),
        (Some("mine-1"), true)
    );
}

#[test]
fn the_home_page_leads_to_the_account() {
    let terse = TestTerse::start();
    assert!(terse.browse("/").text().contains("<a href=\"/login\">Sign in</a>"));
    let ann = set_up(&terse, "ann");
    assert!(ann.open(&terse, "/").text().contains("<a href=\"/account\">Account</a>"));
    // No alias can shadow one of our pages.
    for word in ["setup", "login", "logout", "join", "signup", "account", "auth"] {
        let taken = terse.send(
            "POST",
            "/api/v1/urls",
            &[("authorization", KEY)],
            Some(json!({"long_url": "https://example.com/", "alias": word}).to_string().as_bytes()),
        );
        assert_eq!(taken.json()["code"], "reserved_alias", "{word}");
    }
}
