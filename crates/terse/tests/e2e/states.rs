//! axe-core on the states of visitors' pages that a plain visit does not show: forms with errors,
//! links that are over, limits, other languages; on a wide screen and a phone, in the light and the
//! dark theme.

use serde_json::json;
use terse_core::PageLanguage;

use crate::browser::{Browser, run_scenario};
use crate::dashboard::World;
use crate::process::{Served, folder};

/// What axe-core found in all states so far.
pub(crate) struct States<'a> {
    pub(crate) browser: &'a Browser,
    url: &'a str,
    language: &'static str,
    found: Vec<String>,
}

impl<'a> States<'a> {
    pub(crate) fn new(browser: &'a Browser, url: &'a str) -> Self {
        Self { browser, url, language: "en", found: Vec::new() }
    }

    /// Checks the page as it is now, on both screens in both themes.
    pub(crate) async fn check(&mut self, name: &str) {
        for (width, height) in [(390, 844), (1440, 900)] {
            for dark in [true, false] {
                self.browser.screen(width, height, dark).await;
                let theme = if dark { "dark" } else { "light" };
                let what = format!("state-{name}-{width}-{theme}");
                // Colours are the same on all screens: one picture of each theme is enough to look
                // at.
                if dark == (width == 390) {
                    self.browser.picture(&what).await;
                }
                self.found.extend(self.browser.axe(&what).await);
            }
            self.browser.check_page_in(self.language).await;
        }
    }

    pub(crate) async fn open(&mut self, name: &str, path: &str) {
        self.browser.open(&format!("{}{path}", self.url)).await;
        self.check(name).await;
    }

    /// Opens every menu of a page.
    pub(crate) async fn open_menus(&mut self, name: &str, path: &str) {
        self.browser.open(&format!("{}{path}", self.url)).await;
        let open =
            "for (const one of document.querySelectorAll('main details, .more')) one.open = true";
        self.browser.client.execute(open, vec![]).await.unwrap();
        self.check(name).await;
    }

    /// Opens a page and fills its fields, by their ids.
    pub(crate) async fn fill(&self, path: &str, fields: &[(&str, &str)]) {
        self.browser.open(&format!("{}{path}", self.url)).await;
        for (id, text) in fields {
            self.browser.fill(&format!("#{id}"), text).await;
        }
    }

    /// Sends a form as it is, without the checks of the browser, and waits for what it says.
    pub(crate) async fn refuse(&mut self, name: &str, form: &str, css: &str) {
        let send = "const form = document.querySelector(arguments[0]); form.noValidate = true; \
            form.requestSubmit()";
        self.browser.client.execute(send, vec![json!(form)]).await.unwrap();
        self.browser.wait(css).await;
        self.check(name).await;
    }

    pub(crate) fn done(self) {
        assert!(self.found.is_empty(), "axe-core: {}", self.found.join("\n"));
    }
}

/// Limits that a test reaches, mails, and accounts for everyone.
const SETTINGS: [&str; 8] = [
    "limits.guesses_per_ip=20/h",
    "limits.password_attempts_per_ip=2/h",
    "limits.report_per_ip=1/h",
    "limits.sign_in_per_ip=2/h",
    "accounts.sign_up=open",
    "mail.server=127.0.0.1:9",
    "mail.tls=none",
    "mail.from=terse@example.com",
];

