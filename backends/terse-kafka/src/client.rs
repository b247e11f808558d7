//! The driver: its settings, and what it says about its connections.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;
use rdkafka::message::ToBytes;
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::types::RDKafkaErrorCode;
use tracing::{debug, info};

use crate::options::{KafkaAddress, KafkaOpenError, Login, TlsFiles};

/// The settings that every client has.
pub(crate) fn config(address: &KafkaAddress) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &address.brokers)
        .set("client.id", "terse")
        .set("socket.timeout.ms", "10000")
        .set("reconnect.backoff.max.ms", "5000")
        // What fails is logged by terse, once.
        .set_log_level(RDKafkaLogLevel::Error);
    let protocol = match (&address.login, &address.tls) {
        (None, None) => "plaintext",
        (None, Some(_)) => "ssl",
        (Some(_), None) => "sasl_plaintext",
        (Some(_), Some(_)) => "sasl_ssl",
    };
    config.set("security.protocol", protocol);
    if let Some(Login { mechanism, user, password }) = &address.login {
        config.set("sasl.mechanism", *mechanism);
        config.set("sasl.username", user).set("sasl.password", password.reveal());
    }
    if let Some(TlsFiles { roots, certificate, key }) = &address.tls {
        let files = [
            ("ssl.ca.location", roots),
            ("ssl.certificate.location", certificate),
            ("ssl.key.location", key),
        ];
        for (name, file) in files {
            if let Some(file) = file {
                config.set(name, file.display().to_string());
            }
        }
    }
    config
}

/// The settings of a producer whose messages are in the topic once and in order, or not at all.
pub(crate) fn producer(address: &KafkaAddress, delivery_timeout: Duration) -> ClientConfig {
    let mut config = config(address);
    config
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("message.timeout.ms", delivery_timeout.as_millis().to_string())
        .set("compression.type", "lz4")
        // Brokers have a bound of their own, on what is compressed.
        .set("message.max.bytes", "16000000")
        .set("linger.ms", "0")
        .set("queue.buffering.max.messages", "1000")
        .set("queue.buffering.max.kbytes", "65536");
    config
}

/// Sends a message and waits until all brokers in sync have it. The driver gives up after the
/// delivery timeout; this waits twice as long, in case that the driver never tells.
pub(crate) async fn send<K: ToBytes + ?Sized, P: ToBytes + ?Sized>(
    producer: &FutureProducer<Connection>,
    record: FutureRecord<'_, K, P>,
    delivery_timeout: Duration,
) -> Result<(), KafkaError> {
    let sending = producer.send(record, delivery_timeout);
    match tokio::time::timeout(delivery_timeout * 2, sending).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err((error, _))) => Err(error),
        Err(_) => Err(KafkaError::MessageProduction(RDKafkaErrorCode::OperationTimedOut)),
    }
}

/// What the driver says about its connections and partitions.
#[derive(Clone, Default)]
pub(crate) struct Connection(Arc<Mutex<ConnectionState>>);

#[derive(Default)]
struct ConnectionState {
    last_error: Option<String>,
    assigned: HashSet<i32>,
    /// How often partitions were taken away.
    revocations: u64,
}

impl Connection {
    fn lock(&self) -> MutexGuard<'_, ConnectionState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last thing that went wrong on a connection.
    pub(crate) fn last_error(&self) -> Option<String> {
        self.lock().last_error.clone()
    }

    /// The partitions that this consumer has, and how often some were taken away.
    pub(crate) fn assigned(&self) -> (HashSet<i32>, u64) {
        let state = self.lock();
        (state.assigned.clone(), state.revocations)
    }

    /// Whether this consumer has a partition.
    pub(crate) fn has(&self, partition: i32) -> bool {
        self.lock().assigned.contains(&partition)
    }

    /// Forgets all partitions, because the worker has replaced the consumer that had them.
    pub(crate) fn revoke_all(&self) {
        let mut state = self.lock();
        state.revocations += 1;
        state.assigned.clear();
    }

    /// The error of a start that failed, with what the driver says about its connections.
    pub(crate) fn failed(&self, address: &KafkaAddress, error: KafkaError) -> KafkaOpenError {
        let why = match self.last_error() {
            Some(last) => format!("{error} ({})", advised(&last)),
            None => error.to_string(),
        };
        let (brokers, source) = (address.brokers.clone(), Some(error.into()));
        KafkaOpenError::Connect { brokers, why, source }
    }
}

/// What the driver says, with advice in the terms of our URLs.
fn advised(text: &str) -> String {
    // The driver advises to change a setting of its own.
    let mut text = text.replace("ssl.ca.location", "sslrootcert");
    if text.contains("connection closed by peer") {
        text += ": does this port expect TLS (secure=true) or a password (SASL), or none of them?";
    }
    text
}

impl ClientContext for Connection {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        debug!(?level, facility, text, "librdkafka");
        // A broker that closes the connection is no error to the driver, only a line of its log.
        // The line begins with the name of a thread.
        if facility == "FAIL" {
            let text = text.split_once("]: ").map_or(text, |(_, text)| text);
            self.lock().last_error = Some(text.to_owned());
        }
    }

    /// Called while the client is polled.
    fn error(&self, error: KafkaError, reason: &str) {
        debug!(%error, reason, "a connection to Kafka failed");
        let mut state = self.lock();
        // It follows the errors of the single brokers, and does not say why.
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown)
            || state.last_error.is_none()
        {
            state.last_error = Some(reason.to_owned());
        }
    }
}

impl ConsumerContext for Connection {
    fn pre_rebalance(&self, _consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Revoke(partitions) => {
                let revoked: Vec<i32> =
                    partitions.elements().iter().map(TopicPartitionListElem::partition).collect();
                info!(partitions = ?revoked, "another worker takes partitions of the clicks");
                let mut state = self.lock();
                state.revocations += 1;
                state.assigned.retain(|partition| !revoked.contains(partition));
            }
            Rebalance::Assign(partitions) => {
                let assigned: Vec<i32> =
                    partitions.elements().iter().map(TopicPartitionListElem::partition).collect();
                info!(partitions = ?assigned, "this worker counts partitions of the clicks");
                self.lock().assigned.extend(assigned);
            }
            Rebalance::Error(error) => {
                self.lock().last_error = Some(error.to_string());
            }
        }
    }
}
