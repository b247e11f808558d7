//! Accounts without scripts: the setup link, signing in and out, invitations and the account page.

use serde_json::json;
use terse::config::SignUpMode;
use terse_core::limits::Limit;

use crate::harness::{Answer, HOST, KEY, TestTerse};

pub(crate) const PASSWORD: &str = "correct horse battery";

/// A browser that keeps one cookie and sends its origin.
#[derive(Clone, Default)]
pub(crate) struct Browser {
    pub(crate) cookie: String,
}

impl Browser {
    pub(crate) fn open(&self, terse: &TestTerse, path: &str) -> Answer {
        terse.send("GET", path, &[("accept", "text/html"), ("cookie", &self.cookie)], None)
    }

    /// Sends a form from our own page and keeps the cookie.
    pub(crate) fn send(
        &mut self,
        terse: &TestTerse,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Answer {
        let answer = self.send_from(terse, path, fields, &[("origin", &format!("http://{HOST}"))]);
        if let Some(set) = answer.header("set-cookie") {
            self.cookie = set.split(';').next().unwrap_or_default().to_owned();
        }
        answer
    }

    /// Sends a form from another origin.
    fn send_from(
        &self,
        terse: &TestTerse,
        path: &str,
        fields: &[(&str, &str)],
        further: &[(&str, &str)],
    ) -> Answer {
        let body =
            url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let mut all =
            vec![("accept", "text/html"), ("content-type", "application/x-www-form-urlencoded")];
        all.push(("cookie", &self.cookie));
        all.extend(further);
        terse.send("POST", path, &all, Some(body.as_bytes()))
    }

    pub(crate) fn is_signed_in(&self, terse: &TestTerse) -> bool {
        match self.open(terse, "/account") {
            answer if answer.status == 200 => true,
            answer => {
                assert_eq!(
                    (answer.status, answer.location()),
                    (303, Some("/login?next=/account")),
                    "{}",
                    answer.text()
                );
                false
            }
        }
    }
}

fn path_of(link: &str) -> &str {
    link.strip_prefix(&format!("http://{HOST}")).expect("a link of ours")
}

fn token_of(link: &str) -> &str {
    link.split_once("token=").expect("a token").1
}

/// Sets up the server; returns the admin's browser.
pub(crate) fn set_up(terse: &TestTerse, name: &str) -> Browser {
    let link = terse.setup_link().expect("a set-up link");
    let mut browser = Browser::default();
    let fields =
        [("token", token_of(&link)), ("name", name), ("password", PASSWORD), ("again", PASSWORD)];
    let answer = browser.send(terse, "/setup", &fields);
    assert_eq!((answer.status, answer.location()), (303, Some("/dashboard")), "{}", answer.text());
    browser
}

fn sign_in(terse: &TestTerse, name: &str, password: &str) -> (Answer, Browser) {
    let mut browser = Browser::default();
    let answer = browser.send(terse, "/login", &[("name", name), ("password", password)]);
    (answer, browser)
}

/// Checks that a response is not cached and its URL is not sent as a referrer.
fn is_private(answer: &Answer) {
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("referrer-policy"), Some("strict-origin"));
    if answer.status != 303 {
        assert!(
            answer
                .header("content-security-policy")
                .is_some_and(|policy| policy.starts_with("default-src 'none'"))
        );
        crate::hostile_html::inert(&answer.text()).expect("an inert page");
    }
}

