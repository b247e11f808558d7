//! Brokers and stores that fail.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use terse_core::Clock;
use terse_core::clicks::ClickStore;
use terse_kafka::inspect;
use terse_testkit::{KafkaCluster, KafkaServer, MemoryClickStore, PostgresServer};
use tokio::task::JoinHandle;

use crate::support::{Node, RunningWorker, bus, clicks, options, wait, wait_for_total};

/// Publishes for a while in the background. Returns how many clicks there were.
fn publish(mut node: Node, rounds: u64, at_least: Duration) -> JoinHandle<u64> {
    tokio::spawn(async move {
        let begun = std::time::Instant::now();
        let mut done = 0;
        while done < rounds || begun.elapsed() < at_least {
            node.publish(1 + done % 7).await;
            done += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        node.at
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_click_is_counted_once_while_the_broker_is_killed_and_frozen() {
    let (kafka, database) = (KafkaServer::start(), PostgresServer::shared().fresh());
    let (url, store) = (kafka.fresh(), clicks(&database).await);
    let folder = tempfile::tempdir().unwrap();
    let node = Node::open(1, bus(&url, &database, &store, folder.path()).await).await;
    let worker = RunningWorker::start(&url, &store).await;
    let counts = node.bus.counts();
    let publishing = publish(node, 60, Duration::from_secs(12));
    wait("messages are published", || counts.published.load(Ordering::Relaxed) > 20).await;
    let kafka = tokio::task::spawn_blocking(move || {
        kafka.kill();
        kafka.run();
        kafka
    });
    let kafka = kafka.await.unwrap();
    let before = counts.published.load(Ordering::Relaxed);
    wait("it goes on", || counts.published.load(Ordering::Relaxed) > before + 10).await;
    kafka.freeze();
    tokio::time::sleep(Duration::from_secs(2)).await;
    kafka.thaw();
    let sent = publishing.await.unwrap();
    wait_for_total(&store, sent).await;
    assert_eq!(worker.set_aside(), 0);
    worker.stop().await;
}

/// `TERSE_KAFKA_BROKERS=3 cargo test -p terse-kafka --test it three_brokers`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_click_is_counted_once_while_each_of_three_brokers_is_killed_and_frozen() {
    if std::env::var("TERSE_KAFKA_BROKERS").as_deref() != Ok("3") {
        return eprintln!("SKIPPED: TERSE_KAFKA_BROKERS is not 3");
    }
    let kafka = tokio::task::spawn_blocking(|| Arc::new(KafkaCluster::start(3))).await.unwrap();
    let database = PostgresServer::shared().fresh();
    let (url, store) = (kafka.fresh(), clicks(&database).await);
    let folder = tempfile::tempdir().unwrap();
    let node = Node::open(1, bus(&url, &database, &store, folder.path()).await).await;
    let seen = inspect(&options(&url), Clock::default().now()).await.unwrap();
    let topic = seen.topic.unwrap();
    assert_eq!((topic.replicas, topic.min_in_sync, topic.warnings()), (3, Some(2), vec![]));
    let worker = RunningWorker::start(&url, &store).await;
    let counts = node.bus.counts();
    let publishing = publish(node, 300, Duration::from_secs(30));
    let published = || counts.published.load(Ordering::Relaxed);
    wait("messages are published", || published() > 20).await;
    for number in 0..3 {
        // Two brokers go on without the third one.
        kafka.brokers()[number].kill();
        let before = published();
        wait("the others go on", || published() > before + 10).await;
        let restarted = Arc::clone(&kafka);
        let run = move || restarted.brokers()[number].run();
        tokio::task::spawn_blocking(run).await.unwrap();
        let before = published();
        kafka.brokers()[number].freeze();
        tokio::time::sleep(Duration::from_secs(2)).await;
        kafka.brokers()[number].thaw();
        wait("it goes on", || published() > before + 10).await;
    }
    let sent = publishing.await.unwrap();
    wait_for_total(&store, sent).await;
    assert_eq!(worker.set_aside(), 0);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clicks_wait_in_kafka_while_the_store_fails() {
    let (kafka, database) = (KafkaServer::shared(), PostgresServer::shared().fresh());
    let (url, memory) = (kafka.fresh(), Arc::new(MemoryClickStore::new()));
    let store: Arc<dyn ClickStore> = memory.clone();
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::open(1, bus(&url, &database, &store, folder.path()).await).await;
    let worker = RunningWorker::start(&url, &store).await;
    node.publish(10).await;
    wait_for_total(&store, 10).await;
    memory.fail(true);
    for _ in 0..5 {
        node.publish(10).await;
    }
    let failures = || worker.counts.store_failures.load(Ordering::Relaxed);
    wait("it is tried again and again", || failures() > 5).await;
    // The answers are lost, but not the clicks.
    memory.lose_answers(true);
    memory.fail(false);
    let before = failures();
    wait("answers are lost", || failures() > before + 2).await;
    memory.lose_answers(false);
    wait_for_total(&store, 60).await;
    wait("the lag is gone", || worker.counts.lag_messages.load(Ordering::Relaxed) == 0).await;
    assert_eq!(worker.set_aside(), 0);
    worker.stop().await;
}
