//! Errors that a real broker gives only in bad moments: librdkafka's own mock of a cluster.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rdkafka::mocking::MockCluster;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use terse_core::Clock;
use terse_core::clicks::ClickStore;
use terse_kafka::inspect;
use terse_testkit::{MemoryClickStore, PostgresServer};

use crate::support::{Node, RunningWorker, TIMEOUT, bus, options, send_raw, wait, wait_for_total};

/// Waits until the group has committed all messages of the topic.
async fn wait_until_committed(url: &str) {
    let begun = Instant::now();
    loop {
        let seen = inspect(&options(url), Clock::default().now()).await.unwrap();
        if seen.lag == 0 && seen.messages > 0 {
            break;
        }
        assert!(begun.elapsed() < TIMEOUT, "never committed: {seen:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_brokers_neither_lose_nor_double_a_click() {
    use RDKafkaRespErr as Error;
    let cluster = MockCluster::new(3).unwrap();
    cluster.create_topic("clicks", 4, 3).unwrap();
    cluster.create_topic("clicks.dead", 1, 3).unwrap();
    let url = format!("kafka://{}/clicks", cluster.bootstrap_servers());
    let database = PostgresServer::shared().fresh();
    let store: Arc<dyn ClickStore> = Arc::new(MemoryClickStore::new());
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::open(1, bus(&url, &database, &store, folder.path()).await).await;
    let worker = RunningWorker::start(&url, &store).await;
    node.publish(10).await;
    wait_for_total(&store, 10).await;
    let refusals = [
        Error::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        Error::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Error::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        Error::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
    ];
    cluster.request_errors(RDKafkaApiKey::Produce, &refusals);
    node.publish(20).await;
    // The driver does not repeat a message after this error: the node does.
    let denied = [Error::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED];
    cluster.request_errors(RDKafkaApiKey::Produce, &denied);
    node.publish(30).await;
    assert!(node.bus.counts().failures.load(Ordering::Relaxed) > 0);
    let unknown = [
        Error::RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
        Error::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS,
        Error::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID,
    ];
    cluster.request_errors(RDKafkaApiKey::OffsetCommit, &unknown);
    cluster.request_errors(RDKafkaApiKey::Heartbeat, &unknown[2..]);
    for _ in 0..10 {
        node.publish(4).await;
    }
    wait_for_total(&store, 100).await;
    wait_until_committed(&url).await;
    // Neither the driver nor the group does anything about this error, and no message follows.
    let refused = [Error::RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE; 3];
    cluster.request_errors(RDKafkaApiKey::OffsetCommit, &refused);
    node.publish(1).await;
    wait_for_total(&store, 101).await;
    wait_until_committed(&url).await;
    assert_eq!(worker.set_aside(), 0);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_stops_although_it_cannot_set_a_message_aside() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("clicks", 1, 1).unwrap();
    cluster.create_topic("clicks.dead", 1, 1).unwrap();
    let url = format!("kafka://{}/clicks", cluster.bootstrap_servers());
    let store: Arc<dyn ClickStore> = Arc::new(MemoryClickStore::new());
    let mut patient = options(&url);
    patient.delivery_timeout = Duration::from_secs(1000);
    let worker = RunningWorker::start_with(patient, &store).await;
    cluster.partition_leader("clicks.dead", 0, None).unwrap();
    send_raw(&url, 0, "noise", b"noise").await;
    wait("it is to be set aside", || worker.set_aside() == 1).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inspection_ends_although_the_brokers_go_away() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("clicks", 1, 1).unwrap();
    let url = format!("kafka://{}/clicks", cluster.bootstrap_servers());
    // It asks for these last.
    let slow = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT; 100];
    cluster.request_errors(RDKafkaApiKey::ListOffsets, &slow);
    let mut short = options(&url);
    short.connect_timeout = Duration::from_secs(3);
    let inspecting = tokio::spawn(async move { inspect(&short, Clock::default().now()).await });
    tokio::time::sleep(Duration::from_secs(2)).await;
    drop(cluster);
    let inspected = tokio::time::timeout(TIMEOUT, inspecting).await.expect("it never ended");
    assert!(inspected.unwrap().is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_stops_although_the_brokers_are_gone() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("clicks", 1, 1).unwrap();
    cluster.create_topic("clicks.dead", 1, 1).unwrap();
    let url = format!("kafka://{}/clicks", cluster.bootstrap_servers());
    let database = PostgresServer::shared().fresh();
    let store: Arc<dyn ClickStore> = Arc::new(MemoryClickStore::new());
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::open(1, bus(&url, &database, &store, folder.path()).await).await;
    let worker = RunningWorker::start(&url, &store).await;
    node.publish(10).await;
    wait_for_total(&store, 10).await;
    drop(cluster);
    worker.stop().await;
}
