//! `terse import-clicks`: visits that a CDN answered.

use serde_json::{Value, json};

use crate::harness::{HOST, TestTerse};

/// The log of a Varnish in front of a server whose store is files.
#[test]
fn visits_that_an_edge_answered_are_counted_once_from_its_log() {
    let mut terse = TestTerse::start();
    terse.alias("news", "https://example.com/");
    let folder = terse.folder().to_owned();
    terse.stop();
    let line = |n: u32, hit: &str| {
        format!(
            "203.0.113.9 - - [{}] \"GET http://{HOST}/news?utm_source=mail HTTP/1.1\" 302 0 \
             \"https://news.example/\" \"Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 \
             Firefox/130.0\" {hit} - - {n}\n",
            "18/Nov/2030:13:55:36 +0000"
        )
    };
    let log = folder.join("varnish.log");
    let import = |name: &str| {
        let mut command = crate::process::command(&folder.join("data"));
        command.args(["import-clicks", "--json", "--format", "varnish"]).arg(folder.join(name));
        command.args(["--set", &format!("base_url=http://{HOST}")]);
        let done = command.output().unwrap();
        assert!(done.status.success(), "{done:?}");
        serde_json::from_slice::<Value>(&done.stdout).unwrap()
    };
    std::fs::write(&log, [line(1, "hit"), line(2, "miss"), line(3, "hit")].concat()).unwrap();
    assert_eq!(import("varnish.log")["counted"], 2);
    assert_eq!(import("varnish.log")["counted"], 0);
    // It is renamed, and grows.
    let more = [std::fs::read_to_string(&log).unwrap(), line(4, "hit")].concat();
    std::fs::write(folder.join("varnish.log.1"), more).unwrap();
    let again = import("varnish.log.1");
    assert_eq!((&again["counted"], &again["already"]), (&json!(1), &json!(3)));
    terse.restart();
    let stats = terse.api("GET", "/urls/news/stats", None).json();
    assert_eq!(stats["total_clicks"], 3, "{stats}");
    assert_eq!(stats["top_referrers"][0]["name"], "news.example", "{stats}");
}
