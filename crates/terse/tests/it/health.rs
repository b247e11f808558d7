//! Operations: health checks, metrics, memory after a restart, and settings.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use terse_testkit::wait_until;

use crate::harness::{HOST, KEY, TestTerse};
use crate::process::{Served, command, folder};

/// One value from `/metrics`, by name and labels.
fn metric(terse: &TestTerse, name: &str) -> f64 {
    let text = terse.get("/metrics").text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().expect("a number")
}

#[test]
fn health_is_answered_whatever_the_host() {
    let terse = TestTerse::start();
    for (path, body) in [("/livez", "ok\n"), ("/readyz", "ready\n")] {
        for host in [HOST, "10.1.2.3:8080", "unknown.example"] {
            let answer = terse.send("GET", path, &[("host", host)], None);
            assert_eq!((answer.status, &*answer.text()), (200, body), "{path} at {host}");
        }
    }
}

#[test]
fn the_numbers_move_with_what_happens() {
    let terse = TestTerse::start();
    terse.alias("ok1234", "https://example.com/ok");
    terse.alias("blocked1", "https://example.com/b");
    terse.api("PUT", "/admin/links/blocked1/standing", Some(json!({"standing": "blocked"})));
    terse.create(json!({"long_url": "https://example.com/e", "alias": "expired1", "ttl": 1}));
    terse.clock().advance(Duration::from_secs(2));
    let moves = [
        (r#"terse_redirects_total{outcome="redirected"}"#, 3.0, "GET", "/ok1234"),
        (r#"terse_redirects_total{outcome="not_found"}"#, 2.0, "GET", "/nosuch9"),
        (r#"terse_redirects_total{outcome="gone"}"#, 1.0, "GET", "/expired1"),
        (r#"terse_redirects_total{outcome="blocked"}"#, 1.0, "GET", "/blocked1"),
        (r#"terse_redirects_total{outcome="redirected"}"#, 1.0, "HEAD", "/ok1234"),
        (r#"terse_redirects_total{outcome="redirected"}"#, 1.0, "GET", "/%6Fk1234"),
        (r#"terse_cache_total{result="hit"}"#, 2.0, "GET", "/ok1234"),
        (
            r#"terse_requests_total{route="/api/v1/urls/{code}",status="2xx"}"#,
            1.0,
            "GET",
            "/api/v1/urls/ok1234",
        ),
        (
            r#"terse_requests_total{route="/api/v1/urls/{code}",status="4xx"}"#,
            1.0,
            "GET",
            "/api/v1/urls/nosuch9",
        ),
    ];
    // One request of each kind, so that every metric exists.
    for (_, _, method, path) in moves {
        terse.send(method, path, &[("authorization", &format!("Bearer {KEY}"))], None);
    }
    for (name, by, method, path) in moves {
        let before = metric(&terse, name);
        for _ in 0..by as usize {
            terse.send(method, path, &[("authorization", &format!("Bearer {KEY}"))], None);
        }
        assert_eq!(metric(&terse, name) - before, by, "{name} by {method} {path}");
    }
    let created = metric(&terse, r#"terse_creates_total{outcome="created"}"#);
    terse.create(json!({"long_url": "https://example.com/new"}));
    assert_eq!(metric(&terse, r#"terse_creates_total{outcome="created"}"#), created + 1.0);
    // From memory on the fast path, by hyper, and after a lookup.
    terse.alias("cold123", "https://example.com/cold");
    for (method, path) in [("GET", "/ok1234"), ("HEAD", "/ok1234"), ("GET", "/cold123")] {
        let took = metric(&terse, "terse_redirect_seconds_count");
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
        terse.exchange(request.as_bytes());
        // The thread counts after it has sent the answer.
        let begun = Instant::now();
        while metric(&terse, "terse_redirect_seconds_count") < took + 1.0 {
            assert!(begun.elapsed() < Duration::from_secs(30), "{method} {path}");
        }
        assert_eq!(metric(&terse, "terse_redirect_seconds_count"), took + 1.0, "{method} {path}");
    }
    let all = metric(&terse, r#"terse_redirect_seconds_bucket{le="+Inf"}"#);
    assert_eq!(metric(&terse, "terse_redirect_seconds_count"), all);
    assert!(
        metric(&terse, "terse_cache_routes") >= 1.0 && metric(&terse, "terse_cache_bytes") > 0.0
    );
    let open = metric(&terse, "terse_connections_open");
    let _held = (terse.connect(), terse.connect());
    let begun = Instant::now();
    while metric(&terse, "terse_connections_open") < open + 2.0 {
        assert!(begun.elapsed() < Duration::from_secs(5), "connections are not counted");
    }
    for name in ["cpu_seconds_total", "resident_memory_bytes", "open_fds", "max_fds", "threads"] {
        assert!(metric(&terse, &format!("process_{name}")) > 0.0, "{name}");
    }
    assert!(metric(&terse, "process_start_time_seconds") > 1.7e9);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(metric(&terse, &format!("terse_build_info{{version=\"{version}\"}}")), 1.0);
    let text = terse.get("/metrics").text();
    assert!(!text.contains("example.com"), "{text}");
}

#[test]
fn links_in_use_are_in_memory_again_after_a_restart() {
    let mut terse = TestTerse::start();
    for n in 0..50 {
        terse.alias(&format!("warm-{n}"), "https://example.com/");
    }
    terse.alias("unused", "https://example.com/");
    // A node forgets new aliases once more when it reads the changes. After a start there are none.
    terse.restart();
    for n in 0..50 {
        assert_eq!(terse.get(&format!("/warm-{n}")).status, 302);
    }
    terse.get("/no-link");
    terse.restart();
    let begun = Instant::now();
    while metric(&terse, "terse_cache_routes") < 50.0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "they are not read");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(metric(&terse, "terse_cache_routes"), 50.0);
    for n in 0..50 {
        assert_eq!(terse.get(&format!("/warm-{n}")).status, 302);
    }
    assert_eq!(metric(&terse, r#"terse_cache_total{result="miss"}"#), 0.0);
    // A file that is not ours is ignored.
    terse.stop();
    std::fs::write(terse.config.data_dir.join("hot-links"), b"\xff\xfe x\n\n -\n").unwrap();
    terse.restart();
    assert_eq!(terse.get("/warm-1").status, 302);
}

#[test]
fn without_its_file_a_restart_reads_the_links_with_the_most_clicks() {
    let mut terse = TestTerse::start();
    for n in 0..20 {
        terse.alias(&format!("warm-{n}"), "https://example.com/");
    }
    terse.restart();
    for n in 0..10 {
        assert_eq!(terse.get(&format!("/warm-{n}")).status, 302);
    }
    wait_until("the clicks are counted", || {
        let top = terse.api("GET", "/top?owner=all&limit=20", None).json();
        top["links"].as_array().unwrap().len() == 10
    });
    terse.stop();
    // As after a crash, or in a folder that was restored from a backup.
    std::fs::remove_file(terse.config.data_dir.join("hot-links")).unwrap();
    terse.restart();
    wait_until("links are read", || metric(&terse, "terse_cache_routes") >= 10.0);
    for n in 0..10 {
        assert_eq!(terse.get(&format!("/warm-{n}")).status, 302);
    }
    assert_eq!(metric(&terse, r#"terse_cache_total{result="miss"}"#), 0.0);
    assert_eq!(metric(&terse, "terse_cache_routes"), 10.0, "only those that were visited");
}

#[test]
fn after_a_restart_the_most_visited_links_are_in_memory_first() {
    let mut terse = TestTerse::with(|config| config.cache.size = "1MiB".parse().ok());
    // Half of the cache holds some of these, not all.
    let target = format!("https://example.com/{}", "x".repeat(8000));
    for n in 0..100 {
        terse.alias(&format!("warm-{n}"), &target);
    }
    terse.restart();
    let popular = ["/warm-13", "/warm-57", "/warm-91"];
    for n in 0..100 {
        assert_eq!(terse.get(&format!("/warm-{n}")).status, 302);
    }
    for path in popular.iter().cycle().take(9) {
        assert_eq!(terse.get(path).status, 302);
    }
    wait_until("the clicks are counted", || {
        let top = terse.api("GET", "/top?owner=all&limit=3", None).json();
        let links = top["links"].as_array().unwrap();
        links.len() == 3 && links.iter().all(|link| link["clicks"] == 4)
    });
    terse.restart();
    wait_until("links are read", || metric(&terse, "terse_cache_routes") > 2.0);
    for path in popular {
        assert_eq!(terse.get(path).status, 302);
    }
    assert_eq!(metric(&terse, r#"terse_cache_total{result="miss"}"#), 0.0);
    assert!(metric(&terse, "terse_cache_routes") < 99.0, "there is no room for all");
}

#[test]
fn reports_backups_and_the_disk_are_watched() {
    let (_temp, data) = folder();
    let served = Served::start(&data, &[&format!("admin_key={KEY}")]);
    let number = |name: &str| -> f64 {
        let text = served.get("/metrics").2;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().expect("a number")
    };
    assert!(number("terse_disk_free_bytes") > 0.0);
    assert!(number("terse_disk_size_bytes") >= number("terse_disk_free_bytes"));
    assert_eq!(number("terse_last_backup_timestamp_seconds"), 0.0);
    assert_eq!(number("terse_report_oldest_open_timestamp_seconds"), 0.0);
    let backup = data.parent().unwrap().join("backup");
    let made = command(&data).arg("backup").arg(&backup).output().expect("terse runs");
    assert!(made.status.success(), "{made:?}");
    assert!(number("terse_last_backup_timestamp_seconds") > 1.7e9);
}

#[test]
fn clicks_wait_in_the_journal_while_their_store_refuses() {
    let terse = TestTerse::start();
    terse.alias("hello", "https://example.com/");
    let waiting = || metric(&terse, "terse_journal_waiting_bytes");
    let holder = rusqlite::Connection::open(terse.config.clicks_file()).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..10 {
        assert_eq!(terse.get("/hello").status, 302);
    }
    wait_until("clicks wait", || waiting() > 0.0);
    // A batch that the store refuses stays in the journal.
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(100));
        assert!(waiting() > 0.0);
    }
    holder.execute_batch("ROLLBACK").unwrap();
    wait_until("all are counted", || waiting() == 0.0);
}

#[test]
fn a_client_chooses_the_format_of_the_metrics() {
    let terse = TestTerse::start();
    let text = terse.send("GET", "/metrics", &[("accept", "text/plain")], None);
    assert_eq!(text.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(text.text().contains("# TYPE terse_redirects_total counter\n"), "{}", text.text());
    assert!(!text.text().contains("# EOF"));
    let accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
    let open_metrics = terse.send("GET", "/metrics", &[("accept", accept)], None);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(open_metrics.header("content-type"), Some(kind));
    assert!(open_metrics.text().contains("# TYPE terse_redirects counter\n"));
    assert!(open_metrics.text().ends_with("# EOF\n"));
}

#[test]
fn health_and_numbers_can_have_a_listener_of_their_own() {
    let terse =
        TestTerse::with(|config| config.admin.listen = Some("127.0.0.1:0".parse().unwrap()));
    let admin = terse.admin_address().expect("a second listener");
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(terse.get(path).status, 404, "{path} is no longer public");
        let answer = ureq::get(format!("http://{admin}{path}")).call().expect("an answer");
        assert_eq!(answer.status().as_u16(), 200, "{path}");
    }
    assert!(
        ureq::get(format!("http://{admin}/api/v1/urls")).call().is_err(),
        "nothing else is there"
    );
}

/// What `serve` says to a setting that it refuses. On a free port: another program may have the
/// usual one.
fn serve_with(data: &std::path::Path, setting: &str) -> std::process::Output {
    let serve = ["serve", "--listen", "127.0.0.1:0", "--set", setting];
    command(data).args(serve).output().unwrap()
}

#[test]
fn the_operator_is_named_by_the_settings() {
    let terse = TestTerse::with(|config| {
        config.operator.name = Some("Example Ltd.".parse().unwrap());
        config.operator.abuse_contact = Some("abuse@example.org".parse().unwrap());
    });
    terse.alias("blocked1", "https://example.com/b");
    terse.api("PUT", "/admin/links/blocked1/standing", Some(json!({"standing": "blocked"})));
    for (path, status) in [("/", 200), ("/nosuch9", 404), ("/blocked1", 451)] {
        let shown = terse.browse(path);
        assert_eq!(shown.status, status, "{path}");
        assert!(shown.text().contains("Run by Example Ltd."), "{path}: {}", shown.text());
    }
    assert!(terse.browse("/blocked1").text().contains(">abuse@example.org</a>"));

    let (temp, data) = folder();
    let text = temp.path().join("logo.txt");
    std::fs::write(&text, "no picture").unwrap();
    for (setting, message) in [
        ("operator.abuse_contact=nobody", "operator.abuse_contact must be an email address"),
        ("operator.imprint=javascript:x", "operator.imprint must be an http:// or https:// URL"),
        ("operator.logo=absent.svg", "operator.logo cannot be read: absent.svg"),
        (&format!("operator.logo={}", text.display()), "operator.logo must be an SVG, PNG"),
    ] {
        let output = serve_with(&data, setting);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(message), "{setting}: {said}");
    }
}

#[test]
fn aliases_that_the_operator_does_not_want_are_refused() {
    let lists = tempfile::tempdir().unwrap();
    let list = lists.path().join("aliases.txt");
    std::fs::write(&list, "").unwrap();
    let mut terse = TestTerse::with(|config| config.links.unwanted_aliases = Some(list.clone()));
    let early = json!({"long_url": "https://example.com/early", "alias": "early"});
    assert_eq!(terse.api("POST", "/urls", Some(early.clone())).status, 201);
    std::fs::write(&list, "Brand # ours\nx\ntwo words\nearly\n").unwrap();
    terse.restart();
    // A link that exists stays as it is, for repeated requests and imports, too.
    assert_eq!(terse.get("/early").status, 302);
    assert_eq!(terse.api("POST", "/urls", Some(early)).status, 200);
    let again = json!([{"long_url": "https://example.com/early", "short_code": "early"}]);
    let again = terse.api("POST", "/admin/import", Some(again)).json();
    assert_eq!(again["results"][0]["link"]["short_code"], "early", "{again}");
    for (name, alias) in [("alias", "brand"), ("custom_alias", "BRAND"), ("alias", "X")] {
        let body = json!({"long_url": "https://example.com/", name: alias});
        let answer = terse.api("POST", "/urls", Some(body));
        assert_eq!((answer.status, &answer.json()["code"]), (400, &json!("reserved_alias")));
        assert_eq!(answer.json()["field"], name);
        assert!(answer.text().contains("operator of this server does not allow"));
    }
    terse.alias("brands", "https://example.com/");
    let imported = json!([{"long_url": "https://example.com/", "short_code": "brand"}]);
    let answer = terse.api("POST", "/admin/import", Some(imported)).json();
    assert_eq!(answer["results"][0]["problem"]["code"], "reserved_alias", "{answer}");
    let findings = terse.api("GET", "/admin/doctor", None).text();
    assert!(findings.contains("3 aliases; lines that cannot be an alias: 1"), "{findings}");

    let (_temp, data) = folder();
    let large = lists.path().join("large.txt");
    std::fs::write(&large, "a\n".repeat(600_000)).unwrap();
    for (path, message) in [
        (lists.path().join("absent.txt"), "links.unwanted_aliases cannot be read"),
        (lists.path().to_owned(), "links.unwanted_aliases cannot be read"),
        (large, "at most 1 MiB"),
    ] {
        let setting = format!("links.unwanted_aliases={}", path.display());
        let output = serve_with(&data, &setting);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(message), "{setting}: {said}");
    }
}

#[test]
fn pages_of_the_origins_in_the_settings_may_call_the_api() {
    let terse =
        TestTerse::with(|config| config.api.cors_origins = vec!["https://app.example".into()]);
    let key = format!("Bearer {KEY}");
    let allowed = |origin: &str| {
        let fields = [("authorization", key.as_str()), ("origin", origin)];
        let answer = terse.send("GET", "/api/v1/urls", &fields, None);
        assert_eq!(answer.status, 200);
        answer.header("access-control-allow-origin").map(str::to_owned)
    };
    assert_eq!(allowed("https://app.example").as_deref(), Some("https://app.example"));
    assert_eq!(allowed("https://other.example"), None);
    let (_temp, data) = folder();
    let setting = "api.cors_origins=https://app.example/path";
    let output = command(&data).args(["--set", setting, "config"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("api.cors_origins must be"), "{said}");
}

#[test]
fn a_setting_selects_the_requests_in_the_log() {
    for (setting, reads, writes) in [("off", 0, 0), ("writes", 0, 1), ("all", 1, 1)] {
        let (_temp, data) = folder();
        let server = Served::start(&data, &[&format!("log.requests={setting}")]);
        assert_eq!(server.get("/api/v1/nothing").0, 404);
        let url = format!("{}/api/v1/urls", server.url);
        let made = ureq::post(url).send_json(json!({"long_url": "https://example.com/"})).unwrap();
        let id = made.headers()["x-request-id"].to_str().unwrap().to_owned();
        // Refused before it reaches the router.
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
        let lost = agent.get(format!("{}/api", server.url)).header("host", "x.example");
        let lost = lost.header("x-request-id", "lost-one").call().unwrap();
        assert_eq!(lost.status(), 421);
        server.terminate();
        let (status, said) = server.wait();
        assert!(status.success(), "{said}");
        let lines = |part: &str| said.lines().filter(|line| line.contains(part)).count();
        assert_eq!(lines(&id), writes, "{setting}: {said}");
        assert_eq!(lines("method=GET"), 2 * reads, "{setting}: {said}");
        assert_eq!(lines("request_id=\"lost-one\""), reads, "{setting}: {said}");
    }
}

/// A file of the source tree.
fn source(path: &str) -> String {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_first_example_runs_with_an_old_curl() {
    for file in ["README.md", "docs/webhooks.md", "docs/moderation.md", "docs/links.md"] {
        // The option came with curl 7.82; Debian 11 and Ubuntu 22.04 have older ones.
        let page = source(file).replace("\\\n", " ");
        for line in page.lines().filter(|line| line.contains("curl ")) {
            assert!(!line.contains(" --json"), "{file}: {line}");
        }
    }
    let (_temp, data) = folder();
    let server = Served::start(&data, &[]);
    let readme = source("README.md");
    let line = readme.lines().find(|line| line.starts_with("curl -s http://")).unwrap();
    let line = line.replace("http://127.0.0.1:8080", &server.url);
    let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
    let link: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(link["long_url"], "https://example.com/", "{line}");
}

#[test]
fn the_backup_timer_survives_a_reboot() {
    let timer = source("deploy/systemd/terse-backup.timer");
    for line in ["OnCalendar=daily", "Persistent=true", "[Install]", "WantedBy=timers.target"] {
        assert!(timer.lines().any(|have| have == line), "{line}");
    }
    assert!(source("docs/operate.md").contains("systemctl enable --now terse-backup.timer"));
    // The command of the unit, in a temporary folder.
    let unit = source("deploy/systemd/terse-backup.service");
    let script = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/bin/sh -c ")).unwrap();
    let (temp, data) = folder();
    let _server = Served::start(&data, &[]);
    let backups = temp.path().join("backups");
    std::fs::create_dir(&backups).unwrap();
    let script = script.trim_matches('\'').replace("$$", "$").replace("%%", "%");
    let script = script
        .replace("/usr/local/bin/terse", env!("CARGO_BIN_EXE_terse"))
        .replace("/var/lib/terse", data.to_str().unwrap())
        .replace("/var/backups/terse", backups.to_str().unwrap());
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let made = std::fs::read_dir(&backups).unwrap().next().unwrap().unwrap().path();
    assert!(made.join("manifest.json").exists(), "{}", made.display());
}
