//! Clicks over Kafka: from the journals of many nodes to the workers that count them.
//!
//! A node gives its batches to a [`KafkaBus`], a `ClickIngest` that publishes instead of counting.
//! One message is one batch: the stretches of one journal and their clicks. A ledger in the
//! registry holds how far each journal is published, and hands out its epochs, so a node deletes a
//! segment only after the brokers have acknowledged it.
//!
//! A [`KafkaWorker`] consumes in a group and adds each message to the click store, whose positions
//! decide which clicks count: what was counted is skipped, and what begins past the position waits.
//! So messages that are repeated or reordered change nothing. An offset is committed after the
//! store has the message. `docs/kafka.md` describes the format and the rules.

use std::time::Duration;

mod batch_merger;
mod client;
mod codec;
mod counts;
mod dead_letters;
mod group_consumer;
mod inspect;
mod message_counter;
mod offsets;
mod options;
mod publish;
mod state;
mod topic;
mod wire;
mod worker;

pub use counts::{BusCounts, WorkerCounts};
pub use inspect::{KafkaInspection, inspect};
pub use options::{KafkaAddress, KafkaOpenError, KafkaOptions};
pub use publish::KafkaBus;
pub use topic::TopicSettings;
pub use worker::KafkaWorker;

/// The most memory of a batch, about, so that its message fits into what brokers take by default
/// (1,048,588 bytes), whatever visitors send.
pub const BATCH_BYTES: usize = 512 << 10;
/// Workers set older messages aside.
const MAX_MESSAGE_AGE: Duration = Duration::from_hours(24 * 28);
/// How long the click store must remember what a message may contradict: how far it has counted a
/// deleted segment, and which links were erased.
pub const KEEP_COUNTED: Duration = MAX_MESSAGE_AGE.saturating_add(Duration::from_hours(24 * 2));

/// The parts that tests look at.
#[doc(hidden)]
pub mod internals {
    pub use crate::codec::{
        BusMessage, FormatError, MESSAGE_VERSION, decode, encode, encode_forget,
    };
}
