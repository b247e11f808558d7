//! The import of a file from another shortener, from its upload to the report.

use serde_json::json;

use crate::browser::{Browser, run_scenario};
use crate::dashboard::World;

impl Browser {
    /// The figures of the import: new or created, already there, refused, skipped.
    async fn figures(&self) -> Vec<String> {
        let mut figures = Vec::new();
        for place in 1..=4 {
            figures.push(self.text(&format!(".figures dl > div:nth-child({place}) dd")).await);
        }
        figures
    }
}

#[test]
fn a_file_is_uploaded_previewed_imported_and_its_refused_rows_are_reported() {
    let world = World::new();
    let url = &world.terse.url;
    for scripts in [true, false] {
        let alias = if scripts { "sale" } else { "plain-sale" };
        // An export of YOURLS: its second row repeats a code, its third one has a bad target.
        let rows = format!(
            "keyword,url,title,timestamp,ip,clicks\n\
             {alias},https://example.com/{alias},Winter sale,2020-05-01 12:00:00,192.0.2.1,7\n\
             {alias},https://example.com/other,Again,2020-05-01 12:00:00,192.0.2.1,1\n\
             bad-{alias},ftp://example.com/,Bad,2020-05-01 12:00:00,192.0.2.1,0\n\
             {alias}-2,https://example.com/two,Two,2020-05-02 12:00:00,192.0.2.1,0\n"
        );
        let good = world.file("yourls.csv", &rows);
        let bad = world.file("no-targets.csv", "foo,bar\n1,2\n");
        let status = || world.terse.get(&format!("/{alias}")).0;
        run_scenario(scripts, &[url], async |browser| {
            world.sign_in(browser, "/links").await;
            browser.press("main a[href='/import']").await;
            browser.wait("#file").await;
            browser.choose("#file", &bad).await;
            browser.press("main form button[type=submit]").await;
            browser.wait("#file[aria-invalid]").await;
            browser.wait_for_text("#problem", "no column with targets").await;

            browser.choose("#file", &good).await;
            browser.press("main form button[type=submit]").await;
            browser.wait_for_text("#state", "This would happen").await;
            browser.check_page().await;
            browser.wait_for_text("main", "An export of YOURLS").await;
            assert_eq!(browser.figures().await, ["2", "0", "2", "0"]);
            let report = browser.text(".table-box tbody").await;
            let said = ["3 ", "an earlier row has this code", "4 ", "bad-", "long_url"];
            let places = said.map(|words| report.find(words));
            assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{report}");
            browser.wait_for_text("section[aria-labelledby=columns]", "keyword").await;
            browser.wait_for_text("section[aria-labelledby=sample]", "Winter sale").await;
            assert_eq!(status(), 404, "nothing is imported before it is confirmed");

            browser.wait_for_text("form[action='/import/start'] button", "Import 2 links").await;
            browser.press("form[action='/import/start'] button").await;
            browser.wait_for_text("#state", "The import is complete").await;
            browser.check_page().await;
            assert_eq!(browser.figures().await, ["2", "0", "2", "0"]);
            assert_eq!(status(), 302);
            if scripts {
                let read = "const done = arguments[0];
                    const link = document.querySelector('a[download]');
                    fetch(link.href).then((answer) => answer.text()).then(done)";
                let csv = browser.client.execute_async(read, vec![]).await.unwrap();
                let csv = csv.as_str().unwrap();
                assert_eq!(csv.lines().count(), 3, "{csv}");
                assert!(csv.contains("3,refused,\"sale\",\"short_code\","), "{csv}");
            }
            browser.press("main a[href='/links']").await;
            browser.wait(&format!("[name='pick.{alias}']")).await;

            // The same file once more: its links are recognised. Then the file is discarded.
            browser.open(&format!("{url}/import")).await;
            browser.press("form[action='/import/discard'] button").await;
            browser.wait("#file").await;
            browser.choose("#file", &good).await;
            browser.press("main form button[type=submit]").await;
            browser.wait_for_text("#state", "This would happen").await;
            assert_eq!(browser.figures().await, ["0", "2", "2", "0"]);
            browser.press("form[action='/import/discard'] button").await;
            browser.wait("#file").await;
        });
        let link = world.api("GET", &format!("/urls/{alias}"), &json!(null));
        assert_eq!(link["long_url"], json!(format!("https://example.com/{alias}")));
        assert_eq!(link["created_at"], json!("2020-05-01T12:00:00Z"));
    }
}
