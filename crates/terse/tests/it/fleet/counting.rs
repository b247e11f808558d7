//! Clicks of all nodes.

use serde_json::{Value, json};
use terse_testkit::{PostgresServer, wait_until};

use super::{Node, TIMEOUT, clicks, found};
use crate::harness::KEY;
use crate::process::command;

/// Clicks of both nodes are in one database, each once, also those that a killed node had answered
/// and not shipped.
#[test]
fn clicks_of_all_nodes_are_counted_once() {
    let database = PostgresServer::shared().fresh();
    let (a, b) = (Node::start(&database), Node::start(&database));
    let code = a.create(json!({ "long_url": "https://example.com/counted" }));
    for _ in 0..15 {
        assert_eq!(a.follow(&code).0, 302);
    }
    for _ in 0..10 {
        assert_eq!(b.follow(&code).0, 302);
    }
    for node in [&a, &b] {
        wait_until("both see all clicks", || clicks(node, &code) == 25);
    }
    // Not yet shipped when the node is killed: its next start counts them from its journal.
    for _ in 0..7 {
        assert_eq!(b.follow(&code).0, 302);
    }
    let Node { served, folder } = b;
    served.kill();
    let b = Node::start_in(&database, folder);
    for _ in 0..3 {
        assert_eq!(b.follow(&code).0, 302);
    }
    for node in [&a, &b] {
        wait_until("the clicks of the killed node too", || clicks(node, &code) >= 35);
        assert_eq!(clicks(node, &code), 35);
    }
    let single = PostgresServer::shared().sql(&database, "SELECT count(*) FROM click_raw");
    assert_eq!(single, "35");
    for node in [a, b] {
        node.served.terminate();
        let (status, said) = node.served.wait();
        assert!(status.success(), "{said}");
        assert!(!node.folder.path().join("data/clicks.db").exists());
    }
}

/// A live view on one node shows the clicks of both, each once.
#[test]
fn a_live_view_shows_the_clicks_of_all_nodes() {
    use std::io::BufRead as _;
    let database = PostgresServer::shared().fresh();
    let (a, b) = (Node::start(&database), Node::start(&database));
    let code = a.create(json!({ "long_url": "https://example.com/live" }));
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .max_redirects(0)
        .http_status_as_error(false)
        .timeout_global(Some(TIMEOUT * 2))
        .build()
        .into();
    let visit = |node: &Node, from: &str| {
        let url = format!("{}/{code}", node.served.url);
        let visit = agent.get(url).header("referer", format!("https://{from}.example/"));
        assert_eq!(visit.call().unwrap().status(), 302);
    };
    let url = format!("{}/api/v1/urls/{code}/live", a.served.url);
    let view = agent.get(url).header("authorization", format!("Bearer {KEY}")).call().unwrap();
    assert_eq!(view.status(), 200);
    let lines = std::io::BufReader::new(view.into_body().into_reader()).lines();
    let mut shown = lines.filter_map(|line| {
        let click: Value = serde_json::from_str(line.unwrap().strip_prefix("data: ")?).unwrap();
        Some(click["referrer"].as_str().unwrap().to_owned())
    });
    for n in 0..3 {
        visit(&a, &format!("a{n}"));
        visit(&b, &format!("b{n}"));
    }
    let mut seen: Vec<String> = shown.by_ref().take(6).collect();
    seen.sort_unstable();
    let all = ["a0", "a1", "a2", "b0", "b1", "b2"].map(|from| format!("{from}.example"));
    assert_eq!(seen, all);
    // All of them are stored, and read again with the next one: it alone is shown.
    wait_until("all are stored", || clicks(&b, &code) == 6);
    visit(&b, "last");
    assert_eq!(shown.next().unwrap(), "last.example");
}

/// A node was killed with clicks that it had not counted, and does not come back.
#[test]
fn the_journal_of_a_lost_node_is_shipped_once() {
    let database = PostgresServer::shared().fresh();
    let store = format!("store={database}");
    let slow = ["clicks.flush=1m"];
    let lost = Node::start_with(&database, tempfile::tempdir().unwrap(), &slow);
    let node = Node::start(&database);
    let code = lost.create(json!({ "long_url": "https://example.com/" }));
    let visit = |at: &Node, times: usize| {
        (0..times).for_each(|_| assert_eq!(at.follow(&code), found("https://example.com/")));
    };
    let total = || {
        let (_, stats) = node.call("GET", &format!("/urls/{code}/stats"), None);
        stats["total_clicks"].as_u64().unwrap()
    };
    visit(&lost, 20);
    let Node { served, folder } = lost;
    let journal = folder.path().join("data/journal");
    // With the settings of the other node, which runs.
    let ship = |journal: &std::path::Path| {
        let mut ship = command(&node.folder.path().join("data"));
        ship.args(["--json", "ship", "--set", &store, "--journal"]).arg(journal);
        let done = ship.output().unwrap();
        let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
        (done.status.success(), said)
    };
    let counted = |said: &str| serde_json::from_str::<Value>(said).unwrap()["counted"].as_u64();
    // A journal that a node writes, and a folder that is none.
    for (journal, why) in [
        (&journal, "the journal is in use"),
        (&node.folder.path().join("data/journal"), "the journal is in use"),
        (&folder.path().join("data"), "is no journal"),
    ] {
        let (shipped, said) = ship(journal);
        assert!(!shipped && said.contains(why), "{said}");
    }
    served.kill();
    visit(&node, 3);
    let (shipped, said) = ship(&journal);
    assert!(shipped && counted(&said) == Some(20), "{said}");
    wait_until("the other node's clicks are counted", || total() >= 23);
    assert_eq!(total(), 23);
    let is_segment = |name: &std::path::Path| name.extension().is_some_and(|end| end == "clicks");
    let left =
        journal.read_dir().unwrap().filter(|entry| is_segment(&entry.as_ref().unwrap().path()));
    assert_eq!(left.count(), 0, "what is counted is deleted");
    let (shipped, said) = ship(&journal);
    assert!(shipped && counted(&said) == Some(0), "{said}");
    // The node comes back after all.
    let back = Node::start_in(&database, folder);
    visit(&back, 2);
    wait_until("its new clicks are counted", || total() >= 25);
    assert_eq!(total(), 25);
}
