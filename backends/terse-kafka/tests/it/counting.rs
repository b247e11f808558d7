//! From nodes over Kafka into a store.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use terse_core::OwnerId;
use terse_core::clicks::{Added, ClickStore, ClickSubject, JournalId, LinkId};
use terse_testkit::{ClickHouseServer, KafkaServer, PostgresServer, key, timestamp};

use crate::support::{
    Node, RunningWorker, batch, bus, clickhouse, clicks, facts, report, span, wait, wait_for_total,
};

/// What the same clicks give in a store without a bus.
async fn compare_with_direct(store: &Arc<dyn ClickStore>) {
    let (kafka, postgres) = (KafkaServer::shared(), PostgresServer::shared());
    let (url, ledger, direct) = (kafka.fresh(), postgres.fresh(), postgres.fresh());
    let direct = clicks(&direct).await;
    let worker = RunningWorker::start(&url, store).await;
    let mut total = 0;
    for journal in 1..=3_u8 {
        let folder = tempfile::tempdir().unwrap();
        let bus = bus(&url, &ledger, store, folder.path()).await;
        let mut node = Node::open(journal, bus).await;
        for clicks in [1, 300, 40, 7] {
            node.publish(clicks).await;
        }
        let id = JournalId([journal; 16]);
        let epoch = direct.open(id).await.unwrap().epoch;
        let batch = batch(vec![span(id, epoch, 0, node.at)]);
        assert_eq!(direct.add(&batch).await.unwrap(), Added::Done);
        total += node.at;
    }
    wait_for_total(store, total).await;
    let link = LinkId { key: key("link-3"), created_at: timestamp(-1) };
    for subject in [
        ClickSubject::Everything,
        ClickSubject::Orphans,
        ClickSubject::Owner(OwnerId(1)),
        ClickSubject::Link(link),
    ] {
        let (over_bus, without) =
            (report(store, subject.clone()).await, report(&direct, subject.clone()).await);
        assert_eq!(facts(&over_bus), facts(&without), "{subject:?}");
    }
    wait("all are counted", || worker.counts.clicks.load(Ordering::Relaxed) == total).await;
    assert_eq!(worker.set_aside(), 0);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clicks_over_kafka_give_the_same_statistics_as_without() {
    let database = PostgresServer::shared().fresh();
    compare_with_direct(&clicks(&database).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clicks_over_kafka_give_the_same_statistics_on_clickhouse() {
    compare_with_direct(&clickhouse(&ClickHouseServer::shared().fresh()).await).await;
}

/// Workers come and go while nodes publish.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_click_is_counted_once_while_workers_come_and_go() {
    let (kafka, database) = (KafkaServer::shared(), PostgresServer::shared().fresh());
    let (url, store) = (kafka.fresh(), clicks(&database).await);
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = Vec::new();
    for journal in 1..=6_u8 {
        let folder = folder.path().join(journal.to_string());
        std::fs::create_dir(&folder).unwrap();
        nodes.push(Node::open(journal, bus(&url, &database, &store, &folder).await).await);
    }
    let first = RunningWorker::start(&url, &store).await;
    let mut second = None;
    for round in 0..24_u64 {
        for node in &mut nodes {
            node.publish(1 + round % 5).await;
        }
        match round {
            6 => second = Some(RunningWorker::start(&url, &store).await),
            // Killed: its group notices only after the session has timed out.
            14 => second.take().unwrap().abort(),
            18 => second = Some(RunningWorker::start(&url, &store).await),
            _ => {}
        }
    }
    first.stop().await;
    // Only the other worker can count these: the first may have counted all that came before.
    for node in &mut nodes {
        node.publish(1).await;
    }
    wait_for_total(&store, nodes.iter().map(|node| node.at).sum()).await;
    let second = second.unwrap();
    // The worker raises its figure after the store has answered.
    wait("the other worker took over", || second.counts.counted.load(Ordering::Relaxed) > 0).await;
    assert_eq!(second.set_aside(), 0);
    second.stop().await;
}
