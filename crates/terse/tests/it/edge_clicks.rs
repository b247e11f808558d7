//! `terse import-clicks`: visits that a CDN answered.

use std::time::Duration;

use serde_json::{Value, json};
use terse_testkit::{PostgresServer, VarnishServer, wait_until};

use crate::harness::{HOST, KEY, TestTerse};
use crate::process::{Served, command, folder};

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

/// The format that the documentation gives to `varnishncsa`.
fn documented_format() -> String {
    let page = std::fs::read_to_string("../../docs/cdn.md").unwrap();
    let (_, rest) = page.split_once("varnishncsa -a -w").expect("the command");
    let (_, rest) = rest.split_once("-F '").expect("a format");
    rest.split_once('\'').expect("its end").0.to_owned()
}

/// Two nodes on PostgreSQL, one of them behind a real Varnish, whose log a real `varnishncsa`
/// writes. Each visit is counted once, whether a node or Varnish answered it.
#[test]
fn visits_at_a_real_varnish_are_counted_while_nodes_run() {
    let (varnish, database) = (VarnishServer::new(), PostgresServer::shared().fresh());
    let ((temp, data), (_other, elsewhere)) = (folder(), folder());
    let settings = [
        format!("store={database}"),
        format!("admin_key={KEY}"),
        format!("base_url=http://{HOST}"),
        format!("cdn.url={}", varnish.url()),
        "cdn.enabled=true".into(),
        "cdn.ttl=1h".into(),
        "cdn.purge=varnish".into(),
        "clicks.flush=1s".into(),
        "redirect.threads=1".into(),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let behind = Served::start(&data, &settings);
    let beside = Served::start(&elsewhere, &settings);
    let vcl = std::fs::read_to_string("../../deploy/varnish.vcl").unwrap();
    let port = behind.url.rsplit_once(':').unwrap().1.trim_end_matches('/');
    varnish.start(&vcl.replace("\"8080\"", &format!("\"{port}\"")));
    let body = json!({ "long_url": "https://example.com/", "custom_alias": "news" });
    assert_eq!(behind.call(KEY, "POST", "/urls", Some(body)).0, 201);
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .max_redirects(0)
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(30)))
        .build()
        .into();
    // Whether Varnish answered by itself.
    let visit = |url: &str| {
        let answer = agent.get(format!("{url}/news")).header("host", HOST).call().unwrap();
        assert_eq!(answer.status(), 302);
        let number = answer.headers().get("x-varnish").map(|number| number.to_str().unwrap());
        number.is_some_and(|number| number.contains(' '))
    };
    let (mut hits, mut visits) = (0, 0);
    while hits < 5 {
        hits += u64::from(visit(&varnish.url()));
        visits += 1;
        assert!(visits < 500, "Varnish keeps nothing");
    }
    let log = temp.path().join("varnish.log");
    let format = documented_format();
    // Purges are in the log, too.
    let is_written = |visits: u64| {
        wait_until("the log has all visits", || {
            std::fs::write(&log, varnish.log(&format)).unwrap();
            let lines = std::fs::read_to_string(&log).unwrap();
            lines.lines().filter(|line| line.contains("\"GET ")).count() as u64 == visits
        });
    };
    is_written(visits);
    // While the nodes run, and one of them has visits.
    let import = || {
        let mut import = command(&data);
        import.args(["import-clicks", "--json", "--format", "varnish"]).arg(&log);
        import.args(["--set", settings[0], "--set", settings[2]]);
        let done = import.output().unwrap();
        assert!(done.status.success(), "{done:?}");
        let counted: Value = serde_json::from_slice(&done.stdout).unwrap();
        counted["counted"].as_u64().unwrap()
    };
    visit(&beside.url);
    assert_eq!((import(), import()), (hits, 0));
    visit(&beside.url);
    // The log grows.
    let mut more = 0;
    for _ in 0..4 {
        more += u64::from(visit(&varnish.url()));
        visits += 1;
    }
    is_written(visits);
    assert_eq!((import(), import()), (more, 0));
    for node in [&behind, &beside] {
        let total = || node.call(KEY, "GET", "/urls/news/stats", None).1["total_clicks"].as_u64();
        wait_until("every visit is counted", || total() >= Some(visits + 2));
        assert_eq!(total(), Some(visits + 2), "and once");
    }
}
