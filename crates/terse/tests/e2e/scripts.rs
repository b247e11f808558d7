//! What the scripts add to the pages: values of a chart under the pointer, passwords that can be
//! shown, sharing, and a QR code that follows the form.

use serde_json::{Value, json};

use crate::browser::{Browser, run_scenario};
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
