//! Which clicks there are, and how often the click store has counted each.
//!
//! The predicate is *once*: a click whose visit was answered is counted exactly once. One whose
//! visit was not answered, or whose record a power cut took, is counted at most once.

use std::sync::Arc;

use terse_core::Timestamp;
use terse_core::clicks::{Batch, ClickReports as _, ClickTarget, LinkId};
use terse_core::{Code, Domain, LinkKey};
use terse_testkit::MemoryClickStore;

use crate::disk::SimDisk;
use crate::journal::JournalPosition;

/// A click in a journal. Its number is how long its answer took, in microseconds.
#[derive(Clone, Debug)]
pub(crate) struct JournaledClick {
    pub(crate) node: usize,
    pub(crate) code: String,
    pub(crate) created_ms: i64,
    pub(crate) position: JournalPosition,
    /// Whether the visitor has the answer.
    pub(crate) answered: bool,
    /// Whether a power cut took the record.
    pub(crate) lost: bool,
    pub(crate) counted: u64,
}

/// All clicks of a schedule.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    clicks: Vec<JournaledClick>,
    violation: Option<String>,
}

impl Ledger {
    /// The number of the next click.
    pub(crate) fn next(&self) -> usize {
        self.clicks.len()
    }

    pub(crate) fn add(&mut self, click: JournaledClick) {
        self.clicks.push(click);
    }

    pub(crate) fn answered(&mut self, number: usize) {
        self.clicks[number].answered = true;
    }

    /// The store has counted a batch.
    pub(crate) fn count(&mut self, batch: &Batch) {
        for row in batch.clicks.rows() {
            let ClickTarget::Link(link, _) = &batch.clicks.targets[row.target as usize] else {
                self.violate(format!("once: a click on no link: {row:?}"));
                continue;
            };
            let (code, created_ms) = (link.key.code.as_str(), link.created_at.as_ms());
            let number = (row.took_nanos / 1000) as usize;
            match self.clicks.get_mut(number) {
                Some(click) if (click.code.as_str(), click.created_ms) == (code, created_ms) => {
                    click.counted += 1;
                    if click.counted > 1 {
                        let twice = format!("once: counted twice: {number} {click:?}");
                        self.violate(twice);
                    }
                }
                other => {
                    let wrong = format!("once: {number} is counted for {link:?}: {other:?}");
                    self.violate(wrong);
                }
            }
        }
    }

    fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// What was found when batches were counted.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.violation.clone().map_or(Ok(()), Err)
    }

    /// How many clicks were counted.
    pub(crate) fn counted(&self) -> u64 {
        self.clicks.iter().map(|click| click.counted).sum()
    }

    /// The power of a node fails: notes which of its records are lost. Returns how many.
    pub(crate) fn cut_power(&mut self, node: usize, disk: &SimDisk) -> u64 {
        let waiting =
            |click: &&mut JournaledClick| click.node == node && click.counted == 0 && !click.lost;
        // The reader needs the header of a segment, too.
        let of = |position: &JournalPosition| {
            let header = disk.part(&position.segment, 0, terse_core::clicks::HEADER);
            (header, disk.part(&position.segment, position.from, position.to))
        };
        let mut before: Vec<_> = self
            .clicks
            .iter_mut()
            .filter(waiting)
            .map(|click| (of(&click.position), click))
            .collect();
        disk.cut_power();
        let mut lost = 0;
        for (bytes, click) in &mut before {
            click.lost = of(&click.position) != *bytes;
            lost += u64::from(click.lost);
        }
        lost
    }

    /// Checks that all clicks of these nodes are counted that must be.
    pub(crate) fn check_counted(&self, nodes: &[usize]) -> Result<(), String> {
        let missing = |click: &&JournaledClick| {
            nodes.contains(&click.node) && click.counted == 0 && click.answered && !click.lost
        };
        match self.clicks.iter().enumerate().find(|(_, click)| missing(click)) {
            Some(missing) => Err(format!("once: answered and not counted: {missing:?}")),
            None => self.check(),
        }
    }

    /// Checks the sums of the click store.
    pub(crate) async fn check_sums(&self, store: &Arc<MemoryClickStore>) -> Result<(), String> {
        let mut sums: std::collections::BTreeMap<LinkId, u64> = Default::default();
        for click in &self.clicks {
            let code = Code::parse(&click.code).unwrap();
            let key = LinkKey { domain: Domain::primary(), code };
            let link = LinkId { key, created_at: Timestamp::from_ms(click.created_ms) };
            *sums.entry(link).or_default() += click.counted;
        }
        let (links, expected): (Vec<LinkId>, Vec<u64>) = sums.into_iter().unzip();
        let counts = store.counts(&links).await.unwrap();
        for ((link, expected), count) in links.iter().zip(expected).zip(counts) {
            if count.all() != expected {
                return Err(format!("once: {link:?} has {count:?} and not {expected}"));
            }
        }
        Ok(())
    }
}
