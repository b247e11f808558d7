//! What the scripts add to the pages: values of a chart under the pointer, passwords that can be
//! shown, sharing, a QR code and an address that follow the form, times in the visitor's zone; and
//! the bookmark that shortens a page.

use fantoccini::Locator;
use serde_json::{Value, json};

use crate::browser::{Browser, destination, run_scenario};
use crate::dashboard::World;

impl Browser {
    async fn run(&self, script: &str) -> Value {
        self.client.execute(script, vec![]).await.unwrap()
    }

    /// Moves the pointer.
    async fn point(&self, x: f64, y: f64) {
        let to = json!({ "type": "mouseMoved", "x": x, "y": y });
        self.devtools("Input.dispatchMouseEvent", to).await;
    }

    /// Runs a script at the beginning of every page from now on.
    async fn run_on_every_page(&self, script: &str) {
        let source = json!({ "source": script });
        self.devtools("Page.addScriptToEvaluateOnNewDocument", source).await;
    }
}

#[test]
fn the_pointer_shows_the_values_of_a_chart() {
    let world = World::new();
    world.api("POST", "/urls", &json!({"alias": "launch", "long_url": "https://example.com/"}));
    world.follow("launch", 5);
    run_scenario(true, &[&world.terse.url], async |browser| {
        world.sign_in(browser, "/links/launch").await;
        // What the table below the chart says.
        let rows = "return [...document.querySelectorAll('.chart-data tbody tr')]
            .map((row) => [...row.cells].map((cell) => cell.textContent))";
        let rows = browser.run(rows).await;
        let rows = rows.as_array().unwrap();
        let clicks: u64 = rows.iter().filter_map(|row| row[1].as_str()?.parse::<u64>().ok()).sum();
        assert!(clicks > 0 && rows.len() >= 30, "{rows:?}");
        let plot = "const plot = document.querySelector('.chart-plot');
            plot.scrollIntoView({ block: 'center', behavior: 'instant' });
            const box = plot.getBoundingClientRect();
            return [box.left, box.top, box.width, box.height]";
        let plot = browser.run(plot).await;
        let [left, top, width, height] = [0, 1, 2, 3].map(|place| plot[place].as_f64().unwrap());
        let last = rows.len() - 1;
        for place in [0, 1, last / 2, last - 1, last] {
            let share = place as f64 / last as f64;
            // The edges themselves are outside.
            let x = (left + share * width).clamp(left + 1.0, left + width - 1.0);
            browser.point(x, top + height / 2.0).await;
            let tip = browser.text(".chart-tip").await;
            let (label, value) =
                (rows[place][0].as_str().unwrap(), rows[place][1].as_str().unwrap());
            let value = if value == "1" { "1 click".into() } else { format!("{value} clicks") };
            assert!(tip.starts_with(&value) && tip.contains(label), "{tip} at {label}: {value}");
        }
        browser.point(left + width / 2.0, top - 100.0).await;
        let hidden = browser.run("return document.querySelector('.chart-cursor').hidden").await;
        assert_eq!(hidden, json!(true), "the value goes with the pointer");
    });
}

#[test]
fn a_password_can_be_shown_while_it_is_typed() {
    let world = World::new();
    let secret =
        json!({"alias": "secret", "long_url": "https://example.com/", "password": "sesame!"});
    world.api("POST", "/urls", &secret);
    run_scenario(true, &[&world.terse.url], async |browser| {
        let field = async || browser.attribute("#password", "type").await;
        let label = async || browser.attribute(".reveal button", "aria-label").await;
        browser.open(&format!("{}/login", world.terse.url)).await;
        browser.fill("#name", "ann").await;
        browser.fill("#password", "correct horse").await;
        assert_eq!((field().await, label().await), ("password".into(), "Show the password".into()));
        browser.press(".reveal button").await;
        assert_eq!((field().await, label().await), ("text".into(), "Hide the password".into()));
        assert_eq!(browser.text(".reveal button").await, "Hide");
        assert_eq!(browser.axe("password-shown").await, [""; 0]);
        browser.press(".reveal button").await;
        assert_eq!(field().await, "password");
        let value = "return document.getElementById('password').value";
        assert_eq!(browser.run(value).await, json!("correct horse"));
        // A form is never sent with a field that shows its password.
        browser.press(".reveal button").await;
        browser
            .run("document.forms[0].addEventListener('submit', (sent) => sent.preventDefault())")
            .await;
        browser.press("form[action='/login'] button[type=submit]").await;
        assert_eq!(field().await, "password");

        // On visitors' pages the button is in their language.
        browser.prefer_language("de").await;
        browser.open(&format!("{}/secret", world.terse.url)).await;
        assert_eq!(browser.text(".reveal button").await, "Zeigen");
        assert_eq!(label().await, "Passwort zeigen");
    });
}

