//! Two processes on one PostgreSQL database, with and without Redis.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use terse_testkit::{PostgresServer, RedisServer, wait_until};

use crate::harness::KEY;
use crate::process::{Served, command};

/// Longer than anything here takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A process that shares its store with others.
pub(crate) struct Node {
    pub(crate) served: Served,
    pub(crate) folder: tempfile::TempDir,
}

impl Node {
    fn start(database: &str) -> Self {
        Self::start_with(database, tempfile::tempdir().unwrap(), &[])
    }

    /// In the folder of an earlier process.
    fn start_in(database: &str, folder: tempfile::TempDir) -> Self {
        Self::start_with(database, folder, &[])
    }

    fn start_with(database: &str, folder: tempfile::TempDir, more: &[&str]) -> Self {
        let (store, key) = (format!("store={database}"), format!("admin_key={KEY}"));
        // All nodes have the same short domain, as behind a load balancer.
        let settings = [
            store.as_str(),
            key.as_str(),
            "redirect.threads=1",
            "base_url=http://127.0.0.1:1",
            "clicks.flush=1s",
        ];
        let settings = [&settings, more].concat();
        let served = Served::start(&folder.path().join("data"), &settings);
        Self { served, folder }
    }

    /// Status and body of an API call.
    pub(crate) fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        self.served.call(KEY, method, path, body)
    }

    /// Creates a link, and returns its code.
    pub(crate) fn create(&self, body: Value) -> String {
        let (status, link) = self.call("POST", "/urls", Some(body));
        assert_eq!(status, 201, "{link}");
        link["short_code"].as_str().unwrap().to_owned()
    }

    pub(crate) fn follow(&self, code: &str) -> (u16, Option<String>) {
        let (status, location, _) = self.served.get(&format!("/{code}"));
        (status, location)
    }

    /// The value of a metric, labels included.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let (_, _, text) = self.served.get("/metrics");
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{name} is not in {text}")).parse().unwrap()
    }

    /// Waits until a visit is answered like this.
    pub(crate) fn comes_to(&self, code: &str, expected: (u16, Option<&str>)) {
        let expected = (expected.0, expected.1.map(str::to_owned));
        wait_until(&format!("{code} is {expected:?}"), || self.follow(code) == expected);
    }
}

pub(crate) fn found(target: &str) -> (u16, Option<String>) {
    (302, Some(target.to_owned()))
}

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

#[test]
fn a_database_that_cannot_be_used_is_named_without_its_password() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let refused = |settings: &[&str]| {
        let mut serve = command(&data);
        serve.args(["serve", "--listen", "127.0.0.1:0"]);
        for setting in settings {
            serve.args(["--set", setting]);
        }
        let output = serve.output().unwrap();
        assert!(!output.status.success());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!said.contains("hunter2"), "{said}");
        said
    };
    let said = refused(&["store=postgres://u:hunter2@127.0.0.1:1/terse"]);
    assert!(said.contains("127.0.0.1/terse cannot be used"), "{said}");
    let said = refused(&["store_direct=postgres://u:hunter2@127.0.0.1:1/terse"]);
    assert!(said.contains("store_direct") && said.contains("PostgreSQL only"), "{said}");
    let said = refused(&["cache.url=redis://:hunter2@127.0.0.1:1"]);
    assert!(said.contains("cache.url") && said.contains("several nodes share"), "{said}");
    let said = refused(&["cache.url=redis://:hunter2@a,b"]);
    assert!(said.contains("cache.url") && said.contains("redis+cluster://"), "{said}");
    let (database, nowhere) = (PostgresServer::shared().fresh(), "redis://:hunter2@127.0.0.1:1");
    let said = refused(&[&format!("store={database}"), &format!("cache.url={nowhere}")]);
    assert!(said.contains("redis://:[hidden]@127.0.0.1:1 cannot be used"), "{said}");
    let said = refused(&["clicks.store=postgres://u:hunter2@127.0.0.1:1/terse"]);
    assert!(said.contains("clicks.store") && said.contains("must be a file"), "{said}");
}

/// The clicks of a link, as a node's statistics show them.
pub(crate) fn clicks(node: &Node, code: &str) -> u64 {
    let (status, stats) = node.call("GET", &format!("/urls/{code}/stats"), None);
    assert_eq!(status, 200, "{stats}");
    stats["total_clicks"].as_u64().unwrap()
}

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

