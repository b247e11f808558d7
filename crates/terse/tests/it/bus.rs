//! A node, a worker, Kafka and PostgreSQL: each is killed, and every answered visit counts once.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use terse_testkit::{ClickHouseServer, KafkaServer, PostgresServer, wait_until};

use crate::harness::KEY;
use crate::process::{Served, command};

/// A group notices after ten seconds that a worker was killed.
const TIMEOUT: Duration = Duration::from_secs(90);

fn start(folder: &Path, roles: &str, database: &str, bus: &str, more: &[&str]) -> Served {
    let (store, bus) = (format!("store={database}"), format!("clicks.bus={bus}"));
    let (key, roles) = (format!("admin_key={KEY}"), format!("roles={roles}"));
    let settings = [
        &*store,
        &bus,
        &key,
        &roles,
        "redirect.threads=1",
        "base_url=http://127.0.0.1:1",
        "clicks.flush=100ms",
    ];
    Served::start(&folder.join("data"), &[&settings[..], more].concat())
}

/// Visits a link, and returns how many visits were answered.
fn visit(node: &Served, times: usize) -> u64 {
    let visits = (0..times).filter(|_| node.get("/bus").0 == 302);
    visits.count() as u64
}

/// The clicks of the link, if there are statistics.
fn counted(through: &Served) -> Option<u64> {
    let (status, stats) = through.call(KEY, "GET", "/urls/bus/stats", None);
    (status == 200).then(|| stats["total_clicks"].as_u64().unwrap())
}

/// Waits until every answered visit is counted. There must never be more.
fn wait_until_counted(through: &Served, answered: u64) {
    let begun = Instant::now();
    loop {
        match counted(through) {
            Some(count) if count == answered => break,
            Some(count) => {
                assert!(count < answered, "{count} counted, {answered} answered");
                assert!(begun.elapsed() < TIMEOUT, "{count} counted, {answered} answered");
            }
            None => assert!(begun.elapsed() < TIMEOUT, "no statistics"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The value of a metric.
fn metric(node: &Served, name: &str) -> f64 {
    let (_, _, text) = node.get("/metrics");
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{name} is not in {text}")).parse().unwrap()
}

#[test]
fn every_answered_visit_is_counted_once_over_kafka_whatever_is_killed() {
    let (kafka, postgres) = (KafkaServer::start(), PostgresServer::start(&[]));
    let (database, bus) = (postgres.fresh(), kafka.fresh());
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let start_node = || start(folders[0].path(), "redirect,api", &database, &bus, &[]);
    let start_worker = || start(folders[1].path(), "worker,api", &database, &bus, &[]);
    let (mut node, mut worker) = (start_node(), start_worker());
    let link = json!({ "long_url": "https://example.com/bus", "custom_alias": "bus" });
    assert_eq!(node.call(KEY, "POST", "/urls", Some(link)).0, 201);

    let mut answered = visit(&node, 50);
    wait_until("the worker counts", || counted(&worker) == Some(answered));

    // The node, with clicks in its journal that are not published yet.
    answered += visit(&node, 50);
    node.kill();
    node = start_node();
    // The worker, with clicks on the topic.
    answered += visit(&node, 50);
    worker.kill();
    answered += visit(&node, 50);
    worker = start_worker();
    // The broker. Visits go on.
    answered += visit(&node, 20);
    kafka.kill();
    let without = visit(&node, 50);
    assert_eq!(without, 50, "visits are answered without Kafka");
    answered += without;
    kafka.run();
    answered += visit(&node, 50);
    // The database with the ledger and the clicks. The link is in memory.
    postgres.stop();
    let without = visit(&node, 50);
    assert_eq!(without, 50, "visits are answered without PostgreSQL");
    answered += without;
    postgres.run();
    answered += visit(&node, 50);
    // Both processes at once.
    node.kill();
    worker.kill();
    (node, worker) = (start_node(), start_worker());
    answered += visit(&node, 30);

    wait_until_counted(&worker, answered);
    wait_until("the lag is gone", || metric(&worker, "terse_bus_lag_messages") == 0.0);
    assert_eq!(metric(&worker, "terse_bus_consumed_total{what=\"set_aside\"}"), 0.0);
    assert!(metric(&node, "terse_bus_published_total") > 0.0);
    assert_eq!(counted(&node), Some(answered), "the same through every node");

    let set = [format!("store={database}"), format!("clicks.bus={bus}")];
    let checked = command(&folders[1].path().join("data"))
        .args(["--json", "doctor", "--set", &set[0], "--set", &set[1]])
        .output()
        .unwrap();
    let said = String::from_utf8(checked.stdout).unwrap();
    assert!(said.contains("12 partitions on 1 brokers each"), "{said}");
    assert!(said.contains("0 of them not counted yet"), "{said}");
    assert!(said.contains("min.insync.replicas is 1"), "{said}");
    for process in [node, worker] {
        process.terminate();
        let (status, said) = process.wait();
        assert!(status.success(), "{said}");
    }
}

#[test]
fn every_answered_visit_is_counted_once_while_worker_and_clickhouse_are_killed_together() {
    let (kafka, clickhouse) = (KafkaServer::shared(), ClickHouseServer::start());
    let (database, bus) = (PostgresServer::shared().fresh(), kafka.fresh());
    let clicks = format!("clicks.store={}", clickhouse.fresh());
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let start = |at: usize, roles| start(folders[at].path(), roles, &database, &bus, &[&clicks]);
    let (node, mut worker) = (start(0, "redirect,api"), start(1, "worker,api"));
    let link = json!({ "long_url": "https://example.com/bus", "custom_alias": "bus" });
    assert_eq!(node.call(KEY, "POST", "/urls", Some(link)).0, 201);
    let mut answered = visit(&node, 50);
    wait_until_counted(&worker, answered);
    for _ in 0..3 {
        answered += visit(&node, 50);
        wait_until("they are published or counted", || {
            metric(&worker, "terse_bus_consumed_total{what=\"counted\"}") > 0.0
        });
        worker.kill();
        clickhouse.kill();
        let without = visit(&node, 50);
        assert_eq!(without, 50, "visits are answered without ClickHouse");
        answered += without;
        clickhouse.run();
        worker = start(1, "worker,api");
        answered += visit(&node, 10);
    }
    wait_until_counted(&worker, answered);
    wait_until("the lag is gone", || metric(&worker, "terse_bus_lag_messages") == 0.0);
    assert_eq!(metric(&worker, "terse_bus_consumed_total{what=\"set_aside\"}"), 0.0);
    for process in [node, worker] {
        process.terminate();
        let (status, said) = process.wait();
        assert!(status.success(), "{said}");
    }
}

#[test]
fn a_start_without_kafka_ends_with_a_message() {
    let database = PostgresServer::shared().fresh();
    let folder = tempfile::tempdir().unwrap();
    let set = |bus: &str| {
        let (store, bus) = (format!("store={database}"), format!("clicks.bus={bus}"));
        let mut command = command(&folder.path().join("data"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--set", &store, "--set", &bus]);
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let said = set("kafka://me:s3cret@127.0.0.1:1/clicks?mechanism=plain&secure=false");
    assert!(said.contains("Kafka at 127.0.0.1:1 cannot be used"), "{said}");
    assert!(said.contains("Connection refused"), "{said}");
    assert!(!said.contains("s3cret"), "{said}");
    let said = set("kafka://127.0.0.1:1");
    assert!(said.contains("clicks.bus") && said.contains("the topic must be"), "{said}");
}
