//! Accounts without scripts: the setup link, signing in and out, and invitations.

use terse_core::limits::Limit;

use crate::harness::{Answer, HOST, TestTerse};

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
    pub(crate) fn send_from(
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

pub(crate) fn sign_in(terse: &TestTerse, name: &str, password: &str) -> (Answer, Browser) {
    let mut browser = Browser::default();
    let answer = browser.send(terse, "/login", &[("name", name), ("password", password)]);
    (answer, browser)
}

/// Checks that a response is not cached and its URL is not sent as a referrer.
pub(crate) fn is_private(answer: &Answer) {
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("referrer-policy"), Some("strict-origin"));
    if answer.status != 303 {
        assert!(
            answer
                .header("content-security-policy")
                .is_some_and(|policy| policy.starts_with("default-src 'none'"))
        );
        // The one script in a link: for the bookmarks of the browser. The policy refuses it here.
        let bookmark = "href=\"javascript:location.href=&#39;";
        let page = answer.text().replacen(bookmark, "href=\"/?bookmark=&#39;", 1);
        crate::hostile_html::inert(&page).expect("an inert page");
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
fn over_https_the_session_cookie_is_secure() {
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
fn a_form_of_another_site_is_refused() {
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
fn failed_sign_ins_are_limited_by_address_and_by_name() {
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
    use terse_core::registry::{Actor, Attribution, Invitation, SecretHash};
    let (token, hash) = terse_server::AdminKeys::generate().expect("a token");
    let now = terse.clock().now();
    let expires_at = now.checked_add(std::time::Duration::from_secs(3600)).expect("an hour");
    let invitation =
        Invitation { token: SecretHash(hash), role, by: terse_core::OwnerId::ADMIN, expires_at };
    let registry = registry(terse);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let by = Attribution { actor: Actor::Owner(terse_core::OwnerId::ADMIN), at: now, why: None };
    runtime.block_on(registry.invite(invitation, by)).expect("it is written");
    token
}

/// Suspends an account, as the operator.
pub(crate) fn suspend(terse: &TestTerse, name: &str) {
    use terse_core::registry::prelude::*;
    use terse_core::registry::{
        AccountChange, AccountName, Actor, Attribution, ConditionalAccountChange, Suspension,
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
        let change = ConditionalAccountChange {
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
