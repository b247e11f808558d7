//! The first page after set-up: what it offers is used.

use fantoccini::Locator;
use fantoccini::key::Key;

use crate::browser::run_scenario;
use crate::process::{Served, folder};

#[test]
fn the_first_page_leads_to_a_link_a_domain_an_import_and_a_program() {
    let (temp, data) = folder();
    let output = temp.path().join("output");
    let terse = Served::start_with_output(&data, &[], &output);
    let output = std::fs::read_to_string(&output).unwrap();
    let setup = output.split_whitespace().find(|word| word.contains("/setup?token=")).unwrap();
    let url = &*terse.url;
    let file = temp.path().join("links.csv");
    std::fs::write(&file, "short_code,long_url\nmoved,https://example.com/moved\n").unwrap();
    run_scenario(true, &[url], async |browser| {
        browser.open(setup).await;
        browser.join("ann").await;
        assert_eq!(browser.text("h1").await, "Welcome");
        browser.check_page().await;

        // Each snippet is copied as it is shown, and names this server.
        let snippets = browser.client.find_all(Locator::Css(".snippet")).await.unwrap().len();
        assert_eq!(snippets, 3);
        for place in 0..snippets {
            let snippet = format!(".snippet:nth-of-type({})", place + 1);
            browser.press(&format!("{snippet} button.copy")).await;
            browser.wait_for_text(&format!("{snippet} button.copy"), "Copied").await;
            let shown = browser.client.find(Locator::Css(&format!("{snippet} pre"))).await.unwrap();
            let shown = shown.prop("textContent").await.unwrap().unwrap_or_default();
            assert!(shown.contains(&format!("{url}/api/v1/urls")), "{shown}");
            let field = browser.client.find(Locator::Css("#url")).await.unwrap();
            field.clear().await.unwrap();
            field.send_keys(&format!("{}v", char::from(Key::Control))).await.unwrap();
            let pasted = field.prop("value").await.unwrap();
            // A field has one line.
            assert_eq!(pasted, Some(shown.replace('\n', " ")));
        }

        // A long link is carried into the form.
        browser.fill("#url", "https://example.com/first").await;
        browser.press("form[action='/links/new'] button").await;
        browser.wait("#long_url").await;
        assert_eq!(browser.attribute("#long_url", "value").await, "https://example.com/first");

        // A domain: the error is beside its field, and the next page says what DNS says of it,
        // which is nothing for a server without a public address.
        browser.open(&format!("{url}/dashboard")).await;
        browser.fill("#domain", "no domain").await;
        browser.press("form[action='/domains'] button").await;
        browser.wait("#domain[aria-invalid]").await;
        browser.open(&format!("{url}/dashboard")).await;
        browser.fill("#domain", "links.example.com").await;
        browser.press("form[action='/domains'] button").await;
        browser.wait_for_text(".toast", "The domain is saved.").await;
        let added = ".places li:has([value='links.example.com'])";
        browser.wait_for_text(added, "not checked").await;
        browser.check_page().await;

        // An import, after which the page is the overview.
        browser.open(&format!("{url}/dashboard")).await;
        browser.press("main a[href='/import']").await;
        browser.wait("#file").await;
        browser.choose("#file", &file).await;
        browser.press("main form button[type=submit]").await;
        browser.wait_for_text("#state", "This would happen").await;
        browser.press("form[action='/import/start'] button").await;
        browser.wait_for_text("#state", "The import is complete").await;
        let goes = terse.get("/moved").1;
        assert_eq!(goes.as_deref(), Some("https://example.com/moved"));
        browser.open(&format!("{url}/dashboard")).await;
        browser.wait_for_text("h1", "Overview").await;
        browser.wait_for_text("section[aria-labelledby=newest]", "moved").await;
    });
}
