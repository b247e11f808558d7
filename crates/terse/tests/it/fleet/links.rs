//! Links on nodes that share a database, with and without Redis.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use terse_testkit::{PostgresServer, RedisServer, wait_until};

use super::{Node, found};
use crate::process::command;

#[test]
fn two_nodes_on_one_database_behave_as_one() {
    let database = PostgresServer::shared().fresh();
    let (a, b) = (Node::start(&database), Node::start(&database));

    // A link created on one node redirects on the other at once.
    let code = a.create(json!({ "long_url": "https://example.com/1" }));
    assert_eq!(b.follow(&code), found("https://example.com/1"));
    // An alias that was asked for before it existed is remembered as missing for a moment.
    assert_eq!(b.follow("early").0, 404);
    a.create(json!({ "long_url": "https://example.com/2", "custom_alias": "early" }));
    b.comes_to("early", (302, Some("https://example.com/2")));
    // One node's alias is taken on the other.
    let again = json!({ "long_url": "https://example.com/3", "custom_alias": "early" });
    let (status, problem) = b.call("POST", "/urls", Some(again));
    assert_eq!((status, problem["code"].as_str()), (409, Some("alias_taken")));

    // A change through one node reaches the other, which has the link in its memory.
    let change = json!({ "long_url": "https://example.com/new" });
    assert_eq!(b.call("PATCH", &format!("/urls/{code}"), Some(change)).0, 200);
    assert_eq!(b.follow(&code), found("https://example.com/new"));
    a.comes_to(&code, (302, Some("https://example.com/new")));
    assert_eq!(a.call("DELETE", "/urls/early", None).0, 204);
    b.comes_to("early", (404, None));

    // A host that is blocked through one node is refused by the other.
    let blocked = json!({ "host": "bad.example.net", "why": "phishing" });
    let (status, answer) = a.call("POST", "/admin/blocklist", Some(blocked));
    assert!((200..300).contains(&status), "{answer}");
    let bad = || json!({ "long_url": "https://bad.example.net/", "reuse": false });
    wait_until("the other node refuses the host", || b.call("POST", "/urls", Some(bad())).0 == 422);

    // Limited links are exact across nodes.
    let few = a.create(json!({ "long_url": "https://example.com/few", "max_clicks": 5 }));
    let visits = (0..12).map(|n| if n % 2 == 0 { a.follow(&few).0 } else { b.follow(&few).0 });
    let mut answers: Vec<u16> = visits.collect();
    answers.sort_unstable();
    assert_eq!(answers, [[302; 5].as_slice(), &[410; 7]].concat());

    // `terse doctor` checks the database, and no output shows its password.
    let checked = command(&b.folder.path().join("data"))
        .args(["--json", "doctor", "--set", &format!("store={database}")])
        .output()
        .unwrap();
    let said = String::from_utf8(checked.stdout).unwrap();
    assert!(said.contains("connections") && said.contains("PostgreSQL"), "{said}");
    for node in [a, b] {
        node.served.terminate();
        let (status, said) = node.served.wait();
        assert!(status.success(), "{said}");
    }
}

#[test]
fn nodes_with_redis_share_copies_of_links_and_hear_of_changes() {
    let (database, redis) = (PostgresServer::shared().fresh(), RedisServer::start(&[]));
    let url = format!("cache.url={}", redis.url());
    let settings = [url.as_str(), "cache.write_through=true"];
    let start = || Node::start_with(&database, tempfile::tempdir().unwrap(), &settings);
    let (a, b) = (start(), start());
    let hits = |node: &Node| node.metric("terse_shared_cache_lookups_total{what=\"hit\"}");
    let changes = |node: &Node| node.metric("terse_change_delay_seconds_count");

    let code = a.create(json!({ "long_url": "https://example.com/1" }));
    assert_eq!(b.follow(&code), found("https://example.com/1"));
    // A node that starts later finds the copies of the others.
    wait_until("a copy answers", || {
        let fresh = a.create(json!({ "long_url": "https://example.com/w", "reuse": false }));
        assert_eq!(b.follow(&fresh), found("https://example.com/w"));
        hits(&b) > 0.0
    });

    // Changes and blocks reach the other node, which has the link in its memory and in Redis.
    for n in 2..5 {
        let target = format!("https://example.com/{n}");
        let before = changes(&a);
        let change = json!({ "long_url": target });
        assert_eq!(b.call("PATCH", &format!("/urls/{code}"), Some(change)).0, 200);
        assert_eq!(b.follow(&code), found(&target), "the node that wrote never goes back");
        a.comes_to(&code, (302, Some(&target)));
        wait_until("the delay is measured", || changes(&a) > before);
    }

    // A frozen or killed Redis stops nothing, and what changed meanwhile is not undone.
    redis.freeze();
    let change = json!({ "long_url": "https://example.com/frozen" });
    assert_eq!(a.call("PATCH", &format!("/urls/{code}"), Some(change)).0, 200);
    b.comes_to(&code, (302, Some("https://example.com/frozen")));
    let other = b.create(json!({ "long_url": "https://example.com/other" }));
    assert_eq!(a.follow(&other), found("https://example.com/other"));
    redis.thaw();
    let ready = |node: &Node| node.metric("terse_shared_cache_ready") == 1.0;
    wait_until("copies are in use again", || ready(&a) && ready(&b));
    for node in [&a, &b] {
        assert_eq!(node.follow(&code), found("https://example.com/frozen"));
    }
    redis.stop();
    assert_eq!(b.follow(&other), found("https://example.com/other"));
    a.create(json!({ "long_url": "https://example.com/without", "reuse": false }));
    redis.run();
    wait_until("copies are in use again", || ready(&a) && ready(&b));

    // The doctor tells the operator about the memory of Redis.
    let checked = command(&b.folder.path().join("data"))
        .args(["--json", "doctor", "--set", &format!("store={database}"), "--set", &url])
        .output()
        .unwrap();
    let said = String::from_utf8(checked.stdout).unwrap();
    assert!(said.contains("maxmemory is 0"), "{said}");
}

