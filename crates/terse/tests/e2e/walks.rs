//! Browser scenarios.

use std::time::Duration;

use fantoccini::Locator;
use fantoccini::key::Key;
use serde_json::json;

use crate::browser::{Browser, destination, run_scenario};
use crate::process::{Served, command, folder};

pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

impl Browser {
    pub(crate) async fn open(&self, url: &str) {
        self.client.goto(url).await.expect("the page opens");
    }

    pub(crate) async fn text(&self, css: &str) -> String {
        self.client
            .find(Locator::Css(css))
            .await
            .unwrap_or_else(|_| panic!("no {css}"))
            .text()
            .await
            .expect("text")
    }

    /// The status of the page that is open.
    pub(crate) async fn status(&self) -> u16 {
        let status = "return performance.getEntriesByType('navigation')[0].responseStatus";
        let status = self.client.execute(status, vec![]).await.expect("a status");
        status.as_u64().and_then(|status| status.try_into().ok()).unwrap_or_default()
    }

    pub(crate) async fn attribute(&self, css: &str, name: &str) -> String {
        let element =
            self.client.find(Locator::Css(css)).await.unwrap_or_else(|_| panic!("no {css}"));
        element.attr(name).await.expect("an attribute").unwrap_or_default()
    }

    pub(crate) async fn wait(&self, css: &str) {
        self.client
            .wait()
            .at_most(TIMEOUT)
            .for_element(Locator::Css(css))
            .await
            .unwrap_or_else(|_| panic!("no {css} came"));
    }

    /// Pastes a URL and sends the form; returns the new short link.
    pub(crate) async fn shorten(&self, target: &str) -> String {
        let field = self.client.find(Locator::Css("#long_url")).await.expect("the field");
        field.send_keys(target).await.expect("typing");
        self.client
            .find(Locator::Css("form button[type=submit]"))
            .await
            .expect("the button")
            .click()
            .await
            .expect("a click");
        self.wait("#short").await;
        self.attribute("#short", "href").await
    }

    pub(crate) async fn landed(&self, target: &str) {
        self.client
            .wait()
            .at_most(TIMEOUT)
            .for_url(&target.parse().expect("a URL"))
            .await
            .expect("the target");
        assert_eq!(self.client.title().await.expect("a title"), "Landed");
    }

    /// Checks that every page must pass.
    pub(crate) async fn check_page(&self) {
        self.check_page_in("en").await;
    }

    /// The same for a page in another language.
    pub(crate) async fn check_page_in(&self, language: &str) {
        assert_eq!(self.client.find_all(Locator::Css("h1")).await.expect("headings").len(), 1);
        assert_eq!(self.attribute("html", "lang").await, language);
        if self.scripts {
            // A phone widens the window to a page that is too wide, and shows it smaller.
            let wide = "const { scrollWidth, clientWidth } = document.documentElement;
                return scrollWidth > clientWidth";
            assert_eq!(
                self.client.execute(wide, vec![]).await.expect("a width"),
                json!(false),
                "it scrolls sideways"
            );
        }
    }
}

fn serve(settings: &[&str]) -> (tempfile::TempDir, std::path::PathBuf, Served) {
    let (temp, data) = folder();
    let mut all = vec!["safety.allow_private_targets=true"];
    all.extend(settings);
    let served = Served::start(&data, &all);
    (temp, data, served)
}

#[test]
fn a_long_link_is_pasted_shortened_copied_and_followed() {
    let (_temp, _data, terse) = serve(&[]);
    let target = format!("http://{}/a?b=c", destination());
    let hosts = [&*terse.url, target.split_at(target.rfind('/').unwrap()).0];
    run_scenario(true, &hosts, async |browser| {
        browser.open(&terse.url).await;
        browser.check_page().await;
        browser.picture("home").await;
        let short = browser.shorten(&target).await;
        assert!(short.starts_with(&terse.url) && short.len() == terse.url.len() + 8, "{short}");
        browser.check_page().await;
        browser.wait("svg.qr[role=img]").await;
        let size =
            browser.client.find(Locator::Css("svg.qr")).await.unwrap().rectangle().await.unwrap();
        assert!(
            size.2 > 80.0 && (size.2 - size.3).abs() < 1.0,
            "the QR code can be seen: {size:?}"
        );
        let copy = browser.client.find(Locator::Css("button.copy")).await.unwrap();
        assert!(copy.is_displayed().await.unwrap());
        copy.click().await.unwrap();
        browser.wait_for_text("button.copy", "Copied").await;
        browser.picture("made").await;
        let field = browser.client.find(Locator::Css("#long_url")).await.unwrap();
        field.send_keys(&format!("{}v", char::from(Key::Control))).await.unwrap();
        assert_eq!(field.prop("value").await.unwrap().as_deref(), Some(&*short));
        browser.client.find(Locator::Css("#short")).await.unwrap().click().await.unwrap();
        browser.landed(&target).await;
        // The same on a phone.
        browser.client.set_window_size(500, 850).await.unwrap();
        browser.open(&terse.url).await;
        browser.check_page().await;
        browser.shorten(&format!("{target}&{}", "long=1&".repeat(60))).await;
        browser.picture("made-narrow").await;
        browser.check_page().await;
    });
}

