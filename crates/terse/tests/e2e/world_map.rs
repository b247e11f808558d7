//! The map of countries on the page of a link.

use serde_json::{Value, json};

use crate::browser::run_scenario;
use crate::dashboard::World;
use crate::states::States;

/// The countries of these addresses are in the bundled GeoIP data.
const GERMANY: [&str; 3] = ["141.20.1.1", "141.20.1.2", "141.20.1.3"];
const UNITED_STATES: &str = "8.8.8.8";
const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0";

/// The countries with a colour of their own, and whether the shape of each is drawn.
const COUNTRIES: &str = "return [...document.querySelectorAll('.map g use')]
    .map((one) => one.textContent + (one.getBoundingClientRect().width > 1 ? '' : ' (not drawn)'))
    .sort().join(', ')";
/// The colours of the land, of the weakest and of the strongest of two countries.
const COLOURS: &str = "return ['.land', '.map-3 use', '.map-5 use']
    .map((css) => getComputedStyle(document.querySelector(css)).fill)";

#[test]
fn the_map_of_a_link_colours_the_countries_of_its_clicks() {
    let world = World::with(&["trusted_proxies=127.0.0.1"]);
    let link = json!({"alias": "launch", "long_url": "https://example.com/"});
    world.api("POST", "/urls", &link);
    for address in GERMANY.into_iter().chain([UNITED_STATES]) {
        let answer = World::agent()
            .get(format!("{}/launch", world.terse.url))
            .header("user-agent", FIREFOX)
            .header("x-forwarded-for", address)
            .call();
        assert_eq!(answer.unwrap().status().as_u16(), 302);
    }
    world.wait_for_clicks("launch", 4);
    run_scenario(true, &[&world.terse.url], async |browser| {
        let url = &world.terse.url;
        world.sign_in(browser, "/links/launch").await;
        for path in ["/links/launch", "/links/launch/values?of=countries"] {
            browser.open(&format!("{url}{path}")).await;
            // The shapes come from a file of their own.
            let want = "Germany: 3, United States: 1";
            browser.wait_for_value(COUNTRIES, |found| found == want).await;
            for dark in [true, false] {
                browser.screen(1440, 900, dark).await;
                let found: Value = browser.client.execute(COLOURS, vec![]).await.unwrap();
                let [land, weak, strong] = [0, 1, 2].map(|place| found[place].as_str().unwrap());
                assert!(land != weak && land != strong && weak != strong, "{path}: {found}");
            }
        }
        let mut states = States::new(browser, url);
        states.open("link-map", "/links/launch").await;
        states.open("countries-map", "/links/launch/values?of=countries").await;
        states.done();
    });
}
