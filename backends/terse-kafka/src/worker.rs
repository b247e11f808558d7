//! A worker: consumes messages in a group, and has the click store count them.

mod failure_log;
mod lag;
mod waiting;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use rdkafka::consumer::{CommitMode, Consumer as _};
use rdkafka::message::Message as _;
use rdkafka::{Offset, TopicPartitionList};
use terse_core::clicks::{Batch, ClickIngest, JournalId};
use terse_core::{Clock, StoreError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{debug, warn};

use crate::MAX_MESSAGE_AGE;
use crate::batch_merger::BatchMerger;
use crate::client::Connection;
use crate::codec::{self, BusMessage};
use crate::counts::WorkerCounts;
use crate::dead_letters::DeadLetters;
use crate::group_consumer::GroupConsumer;
use crate::message_counter::{Counted, MessageCounter};
use crate::offsets::Offsets;
use crate::options::{KafkaOpenError, KafkaOptions};
use crate::topic;
use failure_log::chain;
use waiting::{TRY_WAITING, WaitingBatch};

/// Messages, and their bytes, that are counted together.
const MAX_GROUP: usize = 64;
const MAX_GROUP_OCTETS: usize = 16 << 20;
/// How often the store may say that data is damaged before the message is set aside.
const MAX_CORRUPT: u32 = 10;
/// How often the worker tries to set a message aside.
const SET_ASIDE_TRIES: u32 = 3;
/// More journals than a fleet has nodes. What follows an incomplete journal that was dropped waits.
const MAX_INCOMPLETE: usize = 10_000;
const TICK: Duration = Duration::from_millis(500);

/// A consumed message.
#[derive(Clone, Debug)]
pub(crate) struct ConsumedMessage {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) payload: Option<Vec<u8>>,
    sent_ms: Option<i64>,
}

/// A message and the batch of clicks in it.
struct ConsumedBatch {
    message: ConsumedMessage,
    batch: Arc<Batch>,
}

/// The signal `stop` is set, so the loop ends.
struct Stopped;

/// Consumes the topic's messages and adds their clicks to the click store.
pub struct KafkaWorker {
    options: KafkaOptions,
    consumer: Arc<GroupConsumer>,
    connection: Connection,
    counter: MessageCounter,
    dead_letters: DeadLetters,
    clock: Clock,
    counts: Arc<WorkerCounts>,
    offsets: Offsets,
    waiting: VecDeque<WaitingBatch>,
    /// Messages that came while the worker waited for the store.
    backlog: VecDeque<ConsumedMessage>,
    /// Journals of messages that were set aside: what follows need not wait for them.
    incomplete: HashSet<JournalId>,
    /// Whether the worker set a message aside because the store called data damaged, and has
    /// counted none since.
    refused_last: bool,
    revocations: u64,
    /// Whether the brokers may lack offsets that were committed.
    commit_again: Arc<AtomicBool>,
    next_lag: Instant,
    failure_logged: Option<Instant>,
    stop: watch::Receiver<bool>,
}

impl KafkaWorker {
    /// Connects and checks the topics. It stops when `stop` becomes true.
    pub async fn open(
        options: KafkaOptions,
        store: Arc<dyn ClickIngest>,
        clock: Clock,
        stop: watch::Receiver<bool>,
    ) -> Result<Self, KafkaOpenError> {
        topic::prepare(&options).await?;
        topic::prepare_dead_letters(&options).await?;
        let connection = Connection::default();
        let failed = |error| connection.failed(&options.address, error);
        let consumer = Arc::new(GroupConsumer::join(&options, &connection).map_err(failed)?);
        let dead_letters = DeadLetters::open(&options).map_err(failed)?;
        let counter = MessageCounter::new(store, options.store_timeout);
        Ok(Self {
            options,
            consumer,
            connection,
            counter,
            dead_letters,
            clock,
            counts: Arc::default(),
            offsets: Offsets::default(),
            waiting: VecDeque::new(),
            backlog: VecDeque::new(),
            incomplete: HashSet::new(),
            refused_last: false,
            revocations: 0,
            commit_again: Arc::default(),
            next_lag: Instant::now(),
            failure_logged: None,
            stop,
        })
    }

    /// The counters of this worker.
    pub fn counts(&self) -> Arc<WorkerCounts> {
        Arc::clone(&self.counts)
    }