/// The row of a link is removed from the database by hand. The link is in the memory of both nodes,
/// and in Redis.
#[test]
fn a_forgotten_link_is_read_from_the_database_again_on_every_node() {
    let server = PostgresServer::shared();
    let (database, redis) = (server.fresh(), RedisServer::start(&[]));
    for cache in [Some(format!("cache.url={}", redis.url())), None] {
        let settings: Vec<&str> = cache.iter().map(String::as_str).collect();
        let start = || Node::start_with(&database, tempfile::tempdir().unwrap(), &settings);
        let (a, b) = (start(), start());
        let target = "https://example.com/removed";
        let code = a.create(json!({ "long_url": target, "reuse": false }));
        for node in [&a, &b] {
            assert_eq!(node.follow(&code), found(target));
        }
        let is_copied = || {
            let place = redis.ask(&["KEYS", &format!("*:{code}")]);
            redis.ask(&["GETRANGE", &place, "0", "0"]) == "L"
        };
        // A node writes no copy while its first answers from Redis are late; a new one tries again.
        wait_until("a copy is in Redis", || {
            cache.is_none() || is_copied() || start().follow(&code).0 != 302
        });
        server.sql(&database, &format!("DELETE FROM links WHERE code = '{code}'"));
        for node in [&a, &b] {
            assert_eq!(node.follow(&code), found(target), "nothing has told the nodes");
        }
        let data = a.folder.path().join("data");
        let said = command(&data).args(["--json", "forget", &code]).output().unwrap();
        assert!(said.status.success(), "{said:?}");
        let said: Value = serde_json::from_slice(&said.stdout).unwrap();
        assert_eq!(said["results"][0]["status"], 204, "{said}");
        assert_eq!(a.follow(&code).0, 404, "the node that was asked forgets at once");
        b.comes_to(&code, (404, None));
        // A node that has just started asks Redis first.
        assert_eq!(start().follow(&code).0, 404);
    }
}

#[test]
fn a_node_serves_what_it_knows_while_its_database_is_away() {
    let server = PostgresServer::start(&[]);
    let node = Node::start(&server.fresh());
    let code = node.create(json!({ "long_url": "https://example.com/kept" }));
    assert_eq!(node.follow(&code), found("https://example.com/kept"));
    server.stop();
    let mut took: Vec<Duration> = (0..500)
        .map(|_| {
            let begun = Instant::now();
            assert_eq!(node.follow(&code), found("https://example.com/kept"));
            begun.elapsed()
        })
        .collect();
    took.sort_unstable();
    let p99 = took[took.len() * 99 / 100];
    println!("without the database, 99 % of the visits took at most {p99:?}");
    // Only where no other program runs: such machines are rare.
    if std::env::var_os("TERSE_TEST_LATENCY").is_some() {
        assert!(p99 < Duration::from_millis(10), "{p99:?}");
    }
    let (status, problem) =
        node.call("POST", "/urls", Some(json!({ "long_url": "https://example.com/x" })));
    assert_eq!(status, 503, "{problem}");
    assert_eq!(node.follow("unknown-alias").0, 503, "it may exist");
    server.run();
    let new = || json!({ "long_url": "https://example.com/back", "custom_alias": "back" });
    wait_until("links are created again", || {
        matches!(node.call("POST", "/urls", Some(new())).0, 200 | 201)
    });
    node.comes_to("back", (302, Some("https://example.com/back")));
    assert_eq!(node.follow(&code), found("https://example.com/kept"));
}

