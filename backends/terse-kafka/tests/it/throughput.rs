//! What a click costs on its way. Not a check: it prints, and only where it is asked to.
//!
//! `TERSE_BUS_CLICKS=2000000 cargo test --release -p terse-kafka --test it throughput -- --nocapture`

use std::sync::Arc;
use std::time::{Duration, Instant};

use terse_core::clicks::{ClickStore, JournalId};
use terse_kafka::KafkaAddress;
use terse_testkit::{ClickHouseServer, KafkaServer, MemoryClickStore, PostgresServer};

use crate::support::{Node, RunningWorker, batch, bus, clickhouse, clicks, span};

const BATCH: u64 = 5000;
/// How long one store may take.
const MAX_DURATION: Duration = Duration::from_secs(3600);

/// The CPU time of this process.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

fn print(what: &str, clicks: u64, cpu: Duration, wall: Duration) {
    let per_click = cpu.as_secs_f64() * 1e6 / clicks as f64;
    let rate = clicks as f64 / wall.as_secs_f64();
    println!("{what}: {per_click:.2} us of CPU per click, {rate:.0} clicks/s");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_click_costs() {
    let Some(wanted) = std::env::var("TERSE_BUS_CLICKS").ok() else { return };
    let wanted: u64 = wanted.parse().unwrap();
    let (kafka, database) = (KafkaServer::shared(), PostgresServer::shared().fresh());
    let url = kafka.fresh();
    let memory: Arc<dyn ClickStore> = Arc::new(MemoryClickStore::new());
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::open(1, bus(&url, &database, &memory, folder.path()).await).await;
    let begun = (cpu(), Instant::now());
    for n in 0..wanted / BATCH {
        drop(batch(vec![span(JournalId([1; 16]), 1, n * BATCH, (n + 1) * BATCH)]));
    }
    let making = cpu() - begun.0;
    let begun = (cpu(), Instant::now());
    for _ in 0..wanted / BATCH {
        node.publish(BATCH).await;
    }
    print("publishing", node.at, (cpu() - begun.0).saturating_sub(making), begun.1.elapsed());
    let octets = node.bus.counts().octets.load(std::sync::atomic::Ordering::Relaxed);
    println!("{:.1} octets per click, before they are compressed", octets as f64 / node.at as f64);
    let topic = KafkaAddress::parse(&url).unwrap();
    let per_click = |octets: u64| octets as f64 / node.at as f64;
    println!("Kafka: {:.1} octets per click on disk", per_click(kafka.octets(topic.topic())));
    let database = PostgresServer::shared().fresh();
    let postgres = clicks(&database).await;
    let clickhouse_url = ClickHouseServer::shared().fresh();
    let clickhouse = clickhouse(&clickhouse_url).await;
    for (what, store, group) in [
        ("counting in memory", &memory, "one"),
        ("counting in PostgreSQL", &postgres, "two"),
        ("counting in ClickHouse", &clickhouse, "three"),
    ] {
        let url = format!("{}-{group}", url);
        let worker = RunningWorker::start(&url, store).await;
        let begun = (cpu(), Instant::now());
        let counted = || worker.counts.clicks.load(std::sync::atomic::Ordering::Relaxed);
        while counted() < node.at {
            assert!(begun.1.elapsed() < MAX_DURATION, "{what}: {} of {}", counted(), node.at);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        print(what, node.at, cpu() - begun.0, begun.1.elapsed());
        worker.stop().await;
    }
    let octets = PostgresServer::shared().sql(
        &database,
        "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c JOIN pg_namespace n \
         ON n.oid = relnamespace WHERE nspname NOT IN ('pg_catalog', 'information_schema', \
         'pg_toast') AND relkind IN ('r', 'm')",
    );
    println!("PostgreSQL: {:.1} octets per click on disk", per_click(octets.parse().unwrap()));
    let name = clickhouse_url.rsplit('/').next().unwrap();
    let octets = ClickHouseServer::shared().sql(&format!(
        "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = '{name}'"
    ));
    println!("ClickHouse: {:.1} octets per click on disk", per_click(octets.parse().unwrap()));
}
