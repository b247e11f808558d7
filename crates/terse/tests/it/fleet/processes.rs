//! Start, roles and sessions of processes that share a database.

use serde_json::json;
use terse_testkit::{PostgresServer, wait_until};

use super::{Node, TIMEOUT, clicks, found};
use crate::harness::KEY;
use crate::process::{Served, command};

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