#[test]
fn a_link_is_shared_and_its_qr_code_follows_the_form() {
    let world = World::new();
    let url = &world.terse.url;
    world.api("POST", "/urls", &json!({"alias": "launch", "long_url": "https://example.com/"}));
    run_scenario(true, &[url], async |browser| {
        // A browser without an offer to share, as most on desktops.
        let share =
            "Object.defineProperty(navigator, 'share', { value: SHARE, configurable: true })";
        browser.run_on_every_page(&share.replace("SHARE", "undefined")).await;
        world.sign_in(browser, "/links/launch").await;
        let hidden = "return document.querySelector('[data-share]').hidden";
        assert_eq!(browser.run(hidden).await, json!(true));
        // One that offers it; the first time, the visitor closes the list of apps.
        let offer = "(data) => { (window.shared ||= []).push(data);
            return window.shared.length > 1 ? Promise.resolve()
              : Promise.reject(new DOMException('closed', 'AbortError')); }";
        browser.run_on_every_page(&share.replace("SHARE", offer)).await;
        browser.open(&format!("{url}/links/launch")).await;
        browser.press("[data-share]").await;
        browser.press("[data-share]").await;
        let shared = json!({ "url": format!("{url}/launch") });
        assert_eq!(browser.run("return window.shared").await, json!([shared, shared]));

        qr_follows_the_form(browser, url).await;
    });
}

/// Waits until the QR code beside the form has this colour, and returns its address.
const DRAWN: &str = "const [colour, done] = arguments;
    const image = document.querySelector('[data-qr]');
    const look = () => {
      if (image.complete && image.naturalWidth > 0) {
        const canvas = document.createElement('canvas');
        [canvas.width, canvas.height] = [176, 176];
        const context = canvas.getContext('2d');
        context.drawImage(image, 0, 0, 176, 176);
        const data = context.getImageData(0, 0, 176, 176).data;
        for (let at = 0; at < data.length; at += 4) {
          if (colour.every((part, place) => data[at + place] === part)) return done(image.src);
        }
      }
      setTimeout(look, 50);
    };
    look();";

async fn qr_follows_the_form(browser: &Browser, url: &str) {
    let drawn = async |colour: [u8; 3]| {
        let src = browser.client.execute_async(DRAWN, vec![json!(colour)]).await;
        src.expect("the QR code has the colour").as_str().unwrap().to_owned()
    };
    // A colour is chosen in a window of the system, which a test cannot press.
    let colour = async |id: &str, value: &str| {
        let set = "const [id, value] = arguments; const field = document.getElementById(id);
            field.value = value; field.dispatchEvent(new Event('input', { bubbles: true }))";
        browser.client.execute(set, vec![json!(id), json!(value)]).await.unwrap();
    };
    browser.open(&format!("{url}/links/new")).await;
    browser.press("#qr-code > summary").await;
    let sample = drawn([0, 0, 0]).await;
    browser.fill("#alias", "by-hand").await;
    browser.wait("[data-qr][src*='alias=by-hand']").await;
    assert_ne!(drawn([0, 0, 0]).await, sample);
    colour("qr-fg", "#0a5c8f").await;
    drawn([0x0a, 0x5c, 0x8f]).await;
    colour("qr-bg", "#0a5c90").await;
    browser.wait("[data-qr-problem]:not([hidden])").await;
    colour("qr-bg", "#ffeecc").await;
    drawn([0xff, 0xee, 0xcc]).await;
    browser.wait("[data-qr-problem][hidden]").await;

    // The files of a link that exists have the same colours.
    browser.open(&format!("{url}/links/launch/edit")).await;
    browser.press("#qr-code > summary").await;
    colour("qr-fg", "#0a5c8f").await;
    browser.press("#qr-size option:first-child").await;
    drawn([0x0a, 0x5c, 0x8f]).await;
    browser.wait("[data-qr-file][href*='format=svg'][href*='fg=0a5c8f'][href*='size=256']").await;
    browser.wait("[data-qr-file][href*='format=png'][href*='fg=0a5c8f'][href*='size=256']").await;
}

/// A browser without scripts offers no fields that only a script reads.
#[test]
fn without_scripts_the_form_has_no_fields_for_the_colours_of_the_qr_code() {
    let world = World::new();
    for (scripts, is_shown) in [(false, false), (true, true)] {
        run_scenario(scripts, &[&world.terse.url], async |browser| {
            world.sign_in(browser, "/links/new").await;
            browser.press("#qr-code > summary").await;
            let shown = async |css: &str| {
                browser.client.find(Locator::Css(css)).await.unwrap().is_displayed().await.unwrap()
            };
            assert!(shown("#qr-code img").await, "the sample needs no script");
            for field in ["#qr-fg", "#qr-bg", "#qr-size", "label[for=qr-fg]"] {
                assert_eq!(shown(field).await, is_shown, "{field}");
            }
        });
    }
}

