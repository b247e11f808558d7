//! The dashboard in a browser.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fantoccini::Locator;
use fantoccini::key::Key;
use serde_json::{Value, json};

use crate::browser::{Browser, run_scenario};
use crate::process::{Served, command, folder};
use crate::walks::TIMEOUT;

const NASTY: &str = "\"><script>alert(1)</script><img src=https://evil.example/x.png>";
const BROWSERS: [&str; 3] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like \
     Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
];

/// A server with an account `ann`, and an API key of hers.
pub(crate) struct World {
    temp: tempfile::TempDir,
    pub(crate) terse: Served,
    key: String,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// With these settings as well.
    pub(crate) fn with(settings: &[&str]) -> Self {
        let (temp, data) = folder();
        let usual = [
            "safety.allow_private_targets=true",
            "outgoing.webhooks=true",
            "outgoing.allow_private=true",
        ];
        let terse = Served::start(&data, &[&usual[..], settings].concat());
        let secret = data.with_file_name("password");
        std::fs::write(&secret, "correct horse battery\n").unwrap();
        let run = |arguments: &[&str], last: Option<&Path>| {
            let mut command = command(&data);
            command.args(arguments);
            command.args(last);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        run(&["user", "add", "ann", "--role", "admin", "--password-file"], Some(&secret));
        let key = run(&["key", "add", "test", "--user", "ann"], None);
        Self { temp, terse, key: key.trim().to_owned() }
    }

    /// With links, clicks, a webhook and a domain, so that the pages show something.
    pub(crate) fn with_pages() -> Self {
        let world = Self::new();
        for (alias, more) in [
            ("menu", json!({"title": "Winter menu (table QR)", "tags": ["print"]})),
            (
                "talk",
                json!({"title": "Slides: Rust at the edge", "tags": ["talks"],
                "expires_at": "2999-01-01"}),
            ),
            ("beta", json!({"title": "Private beta", "password": "sesame!", "tags": ["team"]})),
            ("sale", json!({"title": "Black Friday", "valid_from": "2999-11-27", "tags": ["q4"]})),
            ("nasty", json!({"title": NASTY, "tags": [NASTY[..40]], "notes": NASTY})),
            ("launch", json!({"title": "Launch post", "tags": ["newsletter", "q4"]})),
        ] {
            let post = "https://blog.example.com/2026/11/introducing-the-new-dashboard";
            let target = format!("{post}/{alias}?a=%22%3E<b>");
            let mut body = json!({"alias": alias, "long_url": target});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            world.api("POST", "/urls", &body);
        }
        let rules = json!([{"country": "AT", "to": "https://example.com/at"},
            {"device": "mobile", "to": [{"url": "https://example.com/a", "weight": 1},
                {"url": "https://example.com/b", "weight": 2}]}]);
        world.api("PATCH", "/urls/launch", &json!({"rules": rules}));
        world.follow("launch", 12);
        world.api("POST", "/webhooks", &json!({"url": "http://127.0.0.1:8/hook?secret=1"}));
        world.api("POST", "/webhooks/1/test", &Value::Null);
        world.api("PUT", "/domains/links.example.com", &json!({"root": "https://example.com/"}));
        world.follow("nasty", 3);
        world
    }

    /// Writes a file that a browser can upload.
    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.temp.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn agent() -> ureq::Agent {
        ureq::Agent::config_builder()
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(30)))
            .build()
            .into()
    }

    /// Asks the API as `ann`; returns its answer.
    pub(crate) fn api(&self, method: &str, path: &str, body: &Value) -> Value {
        self.api_with(&self.key, method, path, body)
    }

    /// Makes an account without a role, with the password of `ann`.
    pub(crate) fn add_account(&self, name: &str) {
        let data = self.temp.path().join("data");
        let mut command = command(&data);
        command.args(["user", "add", name, "--password-file"]).arg(data.with_file_name("password"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// A new account without a password; returns an API key of it.
    pub(crate) fn key_of_new_account(&self, name: &str) -> String {
        let made = self.api("POST", "/admin/users", &json!({"name": name}));
        let id = made["id"].as_str().map_or_else(|| made["id"].to_string(), str::to_owned);
        let key = json!({"name": "test", "scope": "full"});
        let made = self.api("POST", &format!("/admin/users/{id}/keys"), &key);
        made["key"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
    }

    pub(crate) fn api_with(&self, key: &str, method: &str, path: &str, body: &Value) -> Value {
        let request = http::Request::builder()
            .method(method)
            .uri(format!("{}/api/v1{path}", self.terse.url))
            .header("authorization", format!("Bearer {key}"))
            .header("content-type", "application/json")
            .body(if body.is_null() { String::new() } else { body.to_string() })
            .unwrap();
        let mut answer = Self::agent().run(request).unwrap();
        let text = answer.body_mut().read_to_string().unwrap_or_default();
        assert!(answer.status().is_success(), "{method} {path}: {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Follows a link as different visitors, and waits until the clicks are counted.
    pub(crate) fn follow(&self, code: &str, times: usize) {
        let before = self.api("GET", &format!("/urls/{code}/stats"), &Value::Null);
        for visit in 0..times {
            let answer = Self::agent()
                .get(format!("{}/{code}?utm_campaign=spring", self.terse.url))
                .header("user-agent", BROWSERS[visit % BROWSERS.len()])
                .header("accept-language", ["de-AT,de", "en", "fr"][visit % 3])
                .header("referer", ["https://news.example/", "https://t.example/"][visit % 2])
                .call()
                .unwrap();
            assert_eq!(answer.status().as_u16(), 302);
        }
        let before = before["total_clicks"].as_u64().unwrap();
        self.wait_for_clicks(code, before + times as u64);
    }

    /// Waits until a link has this many clicks, those of bots included.
    pub(crate) fn wait_for_clicks(&self, code: &str, count: u64) {
        let begun = Instant::now();
        loop {
            let stats = self.api("GET", &format!("/urls/{code}/stats"), &Value::Null);
            if stats["total_clicks"].as_u64() >= Some(count) {
                return;
            }
            assert!(begun.elapsed() < TIMEOUT, "the clicks are not counted: {stats}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) async fn sign_in(&self, browser: &Browser, next: &str) {
        self.sign_in_as(browser, "ann", next).await;
    }

    pub(crate) async fn sign_in_as(&self, browser: &Browser, name: &str, next: &str) {
        browser.open(&format!("{}/login?next={next}", self.terse.url)).await;
        browser.fill("#name", name).await;
        browser.fill("#password", "correct horse battery").await;
        browser.press("form button[type=submit]").await;
        browser.wait("nav.side").await;
    }
}

impl Browser {
    pub(crate) async fn fill(&self, css: &str, text: &str) {
        let field = self.client.find(Locator::Css(css)).await;
        let field = field.unwrap_or_else(|_| panic!("no {css}"));
        field.clear().await.unwrap();
        field.send_keys(text).await.unwrap();
    }

    pub(crate) async fn press(&self, css: &str) {
        let found = self.client.find(Locator::Css(css)).await;
        let found = found.unwrap_or_else(|_| panic!("no {css}"));
        if self.scripts {
            // On a phone the bar at the bottom may cover it, as it would until a person scrolls.
            let scroll = "arguments[0].scrollIntoView({ block: 'center', behavior: 'instant' })";
            let element = serde_json::to_value(&found).unwrap();
            self.client.execute(scroll, vec![element]).await.unwrap();
        }
        found.click().await.unwrap();
    }

    /// Chooses a file in a form.
    pub(crate) async fn choose(&self, css: &str, file: &Path) {
        let field = self.client.find(Locator::Css(css)).await;
        let field = field.unwrap_or_else(|_| panic!("no {css}"));
        field.send_keys(file.to_str().expect("a path in UTF-8")).await.unwrap();
    }

    /// Waits until the page contains a text.
    pub(crate) async fn wait_for_text(&self, css: &str, text: &str) {
        let begun = Instant::now();
        loop {
            let found = match self.client.find(Locator::Css(css)).await {
                Ok(found) => found.text().await.unwrap_or_default(),
                Err(_) => String::new(),
            };
            if found.contains(text) {
                return;
            }
            assert!(begun.elapsed() < TIMEOUT, "{css} has no {text:?}: {found}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The pages that are looked at, by their names.
pub(crate) const PAGES: [(&str, &str); 20] = [
    ("import", "/import"),
    ("webhooks", "/webhooks"),
    ("webhook", "/webhooks/1?done=test"),
    ("domains", "/domains"),
    ("moderation", "/moderation"),
    ("accounts", "/accounts"),
    ("branding", "/branding"),
    ("system", "/system"),
    ("overview", "/dashboard"),
    ("links", "/links"),
    ("tags", "/tags"),
    ("link-new", "/links/new?url=https://example.com/a"),
    ("link-edit", "/links/launch/edit"),
    ("link", "/links/launch"),
    ("link-live", "/links/launch/live"),
    ("link-rules", "/links/launch/rules?try=1&country=AT&agent=iPhone"),
    ("link-qr", "/links/launch/qr?fg=%230a5c8f"),
    ("link-history", "/links/launch/history"),
    ("link-values", "/links/launch/values?of=browsers"),
    ("account", "/account"),
];

#[test]
fn every_page_can_be_used_by_everyone_on_every_screen_in_both_themes() {
    let world = World::with_pages();
    run_scenario(true, &[&world.terse.url], async |browser| {
        world.sign_in(browser, "/dashboard").await;
        let mut found = Vec::new();
        for (name, path) in PAGES {
            for (width, height) in [(1440, 1100), (768, 1000), (390, 844)] {
                browser.screen(width, height, false).await;
                browser.open(&format!("{}{path}", world.terse.url)).await;
                browser.wait("nav.side").await;
                browser.check_page().await;
                for dark in [false, true] {
                    browser.screen(width, height, dark).await;
                    let theme = if dark { "dark" } else { "light" };
                    let what = format!("{name}-{width}-{theme}");
                    browser.picture(&what).await;
                    found.extend(browser.axe(&what).await);
                }
            }
        }
        assert!(found.is_empty(), "axe-core: {}", found.join("\n"));
        // At 400 % on a screen of 1280 pixels, nothing needs scrolling sideways (WCAG 1.4.10).
        let size = json!({ "width": 320, "height": 640, "deviceScaleFactor": 1, "mobile": false });
        browser.devtools("Emulation.setDeviceMetricsOverride", size).await;
        let mut wide = Vec::new();
        for (name, path) in PAGES {
            browser.open(&format!("{}{path}", world.terse.url)).await;
            browser.wait("nav.side").await;
            let width = "return document.documentElement.scrollWidth";
            let width = browser.client.execute(width, vec![]).await.unwrap();
            if width.as_u64().is_none_or(|width| width > 320) {
                browser.picture(&format!("{name}-320")).await;
                wide.push(format!("{name}: {width}"));
            }
        }
        assert!(wide.is_empty(), "wider than 320 pixels: {wide:?}");
        for path in ["/links/nasty", "/links/nasty/live", "/links?q=%22%3E%3Cscript%3E"] {
            browser.open(&format!("{}{path}", world.terse.url)).await;
            browser.check_page().await;
        }
    });
}

#[test]
fn a_link_is_watched_changed_undone_deleted_and_restored() {
    let world = World::new();
    let target = json!({"alias": "launch", "long_url": "https://example.com/first"});
    world.api("POST", "/urls", &target);
    for scripts in [true, false] {
        run_scenario(scripts, &[&world.terse.url], async |browser| {
            let url = &world.terse.url;
            world.sign_in(browser, "/links").await;
            browser.press(".link-name a").await;
            browser.wait("nav.tabs").await;
            if scripts {
                browser.open(&format!("{url}/links/launch/live")).await;
                browser.wait_for_text("[data-live-status]", "Live").await;
                world.follow("launch", 1);
                browser.wait_for_text("[data-live] tr:first-child", "human").await;
                // The arrow keys show values of the chart.
                browser.open(&format!("{url}/links/launch")).await;
                let press = async |key: Key| {
                    let focused = browser.client.active_element().await.unwrap();
                    focused.send_keys(&char::from(key).to_string()).await.unwrap();
                };
                browser
                    .client
                    .execute("document.querySelector('.chart-plot').focus()", vec![])
                    .await
                    .unwrap();
                // Around midnight, the click is on the day before.
                let mut values = vec![browser.text(".chart-tip").await];
                for _ in 0..2 {
                    press(Key::Left).await;
                    values.push(browser.text(".chart-tip").await);
                }
                let values: Vec<&str> =
                    values.iter().filter_map(|text| text.split(' ').next()).collect();
                assert!(
                    [["1", "0", "0"], ["0", "1", "0"]].iter().any(|want| values == want),
                    "{values:?}"
                );
            } else {
                browser.open(&format!("{url}/links/launch/live")).await;
                browser.wait_for_text(".live", "human").await;
            }
            let change = json!({"long_url": "https://example.com/second"});
            world.api("PATCH", "/urls/launch", &change);
            browser.open(&format!("{url}/links/launch/history")).await;
            browser.press(".history li:first-child button").await;
            browser.wait_for_text(".toast", "The change is undone.").await;
            browser.wait_for_text(".link-goes", "https://example.com/first").await;
            browser.press("summary[aria-label='More actions']").await;
            browser.press("form[action='/links/launch/delete'] button").await;
            browser.wait_for_text(".toast", "is deleted").await;
            assert_eq!(world.terse.get("/launch").0, 404);
            browser.press(".toast button").await;
            browser.wait_for_text(".toast", "1 link is restored.").await;
            assert_eq!(world.terse.get("/launch").0, 302);
        });
    }
}

#[test]
fn a_link_is_created_followed_edited_found_and_removed_in_the_browser() {
    let world = World::new();
    let url = &world.terse.url;
    for scripts in [true, false] {
        run_scenario(scripts, &[url], async |browser| {
            let alias = if scripts { "by-hand" } else { "plain" };
            world.sign_in(browser, "/links").await;
            if scripts {
                let page = browser.client.find(Locator::Css("body")).await.unwrap();
                page.send_keys("n").await.unwrap();
            } else {
                browser.press("[data-new]").await;
            }
            browser.wait("#long_url").await;
            browser.fill("#long_url", "https://example.com/long").await;
            if scripts {
                browser.fill("#alias", "new").await;
                browser.wait_for_text("[data-alias-hint]", "reserved").await;
                browser.fill("#alias", alias).await;
                browser.wait_for_text("[data-alias-hint]", "Free.").await;
            }
            browser.fill("#alias", alias).await;
            browser.fill("#title", "Made by hand").await;
            browser.press(".form-end button").await;
            browser.wait_for_text(".toast", "The link is created.").await;
            world.follow(alias, 1);
            browser.open(&format!("{url}/links/{alias}")).await;
            assert_eq!(browser.text(".figures dd").await, "1");
            browser.press("[data-edit]").await;
            browser.wait("#long_url").await;
            browser.fill("#long_url", "https://example.com/else").await;
            browser.press(".link-form > details:has(#max_clicks) > summary").await;
            browser.fill("#max_clicks", "many").await;
            browser.press(".form-end button").await;
            browser.wait("#max_clicks[aria-invalid]").await;
            browser.fill("#max_clicks", "").await;
            browser.press(".form-end button").await;
            browser.wait_for_text(".toast", "The link is changed.").await;
            assert_eq!(
                world.terse.get(&format!("/{alias}")).1.as_deref(),
                Some("https://example.com/else")
            );
            browser.press(".toast button").await;
            browser.wait_for_text(".toast", "The change is undone.").await;
            browser.open(&format!("{url}/links")).await;
            if scripts {
                browser.fill("#q", "nothing like it").await;
                browser.wait_for_text("#rows", "No links match.").await;
                browser.fill("#q", alias).await;
                browser.wait(&format!("[name='pick.{alias}']")).await;
                // The keys of the list: down, select.
                let focus = "document.querySelector('.copy-source').focus()";
                browser.client.execute(focus, vec![]).await.unwrap();
                let row = browser.client.active_element().await.unwrap();
                row.send_keys(&char::from(Key::Down).to_string()).await.unwrap();
                let row = browser.client.active_element().await.unwrap();
                row.send_keys("x").await.unwrap();
                browser.wait(".pick:checked").await;
                // The small chart comes after a pause, and the row stays selected.
                browser.wait(".link-spark svg").await;
                browser.wait(".pick:checked").await;
            } else {
                browser.press(&format!("[name='pick.{alias}']")).await;
            }
            browser.press("#action option[value=delete]").await;
            browser.press(".bulk button").await;
            browser.wait_for_text(".toast", "is deleted").await;
            assert_eq!(world.terse.get(&format!("/{alias}")).0, 404);
            browser.press(".toast button").await;
            browser.wait_for_text(".toast", "1 link is restored.").await;
        });
    }
}

#[test]
fn a_webhook_is_made_tested_sent_again_and_deleted_in_the_browser() {
    let world = World::new();
    let url = &world.terse.url;
    for scripts in [true, false] {
        run_scenario(scripts, &[url], async |browser| {
            world.sign_in(browser, "/webhooks").await;
            browser.fill("#url", "nonsense").await;
            browser.press("main form button").await;
            browser.wait("#url[aria-invalid]").await;
            // Nothing listens there: the delivery waits for its next attempt.
            browser.fill("#url", "http://127.0.0.1:8/hook").await;
            browser.press("main form button").await;
            browser.wait_for_text("#fresh", "whsec_").await;
            browser.press("button[value=test]").await;
            browser.wait_for_text(".toast", "A test is on its way.").await;
            browser.wait_for_text(".deliveries", "webhook.test").await;
            browser.press(".deliveries button").await;
            browser.wait_for_text(".toast", "on its way again").await;
            browser.press("summary[aria-label='More actions']").await;
            browser.press(".confirm:has([value=delete]) > summary").await;
            browser.press("button[value=delete]").await;
            browser.wait_for_text(".toast", "The webhook is deleted.").await;
            browser.open(&format!("{url}/domains")).await;
            browser.fill("#domain", "links.example.com").await;
            browser.press(".below button").await;
            browser.wait_for_text(".toast", "The domain is saved.").await;
            browser.wait_for_text(".places", "links.example.com").await;
            browser.press("summary[aria-label='Change links.example.com']").await;
            browser.press("form[action='/domains/remove'] .confirm > summary").await;
            browser.press("form[action='/domains/remove'] button").await;
            browser.wait_for_text(".toast", "The domain is removed.").await;
        });
    }
}

#[test]
fn rules_are_written_tried_and_saved_in_the_browser() {
    let world = World::new();
    let url = &world.terse.url;
    for scripts in [true, false] {
        run_scenario(scripts, &[url], async |browser| {
            let alias = if scripts { "ruled" } else { "ruled-too" };
            world.sign_in(browser, "/links/new").await;
            browser.fill("#long_url", "https://example.com/all").await;
            browser.fill("#alias", alias).await;
            browser.press("#rules > summary").await;
            browser.fill("#r0-country", "AT").await;
            browser.fill("#r0-to0", "https://example.com/at").await;
            browser.fill("#try-country", "AT").await;
            browser.press("button[value=try]").await;
            browser.wait_for_text("#rules .outcome", "https://example.com/at").await;
            browser.press("button[value='remove.0']").await;
            browser.wait("#r0-country[value='']").await;
            browser.fill("#r0-country", "DE").await;
            browser.fill("#r0-to0", "https://example.com/de").await;
            browser.press(".form-end button").await;
            browser.wait_for_text(".toast", "The link is created.").await;
        });
        let alias = if scripts { "ruled" } else { "ruled-too" };
        let link = world.api("GET", &format!("/urls/{alias}"), &Value::Null);
        assert_eq!(link["rules"], json!([{"country": "DE", "to": "https://example.com/de"}]));
    }
}
