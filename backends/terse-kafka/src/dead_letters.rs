//! Messages that cannot be counted, in a topic of their own with the reason.

use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use tracing::{error, warn};

use crate::client::{self, Connection};
use crate::options::KafkaOptions;
use crate::worker::ConsumedMessage;

/// Sets messages aside.
pub(crate) struct DeadLetters {
    producer: FutureProducer<Connection>,
    /// The topic that the messages come from.
    source: String,
    topic: String,
    options: KafkaOptions,
}

impl DeadLetters {
    pub(crate) fn open(options: &KafkaOptions) -> Result<Self, KafkaError> {
        let config = client::producer(&options.address, options.delivery_timeout);
        let producer = config.create_with_context(Connection::default())?;
        let (source, topic) = (options.address.topic.clone(), options.address.dead_letter_topic());
        Ok(Self { producer, source, topic, options: options.clone() })
    }

    /// Writes a message with the reason and the place that it comes from. One try.
    pub(crate) async fn write(
        &self,
        message: &ConsumedMessage,
        reason: &str,
    ) -> Result<(), KafkaError> {
        let (partition, offset) = (message.partition.to_string(), message.offset.to_string());
        let headers = [
            ("terse-reason", reason),
            ("terse-topic", &self.source),
            ("terse-partition", &partition),
            ("terse-offset", &offset),
        ];
        let headers = headers.into_iter().fold(OwnedHeaders::new(), |all, (key, value)| {
            all.insert(Header { key, value: Some(value) })
        });
        let mut record = FutureRecord::to(&self.topic).headers(headers);
        record.key = message.key.as_deref();
        record.payload = message.payload.as_deref();
        client::send(&self.producer, record, self.options.delivery_timeout).await?;
        warn!(
            partition = message.partition,
            offset = message.offset,
            reason,
            "a message with clicks cannot be counted; it is in the topic {}",
            self.topic
        );
        Ok(())
    }

    /// Says where a message is that could not be written.
    pub(crate) fn log_failure(&self, message: &ConsumedMessage, reason: &str, why: &KafkaError) {
        error!(
            partition = message.partition,
            offset = message.offset,
            reason,
            error = %why,
            "a message with clicks cannot be counted, and not be set aside in {} either; it stays \
             in {} as long as that keeps messages",
            self.topic,
            self.source
        );
    }
}
