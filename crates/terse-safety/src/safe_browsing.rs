//! Google Safe Browsing, version 5, with local lists.
//!
//! The lists hold the first four bytes of hashes of what is dangerous. A target none of whose
//! expressions is on a list is clean, and nobody was asked. For one that is, the whole hashes with
//! the same beginning have to be asked for, and the answer holds for as long as it says. Asking is
//! done elsewhere: here are the lists, the answers, and what follows from them.
//!
//! The messages are read as protobuf: field numbers and types are fixed by the published
//! definition, while the JSON form of the same messages leaves open how bytes and unknown words are
//! spelled, and is a third longer.

mod answers;
mod expressions;
mod hash_list;
mod message;
mod prefixes;
mod rice;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use terse_core::{Clock, Target, Timestamp};

use crate::redirector;
use answers::Answers;
use expressions::each_hash;
pub use hash_list::{HashList, UpdateError};
pub use message::{ListUpdate, Malformed, read_updates};
use prefixes::Prefixes;

/// The lists that are kept: deception, malware, and unwanted or harmful software for computers and
/// telephones.
pub const LISTS: [&str; 5] = ["se-4b", "mw-4b", "uws-4b", "uwsa-4b", "pha-4b"];
/// Lists that nobody has confirmed for longer say nothing of what is new.
pub const MAX_TRUST: Duration = Duration::from_hours(24);

/// What is known of targets.
#[derive(Debug)]
pub struct SafeBrowsing {
    clock: Clock,
    /// Held for as long as it takes to copy a pointer, on either side.
    prefixes: RwLock<Option<Arc<Prefixes>>>,
    confirmed_ms: AtomicI64,
    answers: RwLock<Answers>,
}

/// What is known of one target.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Word {
    /// Nothing is known against it.
    Clean,
    /// The same, but by lists that are too old to know what is new.
    CleanOfOld,
    /// It may be dangerous or not: an answer is needed that is not there, or there are no lists at
    /// all.
    Unsure,
    /// It is dangerous.
    Threat,
}

/// What an answer brought.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Learned {
    /// How many whole hashes are dangerous.
    pub threats: usize,
}

impl SafeBrowsing {
    /// Without lists yet.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            prefixes: RwLock::default(),
            confirmed_ms: AtomicI64::new(0),
            answers: RwLock::default(),
        }
    }

    /// Puts lists in force, which were the latest at that moment.
    pub fn replace(&self, lists: &[HashList], confirmed: Timestamp) {
        let new = Some(Arc::new(Prefixes::of(lists.iter().map(HashList::prefixes))));
        let old = std::mem::replace(
            &mut *self.prefixes.write().unwrap_or_else(PoisonError::into_inner),
            new,
        );
        self.confirm(confirmed);
        drop(old); // behind the lock
    }

    /// The lists in force were still the latest at that moment.
    pub fn confirm(&self, at: Timestamp) {
        self.confirmed_ms.store(at.as_ms(), Ordering::SeqCst);
    }

    /// Since when nobody has confirmed the lists; `None` without any.
    pub fn age(&self) -> Option<Duration> {
        self.prefixes()?;
        let age = self.clock.now().as_ms().saturating_sub(self.confirmed_ms.load(Ordering::SeqCst));
        Some(Duration::from_millis(u64::try_from(age).unwrap_or(0)))
    }

    /// How many beginnings of hashes are on the lists.
    pub fn len(&self) -> usize {
        self.prefixes().map_or(0, |prefixes| prefixes.len())
    }

    /// Whether there is nothing on the lists.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many answers are remembered.
    pub fn answers(&self) -> usize {
        self.answers.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// What is known of a target, and of where it leads on to if it is a known redirector.
    pub fn word(&self, target: &Target) -> Word {
        let Some(prefixes) = self.prefixes() else { return Word::Unsure };
        let mut unsure = false;
        if self.look(&prefixes, target, &mut |_| unsure = true) {
            return Word::Threat;
        }
        match (unsure, self.age()) {
            (true, _) => Word::Unsure,
            (false, Some(age)) if age <= MAX_TRUST => Word::Clean,
            (false, _) => Word::CleanOfOld,
        }
    }

    /// Whether a target is known to be dangerous, and nothing else. Many are asked about at once
    /// whenever something was learned, so nothing is hashed as long as no answer names any threat.
    pub fn is_threat(&self, target: &Target) -> bool {
        let known = self
            .answers
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .have_threats(self.clock.now());
        known && self.word(target) == Word::Threat
    }

    /// What has to be asked before a target can be judged.
    pub fn wanted(&self, target: &Target) -> Vec<u32> {
        let mut wanted = Vec::new();
        if let Some(prefixes) = self.prefixes() {
            self.look(&prefixes, target, &mut |prefix| wanted.push(prefix));
        }
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    /// Takes the answer to a question for these beginnings of hashes.
    pub fn learn(&self, asked: &[u32], answer: &[u8]) -> Result<Learned, Malformed> {
        let found = message::read_found(answer)?;
        let mut answers = self.answers.write().unwrap_or_else(PoisonError::into_inner);
        Ok(Learned { threats: answers.learn(asked, &found, self.clock.now()) })
    }

    fn prefixes(&self) -> Option<Arc<Prefixes>> {
        self.prefixes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a target is known to be dangerous. Names what is not known on the way.
    fn look(&self, prefixes: &Prefixes, target: &Target, unknown: &mut dyn FnMut(u32)) -> bool {
        let (answers, now) =
            (self.answers.read().unwrap_or_else(PoisonError::into_inner), self.clock.now());
        let mut threat = false;
        let mut look = |target: &Target| {
            each_hash(target, |hash| {
                let prefix = beginning(hash);
                // Answers first, as the protocol has it: what was dangerous a moment ago is so
                // until the answer expires.
                match answers.get(prefix, now) {
                    Some(answer) => threat |= answer.contains(hash),
                    None if prefixes.contains(prefix) => unknown(prefix),
                    None => {}
                }
            });
        };
        look(target);
        if let Some(destination) = redirector::destination(target) {
            look(&destination);
        }
        threat
    }
}

/// The first four bytes of a hash, as a number that sorts like them.
fn beginning(hash: &[u8; 32]) -> u32 {
    u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
}

#[cfg(test)]
mod tests;
