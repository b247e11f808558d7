//! `terse migrate`: a data folder moves into PostgreSQL, and a node there gives the same answers.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};
use terse_testkit::{PostgresServer, wait_until};

use crate::harness::KEY;
use crate::process::{Served, command, folder};

/// Status and body of an API call.
fn call(at: &Served, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    at.call(KEY, method, path, body)
}

fn start(data: &Path, more: &[&str]) -> Served {
    let key = format!("admin_key={KEY}");
    let settings = [
        &[
            key.as_str(),
            "redirect.threads=1",
            "base_url=http://127.0.0.1:1",
            "outgoing.webhooks=true",
        ],
        more,
    ]
    .concat();
    Served::start(data, &settings)
}

fn stop(served: Served) {
    served.terminate();
    let (status, said) = served.wait();
    assert!(status.success(), "{said}");
}

fn migrate(data: &Path, to: &str) -> (bool, String) {
    migrate_by(data, &["--to", to])
}

fn migrate_by(data: &Path, options: &[&str]) -> (bool, String) {
    let output = command(data).args(["--json", "migrate"]).args(options).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

fn browser() -> ureq::Agent {
    let config = ureq::Agent::config_builder().max_redirects(0).http_status_as_error(false);
    config.timeout_global(Some(std::time::Duration::from_secs(30))).build().into()
}

/// Signs in, and returns the cookie.
fn sign_in(at: &Served, name: &str, password: &str) -> String {
    let request = http::Request::post(format!("{}/login", at.url))
        .header("host", "127.0.0.1:1")
        .header("origin", "http://127.0.0.1:1")
        .header("accept", "text/html")
        .header("content-type", "application/x-www-form-urlencoded");
    let form = format!("name={name}&password={password}");
    let answer = browser().run(request.body(form).unwrap()).unwrap();
    assert_eq!(answer.status(), 303);
    let cookie = answer.headers()["set-cookie"].to_str().unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

/// Whether the account's page opens with this cookie, without another sign-in.
fn is_signed_in(at: &Served, cookie: &str) -> bool {
    let request = browser().get(format!("{}/account", at.url)).header("host", "127.0.0.1:1");
    let page = request.header("accept", "text/html").header("cookie", cookie).call().unwrap();
    page.status() == 200
}

/// The answers of a server to all read requests.
fn answers(at: &Served, codes: &[String], owner: &str) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    let mut add = |key: &str, path: String| {
        let (status, mut body) = at.call(key, "GET", &path, None);
        // A deleted link has no answers; every refusal has a number of its own.
        assert!(status == 200 || path.starts_with("/urls/gone"), "{path}: {body}");
        if let Some(problem) = body.as_object_mut() {
            problem.remove("request_id");
        }
        all.insert(
            format!("{} {path}", if key == KEY { "admin" } else { "owner" }),
            json!([status, body]),
        );
    };
    for code in codes {
        for below in
            ["", "/stats?interval=month&from=2026-01-01&to=2099-01-01", "/clicks", "/revisions"]
        {
            add(KEY, format!("/urls/{code}{below}"));
        }
    }
    for path in [
        "/tags",
        "/stats?owner=all&interval=month&from=2026-01-01&to=2099-01-01",
        "/admin/orphans?interval=month&from=2026-01-01&to=2099-01-01",
        "/admin/users",
        "/admin/reports",
        "/admin/blocklist",
        "/admin/audit",
        "/domains",
        "/invitations",
    ] {
        add(KEY, path.to_owned());
    }
    for path in ["/account", "/webhooks", "/stats?interval=month&from=2026-01-01&to=2099-01-01"] {
        add(owner, path.to_owned());
    }
    for (key, path) in [
        (KEY, "/urls?limit=100"),
        (KEY, "/urls?status=deleted"),
        (KEY, "/urls?q=many"),
        (KEY, "/admin/links?limit=100"),
        (owner, "/urls?limit=100"),
    ] {
        all.insert(format!("all of {path} {}", key == KEY), listed(at, key, path));
    }
    all
}

/// All pages of a list. Stores differ in the order of links of one moment, and in their cursors.
fn listed(at: &Served, key: &str, path: &str) -> Value {
    let (mut links, mut cursor) = (BTreeMap::new(), String::new());
    loop {
        let (status, page) = at.call(key, "GET", &format!("{path}{cursor}"), None);
        assert_eq!(status, 200, "{page}");
        let fields = page.as_object().unwrap();
        let some = fields.values().find_map(Value::as_array).unwrap();
        for link in some {
            links.insert(link["short_code"].to_string(), link.clone());
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return json!(links),
        }
    }
}

/// Where visits lead. Links with a limit are left out: a visit spends one.
fn visits(at: &Served, codes: &[String]) -> Vec<(String, u16, Option<String>)> {
    codes
        .iter()
        .map(|code| {
            let (status, location, _) = at.get(&format!("/{code}"));
            (code.clone(), status, location)
        })
        .collect()
}

#[test]
fn a_moved_folder_gives_the_same_answers_on_postgresql_and_back_in_files() {
    let server = PostgresServer::shared();
    // Of its own: the move back asks whether nodes use the database.
    let database = server.url(&server.fresh_database());
    let (_temp, data) = folder();
    let file = start(&data, &[]);
    let create = |key: &str, body: Value| -> String {
        let (status, link) = file.call(key, "POST", "/urls", Some(body));
        assert_eq!(status, 201, "{link}");
        link["short_code"].as_str().unwrap().to_owned()
    };
    // An owner with a key, a webhook and links.
    let password = "correct-horse-battery";
    let ann = json!({ "name": "ann", "password": password });
    let (status, user) = call(&file, "POST", "/admin/users", Some(ann));
    assert_eq!(status, 201, "{user}");
    let path = format!("/admin/users/{}/keys", user["id"]);
    let (status, made) =
        call(&file, "POST", &path, Some(json!({ "name": "all", "scope": "full" })));
    assert_eq!(status, 201, "{made}");
    let owner = made["key"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
    let cookie = sign_in(&file, "ann", password);
    assert!(is_signed_in(&file, &cookie) && !is_signed_in(&file, ""));
    let to = |name: &str| format!("https://example.com/{name}");
    let mut codes = vec![
        create(KEY, json!({ "long_url": to("generated") })),
        create(KEY, json!({ "long_url": to("alias"), "custom_alias": "Alias" })),
        create(
            &owner,
            json!({ "long_url": to("owned"), "title": "Über", "tags": ["a", "b"], "notes": "n" }),
        ),
        create(
            &owner,
            json!({ "long_url": to("owned-2"), "custom_alias": "mine", "redirect": 301 }),
        ),
        create(KEY, json!({ "long_url": to("secret"), "password": "open sesame" })),
        create(KEY, json!({ "long_url": to("later"), "valid_from": "2098-01-01T00:00:00Z" })),
        create(KEY, json!({ "long_url": to("ends"), "expires_at": "2098-01-01T00:00:00Z" })),
        create(
            KEY,
            json!({ "long_url": to("ruled"), "rules": [{ "country": "AT", "to": to("at") }] }),
        ),
    ];
    let few = create(KEY, json!({ "long_url": to("few"), "max_clicks": 5 }));
    let gone = create(KEY, json!({ "long_url": to("gone"), "custom_alias": "gone" }));
    assert_eq!(call(&file, "DELETE", &format!("/urls/{gone}"), None).0, 204);
    let bad = create(KEY, json!({ "long_url": to("bad"), "custom_alias": "bad" }));
    let judged = json!({ "standing": "blocked", "why": "phishing" });
    let judged = call(&file, "PUT", &format!("/admin/links/{bad}/standing"), Some(judged));
    assert_eq!(judged.0, 200, "{judged:?}");
    for n in 0..3 {
        let change = json!({ "long_url": to(&format!("changed-{n}")) });
        assert_eq!(call(&file, "PATCH", "/urls/Alias", Some(change)).0, 200);
    }
    let imported =
        json!([{ "long_url": to("imported"), "short_code": "imported", "imported_clicks": 7 }]);
    let (status, said) = call(&file, "POST", "/admin/import", Some(imported));
    assert_eq!((status, &said["results"][0]["status"]), (207, &json!(201)), "{said}");
    let hook = json!({ "url": "https://hooks.example/new", "events": ["link.blocked"] });
    let (status, said) = file.call(&owner, "POST", "/webhooks", Some(hook));
    assert_eq!(status, 201, "{said}");
    for (path, body) in [
        ("/admin/blocklist", json!({ "host": "evil.example", "why": "phishing kits" })),
        ("/invitations", json!({ "role": "user" })),
        ("/urls/Alias/report", json!({ "reason": "spam" })),
    ] {
        let (status, said) = call(&file, "POST", path, Some(body));
        assert!((200..300).contains(&status), "{path}: {said}");
    }
    codes.extend(["imported", "gone", "bad"].map(str::to_owned));
    // More links than one transaction writes.
    for n in 0..6 {
        let many: Vec<Value> =
            (0..100).map(|m| json!({ "long_url": to(&format!("many/{n}/{m}")) })).collect();
        assert_eq!(call(&file, "POST", "/urls/bulk", Some(Value::Array(many))).0, 207);
    }
    for _ in 0..4 {
        visits(&file, &codes);
    }
    for _ in 0..2 {
        assert_eq!(file.get(&format!("/{few}")).0, 302);
    }
    assert_eq!(file.get("/never-was").0, 404);
    stop(file);

    // Counted by the end of the server. What it says now is what the database must say.
    let file = start(&data, &[]);
    codes.push(few.clone());
    let expected = answers(&file, &codes, &owner);
    // The command refuses the folder of a running server.
    let (moved, said) = migrate(&data, &database);
    assert!(!moved && said.contains("stop the server first"), "{said}");
    stop(file);
    // It refuses a database that is in use.
    let used = server.fresh();
    let (_other, elsewhere) = folder();
    let node = start(&elsewhere, &[&format!("store={used}")]);
    let link = json!({ "long_url": to("other") });
    assert_eq!(call(&node, "POST", "/urls", Some(link)).0, 201);
    stop(node);
    let (moved, said) = migrate(&data, &used);
    assert!(!moved && said.contains("is in use"), "{said}");

    let (moved, said) = migrate(&data, &database);
    assert!(moved, "{said}");
    let counts: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(counts["links"], 612, "{counts}");
    let (again, said) = migrate(&data, &database);
    assert!(!again && said.contains("finished move"), "{said}");

    // As after an interruption: no node starts, a row that is missing is written again, and one
    // that should be there is missed.
    let interrupt = |position: &str, delete: &str| {
        let sql = format!("UPDATE terse_migration SET finished = false, position = {position}");
        server.sql(&database, &sql);
        server.sql(&database, &format!("DELETE FROM links WHERE code = '{delete}'"));
        server.sql(&database, &format!("DELETE FROM link_revisions WHERE code = '{delete}'"));
    };
    let (lowest, highest) = ("-9223372036854775808", "9223372036854775807");
    interrupt(highest, "Alias");
    let store = format!("store={database}");
    let mut serve = command(&data);
    serve.args(["serve", "--listen", "127.0.0.1:0", "--set", &store]);
    let refused = serve.output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("has not finished"), "{said}");
    let (moved, said) = migrate(&data, &database);
    assert!(!moved && said.contains("checksums differ"), "{said}");
    interrupt(lowest, "Alias");
    let (moved, said) = migrate(&data, &database);
    assert!(moved, "{said}");

    // Visits since the move are counted as well, once.
    let node = start(&data, &[&store, "clicks.flush=1s"]);
    let found = answers(&node, &codes, &owner);
    for (path, expected) in &expected {
        assert_eq!(&found[path], expected, "{path}");
    }
    assert!(is_signed_in(&node, &cookie), "the session has moved");
    let led = visits(&node, &codes[..8]);
    let statuses: Vec<u16> = led.iter().map(|(_, status, _)| *status).collect();
    assert_eq!(statuses[..4], [302, 302, 302, 301], "{led:?}");
    assert_eq!(node.get("/bad").0, 451);
    for status in [302, 302, 302, 410] {
        assert_eq!(node.get(&format!("/{few}")).0, status, "two of five were spent before");
    }
    let total = |node: &Served| {
        let (_, stats) = call(node, "GET", &format!("/urls/{}/stats", codes[0]), None);
        stats["total_clicks"].as_u64().unwrap()
    };
    wait_until("five clicks", || total(&node) == 5);
    // New codes and ids differ from those that were moved.
    for n in 0..20 {
        let (status, link) =
            call(&node, "POST", "/urls", Some(json!({ "long_url": to(&format!("new/{n}")) })));
        assert_eq!(status, 201, "{link}");
    }
    let (_, other) = call(&node, "POST", "/admin/users", Some(json!({ "name": "bob" })));
    assert!(other["id"].as_u64() > user["id"].as_u64(), "{other} after {user}");
    stop(node);
    move_back(server, &database, &data, &codes, &owner, &cookie);
}

/// Moves the database into files, and compares the answers of a server there.
fn move_back(
    server: &PostgresServer,
    database: &str,
    data: &Path,
    codes: &[String],
    owner: &str,
    cookie: &str,
) {
    let store = format!("store={database}");
    let node = start(data, &[&store]);
    let led = visits(&node, &codes[..8]);
    let from = ["--from", database, "--to", "file:back.db"];
    let (moved, said) = migrate_by(data, &from);
    assert!(!moved && said.contains("stop all nodes first"), "{said}");
    // A node with another folder is noticed, too.
    let (_other, elsewhere) = folder();
    let (moved, said) = migrate_by(&elsewhere, &from);
    assert!(!moved && said.contains("nodes of terse use the database"), "{said}");
    stop(node);
    // The files of the first move are still there.
    let (moved, said) = migrate_by(data, &from);
    assert!(!moved && said.contains("registry.db exists"), "{said}");
    for file in ["terse.db", "terse.db-mark", "registry.db", "clicks.db"] {
        std::fs::rename(data.join(file), elsewhere.join(file)).unwrap();
    }
    // A sum that is damaged is noticed: as after an interruption, the links are written already.
    let change = |sql: &str| {
        server.sql(database, sql);
    };
    change("UPDATE click_subjects SET humans = humans + 1, sum = sum || 'x' WHERE kind = 2");
    let (moved, said) = migrate_by(data, &from);
    assert!(!moved && said.contains("not what was written there"), "{said}");
    assert!(data.join("incoming/terse.db").exists());
    change(
        "UPDATE click_subjects SET humans = humans - 1, \
         sum = substr(sum, 1, length(sum) - 1) WHERE kind = 2",
    );
    // Links change before the move continues: one is purged, and one differs.
    change("DELETE FROM links WHERE target LIKE '%/many/0/1'");
    change("UPDATE links SET spent_clicks = 4 WHERE target LIKE '%/few'");
    // All visits were counted by the end of the node.
    let node = start(data, &[&store]);
    let expected = answers(&node, codes, owner);
    stop(node);
    let (moved, said) = migrate_by(data, &from);
    assert!(moved && said.contains("continuing an earlier move"), "{said}");
    let counts: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert_eq!(counts["links"], 631, "{counts}");
    assert!(!data.join("incoming").exists());
    // No node starts on the database any more.
    let refused = command(data).args(["serve", "--set", &store]).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("has moved to"), "{said}");

    let file = start(data, &["store=file:back.db"]);
    let found = answers(&file, codes, owner);
    for (path, expected) in &expected {
        assert!(found[path] == *expected, "{path}: {}", difference(&found[path], expected));
    }
    assert_eq!(visits(&file, &codes[..8]), led);
    assert!(is_signed_in(&file, cookie), "the session has moved back");
    let clicks = |file: &Served| {
        let (_, stats) = call(file, "GET", &format!("/urls/{}/stats", codes[0]), None);
        stats["total_clicks"].as_u64().unwrap()
    };
    wait_until("seven clicks", || clicks(&file) == 7);
    let few = codes.last().unwrap();
    for status in [302, 410] {
        assert_eq!(file.get(&format!("/{few}")).0, status, "four of five were spent");
    }
    for n in 0..20 {
        let link = json!({ "long_url": format!("https://example.com/back/{n}") });
        let (status, link) = call(&file, "POST", "/urls", Some(link));
        assert_eq!(status, 201, "{link}");
    }
    let found = listed(&file, KEY, "/urls?q=back&limit=100");
    assert_eq!(found.as_object().unwrap().len(), 20, "searches find new links: {found}");
    stop(file);
    let (whole, said) = doctor(data);
    assert!(whole, "{said}");
}

