//! A node's side: batches become messages.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _};
use rdkafka::types::RDKafkaErrorCode;
use terse_core::clicks::{
    Added, Batch, BeginResult, ClickIngest, ClickLedger, FinishResult, Forgotten, JournalId,
    JournalSpan, Opened, Position, spans_overlap,
};
use terse_core::{BoxError, Clock, StoreError};
use tracing::error;

use crate::KEEP_COUNTED;
use crate::client::{self, Connection};
use crate::codec::{self, MESSAGE_VERSION};
use crate::counts::BusCounts;
use crate::options::{KafkaOpenError, KafkaOptions};
use crate::state::BusState;
use crate::topic;

/// A batch keeps its number in the ledger however long it takes: a message that is sent twice is
/// counted once.
const REPEAT_WITHIN: Duration = Duration::from_hours(24 * 365);
/// The header that tells the version without reading the message.
pub(crate) const VERSION_HEADER: &str = "terse-version";

/// Publishes batches instead of counting them.
///
/// It keeps the promises of [`ClickIngest`] with another meaning of "counted": the brokers have
/// acknowledged the message. A ledger in the registry holds the positions and epochs of that.
pub struct KafkaBus {
    producer: Mutex<FutureProducer<Connection>>,
    connection: Connection,
    options: KafkaOptions,
    partitions: i32,
    ledger: Arc<dyn ClickLedger>,
    /// Where workers count. It knows how far a journal was counted before it had a bus.
    store: Arc<dyn ClickIngest>,
    state: BusState,
    clock: Clock,
    counts: Arc<BusCounts>,
}

impl KafkaBus {
    /// Connects and checks the topic. `state` is a file in the data folder.
    pub async fn open(
        options: KafkaOptions,
        ledger: Arc<dyn ClickLedger>,
        store: Arc<dyn ClickIngest>,
        state: PathBuf,
        clock: Clock,
    ) -> Result<Self, KafkaOpenError> {
        let partitions = topic::prepare(&options).await?.partitions;
        let connection = Connection::default();
        let producer = producer(&options, &connection);
        let producer = producer.map_err(|error| connection.failed(&options.address, error))?;
        let path = state.display().to_string();
        let state =
            BusState::open(state).map_err(|source| KafkaOpenError::File { path, source })?;
        let (producer, counts) = (Mutex::new(producer), Arc::default());
        Ok(Self { producer, connection, options, partitions, ledger, store, state, clock, counts })
    }

    /// What it has done.
    pub fn counts(&self) -> Arc<BusCounts> {
        Arc::clone(&self.counts)
    }

    /// Sends a message and waits until all brokers in sync have it.
    async fn send(&self, journal: JournalId, payload: &[u8]) -> Result<(), StoreError> {
        let topic = &self.options.address.topic;
        let partition = self.state.partition(topic, journal, self.partitions);
        let partition = partition.map_err(|error| StoreError::Unavailable(error.into()))?;
        let (key, version) = (journal.to_string(), MESSAGE_VERSION.to_string());
        let header = Header { key: VERSION_HEADER, value: Some(&version) };
        let record = FutureRecord::to(topic)
            .partition(partition)
            .key(&key)
            .payload(payload)
            .headers(OwnedHeaders::new().insert(header));
        let producer = self.producer()?;
        match client::send(&producer, record, self.options.delivery_timeout).await {
            Ok(()) => {
                self.counts.published.fetch_add(1, Ordering::Relaxed);
                self.counts.octets.fetch_add(payload.len() as u64, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => {
                self.counts.failures.fetch_add(1, Ordering::Relaxed);
                if error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageSizeTooLarge) {
                    error!(
                        octets = payload.len(),
                        topic,
                        "Kafka refuses a message with clicks because of its size: raise \
                         max.message.bytes of the topic. Until then clicks stay in the journal"
                    );
                }
                Err(StoreError::Unavailable(self.explained(error)))
            }
        }
    }

    /// The error, with the last thing that went wrong on a connection.
    fn explained(&self, error: KafkaError) -> BoxError {
        match self.connection.last_error() {
            Some(last) => format!("{error} ({last})").into(),
            None => error.into(),
        }
    }

    /// The producer. One that has failed for good is replaced: the next message begins a new
    /// sequence, and the store knows which messages are repeated.
    fn producer(&self) -> Result<FutureProducer<Connection>, StoreError> {
        let mut producer = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((code, why)) = producer.client().fatal_error() {
            error!(%code, why, "the connection to Kafka failed for good; connecting anew");
            let made = crate::publish::producer(&self.options, &self.connection);
            *producer = made.map_err(|error| StoreError::Unavailable(error.into()))?;
        }
        Ok(producer.clone())
    }

    /// Takes over how far the click store has counted a journal that was never published: without
    /// it, the node would publish what was counted directly.
    async fn take_over(&self, journal: JournalId, opened: &mut Opened) -> Result<(), StoreError> {
        let counted = self.store.open(journal).await?;
        opened.generation = opened.generation.max(counted.generation);
        let epoch = opened.epoch;
        let is_counted = |position: &&Position| position.to > 0;
        let span = |position: &Position| JournalSpan {
            journal,
            epoch,
            segment: position.segment,
            from: 0,
            to: position.to,
        };
        let spans: Vec<_> = counted.positions.iter().filter(is_counted).map(span).collect();
        if spans.is_empty() {
            return Ok(());
        }
        opened.unfinished.retain(|begun| !spans_overlap(&begun.spans, &spans));
        // An empty batch moves the positions.
        let batch = Batch::new(spans, <_>::default(), Vec::new());
        match self.ledger.begin(&batch, REPEAT_WITHIN).await? {
            BeginResult::Accepted { sequence, .. } => {
                self.ledger.finish(sequence).await?;
                opened.positions = counted.positions;
                Ok(())
            }
            BeginResult::Refused(_) => {
                let why = "another process has opened the journal meanwhile";
                Err(StoreError::Unavailable(why.into()))
            }
        }
    }
}

fn producer(
    options: &KafkaOptions,
    connection: &Connection,
) -> Result<FutureProducer<Connection>, KafkaError> {
    let config = client::producer(&options.address, options.delivery_timeout);
    config.create_with_context(connection.clone())
}

#[async_trait]
impl ClickIngest for KafkaBus {
    async fn open(&self, journal: JournalId) -> Result<Opened, StoreError> {
        let mut opened = self.ledger.open(journal).await?;
        if opened.positions.is_empty() && !self.state.is_taken_over(journal) {
            self.take_over(journal, &mut opened).await?;
            let noted = self.state.set_taken_over(journal);
            noted.map_err(|error| StoreError::Unavailable(error.into()))?;
        }
        Ok(opened)
    }