/// A process per role: each does its part only, and what one stores the others use.
#[test]
fn roles_are_shared_out_among_processes() {
    let server = PostgresServer::shared();
    let database = server.fresh();
    let with = |roles: &str| {
        let roles = format!("roles={roles}");
        Node::start_with(
            &database,
            tempfile::tempdir().unwrap(),
            &[&roles, "base_url=http://127.0.0.1:1"],
        )
    };
    let (redirect, api) = (with("redirect"), with("api"));
    let code = api.create(json!({ "long_url": "https://example.com/roles" }));
    assert_eq!(redirect.follow(&code), found("https://example.com/roles"));
    // A node refuses requests outside of its roles, with a problem that says so.
    let (status, problem) =
        redirect.call("POST", "/urls", Some(json!({ "long_url": "https://a.example/" })));
    let why = problem["detail"].as_str().unwrap_or_default().to_owned();
    assert!(status == 404 && why.contains("does not serve the API"), "{status} {problem}");
    let (status, _, page) = redirect.served.get("/login");
    assert!(status == 404 && page.contains("does not serve pages"), "{page}");
    assert_eq!(api.follow(&code).0, 404, "only the role redirect follows links");
    for node in [&redirect, &api] {
        assert_eq!(node.served.get("/readyz").0, 200);
    }
    // Only workers run the jobs of the fleet: no node holds the lease before a worker starts.
    let leases = || server.sql(&database, "SELECT DISTINCT node FROM job_leases");
    assert_eq!(leases(), "");
    let worker = with("worker");
    let name = std::fs::read_to_string(worker.folder.path().join("data/node")).unwrap();
    wait_until("the worker holds the lease", || leases() == name);
    wait_until("the worker has run a job", || {
        worker.served.get("/metrics").2.contains("terse_job_runs_total{job=\"reaper\"}")
            && worker.metric("terse_job_runs_total{job=\"reaper\"}") > 0.0
    });
    for node in [&redirect, &api] {
        assert!(!node.served.get("/metrics").2.contains("job=\"reaper\""));
    }
    assert_eq!(leases(), name);
    // The worker and the API take no part in redirects, and clicks are counted all the same.
    wait_until("the click is counted", || clicks(&api, &code) == 1);
}

/// Sessions are in the database.
#[test]
fn a_login_on_one_node_is_a_login_on_all() {
    let database = PostgresServer::shared().fresh();
    let folder = tempfile::tempdir().unwrap();
    let (data, said) = (folder.path().join("data"), folder.path().join("said"));
    let (store, key) = (format!("store={database}"), format!("admin_key={KEY}"));
    let settings = [&store, &key, "base_url=http://127.0.0.1:1", "roles=web", "redirect.threads=1"];
    let a = Served::start_with_output(&data, &settings, &said);
    let said = std::fs::read_to_string(&said).unwrap();
    let token = said.split_once("/setup?token=").expect("a set-up link").1;
    let token = token.split_whitespace().next().unwrap();
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .max_redirects(0)
        .http_status_as_error(false)
        .timeout_global(Some(TIMEOUT))
        .build()
        .into();
    let post = |at: &Served, path: &str, cookie: &str, form: &str| {
        let request = http::Request::post(format!("{}{path}", at.url))
            .header("host", "127.0.0.1:1")
            .header("origin", "http://127.0.0.1:1")
            .header("accept", "text/html")
            .header("cookie", cookie)
            .header("content-type", "application/x-www-form-urlencoded");
        agent.run(request.body(form.to_owned()).unwrap()).unwrap()
    };
    let account = |at: &Served, cookie: &str| {
        let request = agent.get(format!("{}/account", at.url)).header("host", "127.0.0.1:1");
        request.header("accept", "text/html").header("cookie", cookie).call().unwrap().status()
    };
    let password = "correct+horse+battery";
    let form = format!("token={token}&name=ann&password={password}&again={password}");
    let signed_in = post(&a, "/setup", "", &form);
    assert_eq!(signed_in.status(), 303);
    // Not before: each start makes a new set-up link, while there is no admin.
    let b = Node::start_with(&database, tempfile::tempdir().unwrap(), &["roles=api,web"]).served;
    let cookie = signed_in.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap();
    for node in [&a, &b] {
        assert_eq!((account(node, cookie).as_u16(), account(node, "").as_u16()), (200, 303));
    }
    // A session of one node is valid on the other, and its end applies to both.
    let again = post(&b, "/login", "", &format!("name=ann&password={password}"));
    assert_eq!(again.status(), 303);
    let other = again.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap();
    assert_eq!(account(&a, other), 200);
    assert_eq!(post(&b, "/logout", cookie, "really=1").status(), 303);
    for node in [&a, &b] {
        assert_eq!((account(node, cookie).as_u16(), account(node, other).as_u16()), (303, 200));
    }
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