#[test]
fn the_fields_of_a_campaign_show_the_address_that_is_stored() {
    let world = World::new();
    run_scenario(true, &[&world.terse.url], async |browser| {
        let shown = async || {
            let shown = browser.client.find(Locator::Css("[data-campaign-result] output")).await;
            let shown = shown.unwrap();
            assert!(shown.is_displayed().await.unwrap());
            shown.prop("textContent").await.unwrap().unwrap_or_default()
        };
        let stored = |alias: &str| {
            let link = world.api("GET", &format!("/urls/{alias}"), &Value::Null);
            link["long_url"].as_str().unwrap().to_owned()
        };
        world.sign_in(browser, "/links").await;
        for (alias, target, fields) in [
            (
                "spelled",
                "https://example.com/a?b=%20x+y;z&utm_source=old&&c#d",
                &[("utm_source", "news letter"), ("utm_campaign", "q&a=100% +1")][..],
            ),
            (
                "odd-signs",
                "https://EXAMPLE.com:443/\u{e4}?q='\"<>|\u{e4}",
                &[("utm_term", "\u{e4} \u{65e5}\u{672c}"), ("utm_content", "a*b~c!'()_-.")],
            ),
            ("bare", "https://example.com", &[("utm_medium", " mail ")]),
        ] {
            browser.open(&format!("{}/links/new", world.terse.url)).await;
            browser.fill("#long_url", target).await;
            browser.fill("#alias", alias).await;
            browser.press("details:has(#utm_source) > summary").await;
            for (field, text) in fields {
                browser.fill(&format!("#{field}"), text).await;
            }
            let said = shown().await;
            assert!(fields.iter().all(|(field, _)| said.contains(&format!("{field}="))), "{said}");
            browser.press(".form-end button").await;
            browser.wait_for_text(".toast", "The link is created.").await;
            assert_eq!(stored(alias), said);
        }
        // A parameter of the target is removed, and another one replaced.
        browser.open(&format!("{}/links/spelled/edit", world.terse.url)).await;
        browser.fill("#utm_source", "").await;
        browser.fill("#utm_campaign", "spring").await;
        let said = shown().await;
        assert_eq!(said, "https://example.com/a?b=%20x+y;z&c&utm_campaign=spring#d");
        browser.press(".form-end button").await;
        browser.wait_for_text(".toast", "The link is changed.").await;
        assert_eq!(stored("spelled"), said);
    });
}

#[test]
fn the_bookmark_opens_the_form_with_the_address_of_the_page() {
    let world = World::new();
    let url = &*world.terse.url;
    let host = format!("http://{}", destination());
    let page = format!("{host}/shop?q=a%20b+c&d=%C3%A4&url=%26#part");
    run_scenario(true, &[url, &host], async |browser| {
        world.sign_in(browser, "/account").await;
        let bookmark = browser.attribute(".bookmarklet", "href").await;
        let code = bookmark.strip_prefix("javascript:").unwrap_or_else(|| panic!("{bookmark}"));
        browser.open(&page).await;
        browser.landed(&page).await;
        browser.run(code).await;
        browser.wait("#long_url").await;
        let here = browser.client.current_url().await.unwrap();
        assert!(here.as_str().starts_with(&format!("{url}/links/new?url=")), "{here}");
        let sent = here.query_pairs().find(|(name, _)| name == "url").unwrap().1.into_owned();
        assert_eq!(sent, page);
        let field = browser.client.find(Locator::Css("#long_url")).await.unwrap();
        assert_eq!(field.prop("value").await.unwrap(), Some(page.clone()));
        // The form saves it as it is.
        browser.press(".form-end button").await;
        browser.wait_for_text(".toast", "The link is created.").await;
        assert_eq!(browser.attribute(".link-goes a", "href").await, page);
    });
}

#[test]
fn the_first_page_after_signing_in_has_the_time_zone_of_the_browser() {
    let world = World::new();
    // In Tokyo, the next day has begun.
    let later = json!({"alias": "later", "long_url": "https://example.com/",
        "valid_from": "2999-07-01T20:00:00Z"});
    world.api("POST", "/urls", &later);
    run_scenario(true, &[&world.terse.url], async |browser| {
        let zone = json!({ "timezoneId": "Asia/Tokyo" });
        browser.devtools("Emulation.setTimezoneOverride", zone).await;
        world.sign_in(browser, "/links").await;
        assert_eq!(browser.text(".link-row .pill").await, "starts 2 Jul 2999");
        let cookies = browser.run("return document.cookie").await;
        assert!(cookies.as_str().unwrap().contains("terse_zone=Asia/Tokyo"), "{cookies}");
    });
}