/// Where two answers differ first.
fn difference(found: &Value, expected: &Value) -> String {
    let (found, expected) = (found.to_string(), expected.to_string());
    let same = found.bytes().zip(expected.bytes()).take_while(|(a, b)| a == b).count();
    let part =
        |text: &str| -> String { text.chars().skip(same.saturating_sub(200)).take(400).collect() };
    format!("{} instead of {}", part(&found), part(&expected))
}

fn doctor(data: &Path) -> (bool, String) {
    let checked = command(data)
        .args(["--json", "doctor", "--deep"])
        .env("TERSE_STORE", "file:back.db")
        .output()
        .unwrap();
    let said = [checked.stdout, checked.stderr].concat();
    (checked.status.success(), String::from_utf8(said).unwrap())
}

/// Starts a move of a running server, and returns once it says this.
fn begin_live(data: &Path, to: &str, until: &str) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut command = command(data);
    command.args(["--json", "migrate", "--live", "--wait", "300", "--to", to]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut all = String::new();
    while !all.contains(until) {
        assert!(said.read_line(&mut all).unwrap() > 0, "it ended: {all}");
    }
    (child, said)
}

/// Clients create, change and follow links while the server moves. What was acknowledged is in the
/// database, and no visitor notices anything.
#[test]
fn a_running_server_moves_and_is_read_only_at_the_end() {
    let server = PostgresServer::shared();
    let database = server.fresh();
    let (_temp, data) = folder();
    let file = start(&data, &[]);
    let to = |n: u64, revision: u64| format!("https://example.com/live/{n}/{revision}");
    let body = |n: u64| json!({ "long_url": to(n, 1), "reuse": false });
    for n in 0..12 {
        let many: Vec<Value> = (0..100).map(|m| body(1_000_000 + n * 100 + m)).collect();
        assert_eq!(call(&file, "POST", "/urls/bulk", Some(Value::Array(many))).0, 207);
    }
    let followed = json!({ "long_url": to(0, 1), "custom_alias": "followed" });
    assert_eq!(call(&file, "POST", "/urls", Some(followed)).0, 201);
    let (over, visits) = (AtomicBool::new(false), AtomicU64::new(0));
    // The targets of links that were acknowledged; `None` of those whose last change is unknown.
    let made = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut made: BTreeMap<String, Option<String>> = BTreeMap::new();
            for n in 1_u64.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let (status, link) = call(&file, "POST", "/urls", Some(body(n)));
                assert!(status == 201 || status == 503, "{link}");
                if status == 201 {
                    made.insert(link["short_code"].as_str().unwrap().to_owned(), Some(to(n, 1)));
                }
                let some = (n as usize * 7) % made.len().max(1);
                let Some(code) = made.keys().nth(some).cloned() else { continue };
                let change = json!({ "long_url": to(n, 2) });
                let (status, _) = call(&file, "PATCH", &format!("/urls/{code}"), Some(change));
                made.insert(code, (status == 200).then(|| to(n, 2)));
            }
            made
        });
        let visitor = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                assert_eq!(file.get("/followed").0, 302, "a visitor never notices the move");
                visits.fetch_add(1, Ordering::Relaxed);
            }
        });
        // Interrupted, and begun again.
        let (mut child, _) = begin_live(&data, &database, "links, ");
        child.kill().unwrap();
        child.wait().unwrap();
        wait_until("links can be created again", || {
            call(&file, "POST", "/urls", Some(body(2_000_000))).0 == 201
        });
        let (mut child, mut said) = begin_live(&data, &database, "everything is in the database");
        let (status, answer) = call(&file, "POST", "/urls", Some(body(3_000_000)));
        assert_eq!(status, 503, "the server is read-only: {answer}");
        over.store(true, Ordering::Relaxed);
        let made = writer.join().unwrap();
        visitor.join().unwrap();
        file.terminate();
        let status = child.wait().unwrap();
        let (mut rest, mut counts) = (String::new(), String::new());
        said.read_to_string(&mut rest).unwrap();
        assert!(status.success(), "{rest}");
        child.stdout.take().unwrap().read_to_string(&mut counts).unwrap();
        let counts: Value = serde_json::from_str(&counts).unwrap();
        assert!(counts["read_only_ms"].as_u64().is_some(), "{counts}");
        made
    });
    let (status, said) = file.wait();
    assert!(status.success(), "{said}");
    assert!(!data.join("migrating").exists());
    let changed = made.values().flatten().filter(|target| target.ends_with("/2")).count();
    assert!(made.len() > 5 && changed > 0, "too little happened: {made:?}");

    let node = start(&data, &[&format!("store={database}"), "clicks.flush=1s"]);
    for (code, target) in &made {
        let (status, location, _) = node.get(&format!("/{code}"));
        assert_eq!(status, 302, "{code}");
        assert!(target.is_none() || *target == location, "{code}: {target:?}, {location:?}");
    }
    let counted = || {
        let (_, stats) = call(&node, "GET", "/urls/followed/stats", None);
        stats["total_clicks"].as_u64()
    };
    let visits = visits.load(Ordering::Relaxed);
    wait_until("every visit is counted", || counted() >= Some(visits));
    assert_eq!(counted(), Some(visits), "and once");
    // New codes differ from those that the files issued last.
    for n in 0..20 {
        let (status, link) = call(&node, "POST", "/urls", Some(body(4_000_000 + n)));
        assert_eq!(status, 201, "{link}");
    }
    stop(node);
}