/// Several callers ask several nodes at the same moment.
#[test]
fn races_across_nodes_have_one_winner() {
    let database = PostgresServer::shared().fresh();
    let nodes = [Node::start(&database), Node::start(&database)];
    // The answers of four callers, two at each node, who begin together.
    let race = |ask: &(dyn Fn(&Node, usize) -> u16 + Sync)| {
        let barrier = std::sync::Barrier::new(4);
        let mut answers: Vec<u16> = std::thread::scope(|scope| {
            let callers: Vec<_> = (0..4)
                .map(|caller| {
                    let (barrier, node) = (&barrier, &nodes[caller % 2]);
                    scope.spawn(move || {
                        barrier.wait();
                        ask(node, caller)
                    })
                })
                .collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).collect()
        });
        answers.sort_unstable();
        answers
    };
    for round in 0..5 {
        let alias = format!("race-{round}");
        let create = |node: &Node, caller: usize| {
            let target = format!("https://example.com/{round}/{caller}");
            node.call("POST", "/urls", Some(json!({ "long_url": target, "custom_alias": alias }))).0
        };
        assert_eq!(race(&create), [201, 409, 409, 409], "{alias}");
    }
    let few = nodes[0].create(json!({ "long_url": "https://example.com/few", "max_clicks": 3 }));
    assert_eq!(race(&|node, _| node.follow(&few).0), [302, 302, 302, 410]);
}

/// Searches and statistics of a node ask the replica; lists and redirects ask the primary.
#[test]
fn a_node_searches_on_the_replica_and_the_doctor_checks_it() {
    let server = PostgresServer::start(&["fsync=off"]);
    let standby = server.synchronous_standby();
    let database = server.fresh_database();
    let replica = format!("store_replica={}", standby.url(&database));
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start_with(&server.url(&database), folder, &[&replica]);
    let code = node.create(json!({ "long_url": "https://example.com/needle", "title": "Hay" }));
    let doctor = || {
        let checked = command(&node.folder.path().join("data"))
            .args(["--json", "doctor", "--set", &format!("store={}", server.url(&database))])
            .args(["--set", &replica])
            .output()
            .unwrap();
        let said: Value = serde_json::from_slice(&checked.stdout).unwrap();
        let all = said["findings"].as_array().unwrap_or_else(|| panic!("{said}")).clone();
        let own = all.iter().find(|finding| finding["what"] == "store_replica");
        own.unwrap_or_else(|| panic!("{said}")).clone()
    };
    let is_replayed = "SELECT pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn()";
    let follows = || standby.sql("postgres", is_replayed) == "t";
    wait_until("the standby follows", follows);
    // When a connection to the standby has last ended a read.
    let reads = format!(
        "SELECT max(state_change) FROM pg_stat_activity WHERE datname = '{database}' \
         AND query LIKE '%COMMIT'"
    );
    let last_read = || standby.sql("postgres", &reads);
    let get = |path: &str| {
        let (status, body) = node.call("GET", path, None);
        assert_eq!(status, 200, "{path}: {body}");
        body.to_string()
    };
    let mut last = last_read();
    let (stats, clicks) = (format!("/urls/{code}/stats"), format!("/urls/{code}/clicks"));
    for path in ["/urls", "/urls?q=needle", "/tags", "/stats", &stats, &clicks] {
        // The node waits ten seconds after a read for which a busy standby was late.
        wait_until(&format!("the replica answers {path}"), || {
            get(path);
            last_read() != last
        });
        last = last_read();
    }
    assert!(get("/urls?q=needle").contains(&code));
    last = last_read();
    assert_eq!(node.follow(&code), found("https://example.com/needle"));
    assert_eq!(last_read(), last, "the primary has answered the visit");
    let good = doctor();
    assert!(good["found"].as_str().unwrap().contains("caught up"), "{good}");

    // The replica stands still: the doctor says so, and the primary answers.
    standby.sql("postgres", "SELECT pg_wal_replay_pause()");
    let paused = "SELECT pg_get_wal_replay_pause_state()";
    wait_until("the standby stands still", || standby.sql("postgres", paused) == "paused");
    let later = node.create(json!({ "long_url": "https://example.com/needles", "reuse": false }));
    assert!(get("/urls").contains(&later), "a list has every link");
    let late = doctor();
    assert!(late["found"].as_str().unwrap().contains("behind"), "{late}");
    wait_until("a search finds it", || get("/urls?q=needles").contains(&later));
    standby.stop();
    let away = doctor();
    assert!(away["found"].as_str().unwrap().contains("the primary answers"), "{away}");
    assert!(get("/urls?q=needles").contains(&later));
}