/// Makes links in every state that a visitor can meet.
fn links_in_every_state(world: &World) {
    let link = |alias: &str, more: serde_json::Value| {
        let mut body = json!({"alias": alias, "long_url": format!("https://example.com/{alias}")});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        world.api("POST", "/urls", &body);
    };
    link("plain", json!({}));
    link("secret", json!({"password": "sesame!"}));
    link("soon", json!({"valid_from": "2999-01-01"}));
    link("gone", json!({}));
    let blocked = json!({"standing": "blocked", "why": "a test"});
    world.api("PUT", "/admin/links/gone/standing", &blocked);
    link("lure", json!({"long_url": "https://p\u{430}ypal.com/login"}));
    link("brief", json!({"ttl": 1}));
    link("once", json!({"max_clicks": 1}));
    assert_eq!(world.terse.get("/once").0, 302);
    for alias in ["brief", "once"] {
        while world.terse.get(&format!("/{alias}")).0 != 410 {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

#[test]
fn visitors_pages_pass_axe_in_every_state_and_language() {
    let world = World::with(&SETTINGS);
    links_in_every_state(&world);
    let (temp, data) = folder();
    let output = temp.path().join("output");
    let new_server = Served::start_with_output(&data, &["anonymous.create=false"], &output);
    let output = std::fs::read_to_string(&output).unwrap();
    let setup = output.split_whitespace().find(|word| word.contains("/setup?token=")).unwrap();
    let url = &*world.terse.url;
    let unknown_host = url.replace("127.0.0.1", "plain.example");
    run_scenario(true, &[url, &new_server.url, &unknown_host], async |browser| {
        let mut states = States::new(browser, url);
        home_and_links(&mut states).await;
        browser.open(&format!("{unknown_host}/plain")).await;
        assert_eq!(browser.status().await, 421);
        states.check("unknown-host").await;

        // A server on which only accounts create links, and only by invitation.
        browser.open(&new_server.url).await;
        assert!(browser.text(".notice").await.contains("ask an admin of this server for one"));
        states.check("home-closed").await;

        // Accounts.
        browser.open(setup).await;
        states.check("setup").await;
        browser.fill("#name", "x").await;
        states.refuse("setup-refused", "form.stack", "[aria-invalid]").await;
        states.open("setup-over", "/setup?token=nonsense").await;
        states.open("signup", "/signup").await;
        browser.fill("#name", "x").await;
        states.refuse("signup-refused", "form.stack", "[aria-invalid]").await;
        states.open("forgot", "/login/forgot").await;
        browser.fill("#name", "x").await;
        states.refuse("forgot-refused", "form.stack", "#name[aria-invalid]").await;
        browser.fill("#name", "nobody").await;
        states.refuse("forgot-sent", "form.stack", ".lead[role=status]").await;
        states.open("reset-over", "/login/reset?token=nonsense").await;
        states.open("invitation-invalid", "/join?token=nonsense").await;
        let made = world.api("POST", "/invitations", &json!({"role": "user"}));
        browser.open(made["url"].as_str().unwrap()).await;
        states.check("invitation").await;
        browser.fill("#name", "x").await;
        states.refuse("invitation-refused", "form.stack", "[aria-invalid]").await;
        states.open("login", "/login").await;
        browser.fill("#name", "ann").await;
        browser.fill("#password", "wrong").await;
        states.refuse("login-refused", "form[action='/login']", "#problem").await;

        in_other_languages(&mut states).await;
        limited(&mut states, &world).await;
        states.done();
    });
}

async fn home_and_links(states: &mut States<'_>) {
    let browser = states.browser;
    states.open_menus("home", "/").await;
    browser.fill("#long_url", "javascript:alert(1)").await;
    states.refuse("home-refused", "form.shorten", "#problem").await;
    browser.fill("#long_url", "https://example.com/made").await;
    states.refuse("home-made", "form.shorten", "#short").await;
    states.open("preview", "/plain+").await;
    states.open("preview-protected", "/secret+").await;
    states.open("password", "/secret").await;
    browser.fill("#password", "wrong").await;
    states.refuse("password-wrong", "main form", "#password[aria-invalid]").await;
    states.open("report", "/plain?report").await;
    states.refuse("report-refused", "form.report", "#reason[aria-invalid]").await;
    browser.press("#reason option[value=spam]").await;
    states.refuse("report-sent", "form.report", "#thanks").await;
    for (name, path, status) in [
        ("warning", "/lure", 200),
        ("not-yet", "/soon", 404),
        ("blocked", "/gone", 451),
        ("expired", "/brief", 410),
        ("used-up", "/once", 410),
        ("not-found", "/nosuch9", 404),
        ("nothing-here", "/no/such/page", 404),
        ("docs", "/api/docs", 200),
    ] {
        states.open(name, path).await;
        assert_eq!(browser.status().await, status, "{path}");
    }
}

/// The pages that are in the visitor's language.
const TRANSLATED: [(&str, &str); 11] = [
    ("home", "/"),
    ("preview", "/plain+"),
    ("preview-protected", "/secret+"),
    ("password", "/secret"),
    ("report", "/plain?report"),
    ("report-sent", "/r/plain/report?sent"),
    ("warning", "/lure"),
    ("blocked", "/gone"),
    ("expired", "/brief"),
    ("used-up", "/once"),
    ("not-found", "/nosuch9"),
];

/// All of axe-core in a language with long words and in one without spaces. Of the others, that the
/// page is in the language and needs no scrolling sideways: on a phone, and at 400 % zoom.
async fn in_other_languages(states: &mut States<'_>) {
    for language in PageLanguage::ALL.map(PageLanguage::tag) {
        states.language = language;
        states.browser.prefer_language(language).await;
        for (name, path) in TRANSLATED {
            if matches!(language, "de" | "ja") {
                states.open(&format!("{name}-{language}"), path).await;
            } else {
                states.browser.open(&format!("{}{path}", states.url)).await;
            }
            for width in [390, 320] {
                states.browser.screen(width, 844, false).await;
                states.browser.check_page_in(language).await;
            }
        }
    }
    states.language = "en";
    states.browser.prefer_language("en").await;
}

/// What comes when a visitor has tried too often.
async fn limited(states: &mut States<'_>, world: &World) {
    let browser = states.browser;
    for (name, path, form, fields) in [
        ("password-limited", "/secret", "main form", &[("password", "wrong")][..]),
        ("login-limited", "/login", "main form", &[("name", "ann"), ("password", "wrong")][..]),
    ] {
        for _ in 0..5 {
            states.fill(path, fields).await;
            browser.press(&format!("{form} button[type=submit]")).await;
            browser.wait("#problem, .status-code").await;
        }
        assert_eq!(browser.status().await, 429, "{path}");
        states.check(name).await;
    }
    browser.open(&format!("{}/plain?report", world.terse.url)).await;
    browser.press("#reason option[value=spam]").await;
    states.refuse("report-limited", "form.report", "#problem").await;
    assert_eq!(browser.status().await, 429);
    let limited = (0..40).any(|_| world.terse.get("/guessed").0 == 429);
    assert!(limited, "40 guesses are not limited");
    states.open("guesses-limited", "/guessed").await;
    assert_eq!(browser.status().await, 429);
}
