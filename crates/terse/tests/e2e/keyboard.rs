//! The list of links with a keyboard alone: the menus of its rows, and its filters.

use fantoccini::Locator;
use fantoccini::key::Key;
use serde_json::json;

use crate::browser::{Browser, run_scenario};
use crate::dashboard::World;

/// A server with two links.
fn world() -> World {
    let world = World::new();
    for (alias, tags) in [("older", json!([])), ("newer", json!(["q4"]))] {
        let target = format!("https://example.com/{alias}");
        world.api("POST", "/urls", &json!({"alias": alias, "long_url": target, "tags": tags}));
    }
    world
}

#[test]
fn escape_closes_the_menu_of_a_row_and_the_focus_returns_to_its_button() {
    let world = world();
    run_scenario(true, &[&world.terse.url], async |browser| {
        world.sign_in(browser, "/links").await;
        let row = ".link-row:last-child";
        let button = format!("{row} .menu > summary");
        let is_open = async || browser.client.find(Locator::Css(".menu[open]")).await.is_ok();
        browser.tab_to(&button, false).await;
        // From the button itself, and from the first and the last entry.
        for inside in [None, Some("[data-edit]"), Some("button:last-child")] {
            browser.key(Key::Enter).await;
            browser.wait(&format!("{row} .menu[open]")).await;
            if let Some(entry) = inside {
                browser.tab_to(&format!("{row} .menu-body {entry}"), false).await;
            }
            browser.key(Key::Escape).await;
            assert!(!is_open().await, "{inside:?}: Escape closes the menu");
            assert!(browser.is_focused(&button).await, "{inside:?}: the focus is lost");
        }
        // Where the menu does not have the focus, the focus stays.
        browser.key(Key::Enter).await;
        browser.wait(&format!("{row} .menu[open]")).await;
        browser.tab_to(&format!("{row} .copy-source"), true).await;
        browser.key(Key::Escape).await;
        assert!(!is_open().await && browser.is_focused(&format!("{row} .copy-source")).await);
    });
}

impl Browser {
    /// Whether the page is still the one that was marked.
    async fn is_marked(&self) -> bool {
        let marked = self.client.execute("return window.marked === true", vec![]).await;
        marked.unwrap() == json!(true)
    }

    /// Opens the list of links, and marks the page: a script that sends the form would replace it.
    async fn open_marked(&self, url: &str) {
        self.open(&format!("{url}/links")).await;
        self.client.execute("window.marked = true", vec![]).await.unwrap();
    }
}

#[test]
fn a_filter_that_is_changed_with_the_keyboard_waits_for_apply_or_enter() {
    let world = world();
    let url = &world.terse.url;
    run_scenario(true, &[url], async |browser| {
        world.sign_in(browser, "/links").await;
        let value = async |css: &str| {
            let field = browser.client.find(Locator::Css(css)).await.unwrap();
            field.prop("value").await.unwrap().unwrap_or_default()
        };
        let apply = "[data-filters] button";
        for (field, typed, chosen) in [("#sort", "Oldest", "oldest"), ("#owner", "All", "all")] {
            browser.open_marked(url).await;
            browser.tab_to(field, false).await;
            browser.keys(typed).await;
            assert_eq!(value(field).await, chosen);
            assert!(browser.is_focused(field).await, "{field}: the focus is lost");
            browser.tab_to(apply, false).await;
            assert!(browser.is_marked().await, "{field} is applied before Apply is pressed");
            browser.key(Key::Enter).await;
            browser.wait(&format!("{field} option[value='{chosen}'][selected]")).await;
            assert!(!browser.is_marked().await);
        }
        // The order is the chosen one.
        browser.open(&format!("{url}/links?sort=oldest")).await;
        assert_eq!(browser.attribute(".copy-source", "href").await, "/links/older");

        // A tag, which is typed: leaving its field sends nothing, Enter in it does.
        browser.open_marked(url).await;
        browser.tab_to("#tag", false).await;
        browser.keys("q4").await;
        browser.key(Key::Tab).await;
        assert!(!browser.is_focused("#tag").await && !browser.is_focused("body").await);
        browser.tab_to("#tag", true).await;
        assert!(browser.is_marked().await, "the tag is applied before Enter is pressed");
        browser.key(Key::Enter).await;
        browser.wait("#tag[value=q4]").await;
        let rows = browser.client.find_all(Locator::Css(".copy-source")).await.unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!(browser.attribute(".copy-source", "href").await, "/links/newer");
    });
}
