//! Walks of accounts: a forgotten password, and two-factor sign-in.

use std::time::{SystemTime, UNIX_EPOCH};

use totp_rs::{Builder, Secret};

use crate::browser::{Browser, run_scenario};
use crate::dashboard::World;

const PASSWORD: &str = "correct horse battery";

impl Browser {
    /// Checks the page that is open, on a wide and a narrow screen, in both themes.
    async fn check_state(&self, name: &str) {
        if !self.scripts {
            return self.check_page().await;
        }
        let mut found = Vec::new();
        for (width, dark) in [(1440, true), (390, true), (390, false), (1440, false)] {
            self.screen(width, 1000, dark).await;
            self.check_page().await;
            let what = format!("{name}-{width}-{}", if dark { "dark" } else { "light" });
            self.picture(&what).await;
            found.extend(self.axe(&what).await);
        }
        assert!(found.is_empty(), "axe-core: {}", found.join("\n"));
    }

    async fn give_password(&self, url: &str, password: &str) {
        self.open(&format!("{url}/login")).await;
        self.fill("#name", "ann").await;
        self.fill("#password", password).await;
        self.press("form[action='/login'] button[type=submit]").await;
    }
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// The code of a later time step than the last one that was used: the server accepts the steps
/// before and after the present one, so that three codes need no wait.
fn next_code(secret: &str, last: &mut u64) -> String {
    *last = (*last + 1).max(seconds() / 30 - 1);
    let secret = Secret::try_from_base32(secret.replace(' ', "")).unwrap();
    Builder::new().with_secret(secret).build().unwrap().generate(*last * 30).to_string()
}

#[test]
fn two_factor_sign_in_is_turned_on_used_and_turned_off() {
    for scripts in [true, false] {
        let world = World::new();
        run_scenario(scripts, &[&world.terse.url], async |browser| {
            two_factor_walk(browser, &world).await;
        });
    }
}

async fn two_factor_walk(browser: &Browser, world: &World) {
    let url = &world.terse.url;
    world.sign_in(browser, "/account").await;
    browser.press("a[href='/account/two-factor']").await;
    browser.wait("svg.qr").await;
    browser.check_state("two-factor").await;
    let secret = browser.text("#secret").await;
    let mut last = 0;
    browser.fill("#password", PASSWORD).await;
    browser.fill("#code", "000000").await;
    browser.press("form[action='/account/two-factor'] button[type=submit]").await;
    browser.wait("#code[aria-invalid]").await;
    browser.check_state("two-factor-refused").await;
    assert_eq!(browser.text("#secret").await, secret, "the app keeps its secret");
    browser.fill("#password", PASSWORD).await;
    browser.fill("#code", &next_code(&secret, &mut last)).await;
    browser.press("form[action='/account/two-factor'] button[type=submit]").await;
    browser.wait("ul.codes").await;
    browser.check_state("two-factor-codes").await;
    let codes = browser.text("ul.codes").await;
    let codes: Vec<&str> = codes.split_whitespace().collect();
    assert_eq!(codes.len(), 10, "{codes:?}");
    browser.open(&format!("{url}/account")).await;
    browser.check_state("account-two-factor").await;
    browser.press("form[action='/logout'] button[type=submit]").await;
    browser.wait("a[href='/login']").await;

    browser.give_password(url, PASSWORD).await;
    browser.wait("#code").await;
    browser.check_state("login-code").await;
    browser.open(&format!("{url}/dashboard")).await;
    browser.wait("form[action='/login']").await;
    browser.give_password(url, PASSWORD).await;
    browser.wait("#code").await;
    browser.fill("#code", "000000").await;
    browser.press("form[action='/login/code'] button[type=submit]").await;
    browser.wait("#code[aria-invalid]").await;
    browser.check_state("login-code-refused").await;
    browser.fill("#code", &next_code(&secret, &mut last)).await;
    browser.press("form[action='/login/code'] button[type=submit]").await;
    browser.wait("nav.side").await;
    browser.press("a.me").await;
    browser.wait("#off").await;
    browser.press("form[action='/logout'] button[type=submit]").await;
    browser.wait("a[href='/login']").await;

    browser.give_password(url, PASSWORD).await;
    browser.wait("#code").await;
    browser.fill("#code", codes[4]).await;
    browser.press("form[action='/login/code'] button[type=submit]").await;
    browser.wait("nav.side").await;
    browser.press("a.me").await;
    browser.wait("#off").await;
    assert!(browser.text("main").await.contains("9 recovery codes are left"));
    browser.fill("#off", "wrong").await;
    browser.press("form[action='/account/two-factor/off'] button[type=submit]").await;
    browser.wait("#off[aria-invalid]").await;
    browser.fill("#off", PASSWORD).await;
    browser.press("form[action='/account/two-factor/off'] button[type=submit]").await;
    browser.wait(".done").await;
    browser.press("form[action='/logout'] button[type=submit]").await;
    browser.wait("a[href='/login']").await;
    browser.give_password(url, PASSWORD).await;
    browser.wait("nav.side").await;
}

#[test]
fn a_forgotten_password_is_replaced_by_a_reset_link_without_scripts() {
    let world = World::new();
    let url = &world.terse.url;
    let made = world.api("POST", "/admin/users/1000/reset_link", &serde_json::Value::Null);
    let link = made["url"].as_str().unwrap();
    run_scenario(false, &[url], async |browser| {
        browser.open(link).await;
        browser.check_page().await;
        browser.picture("reset").await;
        browser.fill("#password", "another long one").await;
        browser.fill("#again", "another long two").await;
        browser.press("form[action='/login/reset'] button[type=submit]").await;
        browser.wait("#password[aria-invalid]").await;
        browser.fill("#password", "another long one").await;
        browser.fill("#again", "another long one").await;
        browser.press("form[action='/login/reset'] button[type=submit]").await;
        browser.wait(".done").await;
        browser.check_page().await;
        browser.fill("#name", "ann").await;
        browser.fill("#password", "another long one").await;
        browser.press("form[action='/login'] button[type=submit]").await;
        browser.wait("nav.side").await;
        browser.open(link).await;
        assert!(browser.text("h1").await.contains("no longer valid"));
    });
    run_scenario(true, &[url], async |browser| {
        let made = world.api("POST", "/admin/users/1000/reset_link", &serde_json::Value::Null);
        browser.open(made["url"].as_str().unwrap()).await;
        browser.check_state("reset").await;
    });
}
