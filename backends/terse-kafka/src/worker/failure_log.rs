//! Failures in the log, once in a while.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rdkafka::error::KafkaError;
use terse_core::StoreError;
use tokio::time::Instant;
use tracing::{info, warn};

use super::KafkaWorker;

const LOG_INTERVAL: Duration = Duration::from_secs(60);

impl KafkaWorker {
    pub(super) fn store_failed(&mut self, error: &StoreError) {
        self.counts.store_failures.fetch_add(1, Ordering::Relaxed);
        if self.should_log() {
            let error = chain(error);
            warn!(error, "clicks cannot be counted right now; they stay in Kafka");
        }
    }

    pub(super) fn store_counts(&mut self) {
        if self.failure_logged.take().is_some() {
            info!("clicks are counted again");
        }
    }

    pub(super) fn kafka_failed(&mut self, error: &KafkaError) {
        if self.should_log() {
            let last = self.connection.last_error();
            warn!(%error, last, "Kafka gives no clicks right now");
        }
    }

    fn should_log(&mut self) -> bool {
        let is_due = self.failure_logged.is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL);
        if is_due {
            self.failure_logged = Some(Instant::now());
        }
        is_due
    }
}

pub(super) fn chain(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}