    /// Counts messages until `stop` becomes true. Messages that are not counted by then stay in
    /// Kafka for the next worker. The future may be dropped at any await.
    pub async fn run(mut self) {
        while self.round().await.is_ok() {}
        self.commit();
        GroupConsumer::leave(self.consumer).await;
    }

    async fn round(&mut self) -> Result<(), Stopped> {
        let group = self.next_group().await?;
        self.follow_rebalance();
        self.count_group(group).await?;
        self.count_waiting().await?;
        self.commit();
        self.note_lag();
        Ok(())
    }

    /// The messages that have arrived, up to the size of one group; none after [`TICK`].
    async fn next_group(&mut self) -> Result<Vec<ConsumedMessage>, Stopped> {
        let mut group = Vec::new();
        let mut octets = 0;
        let until = Instant::now() + TICK;
        while group.len() < MAX_GROUP && octets < MAX_GROUP_OCTETS {
            let next = if let Some(message) = self.backlog.pop_front() {
                Some(message)
            } else if group.is_empty() {
                self.receive(until).await?
            } else {
                match self.consumer.recv().now_or_never() {
                    Some(Ok(message)) => Some(consumed(&message)),
                    Some(Err(error)) => {
                        self.kafka_failed(&error);
                        None
                    }
                    None => None,
                }
            };
            let Some(message) = next else { break };
            octets += message.payload.as_ref().map_or(0, Vec::len);
            group.push(message);
        }
        Ok(group)
    }

    /// The next message; `None` if there is none until then.
    async fn receive(&mut self, until: Instant) -> Result<Option<ConsumedMessage>, Stopped> {
        if *self.stop.borrow() {
            return Err(Stopped);
        }
        let received = tokio::select! {
            biased;
            _ = self.stop.wait_for(|stop| *stop) => return Err(Stopped),
            received = timeout_at(until, self.consumer.recv()) => match received {
                Ok(Ok(message)) => Ok(Some(consumed(&message))),
                Ok(Err(error)) => Err(error),
                Err(_) => Ok(None),
            },
        };
        match received {
            Ok(message) => Ok(message),
            Err(error) => {
                self.kafka_failed(&error);
                sleep(self.options.retry_delay).await;
                self.replace_failed_consumer();
                Ok(None)
            }
        }
    }

    /// After an error that the driver cannot recover from.
    fn replace_failed_consumer(&mut self) {
        if self.consumer.client().fatal_error().is_none() {
            return;
        }
        match GroupConsumer::join(&self.options, &self.connection) {
            Ok(consumer) => {
                self.consumer = Arc::new(consumer);
                self.connection.revoke_all();
                self.follow_rebalance();
            }
            Err(error) => self.kafka_failed(&error),
        }
    }

    /// Drops what belongs to partitions that another worker has now.
    fn follow_rebalance(&mut self) {
        let (assigned, revocations) = self.connection.assigned();
        self.counts.partitions.store(assigned.len() as u64, Ordering::Relaxed);
        if revocations == self.revocations {
            return;
        }
        self.revocations = revocations;
        self.offsets.keep(|partition| assigned.contains(&partition));
        self.waiting.retain(|waiting| assigned.contains(&waiting.consumed.message.partition));
        self.backlog.retain(|message| assigned.contains(&message.partition));
        self.counter.forget_journals();
    }

    /// Counts messages: those that follow one another together, the others one by one.
    async fn count_group(&mut self, group: Vec<ConsumedMessage>) -> Result<(), Stopped> {
        let mut together: Vec<ConsumedBatch> = Vec::new();
        let mut merger = BatchMerger::default();
        for message in group {
            self.offsets.begin(message.partition, message.offset);
            let payload = message.payload.as_deref().unwrap_or_default();
            let decoded = match self.is_too_old(&message) {
                true => Err("it is older than 28 days".to_owned()),
                false => codec::decode(payload).map_err(|error| error.to_string()),
            };
            match decoded {
                Ok(BusMessage::Clicks(batch)) => {
                    let consumed = ConsumedBatch { message, batch };
                    let opened = self.counter.open(&consumed.batch.spans).await.is_ok();
                    if opened && merger.take(&consumed.batch, |span| self.counter.position(span)) {
                        together.push(consumed);
                        continue;
                    }
                    self.count_together(&mut merger, &mut together).await?;
                    self.count(consumed, false).await?;
                }
                Ok(BusMessage::Forget { journal, generation, segments }) => {
                    self.count_together(&mut merger, &mut together).await?;
                    self.forget(&message, journal, generation, &segments).await?;
                }
                Err(reason) => {
                    self.count_together(&mut merger, &mut together).await?;
                    self.set_aside(&message, &reason).await?;
                }
            }
        }
        self.count_together(&mut merger, &mut together).await
    }

