//! Whole journeys: from the first start to a deleted link, from a report to a blocked link, from an
//! invitation to an account, and the dashboard with nothing but a keyboard.

use std::time::{Duration, Instant};

use fantoccini::Locator;
use fantoccini::key::Key;
use serde_json::{Value, json};

use crate::browser::{Browser, destination, run_scenario};
use crate::dashboard::World;
use crate::process::{Served, folder};
use crate::walks::TIMEOUT;

const PASSWORD: &str = "correct horse battery";

impl Browser {
    /// Fills the form of a new account and sends it.
    pub(crate) async fn join(&self, name: &str) {
        self.wait("#again").await;
        self.fill("#name", name).await;
        self.fill("#password", PASSWORD).await;
        self.fill("#again", PASSWORD).await;
        self.press("form.stack button[type=submit]").await;
        self.wait("nav.side").await;
    }

    /// Follows a link in a tab of its own, as its owner would try it.
    async fn follow_in_new_tab(&self, short: &str, target: &str) {
        let here = self.client.window().await.unwrap();
        let tab = self.client.new_window(true).await.unwrap();
        self.client.switch_to_window(tab.handle).await.unwrap();
        self.open(short).await;
        self.landed(target).await;
        self.client.close_window().await.unwrap();
        self.client.switch_to_window(here).await.unwrap();
    }

    /// Waits until the page says something to screen readers.
    async fn wait_for_spoken(&self, want: &str) {
        let spoken = "return document.querySelector('[data-status]').textContent";
        self.wait_for_value(spoken, |said| said == want).await;
    }

