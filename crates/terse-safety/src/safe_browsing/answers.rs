//! Answers of the server, for as long as they hold.

use std::collections::HashMap;
use std::time::Duration;

use terse_core::Timestamp;

use super::beginning;
use super::message::Found;

/// Beyond it all are forgotten, and asked for again when they are needed.
const MAX_ANSWERS: usize = 200_000;
/// An answer without any hash may be kept for longer than it says, up to a day. An hour: most of
/// what the lists hold that we ask for is chance, and the next re-scan would ask for all of it
/// again.
const NOTHING: Duration = Duration::from_hours(1);
/// No answer is believed for longer.
const MAX_TRUST: Duration = Duration::from_hours(24);

/// By the first four bytes of the hashes.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    by_prefix: HashMap<u32, Answer>,
    /// No answer that names a threat holds for longer.
    threats_until: Option<Timestamp>,
}

/// All that is dangerous below four bytes.
#[derive(Debug)]
pub(crate) struct Answer {
    threats: Vec<[u8; 32]>,
    until: Timestamp,
}

impl Answer {
    pub(crate) fn contains(&self, hash: &[u8; 32]) -> bool {
        self.threats.contains(hash)
    }
}

impl Answers {
    pub(crate) fn get(&self, prefix: u32, now: Timestamp) -> Option<&Answer> {
        // Nearly always there is nothing to look for.
        if self.by_prefix.is_empty() {
            return None;
        }
        self.by_prefix.get(&prefix).filter(|answer| now <= answer.until)
    }

    /// Takes an answer for everything that was asked: that there is nothing is an answer too. Says
    /// how many are dangerous.
    pub(crate) fn learn(&mut self, asked: &[u32], found: &Found, now: Timestamp) -> usize {
        if self.by_prefix.len() + asked.len() > MAX_ANSWERS {
            self.by_prefix.retain(|_, answer| now <= answer.until);
            if self.by_prefix.len() + asked.len() > MAX_ANSWERS {
                self.by_prefix.clear();
            }
        }
        let keep = if found.any { found.keep } else { found.keep.max(NOTHING) }.min(MAX_TRUST);
        let until = now.checked_add(keep).unwrap_or(Timestamp::MAX);
        let mut threats = 0;
        for prefix in asked {
            let below: Vec<[u8; 32]> =
                found.threats.iter().filter(|hash| beginning(hash) == *prefix).copied().collect();
            threats += below.len();
            self.by_prefix.insert(*prefix, Answer { threats: below, until });
        }
        if threats > 0 {
            self.threats_until = self.threats_until.max(Some(until));
        }
        threats
    }

    /// Whether any answer says that something is dangerous. Nearly always none does.
    pub(crate) fn have_threats(&self, now: Timestamp) -> bool {
        self.threats_until.is_some_and(|until| now <= until)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_prefix.len()
    }
}