    fn is_too_old(&self, message: &ConsumedMessage) -> bool {
        let before = self.clock.now().saturating_sub(MAX_MESSAGE_AGE).as_ms();
        message.sent_ms.is_some_and(|sent| sent < before)
    }

    async fn count_together(
        &mut self,
        merger: &mut BatchMerger,
        together: &mut Vec<ConsumedBatch>,
    ) -> Result<(), Stopped> {
        let (merger, together) = (std::mem::take(merger), std::mem::take(together));
        if merger.len() > 1 {
            let mut batch = merger.finish();
            if matches!(self.counter.add(&mut batch).await, Ok(Counted::Now)) {
                self.counts.clicks.fetch_add(batch.clicks.len() as u64, Ordering::Relaxed);
                self.counts.counted.fetch_add(together.len() as u64, Ordering::Relaxed);
                self.refused_last = false;
                together.iter().for_each(|consumed| self.done(&consumed.message));
                self.store_counts();
                return Ok(());
            }
            // One of them does not fit the positions that the worker knew: count each by itself.
        }
        for consumed in together {
            self.count(consumed, false).await?;
        }
        Ok(())
    }

    /// Counts a message and retries until that succeeds, or sets it aside. `alone` counts it
    /// although messages before it are missing.
    async fn count(&mut self, mut consumed: ConsumedBatch, alone: bool) -> Result<(), Stopped> {
        let mut wait = self.options.retry_delay;
        let mut corrupt = 0;
        loop {
            let counted = self.counter.add(&mut consumed.batch).await;
            if counted.is_ok() {
                self.store_counts();
            }
            match counted {
                Ok(Counted::Now) => {
                    let clicks = consumed.batch.clicks.len() as u64;
                    self.counts.clicks.fetch_add(clicks, Ordering::Relaxed);
                    self.counts.counted.fetch_add(1, Ordering::Relaxed);
                    self.refused_last = false;
                    self.done(&consumed.message);
                    return Ok(());
                }
                Ok(Counted::Before) => {
                    self.counts.repeated.fetch_add(1, Ordering::Relaxed);
                    self.done(&consumed.message);
                    return Ok(());
                }
                Ok(Counted::TooEarly) => {
                    let journal = consumed.batch.spans.first().map(|span| span.journal);
                    let known = journal.is_some_and(|journal| self.incomplete.remove(&journal));
                    if !alone && !known {
                        let now = Instant::now();
                        let next_try = now + TRY_WAITING;
                        self.waiting.push_back(WaitingBatch { consumed, since: now, next_try });
                        self.note_waiting();
                        return Ok(());
                    }
                    self.counts.gaps.fetch_add(1, Ordering::Relaxed);
                    warn!(
                        journal = journal.map(|journal| journal.to_string()),
                        partition = consumed.message.partition,
                        offset = consumed.message.offset,
                        "messages before this one are missing; their clicks are not counted"
                    );
                    let skipped = self.counter.skip_to(&consumed.batch).await;
                    if let Err(error) = skipped {
                        self.store_failed(&error);
                        self.pause(&mut wait).await?;
                    }
                }
                Ok(Counted::Overlaps) => {
                    let reason = "a part of it was counted before, in another message";
                    return self.set_aside(&consumed.message, reason).await;
                }
                // Another worker has the partition, or had it for a moment.
                Ok(Counted::Fenced) => self.pause(&mut wait).await?,
                Err(error) => {
                    self.store_failed(&error);
                    corrupt += u32::from(matches!(error, StoreError::Corrupt(_)));
                    // If the next message fails as well, the store is damaged and not the message:
                    // clicks wait in the topic.
                    if corrupt >= MAX_CORRUPT && !self.refused_last {
                        self.refused_last = true;
                        let reason = format!("the click store refuses it: {}", chain(&error));
                        return self.set_aside(&consumed.message, &reason).await;
                    }
                    self.pause(&mut wait).await?;
                }
            }
            if !self.connection.has(consumed.message.partition) {
                return Ok(());
            }
        }
    }