    /// Waits until a script returns a text that fits, and returns it.
    pub(crate) async fn wait_for_value(&self, script: &str, fits: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let found = self.client.execute(script, vec![]).await.unwrap();
            let found = found.as_str().unwrap_or_default().to_owned();
            if fits(&found) {
                return found;
            }
            assert!(begun.elapsed() < TIMEOUT, "{script}: {found:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Presses keys where the focus is.
    pub(crate) async fn keys(&self, keys: &str) {
        self.client.active_element().await.unwrap().send_keys(keys).await.unwrap();
    }

    pub(crate) async fn key(&self, key: Key) {
        self.keys(&char::from(key).to_string()).await;
    }

    /// Presses Tab, or Shift and Tab, until an element has the focus.
    pub(crate) async fn tab_to(&self, css: &str, back: bool) {
        let mut keys = String::from(char::from(Key::Tab));
        if back {
            keys.insert(0, char::from(Key::Shift));
        }
        for _ in 0..100 {
            if self.is_focused(css).await {
                return;
            }
            self.keys(&keys).await;
        }
        panic!("Tab does not reach {css}");
    }

    pub(crate) async fn is_focused(&self, css: &str) -> bool {
        let is_focused = "return document.activeElement.matches(arguments[0])";
        self.client.execute(is_focused, vec![json!(css)]).await.unwrap() == json!(true)
    }
}

#[test]
fn from_the_first_start_to_a_deleted_link_on_a_wide_screen_and_on_a_phone() {
    for (width, height) in [(1440, 900), (390, 844)] {
        let (temp, data) = folder();
        let output = temp.path().join("output");
        let settings = ["safety.allow_private_targets=true"];
        let terse = Served::start_with_output(&data, &settings, &output);
        let output = std::fs::read_to_string(&output).unwrap();
        let setup = output.split_whitespace().find(|word| word.contains("/setup?token=")).unwrap();
        let target = format!("http://{}/first", destination());
        let url = &*terse.url;
        let hosts = [url, target.split_at(target.rfind('/').unwrap()).0];
        run_scenario(true, &hosts, async |browser| {
            browser.screen(width, height, false).await;
            browser.open(setup).await;
            browser.check_page().await;
            browser.join("ann").await;
            browser.check_page().await;
            browser.press("[data-new]").await;
            browser.wait("#alias").await;
            browser.fill("#long_url", &target).await;
            browser.fill("#alias", "first").await;
            browser.press(".form-end button").await;
            browser.wait_for_text(".toast", "The link is created.").await;

            browser.press("nav.tabs a[href='/links/first/live']").await;
            browser.wait_for_text("[data-live-status]", "Live").await;
            browser.follow_in_new_tab(&format!("{url}/first"), &target).await;
            browser.wait_for_text("[data-live] tr:first-child", "Chrome").await;
            // My own click is marked, beside what it counts as; also after the page is loaded
            // again.
            browser.wait_for_text("[data-live] tr:first-child .own", "you").await;
            let counts_as = browser.text("[data-live] tr:first-child td:last-child").await;
            browser.client.refresh().await.unwrap();
            browser.wait_for_text("[data-live] tr:first-child .own", "you").await;
            let again = browser.text("[data-live] tr:first-child td:last-child").await;
            assert_eq!(counts_as, again);

            browser.press("[data-edit]").await;
            browser.wait("#alias, #long_url").await;
            browser.fill("#long_url", "https://example.com/second").await;
            browser.press(".form-end button").await;
            browser.wait_for_text(".toast", "The link is changed.").await;
            let goes = terse.get("/first").1;
            assert_eq!(goes.as_deref(), Some("https://example.com/second"));
            browser.press(".toast button").await;
            browser.wait_for_text(".toast", "The change is undone.").await;
            assert_eq!(terse.get("/first").1.as_deref(), Some(&*target));
            browser.check_page().await;

            browser.press("summary[aria-label='More actions']").await;
            // The menu is within the screen.
            browser.check_page().await;
            browser.press("form[action='/links/first/delete'] button").await;
            browser.wait_for_text(".toast", "is deleted").await;
            assert_eq!(terse.get("/first").0, 404);
        });
    }
}

#[test]
fn a_visitor_reports_a_link_and_a_moderator_blocks_it() {
    let world = World::new();
    let url = &world.terse.url;
    let link = json!({"alias": "lure", "long_url": "https://example.com/login"});
    world.api("POST", "/urls", &link);
    for scripts in [false, true] {
        run_scenario(scripts, &[url], async |browser| {
            browser.open(&format!("{url}/lure?report")).await;
            browser.press("#reason option[value=phishing]").await;
            browser.fill("#text", "It asks for the password of my bank.").await;
            browser.press("form.report button").await;
            browser.wait("#thanks").await;
            assert_eq!(world.terse.get("/lure").0, 302, "one report does not block a link");

            world.sign_in(browser, "/moderation").await;
            browser.wait_for_text(".waiting", "1").await;
            browser.wait_for_text(".cases", "the password of my bank").await;
            browser.fill(".cases input[name=why]", "phishing, seen by hand").await;
            browser.press(".cases button[value=block]").await;
            browser.wait(".toast").await;
            browser.check_page().await;
            assert!(browser.text("main").await.contains("phishing, seen by hand"));
            assert_eq!(world.terse.get("/lure").0, 451);
            browser.open(&format!("{url}/lure")).await;
            browser.check_page().await;

            // The decision is taken back, made again in the search for a host, and taken back.
            browser.client.back().await.unwrap();
            browser.press(".toast button").await;
            browser.wait_for_text(".toast", "lure is cleared.").await;
            assert_eq!(world.terse.get("/lure").0, 302);
            browser.fill("#search", "example.com").await;
            browser.press("form[action='/moderation'] button").await;
            browser.wait(".listed button[value=block]").await;
            browser.check_page().await;
            browser.press(".listed button[value=block]").await;
            browser.wait_for_text(".toast", "lure is blocked.").await;
            assert_eq!(world.terse.get("/lure").0, 451);
            browser.press(".listed button[value=clear]").await;
            browser.wait_for_text(".toast", "lure is cleared.").await;
            assert_eq!(world.terse.get("/lure").0, 302);
        });
    }
}

#[test]
fn a_moderator_suspends_an_owner_and_takes_it_back() {
    let world = World::new();
    let bob = world.key_of_new_account("bob");
    let link = json!({"alias": "lure", "long_url": "https://example.com/login"});
    world.api_with(&bob, "POST", "/urls", &link);
    world.api("POST", "/urls/lure/report", &json!({"reason": "phishing"}));
    for scripts in [false, true] {
        run_scenario(scripts, &[&world.terse.url], async |browser| {
            world.sign_in(browser, "/moderation").await;
            for undo in [".toast button", ".cases button[value=reinstate]"] {
                browser.press(".cases button[value=ban]").await;
                browser.wait_for_text(".toast", "bob is suspended").await;
                browser.wait_for_text(".cases", "owner suspended").await;
                assert_eq!(world.terse.get("/lure").0, 451);
                browser.press(undo).await;
                browser.wait_for_text(".toast", "bob is reinstated").await;
                assert_eq!(world.terse.get("/lure").0, 302);
            }
        });
    }
}

#[test]
fn a_moderator_decides_reports_with_one_key_each() {
    let world = World::new();
    let bob = world.key_of_new_account("bob");
    let chidi = world.key_of_new_account("chidi");
    for (owner, alias) in [(&bob, "lure"), (&bob, "fine"), (&chidi, "spam"), (&chidi, "other")] {
        let link = json!({"alias": alias, "long_url": format!("https://example.com/{alias}")});
        world.api_with(owner, "POST", "/urls", &link);
    }
    for alias in ["lure", "fine", "spam"] {
        let report = json!({"reason": "phishing", "text": "It asks for a password."});
        world.api("POST", &format!("/urls/{alias}/report"), &report);
    }
    let status = |alias: &str| world.terse.get(&format!("/{alias}")).0;
    run_scenario(true, &[&world.terse.url], async |browser| {
        world.sign_in(browser, "/moderation").await;
        browser.wait_for_text(".keys-hint", "block").await;
        let cases = async || browser.client.find_all(Locator::Css(".cases > li")).await.unwrap();
        let code = "const one = document.activeElement.closest('[data-case]');
            return one ? one.querySelector('[name=code]').value : ''";
        let chosen = async || browser.wait_for_value(code, |_| true).await;
        // Without a chosen report the keys decide nothing; in a field they are letters.
        browser.keys("b").await;
        assert_eq!(chosen().await, "");
        browser.press(".cases input[name=why]").await;
        browser.keys("bco").await;
        let why = browser.client.find(Locator::Css(".cases input[name=why]")).await.unwrap();
        assert_eq!(why.prop("value").await.unwrap().as_deref(), Some("bco"));
        assert_eq!(cases().await.len(), 3);
        for alias in ["lure", "fine", "spam"] {
            assert_eq!(status(alias), 302, "{alias}");
        }
        // The keys move down and up, and stay within the list.
        browser.open(&format!("{}/moderation", world.terse.url)).await;
        let mut order = Vec::new();
        for key in ["j", "j", "j", "j", "k", "k", "k"] {
            browser.keys(key).await;
            order.push(chosen().await);
        }
        let (first, second, third) = (order[0].clone(), order[1].clone(), order[2].clone());
        assert_eq!(order[3..], [&*third, &*second, &*first, &*first]);
        assert_eq!(browser.axe("moderation-chosen").await, [""; 0]);
        // Decisions in a run: the next case has the focus after each, and `u` takes one back.
        let mut want = ["lure", "fine", "spam", "other"].map(|alias| (alias, 302));
        browser.open(&format!("{}/moderation", world.terse.url)).await;
        browser.keys("j").await;
        let mut left = Vec::from(["lure", "fine", "spam"]);
        while !left.is_empty() {
            let alias = browser.wait_for_value(code, |alias| !alias.is_empty()).await;
            let (key, done) = match &*alias {
                "lure" => ("b", "lure is blocked."),
                "fine" => ("c", "fine is cleared."),
                "spam" => ("o", "chidi is suspended"),
                _ => panic!("{left:?} are left, but {alias:?} has the focus"),
            };
            left.retain(|one| *one != alias);
            for (of, status) in &mut want {
                let is_hit = match &*alias {
                    "lure" => *of == "lure",
                    "spam" => ["spam", "other"].contains(of),
                    _ => false,
                };
                *status = if is_hit { 451 } else { *status };
            }
            browser.keys(key).await;
            browser.wait_for_text(".toast", done).await;
            assert_eq!(want.map(|(alias, _)| (alias, status(alias))), want, "{alias}");
        }
        // The suspension of its owner leaves the report to be decided.
        assert_eq!(cases().await.len(), 1);
        browser.keys("u").await;
        browser.wait_for_text(".toast", "chidi is reinstated").await;
        assert_eq!(["spam", "other"].map(status), [302, 302]);
    });
}

#[test]
fn an_invitation_is_made_sent_and_accepted() {
    let world = World::new();
    let url = &world.terse.url;
    for (scripts, name) in [(true, "bela"), (false, "chidi")] {
        run_scenario(scripts, &[url], async |browser| {
            world.sign_in(browser, "/accounts").await;
            browser.press("#role option[value=moderator]").await;
            browser.press("form[action='/accounts/invite'] button").await;
            browser.wait("#fresh").await;
            let link = browser.text("#fresh").await;
            browser.client.delete_all_cookies().await.unwrap();
            browser.open(&link).await;
            browser.check_page().await;
            browser.join(name).await;
            // The role is the one that was chosen.
            browser.wait("nav.side a[href='/moderation']").await;
            browser.client.delete_all_cookies().await.unwrap();
            browser.open(&link).await;
            assert!(browser.client.find(Locator::Css("#again")).await.is_err(), "it works once");
            world.sign_in(browser, "/accounts").await;
            browser.wait_for_text(".people", name).await;
        });
    }
}

/// Every element that takes the focus shows it, and nothing covers it. Marks it as reached.
const FOCUS: &str = "const one = document.activeElement; if (one === document.body) return '';
    one.dataset.reached = '';
    const style = getComputedStyle(one);
    if (style.outlineStyle === 'none' && style.boxShadow === 'none') return 'shows no focus';
    const box = one.getBoundingClientRect();
    const at = document.elementFromPoint(box.x + Math.min(box.width, 24) / 2, box.y + box.height / 2);
    return at && (one.contains(at) || at.contains(one)) ? '' : 'is covered';";

#[test]
fn shortcuts_are_shown_and_can_be_turned_off() {
    let world = World::new();
    let url = &world.terse.url;
    world.api("POST", "/urls", &json!({"alias": "one", "long_url": "https://example.com/one"}));
    run_scenario(true, &[url], async |browser| {
        world.sign_in(browser, "/links").await;
        browser.keys("?").await;
        browser.wait("#keys-help[open]").await;
        assert_eq!(browser.axe("keys-help").await, [""; 0]);
        browser.key(Key::Escape).await;
        browser.open(&format!("{url}/account")).await;
        browser.press("#shortcuts").await;
        browser.press("form[action='/account/preferences'] button[type=submit]").await;
        browser.wait_for_text(".done", "Saved.").await;
        browser.open(&format!("{url}/links")).await;
        for key in ["n", "/", "?", "j"] {
            browser.keys(key).await;
        }
        assert!(browser.is_focused("body").await, "no key does anything");
        assert_eq!(browser.client.current_url().await.unwrap().path(), "/links");
        browser.tab_to(".copy-source", false).await;
        browser.keys("x").await;
        assert!(browser.client.find(Locator::Css(".pick:checked")).await.is_err());
    });
}

#[test]
fn live_clicks_are_paused_and_the_value_of_a_chart_is_hidden() {
    let world = World::new();
    let url = &world.terse.url;
    world.api("POST", "/urls", &json!({"alias": "one", "long_url": "https://example.com/one"}));
    run_scenario(true, &[url], async |browser| {
        world.sign_in(browser, "/links/one/live").await;
        browser.wait_for_text("[data-live-status]", "Live").await;
        browser.press("[data-live-pause]").await;
        browser.wait_for_text("[data-live-status]", "Paused").await;
        world.follow("one", 1);
        browser.wait_for_text("[data-live-status]", "1 new click waits").await;
        assert!(browser.client.find(Locator::Css("[data-live] tr")).await.is_err());
        assert_eq!(browser.axe("live-paused").await, [""; 0]);
        browser.press("[data-live-pause]").await;
        browser.wait_for_text("[data-live] tr", "human").await;
        browser.open(&format!("{url}/links/one")).await;
        browser.tab_to(".chart-plot", false).await;
        browser.wait(".chart-cursor:not([hidden])").await;
        browser.key(Key::Escape).await;
        browser.wait(".chart-cursor[hidden]").await;
    });
}

#[test]
fn the_dashboard_is_used_with_a_keyboard_alone() {
    let world = World::new();
    let url = &world.terse.url;
    for alias in ["one", "two", "three"] {
        let link = json!({"alias": alias, "long_url": format!("https://example.com/{alias}")});
        world.api("POST", "/urls", &link);
    }
    run_scenario(true, &[url], async |browser| {
        browser.open(&format!("{url}/login?next=/links")).await;
        browser.keys("ann").await;
        browser.key(Key::Tab).await;
        browser.keys(&format!("{PASSWORD}{}", char::from(Key::Enter))).await;
        browser.wait("nav.side").await;
        browser.keys("n").await;
        browser.wait("#long_url").await;
        browser.tab_to("#long_url", false).await;
        browser.keys(&format!("https://example.com/typed{}", char::from(Key::Enter))).await;
        browser.wait_for_text(".toast", "The link is created.").await;

        // The search, down to a row, and what its letters do.
        browser.open(&format!("{url}/links")).await;
        browser.keys("/").await;
        assert!(browser.is_focused("#q").await);
        browser.keys("example.com/t").await;
        browser.wait_for_text("#rows", "typed").await;
        browser.wait_for_spoken("3 links match.").await;
        browser.key(Key::Down).await;
        assert!(browser.is_focused(".copy-source").await, "down leads to the first row");
        let short = browser.attribute(".copy", "data-copy").await;
        browser.keys("c").await;
        browser.wait_for_text(".copy", "Copied").await;
        browser.wait_for_spoken("Copied").await;
        browser.key(Key::Down).await;
        browser.keys("x").await;
        browser.wait(".pick:checked").await;
        browser.keys("x").await;
        browser.keys("e").await;
        browser.wait("#long_url").await;
        browser.tab_to("#title", false).await;
        browser.keys(&format!("{}v", char::from(Key::Control))).await;
        let title = browser.client.find(Locator::Css("#title")).await.unwrap();
        assert_eq!(title.prop("value").await.unwrap(), Some(short), "c has copied the short link");

        // Two rows are selected, and an action is applied to both.
        browser.open(&format!("{url}/links")).await;
        let place = "return document.querySelector('[data-row]').getBoundingClientRect().top";
        let before = browser.client.execute(place, vec![]).await.unwrap();
        browser.keys("j").await;
        assert!(browser.is_focused(".copy-source").await, "j leads to the first row");
        browser.keys("x").await;
        let after = browser.client.execute(place, vec![]).await.unwrap();
        assert_eq!(before, after, "the bar of a selection moves no row");
        browser.key(Key::Down).await;
        browser.keys("x").await;
        browser.wait_for_text("[data-selected]", "2 links").await;
        browser.tab_to("[data-all]", false).await;
        browser.keys(" ").await;
        browser.wait_for_text("[data-selected]", "4 links").await;
        browser.keys(" ").await;
        browser.wait(".bulk[hidden]").await;
        // The focus is in the list again.
        browser.keys("x").await;
        browser.key(Key::Down).await;
        browser.keys("x").await;
        browser.wait_for_text("[data-selected]", "2 links").await;
        browser.tab_to("#action", false).await;
        browser.keys("Add the tag").await;
        browser.tab_to("#bulk-tag", false).await;
        browser.keys("by-keys").await;
        browser.tab_to(".bulk button", false).await;
        browser.key(Key::Enter).await;
        browser.wait_for_text(".toast", "2 links are tagged.").await;
        let tagged = world.api("GET", "/urls?tag=by-keys", &Value::Null);
        assert_eq!(tagged["links"].as_array().map(Vec::len), Some(2), "{tagged}");

        // Enter opens a row.
        let name = "[data-row]:last-child .copy-source";
        let path = browser.attribute(name, "href").await;
        browser.tab_to(name, false).await;
        browser.key(Key::Enter).await;
        browser.wait(&format!("nav.tabs a[href='{path}'][aria-current]")).await;

        // Menus open and close, and what is in them is pressed.
        let more = "summary[aria-label='More actions']";
        browser.tab_to(more, false).await;
        browser.key(Key::Enter).await;
        browser.wait(".actions details[open] button").await;
        browser.key(Key::Escape).await;
        let open = browser.client.find(Locator::Css(".actions details[open]")).await;
        assert!(open.is_err(), "Escape closes a menu");
        browser.tab_to(more, false).await;
        browser.key(Key::Enter).await;
        browser.tab_to("form[action$='/archive'] button", false).await;
        browser.key(Key::Enter).await;
        browser.wait_for_text(".toast", "archived").await;

        for (width, path) in
            [(1440, "/links"), (390, "/links"), (1440, "/links/one"), (390, "/account")]
        {
            browser.screen(width, 844, false).await;
            browser.open(&format!("{url}{path}")).await;
            for _ in 0..45 {
                browser.key(Key::Tab).await;
                let wrong = browser.client.execute(FOCUS, vec![]).await.unwrap();
                let one = browser.client.active_element().await.unwrap();
                assert_eq!(wrong, json!(""), "{path} {width}: {:?}", one.html(false).await);
            }
            // Without this, a page on which Tab reaches nothing would pass.
            let reached = "return document.querySelectorAll('[data-reached]').length";
            let reached = browser.client.execute(reached, vec![]).await.unwrap();
            assert!(reached.as_u64() >= Some(20), "{path} {width}: Tab reaches {reached} elements");
        }
    });
}