#[test]
fn without_scripts_it_works_as_well() {
    let (_temp, _data, terse) = serve(&[]);
    let target = format!("http://{}/plain", destination());
    let hosts = [&*terse.url, target.split_at(target.rfind('/').unwrap()).0];
    run_scenario(false, &hosts, async |browser| {
        browser.open(&terse.url).await;
        let short = browser.shorten(&target).await;
        let copy = browser.client.find(Locator::Css("button.copy")).await.unwrap();
        assert!(!copy.is_displayed().await.unwrap(), "a button that does nothing is not shown");
        assert!(!browser.text(".short-url").await.is_empty());
        browser.picture("made-without-scripts").await;
        browser.open(&short).await;
        browser.landed(&target).await;
    });
}

#[test]
fn errors_are_shown_on_pages() {
    let (_temp, data, terse) = serve(&[]);
    let done = |arguments: &[&str]| {
        assert!(command(&data).args(arguments).output().unwrap().status.success());
    };
    done(&["shorten", "https://example.com/soon", "--alias", "expired1", "--ttl", "1s"]);
    done(&[
        "shorten",
        "https://example.com/safe?q=<b>",
        "--alias",
        "my-link",
        "--title",
        "<script>alert(1)</script>",
    ]);
    done(&[
        "shorten",
        &format!("https://{}.example/", "x".repeat(60)),
        "--alias",
        &"long-".repeat(12),
        "--title",
        &"y".repeat(300),
    ]);
    std::thread::sleep(Duration::from_millis(1200));
    run_scenario(true, &[&terse.url], async |browser| {
        for (path, heading, picture) in [
            ("/nosuch9", "not", "not-found"),
            ("/expired1", "expired", "expired"),
            ("/no/such/page", "not", "nothing-here"),
        ] {
            browser.open(&format!("{}{path}", terse.url)).await;
            browser.check_page().await;
            let words = browser.text("main").await.to_lowercase();
            assert!(words.contains(heading), "{path}: {words}");
            assert!(!browser.client.source().await.unwrap().contains("example.com/soon"));
            browser.picture(picture).await;
        }
        browser.open(&format!("{}/my-link+", terse.url)).await;
        browser.check_page().await;
        assert!(
            browser.text("main").await.contains("<script>alert(1)</script>"),
            "a title is shown as it is"
        );
        assert_eq!(browser.text(".host").await, "example.com");
        browser.picture("preview").await;
        browser.open(&format!("{}/api/docs", terse.url)).await;
        browser.check_page().await;
        browser.picture("docs").await;

        browser.open(&terse.url).await;
        let field = browser.client.find(Locator::Css("#long_url")).await.unwrap();
        field.send_keys("javascript:alert(1)").await.unwrap();
        field.send_keys(&char::from(Key::Enter).to_string()).await.unwrap();
        browser.wait("#problem").await;
        browser.check_page().await;
        assert!(!browser.text("#problem").await.is_empty());
        assert_eq!(browser.attribute("#long_url", "aria-invalid").await, "true");
        assert_eq!(
            browser.attribute("#long_url", "value").await,
            "javascript:alert(1)",
            "what was typed is still there"
        );
        browser.picture("refused").await;

        browser.client.set_window_size(500, 850).await.unwrap();
        for (path, picture) in [
            ("/nosuch9", "not-found-narrow"),
            (&*format!("/{}+", "long-".repeat(12)), "preview-narrow"),
            ("/api/docs", "docs-narrow"),
        ] {
            browser.open(&format!("{}{path}", terse.url)).await;
            browser.picture(picture).await;
            browser.check_page().await;
        }
    });
}

