//! Browser scenarios of a signed-in account: set-up, keys and the list of links.

use std::time::Duration;

use fantoccini::Locator;
use fantoccini::key::Key;
use serde_json::json;

use crate::browser::run_scenario;
use crate::dashboard::World;
use crate::process::{Served, folder};

#[test]
fn a_server_is_set_up_and_an_account_signs_in_creates_a_key_and_signs_out() {
    let (temp, data) = folder();
    let said = temp.path().join("said");
    let terse = Served::start_with_output(&data, &[], &said);
    let words = std::fs::read_to_string(&said).unwrap();
    let link = words
        .split_whitespace()
        .find(|word| word.contains("/setup?token="))
        .unwrap_or_else(|| panic!("{words}"));
    run_scenario(false, &[&terse.url], async |browser| {
        let fill = async |id: &str, text: &str| {
            let field = browser.client.find(Locator::Css(&format!("#{id}"))).await.unwrap();
            field.clear().await.unwrap();
            field.send_keys(text).await.unwrap();
        };
        let press = async |css: &str| {
            browser.client.find(Locator::Css(css)).await.unwrap().click().await.unwrap();
        };
        browser.open(link).await;
        browser.check_page().await;
        browser.picture("setup").await;
        let focused = browser.client.active_element().await.unwrap().attr("id").await.unwrap();
        assert_eq!(focused.as_deref(), Some("name"));
        fill("name", "ann").await;
        fill("password", "correct horse battery").await;
        fill("again", "correct horse batterz").await;
        press("form button[type=submit]").await;
        browser.wait("#password[aria-invalid]").await;
        assert_eq!(browser.attribute("#name", "value").await, "ann");
        browser.picture("setup-refused").await;
        fill("password", "correct horse battery").await;
        fill("again", "correct horse battery").await;
        press("form button[type=submit]").await;
        browser.wait("nav.side").await;
        press("a.me").await;
        browser.wait("#keys").await;
        assert_eq!(browser.text("h1").await, "ann");
        browser.check_page().await;

        press("form[action='/logout'] button").await;
        browser.wait("a[href='/login']").await;
        press("a[href='/login']").await;
        browser.wait("form[action='/login']").await;
        browser.check_page().await;
        browser.picture("login").await;
        fill("name", "ann").await;
        fill("password", "wrong").await;
        press("form button[type=submit]").await;
        browser.wait("#problem").await;
        browser.picture("login-refused").await;
        fill("password", "correct horse battery").await;
        press("form button[type=submit]").await;
        browser.wait("nav.side").await;
        press("a.me").await;
        browser.wait("#keys").await;
        fill("key", "the newsletter").await;
        press("form[action='/account/keys'] button").await;
        browser.wait("#fresh").await;
        browser.check_page().await;
        let key = browser.text("#fresh").await;
        assert!(key.starts_with("terse_") && key.len() == 49, "{key}");
        browser.picture("account").await;
        // The same on a phone.
        browser.client.set_window_size(500, 850).await.unwrap();
        browser.open(&format!("{}/account", terse.url)).await;
        browser.check_page().await;
        browser.picture("account-narrow").await;
        press(".keys summary").await;
        press(".keys button").await;
        browser.wait(".done").await;
        press("form[action='/logout'] button").await;
        browser.wait("a[href='/login']").await;
        browser.open(&format!("{}/account", terse.url)).await;
        browser.wait("form[action='/login']").await;
        browser.picture("login-narrow").await;
    });
}

