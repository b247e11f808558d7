//! The metrics as a real Prometheus reads them.

use std::io::Write as _;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::TestTerse;

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

struct Prometheus(Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Links in every state, each visited, so that every metric has a value.
fn visited() -> TestTerse {
    let terse = TestTerse::start();
    terse.alias("ok1234", "https://example.com/ok");
    for _ in 0..20 {
        assert_eq!(terse.get("/ok1234").status, 302);
        terse.get("/nosuch9");
        terse.send("HEAD", "/ok1234", &[], None);
    }
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
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = folder.path().join("prometheus.yml");
    let text = format!(
        "global:\n  scrape_interval: 1s\nscrape_configs:\n- job_name: terse\n  static_configs:\n  \
         - targets: [\"{}\"]\n",
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
    let _prometheus = Prometheus(child);
    let ask = |query: &str| -> Option<f64> {
        let url = format!("http://{address}/api/v1/query");
        let mut answer = ureq::get(url).query("query", query).call().ok()?;
        let answer: Value = answer.body_mut().read_json().ok()?;
        answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    };
    let begun = Instant::now();
    let wait = |query: &str, good: &dyn Fn(f64) -> bool| loop {
        let value = ask(query);
        if let Some(value) = value.filter(|value| good(*value)) {
            return value;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{query} is {value:?}");
        terse.get("/ok1234");
        std::thread::sleep(Duration::from_millis(100));
    };
    wait("up{job=\"terse\"}", &|up| up == 1.0);
    // From all visits since the start, and from those between two scrapes.
    for buckets in ["terse_redirect_seconds_bucket", "rate(terse_redirect_seconds_bucket[10s])"] {
        let quantile =
            wait(&format!("histogram_quantile(0.99, {buckets})"), &|value| value.is_finite());
        assert!(quantile > 0.0 && quantile <= 1.0, "{buckets}: {quantile}");
    }
    wait("process_resident_memory_bytes{job=\"terse\"}", &|bytes| bytes > 1e6);
    wait("terse_build_info", &|one| one == 1.0);
}