#[test]
fn a_keyboard_is_enough() {
    let (_temp, _data, terse) = serve(&[]);
    let target = format!("http://{}/by-keyboard", destination());
    let hosts = [&*terse.url, target.split_at(target.rfind('/').unwrap()).0];
    run_scenario(true, &hosts, async |browser| {
        let press = async |keys: &str| {
            browser.client.active_element().await.unwrap().send_keys(keys).await.unwrap();
        };
        browser.open(&terse.url).await;
        // The field has the focus after loading.
        let focused = browser.client.active_element().await.unwrap().attr("id").await.unwrap();
        assert_eq!(focused.as_deref(), Some("long_url"));
        press(&format!("{target}{}", char::from(Key::Enter))).await;
        browser.wait("#short").await;
        let mut seen = Vec::new();
        for _ in 0..20 {
            press(&char::from(Key::Tab).to_string()).await;
            let focused = browser.client.active_element().await.unwrap();
            // Keyboard focus is visible.
            let outline =
                "const s = getComputedStyle(arguments[0]); return s.outlineStyle + s.boxShadow";
            let shown = browser
                .client
                .execute(outline, vec![serde_json::to_value(&focused).unwrap()])
                .await
                .unwrap();
            assert_ne!(
                shown,
                json!("nonenone"),
                "{:?} has focus and does not show it",
                focused.html(false).await
            );
            let id = focused.attr("id").await.unwrap().unwrap_or_default();
            seen.push(id.clone());
            if id == "short" {
                break;
            }
        }
        assert_eq!(seen.last().map(String::as_str), Some("short"), "{seen:?}");
        browser.picture("keyboard").await;
        press(&char::from(Key::Enter).to_string()).await;
        browser.landed(&target).await;
    });
}

#[test]
fn reloading_the_result_creates_no_second_link() {
    let (_temp, data, terse) = serve(&["anonymous.create=true"]);
    run_scenario(true, &[&terse.url], async |browser| {
        browser.open(&terse.url).await;
        let short = browser.shorten("https://example.com/once").await;
        browser.client.refresh().await.unwrap();
        browser.wait("#short").await;
        assert_eq!(browser.attribute("#short", "href").await, short);
        let list = command(&data).args(["--json", "list", "--owner", "all"]).output().unwrap();
        let list: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
        assert_eq!(list["links"].as_array().unwrap().len(), 1);
    });
}

#[test]
fn a_link_with_a_password_is_previewed_opened_and_reported() {
    let (_temp, data, terse) = serve(&[]);
    let target = format!("http://{}/secret", destination());
    let secret = data.with_file_name("secret");
    std::fs::write(&secret, "open sesame\n").unwrap();
    let made = command(&data)
        .args(["shorten", &target, "--alias", "locked", "--password-file"])
        .arg(&secret)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let hosts = [&*terse.url, target.split_at(target.rfind('/').unwrap()).0];
    run_scenario(false, &hosts, async |browser| {
        let press = async |css: &str| {
            browser.client.find(Locator::Css(css)).await.unwrap().click().await.unwrap();
        };
        let fill = async |css: &str, text: &str| {
            browser.client.find(Locator::Css(css)).await.unwrap().send_keys(text).await.unwrap();
        };
        // What visitors see without the password.
        browser.open(&format!("{}/locked+", terse.url)).await;
        browser.check_page().await;
        assert!(!browser.client.source().await.unwrap().contains("/secret"));
        browser.picture("closed").await;
        press("a.button[href='/locked']").await;
        browser.wait("form[action='/locked']").await;
        browser.check_page().await;
        browser.picture("password").await;

        press("a[href='/locked?report']").await;
        browser.wait("form.report").await;
        browser.check_page().await;
        browser.picture("report").await;
        fill("#reason", "Phishing").await;
        fill("#text", "It imitates my bank.").await;
        press("form.report button").await;
        browser.wait("#thanks").await;
        browser.check_page().await;
        browser.picture("reported").await;

        browser.open(&format!("{}/locked", terse.url)).await;
        let focused = browser.client.active_element().await.unwrap().attr("id").await.unwrap();
        assert_eq!(focused.as_deref(), Some("password"));
        fill("#password", "open barley").await;
        press("main form button").await;
        browser.wait("#password[aria-invalid]").await;
        browser.check_page().await;
        browser.picture("password-wrong").await;
        fill("#password", "open sesame").await;
        press("main form button").await;
        browser.landed(&target).await;
        // After the right password, the link opens without the form.
        browser.open(&format!("{}/locked", terse.url)).await;
        browser.landed(&target).await;
    });
    let kept = command(&data).args(["--json", "list", "--owner", "all"]).output().unwrap();
    assert!(
        kept.status.success()
            && String::from_utf8_lossy(&kept.stdout).contains("\"status\":\"active\""),
        "one report does not warn visitors"
    );
}