#[test]
fn the_set_up_link_makes_the_first_admin_and_then_there_is_no_such_page() {
    let mut terse = TestTerse::start();
    let browser = Browser::default();
    let nothing = browser.open(&terse, "/sso");
    assert_eq!(nothing.status, 404);
    let over = browser.open(&terse, "/setup?token=x");
    assert_eq!(over.status, 404);
    assert!(over.text().contains("This set-up link no longer works"));
    for wrong in ["/setup", "/setup?token=", "/setup?token=x&token=y"] {
        let answer = browser.open(&terse, wrong);
        assert_eq!((answer.status, &answer.body), (404, &nothing.body), "{wrong}");
    }
    // Each start prints a new setup link until one is used.
    let before = terse.setup_link().expect("a link");
    terse.restart();
    let link = terse.setup_link().expect("a link");
    assert_ne!(before, link);
    assert_eq!(browser.open(&terse, path_of(&before)).status, 404);
    let form = browser.open(&terse, path_of(&link));
    assert_eq!(form.status, 200);
    is_private(&form);
    assert!(
        form.text().contains("name=\"token\"")
            && form.text().contains("autocomplete=\"new-password\"")
    );

    let token = token_of(&link);
    for (name, password, again, field) in [
        ("x", PASSWORD, PASSWORD, "name"),
        ("<b>ann</b>", PASSWORD, PASSWORD, "name"),
        ("ann", "short", "short", "password"),
        ("ann-of-green", "Ann-of-Green", "Ann-of-Green", "password"),
        ("ann", PASSWORD, "correct horse batterz", "password"),
        ("ann", &"x".repeat(1025), &"x".repeat(1025), "password"),
    ] {
        let mut browser = Browser::default();
        let fields = [("token", token), ("name", name), ("password", password), ("again", again)];
        let answer = browser.send(&terse, "/setup", &fields);
        assert_eq!((answer.status, &*browser.cookie), (400, ""), "{name} {field}");
        is_private(&answer);
        let text = answer.text();
        assert!(
            text.contains(&format!("id=\"{field}\"")) && text.contains("role=\"alert\""),
            "{text}"
        );
        let at = text
            .split(&format!("<input id=\"{field}\""))
            .nth(1)
            .and_then(|rest| rest.split('>').next())
            .expect("the field");
        assert!(at.contains("aria-invalid=\"true\"") && at.contains("autofocus"), "{at}");
        assert!(
            !text.contains(password)
                && (name.contains('<') || text.contains(&format!("value=\"{name}\""))),
            "{text}"
        );
    }
    // A wrong token gets the same response and creates no account.
    let mut mallory = Browser::default();
    let fields = [("token", "x"), ("name", "mallory"), ("password", PASSWORD), ("again", PASSWORD)];
    assert_eq!(mallory.send(&terse, "/setup", &fields).body, over.body);

    let admin = set_up(&terse, "Ann");
    let page = admin.open(&terse, "/account");
    is_private(&page);
    assert!(
        page.text().contains("<h1>Ann<") && page.text().contains("<dd>admin</dd>"),
        "{}",
        page.text()
    );
    assert_eq!(browser.open(&terse, path_of(&link)).body, over.body);
    let fields =
        [("token", token), ("name", "mallory"), ("password", PASSWORD), ("again", PASSWORD)];
    let answer = mallory.send(&terse, "/setup", &fields);
    assert_eq!((answer.status, &answer.body, &*mallory.cookie), (404, &over.body, ""));
    terse.restart();
    assert_eq!(terse.setup_link(), None);
    assert!(admin.is_signed_in(&terse), "a session outlives the process");
}

#[test]
fn only_the_right_name_and_password_sign_in() {
    let terse = TestTerse::start();
    set_up(&terse, "Ann");
    let form = terse.browse("/login");
    is_private(&form);
    assert_eq!(form.header("set-cookie"), None);
    let (answer, browser) = sign_in(&terse, "aNN", PASSWORD);
    assert_eq!((answer.status, answer.location()), (303, Some("/dashboard")));
    is_private(&answer);
    let cookie = answer.header("set-cookie").expect("a cookie");
    let attributes: Vec<_> = cookie.split("; ").skip(1).collect();
    assert_eq!(attributes, ["Path=/", "Max-Age=2592000", "HttpOnly", "SameSite=Lax"]);
    let value = browser.cookie.strip_prefix("terse_session=").expect("its name");
    assert_eq!(value.len(), 43, "256 bits");
    assert!(browser.is_signed_in(&terse));
    assert_eq!(browser.open(&terse, "/login").location(), Some("/dashboard"));
    let listed = terse.send("GET", "/api/v1/urls", &[("cookie", &browser.cookie)], None);
    assert_eq!(listed.status, 200, "the cookie opens the API too");
    let files = std::fs::read_dir(&terse.config.data_dir).expect("the folder");
    for file in files.map(|file| file.expect("a file").path()).filter(|path| path.is_file()) {
        let bytes = std::fs::read(&file).expect("it can be read");
        for secret in [value, PASSWORD] {
            assert!(
                !bytes.windows(secret.len()).any(|part| part == secret.as_bytes()),
                "{} keeps a secret",
                file.display()
            );
        }
    }

    // The same message for a wrong name and a wrong password.
    let (wrong_password, stranger) = sign_in(&terse, "Ann", "correct horse batterz");
    let (wrong_name, _) = sign_in(&terse, "Bob", PASSWORD);
    assert_eq!((wrong_password.status, wrong_name.status), (403, 403));
    assert_eq!(wrong_password.text().replace("\"Ann\"", "\"Bob\""), wrong_name.text());
    assert!(wrong_name.text().contains("value=\"Bob\"") && !wrong_name.text().contains(PASSWORD));
    assert!(!stranger.is_signed_in(&terse) && stranger.cookie.is_empty());

    // A planted session cookie is replaced (session fixation); every sign-in begins a new session.
    let mut fixed = Browser { cookie: "terse_session=chosen".into() };
    fixed.send(&terse, "/login", &[("name", "Ann"), ("password", PASSWORD)]);
    assert!(fixed.cookie != "terse_session=chosen" && fixed.is_signed_in(&terse));
    let before = fixed.clone();
    fixed.send(&terse, "/login", &[("name", "Ann"), ("password", PASSWORD)]);
    assert!(fixed.is_signed_in(&terse) && !before.is_signed_in(&terse));

    let mut leaving = browser.clone();
    let out = leaving.send(&terse, "/logout", &[]);
    assert_eq!((out.status, out.location(), &*leaving.cookie), (303, Some("/"), "terse_session="));
    assert!(!browser.is_signed_in(&terse), "the cookie is worth nothing any more");
    assert_eq!(terse.send("GET", "/api/v1/urls", &[("cookie", &browser.cookie)], None).status, 401);
}

