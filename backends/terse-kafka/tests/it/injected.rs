//! Errors that a real broker gives only in bad moments: librdkafka's own mock of a cluster.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rdkafka::mocking::MockCluster;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use terse_core::clicks::ClickStore;
use terse_testkit::{MemoryClickStore, PostgresServer};

use crate::support::{Node, RunningWorker, bus, wait_for_total};

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
    assert_eq!(worker.set_aside(), 0);
    worker.stop().await;
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
