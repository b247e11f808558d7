//! Counting: how a store takes clicks in exactly once.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};
use xxhash_rust::xxh3::Xxh3;

use super::click::{Click, LinkId};
use super::columns::ClickColumns;
use super::delta::{self, Delta, SumSubject};
use super::report::{ClickSubject, Unit};
use super::sums::{ClickGatherer, Sums};
use crate::store::StoreError;
use crate::time::Timestamp;

/// Generations from here on are of logs; the rest is the day, since 1970.
pub const LOG_GENERATIONS: u64 = 1 << 62;

/// The identity of a journal: 16 random bytes, kept in the journal's folder for as long as the
/// folder exists. A copied folder has the same identity.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct JournalId(pub [u8; 16]);

impl JournalId {
    /// A new identity.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// The identity of a CDN's log that begins with this line.
    pub fn of_log(first_line: &[u8]) -> Self {
        let mut hasher = Sha256::new_with_prefix(b"terse log of a CDN v1\n");
        hasher.update(first_line.trim_ascii());
        let digest = hasher.finalize();
        Self(std::array::from_fn(|at| digest[at]))
    }

    /// The generation of a log that is imported at this time, for [`ClickIngest::forget`]. Folders
    /// never reach such a generation, so [`ClickRetention::forget_logs`] recognises logs by it.
    ///
    /// [`ClickRetention::forget_logs`]: super::ClickRetention::forget_logs
    pub fn log_generation(at: Timestamp) -> u64 {
        let day = at.as_ms().div_euclid(Unit::Day.ms());
        LOG_GENERATIONS + u64::try_from(day).unwrap_or(0)
    }

    /// From 32 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let id = Self(u128::from_str_radix(text, 16).ok()?.to_be_bytes());
        // `from_str_radix` also takes signs, capitals and fewer digits.
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for JournalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for JournalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JournalId({self})")
    }
}

/// A part of one segment of a journal, from one octet to before another. The same span of the same
/// journal holds the same clicks forever.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct JournalSpan {
    /// The journal.
    pub journal: JournalId,
    /// The epoch in which the sender holds the journal, see [`ClickIngest::open`].
    pub epoch: u32,
    /// The segment's id.
    pub segment: u64,
    /// Where the span begins; 0 for a segment of which nothing was counted.
    pub from: u64,
    /// Where it ends.
    pub to: u64,
}

/// How far the store has counted a segment.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Position {
    /// The journal.
    pub journal: JournalId,
    /// The segment's id.
    pub segment: u64,
    /// Everything before this octet is counted.
    pub to: u64,
}

/// Clicks in two forms, and the spans of journals they were read from. A store uses either form, or
/// both.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Derived from the spans without their epochs: a batch that is repeated has the id of the
    /// first try, also after another process has taken the journal over. A store without
    /// transactions deduplicates by it.
    pub id: [u8; 16],
    /// Each segment at most once.
    pub spans: Vec<JournalSpan>,
    /// All clicks of the spans, and no others.
    pub clicks: ClickColumns,
    /// The sums of the same clicks: each subject and hour at most once, but a link that changed its
    /// owner meanwhile once for each owner.
    pub sums: Vec<Delta>,
}

impl Batch {
    /// The batch of these spans.
    pub fn new(spans: Vec<JournalSpan>, clicks: ClickColumns, sums: Vec<Delta>) -> Self {
        Self { id: Self::id_of(&spans), spans, clicks, sums }
    }

    /// The batch of these spans, with clicks that are not in columns yet.
    pub fn of(spans: Vec<JournalSpan>, clicks: impl IntoIterator<Item = Click>) -> Self {
        let mut gatherer = ClickGatherer::default();
        clicks.into_iter().for_each(|click| gatherer.push(&click));
        let sums = gatherer.sums.finish(&gatherer.columns).0;
        Self::new(spans, gatherer.columns, sums)
    }

    /// The id of a batch with these spans.
    pub fn id_of(spans: &[JournalSpan]) -> [u8; 16] {
        let mut hasher = Xxh3::new();
        for JournalSpan { journal, epoch: _, segment, from, to } in spans {
            hasher.update(&journal.0);
            [segment, from, to].iter().for_each(|number| hasher.update(&number.to_le_bytes()));
        }
        hasher.digest128().to_be_bytes()
    }

    /// The subject of one of its sums.
    pub fn subject(&self, subject: SumSubject) -> Option<ClickSubject> {
        delta::subject_of(&self.clicks, subject)
    }

    /// The link with this number among the targets; `None` for an orphan.
    pub fn link(&self, target: u32) -> Option<&LinkId> {
        delta::link_of(&self.clicks, target)
    }

    /// When its first click was made.
    pub fn first_ms(&self) -> i64 {
        self.clicks.at_ms.iter().copied().min().unwrap_or(i64::MAX)
    }

    /// The sums of one link without its clicks up to and including a time.
    pub fn sums_after(&self, target: u32, at: Timestamp) -> Vec<Delta> {
        let mut sums = Sums::default();
        for row in self.clicks.rows() {
            if row.target == target && row.at_ms > at.as_ms() {
                sums.add(&self.clicks, &row);
            }
        }
        sums.into_link_deltas()
    }
}

/// A batch that a store began to add and did not finish.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnfinishedBatch {
    /// Its id.
    pub id: [u8; 16],
    /// Its spans, in the order that makes the id. The epochs are those of the first try.
    pub spans: Vec<JournalSpan>,
}