#[test]
fn a_session_ends_with_its_time() {
    let terse =
        TestTerse::with(|config| config.accounts.session_ttl = "1h".parse().expect("a span"));
    let browser = set_up(&terse, "ann");
    terse.clock().advance(std::time::Duration::from_secs(3599));
    assert!(browser.is_signed_in(&terse));
    terse.clock().advance(std::time::Duration::from_secs(1));
    assert!(!browser.is_signed_in(&terse));
}

#[test]
fn by_https_the_cookie_goes_no_other_way() {
    let terse = TestTerse::with(|config| {
        config.base_url = Some(format!("https://{HOST}/").parse().expect("a URL"));
    });
    let link = terse.setup_link().expect("a link");
    let fields =
        [("token", token_of(&link)), ("name", "ann"), ("password", PASSWORD), ("again", PASSWORD)];
    let answer = Browser::default().send_from(
        &terse,
        "/setup",
        &fields,
        &[("origin", &format!("https://{HOST}"))],
    );
    let cookie = answer.header("set-cookie").expect("a cookie");
    assert!(
        cookie.starts_with("__Host-terse_session=")
            && cookie.ends_with("; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax; Secure"),
        "{cookie}"
    );
    let browser = Browser { cookie: cookie.split(';').next().expect("a pair").to_owned() };
    assert!(browser.is_signed_in(&terse));
    let tossed = Browser { cookie: browser.cookie.replace("__Host-", "") };
    assert!(!tossed.is_signed_in(&terse), "a host below ours could have set it");
}

#[test]
fn a_page_of_another_site_does_nothing_in_anybodys_name() {
    let terse = TestTerse::start();
    let mut ann = set_up(&terse, "ann");
    let made =
        ann.send(&terse, "/account/keys", &[("key", "mine"), ("scope", "full"), ("days", "0")]);
    assert_eq!(made.status, 201);
    let login: &[(&str, &str)] = &[("name", "ann"), ("password", PASSWORD)];
    let forms: [(&str, &[(&str, &str)]); 8] = [
        ("/login", login),
        ("/logout", &[]),
        ("/setup", &[("token", "x")]),
        ("/account/keys", &[("key", "theirs"), ("scope", "full"), ("days", "0")]),
        ("/account/keys/revoke", &[("id", "1")]),
        ("/account/sessions/end", &[]),
        (
            "/account/password",
            &[
                ("current", PASSWORD),
                ("password", "another password"),
                ("again", "another password"),
            ],
        ),
        ("/account/delete", &[("typed", "ann"), ("proof", PASSWORD)]),
    ];
    for (path, fields) in forms {
        for from in [
            &[("origin", "https://evil.example")][..],
            &[("origin", "null")],
            &[("origin", "http://go.example.evil.example")],
            &[("sec-fetch-site", "cross-site"), ("origin", "http://go.example")],
            &[("sec-fetch-site", "same-site")],
            &[],
        ] {
            let answer = ann.send_from(&terse, path, fields, from);
            assert_eq!(
                (answer.status, answer.header("set-cookie")),
                (403, None),
                "{path} {from:?} {}",
                answer.text()
            );
        }
    }
    let page = ann.open(&terse, "/account").text();
    assert!(page.contains("mine") && !page.contains("theirs"), "nothing has happened");
    for from in [[("sec-fetch-site", "same-origin")], [("origin", "http://go.example")]] {
        assert_eq!(
            Browser::default().send_from(&terse, "/login", login, &from).status,
            303,
            "{from:?}"
        );
    }
}