#[test]
fn a_suspicious_link_is_warned_of_and_never_goes_on_by_itself() {
    let (_temp, data, terse) = serve(&[]);
    let made = command(&data).args(["user", "add", "ann"]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let key = command(&data).args(["key", "add", "test", "--user", "ann"]).output().unwrap();
    let key = String::from_utf8(key.stdout).unwrap();
    let mut far = command(&data);
    far.env("TERSE_SERVER", &terse.url).env("TERSE_KEY", key.trim());
    let made = far
        .args(["shorten", "https://p\u{430}ypal.com/login", "--alias", "lure"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    run_scenario(true, &[&terse.url], async |browser| {
        browser.open(&format!("{}/lure", terse.url)).await;
        browser.check_page().await;
        assert_eq!(browser.text("h1").await, "Suspicious link");
        assert!(browser.text(".host").await.starts_with("xn--"), "the ASCII form of the name");
        assert!(browser.text(".target").await.contains("p\u{430}ypal.com"), "and its Unicode form");
        browser.picture("warning").await;
        browser.client.set_window_size(500, 850).await.unwrap();
        browser.picture("warning-narrow").await;
        browser.check_page().await;
        let report = browser.client.find(Locator::Css("a[href='/lure?report']")).await.unwrap();
        report.click().await.unwrap();
        browser.wait("form.report").await;
        browser.check_page().await;
        browser.picture("report-narrow").await;
    });
}

#[test]
fn the_documentation_is_searched_and_a_call_is_tried() {
    let key = "a-key-for-the-documentation";
    let (_temp, _data, terse) = serve(&[&format!("admin_key={key}")]);
    run_scenario(true, &[&terse.url], async |browser| {
        browser.open(&format!("{}/api/docs", terse.url)).await;
        browser.check_page().await;
        let visible = "return [...document.querySelectorAll('section.call')]\
            .filter((call) => call.getClientRects().length > 0).map((call) => call.id)";
        let calls = async || browser.client.execute(visible, vec![]).await.expect("calls");
        let all = calls().await.as_array().unwrap().len();
        assert!(all > 50, "{all}");
        let search = browser.client.find(Locator::Css("#search")).await.unwrap();
        search.send_keys("idempotency_mismatch CREATE").await.unwrap();
        let some = calls().await;
        assert!(some.as_array().unwrap().contains(&json!("create_link")), "{some}");
        assert!(!some.as_array().unwrap().contains(&json!("list_keys")), "{some}");
        assert!(browser.text("#found").await.ends_with(&format!(" of {all} calls")));

        // Without a key the form says what is missing, and sends nothing.
        let form = "#get_account form";
        search.clear().await.unwrap();
        search.send_keys("get_account").await.unwrap();
        let click = async |css: &str| {
            browser.client.find(Locator::Css(css)).await.unwrap().click().await.unwrap();
        };
        click("#get_account details.try summary").await;
        click(&format!("{form} button")).await;
        assert!(browser.text(&format!("{form} .sent")).await.contains("needs a key"));

        // A link is created with the key, which is in neither the address nor the storage.
        search.clear().await.unwrap();
        search.send_keys("create_link").await.unwrap();
        let field = browser.client.find(Locator::Css("#key")).await.unwrap();
        field.send_keys(key).await.unwrap();
        click("#create_link details.try summary").await;
        let body = browser.client.find(Locator::Css("#create_link-body")).await.unwrap();
        body.clear().await.unwrap();
        let sent = r#"{"long_url": "https://example.com/", "alias": "tried"}"#;
        body.send_keys(sent).await.unwrap();
        browser.picture("docs-try").await;
        click("#create_link form button").await;
        browser.wait("#create_link .answer:not([hidden])").await;
        assert!(browser.text("#create_link .sent").await.starts_with("201"));
        let answer = browser.text("#create_link .answer").await;
        assert!(answer.contains("\"short_code\": \"tried\""), "{answer}");
        let kept = "return location.href + JSON.stringify(localStorage) \
            + JSON.stringify(sessionStorage) + document.cookie";
        let kept = browser.client.execute(kept, vec![]).await.expect("what is kept");
        assert!(!kept.to_string().contains(key), "{kept}");

        // The path of the call is filled in, and an error is shown as it is.
        search.clear().await.unwrap();
        search.send_keys("get_link").await.unwrap();
        click("#get_link details.try summary").await;
        let code = browser.client.find(Locator::Css("#get_link-path-code")).await.unwrap();
        code.send_keys("nosuch9").await.unwrap();
        click("#get_link form button").await;
        browser.wait("#get_link .answer:not([hidden])").await;
        assert!(browser.text("#get_link .sent").await.starts_with("404"));
        assert!(browser.text("#get_link .answer").await.contains("not_found"));
        browser.check_page().await;
    });
    // Without scripts it is a plain page: everything is there except what needs them.
    run_scenario(false, &[&terse.url], async |browser| {
        browser.open(&format!("{}/api/docs", terse.url)).await;
        browser.check_page().await;
        let shown = async |css: &str| {
            browser.client.find(Locator::Css(css)).await.unwrap().is_displayed().await.unwrap()
        };
        assert!(shown("#create_link").await && shown("#problems").await);
        assert!(!shown("#search").await && !shown("#key").await);
        assert!(!shown("#create_link details.try").await);
    });
}
