//! axe-core on the states that a plain visit does not show: empty lists, forms with errors, open menus
//! and dialogs, and the pages for visitors; in the light and the dark theme.

use serde_json::{Value, json};

use crate::browser::{Browser, run_scenario};
use crate::dashboard::World;

/// What axe-core found in all states so far.
struct States<'a> {
    browser: &'a Browser,
    url: &'a str,
    found: Vec<String>,
}

impl States<'_> {
    /// Checks the page as it is now, on a wide screen in the light theme and on a phone in the dark one.
    async fn check(&mut self, name: &str) {
        for (width, height, dark) in [(1440, 900, false), (390, 844, true)] {
            self.browser.screen(width, height, dark).await;
            self.browser.check_page().await;
            let theme = if dark { "dark" } else { "light" };
            let what = format!("state-{name}-{width}-{theme}");
            self.browser.picture(&what).await;
            self.found.extend(self.browser.axe(&what).await);
        }
        self.browser.screen(1440, 900, false).await;
    }

    async fn open(&mut self, name: &str, path: &str) {
        self.browser.open(&format!("{}{path}", self.url)).await;
        self.check(name).await;
    }

    /// Opens every menu of a page.
    async fn open_menus(&mut self, name: &str, path: &str) {
        self.browser.open(&format!("{}{path}", self.url)).await;
        let open =
            "for (const one of document.querySelectorAll('main details, .more')) one.open = true";
        self.browser.client.execute(open, vec![]).await.unwrap();
        self.check(name).await;
    }

    /// Sends a form as it is, without the checks of the browser, and waits for what it says.
    async fn refuse(&mut self, name: &str, form: &str, css: &str) {
        let send = "const form = document.querySelector(arguments[0]); form.noValidate = true; \
            form.requestSubmit()";
        self.browser.client.execute(send, vec![json!(form)]).await.unwrap();
        self.browser.wait(css).await;
        self.check(name).await;
    }

    fn done(self) {
        assert!(self.found.is_empty(), "axe-core: {}", self.found.join("\n"));
    }
}

#[test]
fn visitors_pages_pass_axe_in_every_state() {
    let world = World::new();
    world.api("POST", "/urls", &json!({"alias": "plain", "long_url": "https://example.com/a"}));
    let secret =
        json!({"alias": "secret", "long_url": "https://example.com/s", "password": "sesame!"});
    world.api("POST", "/urls", &secret);
    let soon =
        json!({"alias": "soon", "long_url": "https://example.com/l", "valid_from": "2999-01-01"});
    world.api("POST", "/urls", &soon);
    world.api("POST", "/urls", &json!({"alias": "gone", "long_url": "https://example.com/g"}));
    let blocked = json!({"standing": "blocked", "why": "a test"});
    world.api("PUT", "/admin/links/gone/standing", &blocked);
    let lure = json!({"alias": "lure", "long_url": "https://p\u{430}ypal.com/login"});
    world.api("POST", "/urls", &lure);
    run_scenario(true, &[&world.terse.url], async |browser| {
        let mut states = States { browser, url: &world.terse.url, found: Vec::new() };
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
        states.open("warning", "/lure").await;
        states.open("blocked", "/gone").await;
        states.open("not-yet", "/soon").await;
        states.open("not-found", "/nosuch9").await;
        states.open("nothing-here", "/no/such/page").await;
        states.open("login", "/login").await;
        browser.fill("#name", "ann").await;
        browser.fill("#password", "wrong").await;
        states.refuse("login-refused", "form[action='/login']", "#problem").await;
        states.open("invitation-invalid", "/join?token=nonsense").await;
        let made = world.api("POST", "/invitations", &json!({"role": "user"}));
        browser.open(made["url"].as_str().unwrap()).await;
        states.check("invitation").await;
        browser.fill("#name", "x").await;
        states.refuse("invitation-refused", "form.stack", "[aria-invalid]").await;
        states.open("docs", "/api/docs").await;
        states.done();
    });
}

#[test]
fn the_dashboard_passes_axe_in_every_state() {
    let world = World::new();
    run_scenario(true, &[&world.terse.url], async |browser| {
        let mut states = States { browser, url: &world.terse.url, found: Vec::new() };
        world.sign_in(browser, "/dashboard").await;
        // Nothing there yet.
        for (name, path) in [
            ("overview-empty", "/dashboard"),
            ("links-empty", "/links"),
            ("links-none-match", "/links?q=nothing"),
            ("links-none-archived", "/links?show=archived"),
            ("webhooks-empty", "/webhooks"),
            ("moderation-empty", "/moderation"),
            ("signed-in-not-found", "/links/nosuch9"),
        ] {
            states.open(name, path).await;
        }
        // Forms with errors.
        browser.open(&format!("{}/links/new", world.terse.url)).await;
        browser.fill("#long_url", "nonsense").await;
        browser.fill("#alias", "no spaces").await;
        states.refuse("link-refused", ".link-form", "[aria-invalid]").await;
        browser.open(&format!("{}/webhooks", world.terse.url)).await;
        browser.fill("#url", "nonsense").await;
        states.refuse("webhook-refused", "main form", "#url[aria-invalid]").await;
        browser.open(&format!("{}/domains", world.terse.url)).await;
        browser.fill("#domain", "no domain").await;
        states.refuse("domain-refused", ".below form", "#domain[aria-invalid]").await;
        browser.open(&format!("{}/moderation", world.terse.url)).await;
        browser.fill("#host", "no host").await;
        states
            .refuse("host-refused", "form[action='/moderation/hosts']", "#host[aria-invalid]")
            .await;

        let launch = json!({"alias": "launch", "long_url": "https://example.com/", "tags": ["q4"]});
        world.api("POST", "/urls", &launch);
        world.api("PATCH", "/urls/launch", &json!({"title": "Launch post"}));
        states.open("link-without-clicks", "/links/launch").await;
        states
            .open("period-refused", "/links/launch?period=custom&from=2026-02-01&to=2026-01-01")
            .await;
        world.api("POST", "/urls/launch/report", &json!({"reason": "spam", "text": "unwanted"}));
        world.api("POST", "/webhooks", &json!({"url": "http://127.0.0.1:8/hook"}));
        world.api("POST", "/webhooks/1/test", &Value::Null);
        // Menus, dialogs and folded parts, all open.
        for (name, path) in [
            ("links-menus", "/links"),
            ("link-menus", "/links/launch"),
            ("form-menus", "/links/launch/edit"),
            ("webhook-menus", "/webhooks/1"),
            ("domains-menus", "/domains"),
            ("account-menus", "/account"),
            ("moderation-report", "/moderation"),
            ("history", "/links/launch/history?done=undone"),
        ] {
            states.open_menus(name, path).await;
        }
        browser.open(&format!("{}/links", world.terse.url)).await;
        browser.press(".pick").await;
        states.check("links-selected").await;
        world.api("DELETE", "/urls/launch", &Value::Null);
        states.open("links-deleted", "/links?deleted=launch&show=deleted").await;
        states.open("link-deleted", "/links/launch").await;
        browser.open(&format!("{}/accounts", world.terse.url)).await;
        browser.press("form[action='/accounts/invite'] button").await;
        browser.wait("#fresh").await;
        states.check("accounts-invited").await;
        states.done();
    });
}
