//! Start-up checks, and `terse doctor`.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use terse_core::Clock;
use terse_core::clicks::ClickStore;
use terse_kafka::{KafkaAddress, KafkaBus, KafkaOptions, inspect};
use terse_testkit::{KafkaServer, MemoryClickStore, PostgresServer};

use crate::support::{Node, RunningWorker, bus, clicks, ledger, options, send_raw, wait_for_total};

/// Why a bus does not open.
pub(crate) async fn refusal(options: KafkaOptions) -> String {
    let ledger = ledger(&PostgresServer::shared().fresh()).await;
    let store = Arc::new(MemoryClickStore::new());
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("bus.json");
    let opened = KafkaBus::open(options, ledger, store, state, Clock::default()).await;
    opened.unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_without_brokers_says_so() {
    let mut options = KafkaOptions::new(KafkaAddress::parse("kafka://127.0.0.1:1/x").unwrap());
    options.connect_timeout = Duration::from_secs(2);
    let error = refusal(options).await;
    assert!(error.contains("Kafka at 127.0.0.1:1 cannot be used"), "{error}");
    assert!(error.contains("Connection refused"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_would_lose_clicks_is_refused() {
    let kafka = KafkaServer::shared();
    let brokers = format!("127.0.0.1:{}", kafka.port());
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", brokers).create().unwrap();
    for (name, key, value, part) in [
        ("compacted", "cleanup.policy", "compact", "cleanup.policy is compact"),
        ("small", "max.message.bytes", "1000", "max.message.bytes is 1000"),
    ] {
        let topic = NewTopic::new(name, 1, TopicReplication::Fixed(1)).set(key, value);
        let created = admin.create_topics([&topic], &AdminOptions::new()).await.unwrap();
        assert!(created.iter().all(Result::is_ok), "{created:?}");
        let error = refusal(options(&kafka.url(name))).await;
        assert!(error.contains(part) && error.contains(name), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inspection_tells_settings_lag_and_what_was_set_aside() {
    let (kafka, database) = (KafkaServer::shared(), PostgresServer::shared().fresh());
    let (url, store) = (kafka.fresh(), clicks(&database).await);
    let store: Arc<dyn ClickStore> = store;
    let now = || Clock::default().now();
    assert!(inspect(&options(&url), now()).await.unwrap().topic.is_none());
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::open(1, bus(&url, &database, &store, folder.path()).await).await;
    for _ in 0..3 {
        node.publish(4).await;
    }
    send_raw(&url, 0, "noise", b"noise").await;
    let seen = inspect(&options(&url), now()).await.unwrap();
    let topic = seen.topic.unwrap();
    assert_eq!((topic.partitions, topic.replicas, topic.retention_ms), (12, 1, Some(604_800_000)));
    assert_eq!(topic.warnings().len(), 2, "{:?}", topic.warnings());
    assert_eq!((seen.messages, seen.lag, seen.is_late, seen.set_aside), (4, 4, false, 0));
    // Four days later they are older than half of seven days.
    let later = now().checked_add(Duration::from_hours(96)).unwrap();
    assert!(inspect(&options(&url), later).await.unwrap().is_late);
    let worker = RunningWorker::start(&url, &store).await;
    wait_for_total(&store, 12).await;
    crate::support::wait("the noise is set aside", || worker.set_aside() == 1).await;
    worker.stop().await;
    let seen = inspect(&options(&url), now()).await.unwrap();
    assert_eq!((seen.messages, seen.lag, seen.set_aside), (4, 0, 1));
}
