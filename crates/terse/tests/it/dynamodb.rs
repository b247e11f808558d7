//! Processes with links on DynamoDB and everything else on PostgreSQL.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use terse_testkit::{AnsweringProxy, DynamoServer, PostgresServer, wait_until};

use crate::fleet::{Node, clicks, found};
use crate::harness::KEY;
use crate::process::{Served, command};

const THROTTLED: &str = "ProvisionedThroughputExceededException";

/// A command with credentials. DynamoDB Local accepts any.
fn with_credentials(data: &Path) -> Command {
    let mut command = command(data);
    for name in ["AWS_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN"] {
        command.env_remove(name);
    }
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    command
}

/// The URL of a table, perhaps behind a proxy.
fn url(table: &str, endpoint: &str) -> String {
    format!("dynamodb://{table}?region=eu-central-1&endpoint={endpoint}")
}

/// Runs a command that succeeds, and returns what it prints.
fn said(data: &Path, args: &[&str], settings: &[String]) -> String {
    let mut command = with_credentials(data);
    command.args(args);
    for setting in settings {
        command.args(["--set", setting]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A table and a database that several nodes use.
struct Shared {
    table: String,
    database: String,
}

impl Shared {
    /// Creates the table as an operator does.
    fn fresh() -> Self {
        let server = DynamoServer::shared();
        let (table, database) = (server.fresh_name(), PostgresServer::shared().fresh());
        let folder = tempfile::tempdir().unwrap();
        let url = url(&table, &server.endpoint());
        said(&folder.path().join("data"), &["migrate", "--to", &url], &[]);
        Self { table, database }
    }

    fn settings(&self, endpoint: &str) -> Vec<String> {
        vec![
            format!("store={}", url(&self.table, endpoint)),
            format!("registry={}", self.database),
            format!("admin_key={KEY}"),
            "redirect.threads=1".to_owned(),
            "base_url=http://127.0.0.1:1".to_owned(),
            "clicks.flush=1s".to_owned(),
        ]
    }

    fn node(&self) -> Node {
        self.node_in(tempfile::tempdir().unwrap(), &DynamoServer::shared().endpoint())
    }

    /// In the folder of an earlier process, perhaps behind a proxy.
    fn node_in(&self, folder: tempfile::TempDir, endpoint: &str) -> Node {
        let data = folder.path().join("data");
        let mut command = with_credentials(&data);
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        for setting in self.settings(endpoint) {
            command.args(["--set", &setting]);
        }
        let served = Served::spawn(&data, command.stdout(Stdio::null()).stderr(Stdio::piped()));
        Node { served, folder }
    }
}

fn stop(node: Node) -> tempfile::TempDir {
    let Node { served, folder } = node;
    served.terminate();
    let (status, said) = served.wait();
    assert!(status.success(), "{said}");
    folder
}

#[test]
fn two_nodes_on_one_table_behave_as_one() {
    let shared = Shared::fresh();
    let (a, b) = (shared.node(), shared.node());

    // A link created on one node redirects on the other at once.
    let code = a.create(json!({ "long_url": "https://example.com/1" }));
    assert_eq!(b.follow(&code), found("https://example.com/1"));
    // An alias that was asked for before it existed is remembered as missing for a moment.
    assert_eq!(b.follow("early").0, 404);
    a.create(json!({ "long_url": "https://example.com/2", "custom_alias": "early" }));
    b.comes_to("early", (302, Some("https://example.com/2")));
    let again = json!({ "long_url": "https://example.com/3", "custom_alias": "early" });
    let (status, problem) = b.call("POST", "/urls", Some(again));
    assert_eq!((status, problem["code"].as_str()), (409, Some("alias_taken")));

    // Changes, deletions and blocks reach the other node, which has the link in its memory.
    let change = json!({ "long_url": "https://example.com/new" });
    assert_eq!(b.call("PATCH", &format!("/urls/{code}"), Some(change)).0, 200);
    assert_eq!(b.follow(&code), found("https://example.com/new"));
    a.comes_to(&code, (302, Some("https://example.com/new")));
    assert_eq!(a.call("DELETE", "/urls/early", None).0, 204);
    b.comes_to("early", (404, None));
    let block = json!({ "standing": "blocked" });
    let (status, answer) = a.call("PUT", &format!("/admin/links/{code}/standing"), Some(block));
    assert_eq!(status, 200, "{answer}");
    b.comes_to(&code, (451, None));

    // The registry is shared, too: what one node blocks, the other refuses.
    let blocked = json!({ "host": "bad.example.net", "why": "phishing" });
    let (status, answer) = a.call("POST", "/admin/blocklist", Some(blocked));
    assert!((200..300).contains(&status), "{answer}");
    let bad = || json!({ "long_url": "https://bad.example.net/", "reuse": false });
    wait_until("the other node refuses the host", || b.call("POST", "/urls", Some(bad())).0 == 422);

    // Calls of the store and their cost are in the metrics.
    assert!(a.metric("terse_dynamodb_request_units_total{kind=\"write\"}") >= 3.0);
    let (_, _, metrics) = b.served.get("/metrics");
    assert!(metrics.contains("terse_store_calls_total"), "{metrics}");

    // `terse doctor` checks the table and the database.
    let settings = shared.settings(&DynamoServer::shared().endpoint());
    let data = b.folder.path().join("data");
    let checked = said(&data, &["--json", "doctor"], &settings);
    assert!(checked.contains(&format!("table {}", shared.table)), "{checked}");
    assert!(checked.contains("\"registry\"") && checked.contains("PostgreSQL"), "{checked}");
    for node in [a, b] {
        stop(node);
    }
}

#[test]
fn an_alias_has_one_owner_and_a_limited_link_its_clicks_however_many_nodes_ask() {
    let shared = Shared::fresh();
    let nodes = [shared.node(), shared.node()];
    for round in 0..5 {
        let alias = format!("raced-{round}");
        let answers: Vec<(u16, String)> = std::thread::scope(|scope| {
            let callers: Vec<_> = (0..8)
                .map(|n| {
                    let (node, alias) = (&nodes[n % 2], &alias);
                    scope.spawn(move || {
                        let target = format!("https://example.com/{round}/{n}");
                        let new = json!({ "long_url": target, "custom_alias": alias });
                        (node.call("POST", "/urls", Some(new)).0, target)
                    })
                })
                .collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).collect()
        });
        let winners: Vec<_> = answers.iter().filter(|(status, _)| *status == 201).collect();
        let [(_, target)] = winners[..] else { panic!("{answers:?}") };
        assert_eq!(answers.iter().filter(|(status, _)| *status == 409).count(), 7, "{answers:?}");
        for node in &nodes {
            node.comes_to(&alias, (302, Some(target)));
        }
    }

    let few = nodes[0].create(json!({ "long_url": "https://example.com/few", "max_clicks": 5 }));
    let mut answers: Vec<u16> = std::thread::scope(|scope| {
        let visitors: Vec<_> = (0..16)
            .map(|n| {
                let (node, few) = (&nodes[n % 2], &few);
                scope.spawn(move || node.follow(few).0)
            })
            .collect();
        visitors.into_iter().map(|visitor| visitor.join().unwrap()).collect()
    });
    answers.sort_unstable();
    assert_eq!(answers, [[302; 5].as_slice(), &[410; 11]].concat());
}

#[test]
fn a_restart_keeps_links_accounts_and_clicks() {
    let shared = Shared::fresh();
    let (a, b) = (shared.node(), shared.node());
    let code = a.create(json!({ "long_url": "https://example.com/kept" }));
    b.create(json!({ "long_url": "https://example.com/alias", "custom_alias": "kept" }));
    let account = json!({ "name": "ann" });
    let (status, made) = a.call("POST", "/admin/users", Some(account));
    assert_eq!(status, 201, "{made}");
    for _ in 0..6 {
        assert_eq!(a.follow(&code), found("https://example.com/kept"));
    }
    for _ in 0..4 {
        assert_eq!(b.follow(&code), found("https://example.com/kept"));
    }
    // One node ends in order, the other does not.
    let first = stop(a);
    let Node { served, folder: second } = b;
    served.kill();
    let endpoint = DynamoServer::shared().endpoint();
    let nodes = [shared.node_in(first, &endpoint), shared.node_in(second, &endpoint)];
    for node in &nodes {
        assert_eq!(node.follow("kept"), found("https://example.com/alias"));
        let (status, users) = node.call("GET", "/admin/users", None);
        assert!(status == 200 && users.to_string().contains("\"ann\""), "{users}");
        wait_until("all clicks are counted", || clicks(node, &code) >= 10);
        assert_eq!(clicks(node, &code), 10);
    }
    let new = nodes[0].create(json!({ "long_url": "https://example.com/new", "reuse": false }));
    assert_ne!(new, code);
}

#[test]
fn a_table_or_registry_that_cannot_be_used_is_named_before_the_port_opens() {
    let (server, database) = (DynamoServer::shared(), PostgresServer::shared().fresh());
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let refused = |settings: &[String], credentials: bool| {
        let mut serve = with_credentials(&data);
        if !credentials {
            serve.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
            serve.env("AWS_EC2_METADATA_DISABLED", "true").env("HOME", folder.path());
        }
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
    let absent = url(&server.fresh_name(), &server.endpoint());
    let store = format!("store={absent}");
    let registry = format!("registry={database}");

    let said = refused(std::slice::from_ref(&store), true);
    assert!(said.contains("registry") && said.contains("must be postgres://"), "{said}");
    let said = refused(&[store.clone(), "registry=file:registry.db".into()], true);
    assert!(said.contains("registry") && said.contains("must be postgres://"), "{said}");
    let clicks = "clicks.store=file:clicks.db".to_owned();
    let said = refused(&[store.clone(), registry.clone(), clicks], true);
    assert!(said.contains("clicks.store") && said.contains("clickhouse://"), "{said}");
    let said = refused(&["store=dynamodb://key:hunter2@table".into()], true);
    assert!(said.contains("takes no credentials"), "{said}");

    let said = refused(&[store.clone(), registry.clone()], true);
    assert!(said.contains("does not exist: create it with `terse migrate --to"), "{said}");
    let said = refused(&[store.clone(), registry.clone()], false);
    assert!(said.contains("no credentials for DynamoDB"), "{said}");
    let nowhere = format!("store={}", url("terse", "http://127.0.0.1:1"));
    let said = refused(&[nowhere, registry.clone()], true);
    assert!(said.contains("DynamoDB: ") && said.contains("Connection refused"), "{said}");
    let said = refused(&["store=dynamodb://terse".into(), registry], true);
    assert!(said.contains("no region: add ?region="), "{said}");

    let existing = Shared::fresh();
    let mut settings = existing.settings(&server.endpoint());
    settings[1] = "registry=postgres://u:hunter2@127.0.0.1:1/terse".to_owned();
    let said = refused(&settings, true);
    assert!(said.contains("127.0.0.1/terse cannot be used"), "{said}");
}

#[test]
fn migrate_creates_the_table_once_and_moves_nothing() {
    let (server, folder) = (DynamoServer::shared(), tempfile::tempdir().unwrap());
    let (table, data) = (server.fresh_name(), folder.path().join("data"));
    let url = url(&table, &server.endpoint());
    let migrate = || -> Value {
        serde_json::from_str(&said(&data, &["--json", "migrate", "--to", &url], &[])).unwrap()
    };
    let created = migrate();
    assert_eq!((&created["table"], &created["created"]), (&json!(table), &json!(true)));
    assert_eq!(migrate()["created"], json!(false));
    let told = said(&data, &["migrate", "--to", &url], &[]);
    assert!(told.contains("exists already") && told.contains("No data was moved"), "{told}");
    let from = with_credentials(&data)
        .args(["migrate", "--from", "file:terse.db", "--to", &url])
        .output()
        .unwrap();
    let refused = String::from_utf8(from.stderr).unwrap();
    assert!(!from.status.success() && refused.contains("no data moves into"), "{refused}");
    // The settings are shown as they are: the URL has no secret.
    let settings =
        [format!("store={url}"), "registry=postgres://u:hunter2@127.0.0.1:1/terse".to_owned()];
    let shown = said(&data, &["config"], &settings);
    assert!(shown.contains(&format!("store = \"{url}\"")), "{shown}");
    assert!(shown.contains("postgres://u:[hidden]@127.0.0.1:1/terse"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

/// Status, `Retry-After` and body of an API call.
fn call(node: &Node, method: &str, path: &str, body: &Value) -> (u16, Option<String>, Value) {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let request = http::Request::builder()
        .method(method)
        .uri(format!("{}{path}", node.served.url))
        .header("authorization", format!("Bearer {KEY}"))
        .header("content-type", "application/json");
    let mut answer = agent.run(request.body(body.to_string()).unwrap()).unwrap();
    let after = answer.headers().get("retry-after");
    let after = after.map(|after| after.to_str().unwrap().to_owned());
    let text = answer.body_mut().read_to_string().unwrap();
    (answer.status().as_u16(), after, serde_json::from_str(&text).unwrap_or_default())
}

#[test]
fn a_throttled_table_is_503_with_retry_after_and_no_write_is_lost() {
    let (shared, server) = (Shared::fresh(), DynamoServer::shared());
    let proxy = AnsweringProxy::start(server.port());
    let direct = shared.node();
    let node = shared.node_in(tempfile::tempdir().unwrap(), &proxy.endpoint());
    let kept = direct.create(json!({ "long_url": "https://example.com/kept" }));
    let writes = ["PutItem", "TransactWriteItems", "UpdateItem"];
    let throttle = |operations: &[&str], times| {
        operations.iter().for_each(|operation| proxy.fail(operation, times, THROTTLED));
    };
    // Throttled for a moment: the node repeats the request, and the link is there once.
    let mut targets = vec!["https://example.com/kept".to_owned()];
    for n in 0..6 {
        throttle(&writes, 2);
        let target = format!("https://example.com/{n}");
        let alias = (n % 2 == 0).then(|| format!("alias-{n}"));
        let code = node.create(json!({ "long_url": target, "custom_alias": alias }));
        assert_eq!(direct.follow(&code), found(&target));
        targets.push(target);
    }
    // Throttled throughout: nothing is written, and the caller knows.
    throttle(&writes, u32::MAX);
    for alias in [None, Some("refused")] {
        let new = json!({ "long_url": "https://example.com/refused", "custom_alias": alias });
        let (status, after, problem) = call(&node, "POST", "/api/v1/urls", &new);
        assert_eq!((status, after.as_deref()), (503, Some("1")), "{problem}");
        assert_eq!(problem["code"], "store_unavailable", "{problem}");
    }
    let change = json!({ "long_url": "https://example.com/changed" });
    let path = format!("/api/v1/urls/{kept}");
    let (status, after, problem) = call(&node, "PATCH", &path, &change);
    assert_eq!((status, after.as_deref()), (503, Some("1")), "{problem}");
    // Reads too: a visitor of a link that is not in memory is asked to come again.
    throttle(&["GetItem", "BatchGetItem"], u32::MAX);
    let (status, after, _) = call(&node, "GET", &format!("/{kept}"), &Value::Null);
    assert_eq!((status, after.as_deref()), (503, Some("1")));
    throttle(&["GetItem", "BatchGetItem"], 0);
    throttle(&writes, 0);
    let listed = || -> Vec<String> {
        let (status, page) = direct.call("GET", "/urls?limit=100", None);
        assert_eq!(status, 200, "{page}");
        let links = page["links"].as_array().unwrap();
        let mut all: Vec<_> =
            links.iter().map(|link| link["long_url"].as_str().unwrap().to_owned()).collect();
        all.sort_unstable();
        all
    };
    targets.sort_unstable();
    assert_eq!(listed(), targets, "what was refused is not there, and what was answered is");
    // The same requests succeed now.
    node.create(json!({ "long_url": "https://example.com/refused", "custom_alias": "refused" }));
    assert_eq!(direct.follow("refused"), found("https://example.com/refused"));
    assert_eq!(call(&node, "PATCH", &path, &change).0, 200);
    direct.comes_to(&kept, (302, Some("https://example.com/changed")));
}