/// The outcome of adding a batch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Added {
    /// Counted, and durable together with the new positions.
    Done,
    /// Every span of the batch was counted before. Nothing was done.
    Already,
    /// A span does not begin where the store is: a part of the batch was counted before, or
    /// something before it was not. Nothing was done. Holds the store's position in every segment
    /// of the batch.
    Gap(Vec<Position>),
    /// Another process has opened one of the journals since. Nothing was done, and nothing will be
    /// until this process opens the journal again.
    Fenced,
}

impl Added {
    /// Why a batch with these spans is refused where the store has these positions; `None` if
    /// every span begins at its position.
    pub fn by_positions(
        spans: &[JournalSpan],
        position: impl Fn(&JournalSpan) -> u64,
    ) -> Option<Self> {
        if spans.iter().all(|span| position(span) == span.from) {
            return None;
        }
        if spans.iter().all(|span| position(span) >= span.to) {
            return Some(Self::Already);
        }
        let at = |span: &JournalSpan| Position {
            journal: span.journal,
            segment: span.segment,
            to: position(span),
        };
        Some(Self::Gap(spans.iter().map(at).collect()))
    }
}

/// The outcome of forgetting positions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Forgotten {
    /// The positions are forgotten.
    Done,
    /// Another process has opened the journal since. Nothing was done.
    Fenced,
}

/// A journal that was opened.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Opened {
    /// The epoch in which the caller holds the journal.
    pub epoch: u32,
    /// The generation of the last [`ClickIngest::forget`]; 0 if there was none.
    ///
    /// The owner of a folder raises the folder's generation on disk before it asks the store to
    /// forget positions. So a folder of a lower generation than this is an old copy, and a segment
    /// in it without a position may have been counted already.
    pub generation: u64,
    /// The position in each segment of this journal that is not forgotten.
    pub positions: Vec<Position>,
    /// Batches of this journal that a store without transactions began and did not finish, the
    /// oldest first. The positions do not include them. The caller adds these first, with the same
    /// spans and so the same id.
    pub unfinished: Vec<UnfinishedBatch>,
}

/// Takes clicks in, each exactly once.
///
/// Every journal has one holder at a time. [`open`](Self::open) hands out an epoch and fences all
/// earlier ones, so that neither a process that was paused nor one on a copied folder can count a
/// click twice or delete the positions of another.
///
/// Each promise has a test in `terse_testkit::click_store!`.
#[async_trait]
pub trait ClickIngest: Send + Sync + 'static {
    /// Takes the journal over: epochs rise by at least one each time, and calls with a lower epoch
    /// are `Fenced` from now on, on every handle of the store.
    async fn open(&self, journal: JournalId) -> Result<Opened, StoreError>;

    /// Counts all clicks and moves all positions in one atomic, durable step, or does nothing.
    ///
    /// After `Unavailable` the step may have happened: the caller adds the same batch again before
    /// any other of these journals. The store leaves clicks of erased links and owners out of the
    /// erased sums, see [`ClickRetention`](super::ClickRetention).
    ///
    /// The batch is shared, so that a store with threads of its own need not copy it.
    async fn add(&self, batch: &Arc<Batch>) -> Result<Added, StoreError>;

    /// Forgets the positions of segments whose files exist no longer. `generation` is the one that
    /// the journal's folder has on disk, see [`Opened::generation`]; the store keeps the highest.
    async fn forget(
        &self,
        journal: JournalId,
        epoch: u32,
        generation: u64,
        segments: &[u64],
    ) -> Result<Forgotten, StoreError>;

    /// Checks whether the store is likely to accept clicks now.
    async fn check(&self) -> Result<(), StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_id_has_one_spelling() {
        let id = JournalId::parse("00ff00000000000000000000000000a1").unwrap();
        assert_eq!((id.0[1], id.0[15]), (0xff, 0xa1));
        assert_eq!(JournalId::parse(&id.to_string()), Some(id));
        for wrong in [
            "",
            "a1",
            "00FF00000000000000000000000000a1",
            "+0ff00000000000000000000000000a1",
            "00ff00000000000000000000000000a1\n",
            "00ff00000000000000000000000000a100",
        ] {
            assert_eq!(JournalId::parse(wrong), None, "{wrong:?}");
        }
        assert_ne!(JournalId::generate().unwrap(), JournalId::generate().unwrap());
    }

    #[test]
    fn a_batch_has_the_id_of_its_spans_whoever_sends_it() {
        let span =
            JournalSpan { journal: JournalId([7; 16]), epoch: 1, segment: 5, from: 0, to: 9 };
        let id = |spans: &[JournalSpan]| Batch::of(spans.to_vec(), []).id;
        assert_eq!(id(&[span]), id(&[JournalSpan { epoch: 2, ..span }]));
        // Stores on disk identify batches by this number: it must never change.
        assert_eq!(u128::from_be_bytes(id(&[span])), 0x01fd_b246_488b_fe1a_2f39_7706_bd4a_c1df);
        for other in [
            JournalSpan { journal: JournalId([8; 16]), ..span },
            JournalSpan { segment: 6, ..span },
            JournalSpan { from: 1, ..span },
            JournalSpan { to: 10, ..span },
        ] {
            assert_ne!(id(&[span]), id(&[other]), "{other:?}");
            assert_ne!(id(&[span]), id(&[span, other]), "{other:?}");
        }
    }
}
