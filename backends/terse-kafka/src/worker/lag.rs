//! How many messages are not counted yet.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rdkafka::Offset;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use tokio::time::Instant;
use tracing::debug;

use super::KafkaWorker;
use crate::group_consumer::GroupConsumer;

const LAG_INTERVAL: Duration = Duration::from_secs(5);
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

impl KafkaWorker {
    /// Asks the brokers now and then how many messages there are. If some are not committed, all
    /// commits are repeated: one may have failed, and perhaps no message follows that repeats it.
    pub(super) fn note_lag(&mut self) {
        if Instant::now() < self.next_lag {
            return;
        }
        self.next_lag = Instant::now() + LAG_INTERVAL;
        let (consumer, counts) = (Arc::clone(&self.consumer), Arc::clone(&self.counts));
        let commit_again = Arc::clone(&self.commit_again);
        let topic = self.options.address.topic.clone();
        // Not waited for: brokers that do not answer must not delay the counting.
        tokio::task::spawn_blocking(move || match lag(&consumer, &topic) {
            Ok(messages) => {
                counts.lag_messages.store(messages, Ordering::Relaxed);
                commit_again.fetch_or(messages > 0, Ordering::Relaxed);
                if messages == 0 {
                    counts.lag_ms.store(0, Ordering::Relaxed);
                }
            }
            Err(error) => debug!(%error, "the lag is unknown"),
        });
    }
}

/// Messages of the assigned partitions that are not committed. Blocks.
fn lag(consumer: &GroupConsumer, topic: &str) -> Result<u64, KafkaError> {
    let committed = consumer.committed(CLIENT_TIMEOUT)?;
    let mut messages = 0;
    for element in committed.elements() {
        let (low, high) = consumer.fetch_watermarks(topic, element.partition(), CLIENT_TIMEOUT)?;
        let next = match element.offset() {
            Offset::Offset(offset) => offset,
            _ => low,
        };
        messages += u64::try_from(high - next.max(low)).unwrap_or(0);
    }
    Ok(messages)
}
