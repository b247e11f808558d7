//! Messages that come twice, too early, or damaged.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rdkafka::consumer::{Consumer as _, StreamConsumer};
use rdkafka::message::{Headers as _, Message as _};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use terse_core::clicks::{ClickStore, JournalId, Position};
use terse_kafka::KafkaAddress;
use terse_kafka::internals::{encode, encode_forget};
use terse_testkit::{KafkaServer, PostgresServer};
use tokio::time::timeout;

use crate::support::{
    RunningWorker, TIMEOUT, batch, clicks, options, send_raw, span, total, wait, wait_for_total,
};

const JOURNAL: JournalId = JournalId([1; 16]);

fn message(from: u64, to: u64) -> Vec<u8> {
    encode(&batch(vec![span(JOURNAL, 1, from, to)])).unwrap()
}

async fn positions(store: &Arc<dyn ClickStore>) -> Vec<Position> {
    store.open(JOURNAL).await.unwrap().positions
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_and_reordered_messages_change_nothing() {
    let (kafka, database) = (KafkaServer::shared(), PostgresServer::shared().fresh());
    let (url, store) = (kafka.fresh(), clicks(&database).await);
    let worker = RunningWorker::start(&url, &store).await;
    let key = JOURNAL.to_string();
    for (from, to) in
        [(20, 30), (0, 10), (10, 20), (10, 20), (0, 10), (50, 70), (40, 50), (20, 30), (30, 40)]
    {
        send_raw(&url, 0, &key, &message(from, to)).await;
    }
    // In another partition, as if partitions had been added.
    send_raw(&url, 3, &key, &message(70, 80)).await;
    wait_for_total(&store, 80).await;
    wait("all were seen", || worker.counts.repeated.load(Ordering::Relaxed) == 3).await;
    assert_eq!(total(&store).await, 80);
    assert_eq!((worker.set_aside(), worker.counts.gaps.load(Ordering::Relaxed)), (0, 0));
    worker.stop().await;
    // The next worker begins after them.
    let next = RunningWorker::start(&url, &store).await;
    send_raw(&url, 0, &key, &message(80, 81)).await;
    wait_for_total(&store, 81).await;
    assert_eq!(next.counts.repeated.load(Ordering::Relaxed), 0);
    next.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_whose_predecessor_never_comes_waits_and_then_counts() {
    let (kafka, database) = (KafkaServer::shared(), PostgresServer::shared().fresh());
    let (url, store) = (kafka.fresh(), clicks(&database).await);
    let mut short = options(&url);
    short.gap_timeout = Duration::from_secs(3);
    let worker = RunningWorker::start_with(short, &store).await;
    let key = JOURNAL.to_string();
    send_raw(&url, 0, &key, &message(0, 10)).await;
    send_raw(&url, 0, &key, &message(15, 20)).await;
    wait("it waits", || worker.counts.waiting.load(Ordering::Relaxed) == 1).await;
    // Others do not wait for it.
    let other = batch(vec![span(JournalId([2; 16]), 1, 0, 7)]);
    send_raw(&url, 0, &JournalId([2; 16]).to_string(), &encode(&other).unwrap()).await;
    wait_for_total(&store, 22).await;
    assert_eq!(worker.counts.gaps.load(Ordering::Relaxed), 1);
    wait("none waits", || worker.counts.waiting.load(Ordering::Relaxed) == 0).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poisoned_message_is_set_aside_with_its_reason_and_blocks_nothing() {
    let (kafka, database) = (KafkaServer::shared(), PostgresServer::shared().fresh());
    let (url, store) = (kafka.fresh(), clicks(&database).await);
    let worker = RunningWorker::start(&url, &store).await;
    let key = JOURNAL.to_string();
    let mut later = message(10, 20);
    // The version.
    assert_eq!(later[..2], [8, 1]);
    later[1] = 9;
    send_raw(&url, 0, "noise", b"\xff\xffnot a message").await;
    send_raw(&url, 0, &key, &message(0, 10)).await;
    send_raw(&url, 0, &key, &later).await;
    // Does not wait for the one that was set aside.
    send_raw(&url, 0, &key, &message(20, 30)).await;
    // A part of it was counted.
    send_raw(&url, 0, &key, &message(25, 40)).await;
    send_raw(&url, 0, &key, &message(30, 35)).await;
    wait_for_total(&store, 25).await;
    wait("three are set aside", || worker.set_aside() == 3).await;
    let reasons = dead_letters(&url, 3).await;
    for part in ["not a message in the format", "its version is 9", "a part of it was counted"] {
        assert!(reasons.iter().any(|reason| reason.contains(part)), "{part}: {reasons:?}");
    }
    worker.stop().await;
}

/// The reasons and places of messages that were set aside.
async fn dead_letters(url: &str, count: usize) -> Vec<String> {
    let brokers = url.strip_prefix("kafka://").unwrap().split('/').next().unwrap();
    let consumer: StreamConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        // The driver wants one, although nothing joins it.
        .set("group.id", "reader")
        .set("enable.auto.commit", "false")
        .create()
        .unwrap();
    let topic = KafkaAddress::parse(url).unwrap().dead_letter_topic();
    let mut partition = TopicPartitionList::new();
    partition.add_partition_offset(&topic, 0, Offset::Beginning).unwrap();
    consumer.assign(&partition).unwrap();
    let mut all = Vec::new();
    while all.len() < count {
        let received = timeout(TIMEOUT, consumer.recv()).await;
        let message = received.expect("too few messages were set aside").unwrap();
        assert!(message.payload().is_some_and(|payload| !payload.is_empty()));
        let headers = message.headers().unwrap();
        let text = |name: &str| {
            let header = headers.iter().find(|header| header.key == name).unwrap();
            String::from_utf8(header.value.unwrap().to_vec()).unwrap()
        };
        assert_eq!((text("terse-topic"), text("terse-partition")), {
            let topic = KafkaAddress::parse(url).unwrap().topic().to_owned();
            (topic, "0".to_owned())
        });
        assert!(text("terse-offset").parse::<i64>().is_ok());
        all.push(text("terse-reason"));
    }
    // The driver waits for the brokers.
    std::thread::spawn(move || drop(consumer));
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_are_forgotten_when_the_node_says_so() {
    let (kafka, database) = (KafkaServer::shared(), PostgresServer::shared().fresh());
    let (url, store) = (kafka.fresh(), clicks(&database).await);
    let worker = RunningWorker::start(&url, &store).await;
    let key = JOURNAL.to_string();
    send_raw(&url, 0, &key, &message(0, 10)).await;
    wait_for_total(&store, 10).await;
    assert_eq!(positions(&store).await, [Position { journal: JOURNAL, segment: 1, to: 10 }]);
    send_raw(&url, 0, &key, &encode_forget(JOURNAL, 1, 5, &[1])).await;
    let begun = std::time::Instant::now();
    while !positions(&store).await.is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the position is never forgotten");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert_eq!(store.open(JOURNAL).await.unwrap().generation, 5);
    worker.stop().await;
}