/// Over plain http, browsers offer no clipboard to scripts.
#[test]
fn a_new_key_and_a_new_link_are_copied_over_plain_http() {
    let (temp, data) = folder();
    let output = temp.path().join("output");
    let terse = Served::start_with_output(&data, &["domains=plain.example"], &output);
    let output = std::fs::read_to_string(&output).unwrap();
    let link = output.split_whitespace().find(|word| word.contains("/setup?token=")).unwrap();
    let site = terse.url.replace("127.0.0.1", "plain.example");
    let link = link.replace(&terse.url, &site);
    run_scenario(true, &[&site], async |browser| {
        let fill = async |css: &str, text: &str| {
            browser.client.find(Locator::Css(css)).await.unwrap().send_keys(text).await.unwrap();
        };
        let press = async |css: &str| {
            browser.client.find(Locator::Css(css)).await.unwrap().click().await.unwrap();
        };
        let pasted = async |css: &str| {
            let field = browser.client.find(Locator::Css(css)).await.unwrap();
            field.send_keys(&format!("{}v", char::from(Key::Control))).await.unwrap();
            field.prop("value").await.unwrap().unwrap_or_default()
        };
        let copied = async || {
            press("button.copy").await;
            for _ in 0..100 {
                if browser.text("button.copy").await != "Copy" {
                    return browser.text("button.copy").await;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            browser.text(".copy-status").await
        };
        browser.open(&link).await;
        let secure = browser.client.execute("return isSecureContext", vec![]).await.unwrap();
        assert_eq!(secure, json!(false));
        fill("#name", "ann").await;
        fill("#password", "correct horse battery").await;
        fill("#again", "correct horse battery").await;
        press("form button[type=submit]").await;
        browser.wait("nav.side").await;
        press("a.me").await;
        browser.wait("#keys").await;
        fill("#key", "the newsletter").await;
        press("form[action='/account/keys'] button").await;
        browser.wait(".fresh button.copy:not([hidden])").await;
        let key = browser.text("#fresh").await;
        assert_eq!(copied().await, "Copied");
        assert_eq!(pasted("#key").await, key);
        browser.open(&site).await;
        let short = browser.shorten("https://example.com/").await;
        assert_eq!(copied().await, "Copied");
        assert_eq!(pasted("#long_url").await, short);
    });
}

#[test]
fn an_account_finds_copies_and_searches_its_links() {
    let (temp, data) = folder();
    let output = temp.path().join("output");
    let terse = Served::start_with_output(&data, &[], &output);
    let output = std::fs::read_to_string(&output).unwrap();
    let link = output.split_whitespace().find(|word| word.contains("/setup?token=")).unwrap();
    for scripts in [true, false] {
        run_scenario(scripts, &[&terse.url], async |browser| {
            let fill = async |css: &str, text: &str| {
                let field = browser.client.find(Locator::Css(css)).await.unwrap();
                field.send_keys(text).await.unwrap();
            };
            let press = async |css: &str| {
                browser.client.find(Locator::Css(css)).await.unwrap().click().await.unwrap();
            };
            if scripts {
                browser.open(link).await;
                fill("#again", "correct horse battery").await;
            } else {
                browser.open(&format!("{}/links", terse.url)).await;
            }
            fill("#name", "ann").await;
            fill("#password", "correct horse battery").await;
            press("form button[type=submit]").await;
            browser.wait("a[href='/links']").await;
            if scripts {
                for path in ["one", "two?and=a-rather-long-query-that-is-cut-in-the-middle-of-it"] {
                    browser.open(&terse.url).await;
                    browser.shorten(&format!("https://example.com/some/folder/{path}")).await;
                }
            }
            for (width, name) in [(1440, "links-wide"), (500, "links-narrow")] {
                browser.client.set_window_size(width, 900).await.unwrap();
                browser.open(&format!("{}/links", terse.url)).await;
                browser.check_page().await;
                browser.picture(name).await;
            }
            let rows = browser.client.find_all(Locator::Css(".link-row")).await.unwrap();
            assert_eq!(rows.len(), 2);
            if scripts {
                let short = browser.attribute("button.copy", "data-copy").await;
                press("button.copy").await;
                for _ in 0..100 {
                    if browser.text("button.copy").await == "Copied" {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                fill("#q", &format!("{}v", char::from(Key::Control))).await;
                let field = browser.client.find(Locator::Css("#q")).await.unwrap();
                assert_eq!(field.prop("value").await.unwrap().as_deref(), Some(&*short));
                field.clear().await.unwrap();
            }
            fill("#q", &format!("folder/one{}", char::from(Key::Enter))).await;
            browser.wait(".link-row:only-child").await;
        });
    }
}

/// An API key is shown only once, so copying it must leave it on the page.
#[test]
fn a_new_key_stays_on_the_page_after_copying() {
    let (temp, data) = folder();
    let output = temp.path().join("output");
    let terse = Served::start_with_output(&data, &[], &output);
    let output = std::fs::read_to_string(&output).unwrap();
    let link = output.split_whitespace().find(|word| word.contains("/setup?token=")).unwrap();
    run_scenario(true, &[&terse.url], async |browser| {
        let fill = async |css: &str, text: &str| {
            browser.client.find(Locator::Css(css)).await.unwrap().send_keys(text).await.unwrap();
        };
        let press = async |css: &str| {
            browser.client.find(Locator::Css(css)).await.unwrap().click().await.unwrap();
        };
        browser.open(link).await;
        fill("#name", "ann").await;
        fill("#password", "correct horse battery").await;
        fill("#again", "correct horse battery").await;
        press("form button[type=submit]").await;
        browser.wait("nav.side").await;
        press("a.me").await;
        browser.wait("#keys").await;
        fill("#key", "the newsletter").await;
        press("form[action='/account/keys'] button").await;
        browser.wait(".fresh button.copy:not([hidden])").await;
        let key = browser.text("#fresh").await;
        press(".fresh button.copy").await;
        browser.wait_for_text(".fresh button.copy", "Copied").await;
        assert_eq!(browser.text("#fresh").await, key);
        // And it is what was copied.
        let field = browser.client.find(Locator::Css("#key")).await.unwrap();
        field.send_keys(&format!("{}v", char::from(Key::Control))).await.unwrap();
        assert_eq!(field.prop("value").await.unwrap(), Some(key));
        browser.picture("key-copied").await;
    });
}

#[test]
fn the_account_page_names_the_browser_that_signed_in() {
    let world = World::new();
    run_scenario(true, &[&world.terse.url], async |browser| {
        let agent = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:127.0) Gecko/20100101 \
            Firefox/127.0";
        let agent = json!({ "userAgent": agent });
        browser.devtools("Network.setUserAgentOverride", agent).await;
        world.sign_in(browser, "/account").await;
        let named = browser.text("section[aria-labelledby=browsers] li:only-child b").await;
        assert_eq!(named, "Firefox on Windows");
    });
}