    async fn add(&self, batch: &Arc<Batch>) -> Result<Added, StoreError> {
        let sequence = match self.ledger.begin(batch, REPEAT_WITHIN).await? {
            BeginResult::Refused(refusal) => return Ok(refusal),
            BeginResult::Accepted { sequence, .. } => sequence,
        };
        let Some(JournalSpan { journal, .. }) = batch.spans.first().copied() else {
            return Ok(Added::Already);
        };
        let shared = Arc::clone(batch);
        let encoded = tokio::task::spawn_blocking(move || codec::encode(&shared)).await;
        let payload = encoded.map_err(|error| StoreError::Unavailable(error.into()))?;
        let payload = payload.ok_or_else(|| {
            StoreError::Unavailable("a message can have clicks of one journal only".into())
        })?;
        self.send(journal, &payload).await?;
        match self.ledger.finish(sequence).await? {
            FinishResult::Now => Ok(Added::Done),
            FinishResult::Before => Ok(Added::Already),
            FinishResult::Abandoned => {
                Err(StoreError::Unavailable("the batch was begun again meanwhile".into()))
            }
        }
    }

    /// The click store forgets them much later: a message of a segment must never find its position
    /// missing.
    async fn forget(
        &self,
        journal: JournalId,
        epoch: u32,
        generation: u64,
        segments: &[u64],
    ) -> Result<Forgotten, StoreError> {
        let failed = |error: std::io::Error| StoreError::Unavailable(error.into());
        let now = self.clock.now();
        let before = now.saturating_sub(KEEP_COUNTED);
        let due = self.state.record_deleted(segments, now, before).map_err(failed)?;
        if self.ledger.forget(journal, epoch, generation, segments).await? == Forgotten::Fenced {
            return Ok(Forgotten::Fenced);
        }
        if !due.is_empty() {
            self.send(journal, &codec::encode_forget(journal, epoch, generation, &due)).await?;
            self.state.forgotten(&due).map_err(failed)?;
        }
        Ok(Forgotten::Done)
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.ledger.check().await?;
        let producer = self.producer()?;
        let (topic, timeout) = (self.options.address.topic.clone(), self.options.connect_timeout);
        let asked = tokio::task::spawn_blocking(move || {
            producer.client().fetch_metadata(Some(&topic), timeout).map(drop)
        });
        let asked = asked.await.map_err(|error| StoreError::Unavailable(error.into()))?;
        asked.map_err(|error| StoreError::Unavailable(self.explained(error)))
    }
}

impl std::fmt::Debug for KafkaBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaBus").field("address", &self.options.address).finish_non_exhaustive()
    }
}