#[test]
fn who_guesses_is_slowed_down_by_place_and_by_name() {
    let terse = TestTerse::with(|config| {
        config.limits.sign_in_per_ip = Limit::per_hour(5);
        config.trusted_proxies = vec!["127.0.0.1".into()];
    });
    set_up(&terse, "ann");
    let attempt = |from: &str, name: &str, password: &str| {
        let ours = [("origin", "http://go.example"), ("x-forwarded-for", from)];
        Browser::default().send_from(
            &terse,
            "/login",
            &[("name", name), ("password", password)],
            &ours,
        )
    };
    // Successful sign-ins do not count.
    for _ in 0..8 {
        assert_eq!(attempt("198.51.100.9", "ann", PASSWORD).status, 303);
    }
    // From one address, for any name.
    let statuses: Vec<_> =
        (0..6).map(|n| attempt("198.51.100.1", &format!("user{n}"), "wrong").status).collect();
    assert_eq!(statuses, [403, 403, 403, 403, 403, 429]);
    let limited = attempt("198.51.100.1", "ann", PASSWORD);
    assert_eq!(limited.status, 429, "not even with the right one");
    assert!(
        limited
            .header("retry-after")
            .is_some_and(|wait| wait.parse::<u32>().is_ok_and(|wait| wait > 0))
    );
    is_private(&limited);
    assert!(limited.text().contains("Too many attempts"));
    // For one name, from any address, in any case.
    let statuses: Vec<_> = (0..6)
        .map(|n| attempt(&format!("203.0.113.{n}"), ["ann", "ANN"][n % 2], "wrong").status)
        .collect();
    assert_eq!(statuses, [403, 403, 403, 403, 403, 429]);
    assert_eq!(
        attempt("203.0.113.77", "nobody", "wrong").status,
        403,
        "other accounts are not limited"
    );
    // The same for an unknown name, so that limits reveal nothing.
    let statuses: Vec<_> =
        (0..6).map(|n| attempt(&format!("192.0.2.{n}"), "ghost", "wrong").status).collect();
    assert_eq!(statuses, [403, 403, 403, 403, 403, 429]);
}

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

/// A new account from an admin's invitation.
pub(crate) fn join(terse: &TestTerse, name: &str) -> Browser {
    join_with(terse, name, PASSWORD)
}

/// The same, with a given password.
pub(crate) fn join_with(terse: &TestTerse, name: &str, password: &str) -> Browser {
    let token = invite(terse, terse_core::registry::Role::User);
    let mut browser = Browser::default();
    let fields = [("token", &*token), ("name", name), ("password", password), ("again", password)];
    let answer = browser.send(terse, "/join", &fields);
    assert_eq!((answer.status, answer.location()), (303, Some("/dashboard")), "{}", answer.text());
    browser
}

/// The same registry as a local command opens it.
pub(crate) fn registry(terse: &TestTerse) -> terse_embedded::EmbeddedRegistry {
    let options = terse_embedded::RegistryOptions::new(terse.config.registry_file());
    terse_embedded::EmbeddedRegistry::open(options).expect("the registry")
}

/// Creates an invitation in the registry, as the operator.
pub(crate) fn invite(terse: &TestTerse, role: terse_core::registry::Role) -> String {
    use terse_core::registry::prelude::*;
    use terse_core::registry::{Actor, Attribution, Invitation, Token};
    let (token, hash) = terse_server::AdminKeys::generate().expect("a token");
    let now = terse.clock().now();
    let expires_at = now.checked_add(std::time::Duration::from_secs(3600)).expect("an hour");
    let invitation =
        Invitation { token: Token(hash), role, by: terse_core::OwnerId::ADMIN, expires_at };
    let registry = registry(terse);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let by = Attribution { actor: Actor::Owner(terse_core::OwnerId::ADMIN), at: now, why: None };
    runtime.block_on(registry.invite(invitation, by)).expect("it is written");
    token
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

/// Suspends an account, as the operator.
pub(crate) fn suspend(terse: &TestTerse, name: &str) {
    use terse_core::registry::prelude::*;
    use terse_core::registry::{
        AccountChange, AccountName, Actor, Attribution, ChangeAccount, Suspension,
    };
    let registry = registry(terse);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let user = registry
            .account_by_name(&AccountName::parse(name).expect("a name"))
            .await
            .expect("an answer")
            .expect("the account");
        let suspended = Some(Some(Suspension { at: terse.clock().now(), why: "spam".into() }));
        let change = ChangeAccount {
            id: user.id,
            change: AccountChange { suspended, ..AccountChange::default() },
            expected: None,
        };
        let by = Attribution {
            actor: Actor::Owner(terse_core::OwnerId::ADMIN),
            at: terse.clock().now(),
            why: None,
        };
        registry.change_account(change, by).await.expect("suspended");
    });
}

#[test]
fn a_suspended_account_cannot_sign_in() {
    let terse = TestTerse::start();
    set_up(&terse, "ann");
    let bob = join(&terse, "bob");
    suspend(&terse, "bob");
    assert!(!bob.is_signed_in(&terse));
    let (answer, browser) = sign_in(&terse, "bob", PASSWORD);
    assert_eq!((answer.status, &*browser.cookie), (403, ""));
    assert!(answer.text().contains("This account is suspended"));
    let (wrong, _) = sign_in(&terse, "bob", "wrong");
    assert!(!wrong.text().contains("suspended"), "only to those who know the password");
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