    async fn forget(
        &mut self,
        message: &ConsumedMessage,
        journal: JournalId,
        generation: u64,
        segments: &[u64],
    ) -> Result<(), Stopped> {
        let mut wait = self.options.retry_delay;
        while self.connection.has(message.partition) {
            match self.counter.forget(journal, generation, segments).await {
                Ok(Counted::Fenced) => {}
                Ok(_) => {
                    self.done(message);
                    break;
                }
                Err(error) => self.store_failed(&error),
            }
            self.pause(&mut wait).await?;
        }
        Ok(())
    }

    /// Writes a message to the topic of those that cannot be counted. After [`SET_ASIDE_TRIES`]
    /// failures the worker goes on, and the log says where the message is.
    async fn set_aside(&mut self, message: &ConsumedMessage, reason: &str) -> Result<(), Stopped> {
        self.counts.set_aside.fetch_add(1, Ordering::Relaxed);
        let key = message.key.as_deref().and_then(|key| std::str::from_utf8(key).ok());
        if let Some(journal) = key.and_then(JournalId::parse) {
            if self.incomplete.len() >= MAX_INCOMPLETE {
                self.incomplete.clear();
            }
            self.incomplete.insert(journal);
        }
        let mut wait = self.options.retry_delay;
        for tried in 1.. {
            let written = tokio::select! {
                biased;
                _ = self.stop.wait_for(|stop| *stop) => return Err(Stopped),
                written = self.dead_letters.write(message, reason) => written,
            };
            match written {
                Ok(()) => break,
                Err(error) if tried >= SET_ASIDE_TRIES => {
                    self.dead_letters.log_failure(message, reason, &error);
                    break;
                }
                // Meanwhile the worker stays in its group.
                Err(_) => self.pause(&mut wait).await?,
            }
            if !self.connection.has(message.partition) {
                return Ok(());
            }
        }
        self.done(message);
        Ok(())
    }

    fn done(&mut self, message: &ConsumedMessage) {
        self.offsets.done(message.partition, message.offset);
        if let Some(sent) = message.sent_ms {
            let age = self.clock.now().as_ms().saturating_sub(sent).max(0);
            self.counts.lag_ms.store(age, Ordering::Relaxed);
        }
    }

    /// Commits what the store has, without waiting for the brokers. The driver does not tell
    /// whether they did it: see [`Self::note_lag`].
    fn commit(&mut self) {
        if self.commit_again.swap(false, Ordering::Relaxed) {
            self.offsets.repeat();
        }
        let mut list = TopicPartitionList::new();
        for (partition, offset) in self.offsets.take_due() {
            let topic = &self.options.address.topic;
            let _added = list.add_partition_offset(topic, partition, Offset::Offset(offset));
        }
        if list.count() == 0 {
            return;
        }
        if let Err(error) = self.consumer.commit(&list, CommitMode::Async) {
            debug!(%error, "offsets could not be committed; they are committed again");
            self.commit_again.store(true, Ordering::Relaxed);
        }
    }

    /// Waits before a call is repeated. Meanwhile the worker stays in its group.
    async fn pause(&mut self, wait: &mut Duration) -> Result<(), Stopped> {
        let jitter = self.clock.now_micros().unsigned_abs() % 512;
        let until = Instant::now() + *wait * (768 + jitter as u32) / 1024;
        *wait = (*wait * 2).min(self.options.max_retry_delay);
        let mut paused = TopicPartitionList::new();
        while Instant::now() < until {
            // New partitions may come meanwhile.
            if let Ok(assigned) = self.consumer.assignment() {
                let _paused = self.consumer.pause(&assigned);
                paused = assigned;
            }
            if let Some(message) = self.receive(until).await? {
                self.backlog.push_back(message);
            }
        }
        let _resumed = self.consumer.resume(&paused);
        self.follow_rebalance();
        Ok(())
    }
}

fn consumed(message: &rdkafka::message::BorrowedMessage<'_>) -> ConsumedMessage {
    ConsumedMessage {
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(<[u8]>::to_vec),
        payload: message.payload().map(<[u8]>::to_vec),
        sent_ms: message.timestamp().to_millis(),
    }
}

impl std::fmt::Debug for KafkaWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaWorker")
            .field("address", &self.options.address)
            .finish_non_exhaustive()
    }
}
