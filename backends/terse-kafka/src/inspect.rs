//! Looks at the topic and the group of workers for `terse doctor`.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};
use terse_core::Timestamp;

use crate::client::Connection;
use crate::group_consumer::GroupConsumer;
use crate::options::{KafkaOpenError, KafkaOptions};
use crate::topic::{Admin, KEEP, TopicSettings};

/// What the topic looks like.
#[derive(Clone, Debug, Default)]
pub struct KafkaInspection {
    /// The topic's settings; `None` if there is no such topic yet.
    pub topic: Option<TopicSettings>,
    /// Messages that are in the topic.
    pub messages: u64,
    /// Messages that no worker has counted yet.
    pub lag: u64,
    /// Whether some of these are older than half of the time that messages are kept.
    pub is_late: bool,
    /// Messages that were set aside.
    pub set_aside: u64,
}

/// Asks the brokers.
pub async fn inspect(
    options: &KafkaOptions,
    now: Timestamp,
) -> Result<KafkaInspection, KafkaOpenError> {
    let Some(topic) = Admin::open(options)?.settings(&options.address.topic).await? else {
        return Ok(KafkaInspection::default());
    };
    let has_dead = Admin::open(options)?.settings(&options.address.dead_letter_topic()).await?;
    let connection = Connection::default();
    let failed = |error| connection.failed(&options.address, error);
    let consumer = GroupConsumer::observe(options, &connection).map_err(failed)?;
    let (name, dead) = (options.address.topic.clone(), options.address.dead_letter_topic());
    let dead_partitions = has_dead.map_or(0, |dead| dead.partitions);
    let timeout = options.connect_timeout;
    let reading = tokio::task::spawn_blocking(move || {
        let mut seen = read_state(&consumer, &name, topic, now, timeout)?;
        for partition in 0..dead_partitions {
            let (low, high) = consumer.fetch_watermarks(&dead, partition, timeout)?;
            seen.set_aside += u64::try_from(high - low).unwrap_or(0);
        }
        Ok(seen)
    });
    reading.await.unwrap_or(Err(KafkaError::Canceled)).map_err(failed)
}

fn read_state(
    consumer: &BaseConsumer<Connection>,
    name: &str,
    topic: TopicSettings,
    now: Timestamp,
    timeout: Duration,
) -> Result<KafkaInspection, KafkaError> {
    let half = match topic.retention_ms {
        Some(kept) if kept > 0 => Duration::from_millis(kept.unsigned_abs() / 2),
        _ => KEEP / 2,
    };
    let half_ago = now.saturating_sub(half).as_ms();
    let mut list = TopicPartitionList::new();
    let mut times = TopicPartitionList::new();
    for partition in 0..topic.partitions {
        list.add_partition(name, partition);
        times.add_partition_offset(name, partition, Offset::Offset(half_ago))?;
    }
    let committed = consumer.committed_offsets(list, timeout)?;
    // The first message of each partition that is younger than half of the time.
    let young = consumer.offsets_for_times(times, timeout)?;
    let mut seen = KafkaInspection { topic: Some(topic), ..KafkaInspection::default() };
    for element in committed.elements() {
        let partition = element.partition();
        let (low, high) = consumer.fetch_watermarks(name, partition, timeout)?;
        let next = match element.offset() {
            Offset::Offset(offset) => offset.max(low),
            _ => low,
        };
        seen.messages += u64::try_from(high - low).unwrap_or(0);
        seen.lag += u64::try_from(high - next).unwrap_or(0);
        let first_young = young.find_partition(name, partition).map(|found| found.offset());
        let first_young = match first_young {
            Some(Offset::Offset(offset)) => offset,
            _ => high,
        };
        seen.is_late |= next < first_young.min(high);
    }
    Ok(seen)
}
