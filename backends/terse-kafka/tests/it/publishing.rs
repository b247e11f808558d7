//! A node that is killed, copied, or moves to the bus.

use std::sync::atomic::Ordering;
use std::time::Duration;

use terse_core::clicks::{
    Added, BeginResult, ClickIngest as _, Forgotten, JournalId, JournalSpan, Position,
};
use terse_kafka::internals::encode;
use terse_testkit::{KafkaServer, PostgresServer};

use crate::support::{
    Node, RunningWorker, batch, bus, clicks, ledger, send_raw, span, total, wait, wait_for_total,
};

const JOURNAL: JournalId = JournalId([1; 16]);

/// The process ended after the brokers had the message and before the ledger knew of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_was_sent_before_a_crash_counts_once() {
    let (kafka, database) = (KafkaServer::shared(), PostgresServer::shared().fresh());
    let (url, store) = (kafka.fresh(), clicks(&database).await);
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::open(1, bus(&url, &database, &store, folder.path()).await).await;
    node.publish(10).await;
    let (sent, unsent) = (span(JOURNAL, node.epoch, 10, 30), span(JOURNAL, node.epoch, 30, 31));
    let sent = batch(vec![sent]);
    let begun = ledger(&database).await.begin(&sent, Duration::from_secs(60)).await.unwrap();
    assert!(matches!(begun, BeginResult::Accepted { .. }));
    send_raw(&url, 0, &JOURNAL.to_string(), &encode(&sent).unwrap()).await;

    let mut next = Node::open(1, bus(&url, &database, &store, folder.path()).await).await;
    assert_eq!((next.epoch, next.at), (node.epoch + 1, 30));
    // The process that was killed, or only paused, sends nothing any more.
    assert_eq!(node.bus.add(&batch(vec![unsent])).await.unwrap(), Added::Fenced);
    let forgotten = node.bus.forget(JOURNAL, node.epoch, 1, &[1]).await.unwrap();
    assert_eq!(forgotten, Forgotten::Fenced);
    next.publish(5).await;
    let worker = RunningWorker::start(&url, &store).await;
    wait_for_total(&store, 35).await;
    worker.stop().await;
    assert_eq!(total(&store).await, 35);
}

/// A segment is deleted as soon as it is published: its clicks are only in Kafka then, and the
/// node may open its journal again before a worker counts them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clicks_that_are_only_in_kafka_survive_restarts_of_their_node() {
    let (kafka, database) = (KafkaServer::shared(), PostgresServer::shared().fresh());
    let (url, store) = (kafka.fresh(), clicks(&database).await);
    let folder = tempfile::tempdir().unwrap();
    for round in 1..=3_u64 {
        let mut node = Node::open(1, bus(&url, &database, &store, folder.path()).await).await;
        assert_eq!(node.at, (round - 1) * 10, "published, although nothing is counted");
        node.publish(10).await;
    }
    let worker = RunningWorker::start(&url, &store).await;
    wait_for_total(&store, 30).await;
    assert_eq!(worker.set_aside(), 0);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_that_was_counted_directly_continues_on_the_bus() {
    let (kafka, database) = (KafkaServer::shared(), PostgresServer::shared().fresh());
    let (url, store) = (kafka.fresh(), clicks(&database).await);
    let epoch = store.open(JOURNAL).await.unwrap().epoch;
    let whole = JournalSpan { segment: 2, ..span(JOURNAL, epoch, 0, 9) };
    let added = store.add(&batch(vec![span(JOURNAL, epoch, 0, 100), whole])).await.unwrap();
    assert_eq!(added, Added::Done);
    let folder = tempfile::tempdir().unwrap();
    let bus_of_node = bus(&url, &database, &store, folder.path()).await;
    let opened = bus_of_node.open(JOURNAL).await.unwrap();
    let at = |segment, to| Position { journal: JOURNAL, segment, to };
    assert_eq!(opened.positions, [at(1, 100), at(2, 9)]);
    let mut node = Node::open(1, bus_of_node).await;
    assert_eq!(node.at, 100);
    node.publish(20).await;
    let worker = RunningWorker::start(&url, &store).await;
    wait_for_total(&store, 129).await;
    wait("they are counted", || worker.counts.clicks.load(Ordering::Relaxed) == 20).await;
    assert_eq!(worker.set_aside(), 0);
    worker.stop().await;
}
