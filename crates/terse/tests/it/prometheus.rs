//! The metrics as a real Prometheus reads them.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use terse::config::Paths;

use crate::harness::TestTerse;
use crate::tls::Certificates;

/// Whether the programs are there. `scripts/test` installs them.
fn installed() -> bool {
    let found = ["prometheus", "promtool"].iter().all(|program| {
        let version = Command::new(program).arg("--version").stdout(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    });
    assert!(found || std::env::var_os("TERSE_TEST_ALL").is_none(), "prometheus is needed");
    if !found {
        println!("skipped: prometheus and promtool are not installed");
    }
    found
}

/// A file of the folder `deploy`.
fn deployed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

/// A Prometheus that scrapes one terse every second, as the job `terse`.
struct Prometheus {
    child: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Prometheus {
    fn scraping(terse: &TestTerse) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = folder.path().join("prometheus.yml");
        let text = format!(
            "global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\nrule_files: [{:?}]\n\
             scrape_configs:\n- job_name: terse\n  static_configs:\n  - targets: [\"{}\"]\n",
            deployed("prometheus/terse.rules.yml"),
            terse.address
        );
        std::fs::write(&config, text).expect("a file");
        // Free now, and most likely still free when Prometheus takes it.
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus runs");
        Self { child, address, _folder: folder }
    }

    /// What the API answers to a path, as soon as it answers at all.
    fn get(&self, path: &str, query: &[(&str, &str)]) -> Option<Value> {
        let mut request = ureq::get(format!("http://{}{path}", self.address));
        for (name, value) in query {
            request = request.query(name, value);
        }
        request.call().ok()?.body_mut().read_json().ok()
    }

    /// The first value that a query gives.
    fn value(&self, query: &str) -> Option<f64> {
        let answer = self.get("/api/v1/query", &[("query", query)])?;
        answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    }

    /// Visits terse until the query gives a good value.
    fn wait(&self, terse: &TestTerse, query: &str, good: impl Fn(f64) -> bool) -> f64 {
        let begun = Instant::now();
        loop {
            let value = self.value(query);
            if let Some(value) = value.filter(|value| good(*value)) {
                return value;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{query} is {value:?}");
            terse.get("/ok1234");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Links in every state, each visited, so that every metric has a value.
fn visited() -> TestTerse {
    let mut certificates = Certificates::new();
    certificates.write("go", "go.example");
    let (certificate, key) = certificates.paths("go");
    let terse = TestTerse::with(|config| {
        config.tls.listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        (config.tls.certificate, config.tls.key) = (Paths(vec![certificate]), Paths(vec![key]));
        config.tls.redirect = false;
        let backups = config.data_dir.with_file_name("backups");
        config.backup.url = Some(format!("file://{}", backups.display()).parse().expect("a URL"));
    });
    terse.alias("ok1234", "https://example.com/ok");
    for _ in 0..20 {
        assert_eq!(terse.get("/ok1234").status, 302);
        terse.get("/nosuch9");
        terse.send("HEAD", "/ok1234", &[], None);
    }
    let report = terse.anonymous("POST", "/urls/ok1234/report", Some(json!({ "reason": "spam" })));
    assert!(report.status < 300, "{report:?}");
    terse
}

#[test]
fn promtool_finds_nothing_wrong_with_the_metrics() {
    if !installed() {
        return;
    }
    let terse = visited();
    let mut check = Command::new("promtool");
    check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut promtool = check.stderr(Stdio::piped()).spawn().expect("promtool runs");
    let text = terse.get("/metrics").text();
    promtool.stdin.take().expect("its input").write_all(text.as_bytes()).expect("it reads");
    let output = promtool.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.is_empty(), "{said}\n{text}");
}

#[test]
fn prometheus_scrapes_terse_and_computes_a_quantile() {
    if !installed() {
        return;
    }
    let terse = visited();
    let prometheus = Prometheus::scraping(&terse);
    prometheus.wait(&terse, "up{job=\"terse\"}", |up| up == 1.0);
    // From all visits since the start, and from those between two scrapes.
    for buckets in ["terse_redirect_seconds_bucket", "rate(terse_redirect_seconds_bucket[10s])"] {
        let query = format!("histogram_quantile(0.99, {buckets})");
        let quantile = prometheus.wait(&terse, &query, f64::is_finite);
        assert!(quantile > 0.0 && quantile <= 1.0, "{buckets}: {quantile}");
    }
    prometheus.wait(&terse, "process_resident_memory_bytes{job=\"terse\"}", |bytes| bytes > 1e6);
    prometheus.wait(&terse, "terse_build_info", |one| one == 1.0);
}

#[test]
fn each_alert_fires_when_it_should() {
    if !installed() {
        return;
    }
    let mut promtool = Command::new("promtool");
    promtool.args(["test", "rules"]).arg(deployed("prometheus/terse.rules.test.yml"));
    let output = promtool.output().expect("promtool runs");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));

    let rules = std::fs::read_to_string(deployed("prometheus/terse.rules.yml")).expect("the rules");
    let tests =
        std::fs::read_to_string(deployed("prometheus/terse.rules.test.yml")).expect("tests");
    let alerts: Vec<_> = rules.lines().filter_map(|line| line.split_once("- alert: ")).collect();
    assert!(alerts.len() > 10);
    for (_, alert) in alerts {
        assert!(tests.contains(&format!("- name: {alert}\n")), "{alert} has no test");
    }
}

/// The metrics that a source file writes, as Prometheus names them. For those of a node with
/// `clicks.bus`, which needs Kafka, and of one on PostgreSQL.
fn names_in(source: &str, prefix: &str, more_than: usize) -> Vec<String> {
    let mut names = Vec::new();
    for (call, ending) in [("to.counter(", "_total"), ("to.counters(", "_total"), ("to.gauge(", "")]
    {
        let calls = source.split(call).skip(1);
        let first = calls.map(|rest| rest.split('"').nth(1).expect("a name"));
        names.extend(first.map(|name| format!("{name}{ending}")));
    }
    assert!(
        names.len() > more_than && names.iter().all(|name| name.starts_with(prefix)),
        "{names:?}"
    );
    names
}

#[test]
fn alerts_and_charts_ask_for_metrics_that_terse_has() {
    if !installed() {
        return;
    }
    let terse = visited();
    let prometheus = Prometheus::scraping(&terse);
    prometheus.wait(&terse, "count_over_time(terse_build_info[1m])", |scrapes| scrapes >= 2.0);
    // The rules write five metrics of their own.
    prometheus.wait(&terse, "count({__name__=~\"terse:.+\"})", |recorded| recorded >= 5.0);
    let names = prometheus.get("/api/v1/label/__name__/values", &[]).expect("the names");
    let names: Vec<_> = names["data"].as_array().expect("a list").iter().collect();
    let kafka = include_str!("../../../../backends/terse-kafka/src/counts.rs");
    let postgres = include_str!("../../../../backends/terse-postgres/src/watch.rs");
    let mut elsewhere = names_in(kafka, "terse_bus_", 8);
    elsewhere.extend(names_in(postgres, "terse_database_", 2));
    let known = |query: &str| {
        let words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
        let ours = ["terse_", "terse:", "process_"];
        for word in words.filter(|word| ours.iter().any(|prefix| word.starts_with(prefix))) {
            let found =
                names.iter().any(|name| *name == word) || elsewhere.iter().any(|name| name == word);
            assert!(found, "no metric {word} in {query}");
        }
    };

    let rules = prometheus.get("/api/v1/rules", &[]).expect("the rules");
    let groups = rules["data"]["groups"].as_array().expect("groups");
    let rules: Vec<_> = groups.iter().flat_map(|g| g["rules"].as_array().expect("rules")).collect();
    assert!(rules.len() > 20, "{rules:?}");
    for rule in rules {
        assert_ne!(rule["health"], "err", "{rule}");
        known(rule["query"].as_str().expect("a query"));
    }

    let dashboard = std::fs::read(deployed("grafana/terse.json")).expect("the dashboard");
    let dashboard: Value = serde_json::from_slice(&dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let queries: Vec<_> = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array())
        .flatten()
        .map(|target| target["expr"].as_str().expect("a query"))
        .collect();
    assert!(queries.len() > 20);
    for query in queries {
        known(query);
        let of_the_bus = query.contains("terse_bus_");
        let query = query.replace("$__rate_interval", "10s").replace("$instance", ".*");
        if of_the_bus {
            let answer = prometheus.get("/api/v1/query", &[("query", &query)]);
            assert!(answer.is_some_and(|answer| answer["status"] == "success"), "{query}");
        } else {
            prometheus.wait(&terse, &query, |_| true);
        }
    }
}

#[test]
fn panels_of_the_dashboard_do_not_overlap() {
    let dashboard = std::fs::read(deployed("grafana/terse.json")).expect("the dashboard");
    let dashboard: Value = serde_json::from_slice(&dashboard).expect("JSON");
    let mut cells = std::collections::HashMap::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        let at = |side: &str| panel["gridPos"][side].as_u64().expect("a number");
        assert!(at("x") + at("w") <= 24, "{} is too wide", panel["title"]);
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                let other = cells.insert((x, y), &panel["title"]);
                assert!(other.is_none(), "{} covers {other:?}", panel["title"]);
            }
        }
    }
}
