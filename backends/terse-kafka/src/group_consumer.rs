//! A consumer that leaves its group on a thread of its own.

use std::ops::Deref;
use std::thread;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _, StreamConsumer};
use rdkafka::error::KafkaError;
use tokio::sync::watch;
use tracing::warn;

use crate::client::{self, Connection};
use crate::options::KafkaOptions;

/// How long [`GroupConsumer::leave`] waits for the brokers.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);

/// A consumer of the workers' group.
///
/// The driver waits for the brokers when it drops such a consumer, without an end if they do not
/// answer. So the drop happens on a thread of its own, which ends with the process.
pub(crate) struct GroupConsumer<C: Send + 'static = StreamConsumer<Connection>> {
    /// `None` only while it is dropped.
    consumer: Option<C>,
    /// Closed once the driver has dropped the consumer.
    left: Option<watch::Sender<()>>,
}

impl GroupConsumer {
    /// Joins the group.
    pub(crate) fn join(
        options: &KafkaOptions,
        connection: &Connection,
    ) -> Result<Self, KafkaError> {
        let mut config = client::config(&options.address);
        config
            .set("group.id", &options.address.group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "earliest")
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("session.timeout.ms", options.session_timeout.as_millis().to_string())
            .set("heartbeat.interval.ms", (options.session_timeout.as_millis() / 5).to_string())
            .set("queued.max.messages.kbytes", "16384");
        let consumer: StreamConsumer<Connection> =
            config.create_with_context(connection.clone())?;
        consumer.subscribe(&[&options.address.topic])?;
        Ok(Self::new(consumer))
    }

    /// Commits what was committed asynchronously, leaves the group, and waits for both up to
    /// [`LEAVE_TIMEOUT`]. Brokers that hear nothing give the partitions to other workers after the
    /// session timeout.
    pub(crate) async fn leave(consumer: impl Deref<Target = Self>) {
        let left = consumer.left.as_ref().map(watch::Sender::subscribe);
        drop(consumer);
        let Some(mut left) = left else { return };
        // An error means that the sender is gone, and with it the consumer.
        let left = tokio::time::timeout(LEAVE_TIMEOUT, left.changed()).await;
        if left.is_err() {
            warn!("the brokers did not answer when this worker left its group");
        }
    }
}

impl GroupConsumer<BaseConsumer<Connection>> {
    /// Reads the group's offsets without joining it.
    pub(crate) fn observe(
        options: &KafkaOptions,
        connection: &Connection,
    ) -> Result<Self, KafkaError> {
        let mut config = client::config(&options.address);
        config.set("group.id", &options.address.group).set("enable.auto.commit", "false");
        Ok(Self::new(config.create_with_context(connection.clone())?))
    }
}

impl<C: Send + 'static> GroupConsumer<C> {
    fn new(consumer: C) -> Self {
        Self { consumer: Some(consumer), left: Some(watch::Sender::new(())) }
    }
}

impl<C: Send + 'static> Deref for GroupConsumer<C> {
    type Target = C;

    fn deref(&self) -> &C {
        self.consumer.as_ref().expect("the consumer is there until it is dropped")
    }
}

impl<C: Send + 'static> Drop for GroupConsumer<C> {
    fn drop(&mut self) {
        let (consumer, left) = (self.consumer.take(), self.left.take());
        let leaving = thread::Builder::new().name("kafka-leave".into());
        let spawned = leaving.spawn(move || {
            drop(consumer);
            drop(left);
        });
        if let Err(error) = spawned {
            warn!(%error, "no thread to leave the group of workers; left it without one");
        }
    }
}