/// A command that was killed at the end of a live move leaves the files closed, and one that sleeps
/// while the server is restarted notices it.
#[test]
fn after_a_live_move_the_files_stay_closed() {
    let server = PostgresServer::shared();
    let database = server.fresh();
    let store = format!("store={database}");
    let (_temp, data) = folder();
    let file = start(&data, &[]);
    let body = |name: &str| {
        let target = format!("https://example.com/{name}");
        Some(json!({ "long_url": target, "custom_alias": name }))
    };
    assert_eq!(call(&file, "POST", "/urls", body("first")).0, 201);
    let (mut child, _) = begin_live(&data, &database, "everything is in the database");
    child.kill().unwrap();
    child.wait().unwrap();
    for n in 0..3 {
        let (status, answer) = call(&file, "POST", "/urls", body(&format!("late-{n}")));
        assert_eq!(status, 503, "{answer}");
        assert_eq!(file.get("/first").0, 302);
    }
    stop(file);
    let refused = command(&data).args(["serve", "--listen", "127.0.0.1:0"]).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("has moved to a database"), "{said}");
    // As a killed move leaves it.
    std::fs::create_dir_all(data.join("migrating")).unwrap();
    std::fs::write(data.join("migrating/clicks.db"), "a copy").unwrap();
    let node = start(&data, &[&store, "clicks.flush=1s"]);
    assert!(!data.join("migrating").exists());
    let clicks = || {
        let (_, stats) = call(&node, "GET", "/urls/first/stats", None);
        stats["total_clicks"].as_u64()
    };
    wait_until("the visits of the files are counted", || clicks() == Some(3));
    stop(node);

    // Back to the files, and once more.
    let (undone, said) = migrate_by(&data, &["--undo"]);
    assert!(undone, "{said}");
    let file = start(&data, &[]);
    assert_eq!(call(&file, "POST", "/urls", body("second")).0, 201);
    let database = server.fresh();
    let (mut child, _) = begin_live(&data, &database, "everything is in the database");
    let signal = |name: &str| {
        let pid = child.id().to_string();
        assert!(std::process::Command::new("kill").args([name, &pid]).status().unwrap().success());
    };
    signal("-STOP");
    stop(file);
    let store = format!("store={database}");
    let node = start(&data, &[&store]);
    signal("-CONT");
    let begun = std::time::Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        let waited = begun.elapsed();
        assert!(waited < std::time::Duration::from_secs(60), "the restart was not noticed");
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    assert!(status.success());
    assert_eq!(node.get("/second").0, 302);
    stop(node);
}
