//! The accent colour: it marks what a page is for, so a page has it once.

use serde_json::{Value, json};

use crate::browser::run_scenario;
use crate::dashboard::{PAGES, World};

/// The buttons and links on the accent colour that the page shows. The count of open reports in the
/// side bar is part of a link, and no button.
const ACCENTED: &str = "const probe = document.createElement('i');
    probe.style.color = 'var(--accent)';
    document.body.append(probe);
    const accent = getComputedStyle(probe).color;
    probe.remove();
    const shows = { opacityProperty: true, visibilityProperty: true };
    const isAccented = (one) => {
      const { backgroundColor, clipPath } = getComputedStyle(one);
      // What only screen readers find is clipped.
      return backgroundColor === accent && clipPath === 'none' && one.checkVisibility(shows);
    };
    return [...document.querySelectorAll('a, button, summary, input[type=submit], [role=button]')]
      .filter(isAccented).map((one) => one.outerHTML)";

#[test]
fn at_most_one_button_of_a_page_has_the_accent_colour() {
    let world = World::with_pages();
    world.api("POST", "/urls/nasty/report", &json!({"reason": "spam", "text": "unwanted"}));
    run_scenario(true, &[&world.terse.url], async |browser| {
        world.sign_in(browser, "/dashboard").await;
        let (mut many, mut pages_with_one) = (Vec::new(), 0);
        for (width, height) in [(1440, 1100), (390, 844)] {
            browser.screen(width, height, false).await;
            for (name, path) in PAGES {
                browser.open(&format!("{}{path}", world.terse.url)).await;
                browser.wait("nav.side").await;
                let found: Value = browser.client.execute(ACCENTED, vec![]).await.unwrap();
                match found.as_array().unwrap().as_slice() {
                    [] => {}
                    [_] => pages_with_one += 1,
                    _ => many.push(format!("{name} {width}: {found}")),
                }
            }
        }
        assert!(many.is_empty(), "several buttons have the accent colour: {}", many.join("\n"));
        // The list of links has it on New link, so the colour is recognised.
        assert!(pages_with_one > PAGES.len(), "{pages_with_one}");
    });
}
