//! Google Safe Browsing, version 5, with local lists.
//!
//! The lists hold the first four bytes of the hashes of dangerous URLs. A target is clean, without
//! a request, if none of its expressions is on a list. Otherwise the full hashes with that prefix
//! must be requested, and the response is cached for as long as it states. This module holds the
//! lists and the cached responses; `service` sends the requests.
//!
//! Messages are decoded from protobuf, because the published definition fixes field numbers and
//! types. The JSON form leaves open how bytes and unknown enum values are written, and is a third
//! longer.

mod cached_responses;
mod expressions;
mod hash_list;
mod message;
mod prefixes;
mod rice;
mod service;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use terse_core::{Clock, Target, Timestamp};

use crate::open_redirect;
use cached_responses::CachedResponses;
use expressions::each_hash;
pub use hash_list::{HashList, UpdateError};
pub use message::{HashListUpdate, MalformedMessage, read_updates};
use prefixes::Prefixes;
pub use service::{SafeBrowsingCounts, SafeBrowsingService, SafeBrowsingSettings};

/// The lists in use: social engineering, malware, unwanted software (desktop and Android), and
/// potentially harmful applications.
pub const LISTS: [&str; 5] = ["se-4b", "mw-4b", "uws-4b", "uwsa-4b", "pha-4b"];
/// Lists that were not confirmed for longer are stale.
pub const MAX_LIST_AGE: Duration = Duration::from_hours(24);

/// The lists and cached responses.
#[derive(Debug)]
pub struct SafeBrowsing {
    clock: Clock,
    /// The lock is held only while the pointer is copied or replaced.
    prefixes: RwLock<Option<Arc<Prefixes>>>,
    /// When the lists were confirmed, in milliseconds of the steady clock; negative if that was
    /// before its start.
    confirmed_ms: AtomicI64,
    responses: RwLock<CachedResponses>,
}

/// The status of one target.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SafeBrowsingStatus {
    /// Not listed.
    Clean,
    /// Not listed, but the lists are stale.
    CleanByStaleLists,
    /// A response is needed that is not cached, or there are no lists.
    Unknown,
    /// Dangerous.
    Threat,
}

/// The result of storing a response.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LookupSummary {
    /// The number of dangerous full hashes.
    pub threats: usize,
}

impl SafeBrowsing {
    /// Starts without lists.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            prefixes: RwLock::default(),
            confirmed_ms: AtomicI64::new(0),
            responses: RwLock::default(),
        }
    }

    /// Replaces the lists, which were the latest at `confirmed`.
    pub fn replace(&self, lists: &[HashList], confirmed: Timestamp) {
        let new = Some(Arc::new(Prefixes::of(lists.iter().map(HashList::prefixes))));
        let old = std::mem::replace(
            &mut *self.prefixes.write().unwrap_or_else(PoisonError::into_inner),
            new,
        );
        self.confirm(confirmed);
        drop(old); // after unlocking
    }

    /// Records that the lists were still the latest at `at`.
    pub fn confirm(&self, at: Timestamp) {
        let age_ms = self.clock.now().as_ms().saturating_sub(at.as_ms()).max(0);
        self.confirmed_ms.store(self.steady_ms().saturating_sub(age_ms), Ordering::SeqCst);
    }

    /// The time since the lists were confirmed; `None` without lists.
    pub fn age(&self) -> Option<Duration> {
        self.prefixes()?;
        let age = self.steady_ms().saturating_sub(self.confirmed_ms.load(Ordering::SeqCst));
        Some(Duration::from_millis(u64::try_from(age).unwrap_or(0)))
    }

    /// The number of hash prefixes on the lists.
    pub fn len(&self) -> usize {
        self.prefixes().map_or(0, |prefixes| prefixes.len())
    }

    /// Whether the lists are empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of cached responses.
    pub fn cached_responses(&self) -> usize {
        self.responses.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The status of a target, and of the target of a known open redirect.
    pub fn status(&self, target: &Target) -> SafeBrowsingStatus {
        let Some(prefixes) = self.prefixes() else { return SafeBrowsingStatus::Unknown };
        let mut unknown = false;
        if self.check(&prefixes, target, &mut |_| unknown = true) {
            return SafeBrowsingStatus::Threat;
        }
        match (unknown, self.age()) {
            (true, _) => SafeBrowsingStatus::Unknown,
            (false, Some(age)) if age <= MAX_LIST_AGE => SafeBrowsingStatus::Clean,
            (false, _) => SafeBrowsingStatus::CleanByStaleLists,
        }
    }

    /// Whether a target is dangerous. Called for many targets after every change, so it computes no
    /// hash while no cached response names a threat.
    pub fn is_threat(&self, target: &Target) -> bool {
        let any_threats = self
            .responses
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .have_threats(self.clock.steady());
        any_threats && self.status(target) == SafeBrowsingStatus::Threat
    }

    /// The hash prefixes that must be requested before the status of a target is known.
    pub fn unknown_prefixes(&self, target: &Target) -> Vec<u32> {
        let mut unknown_prefixes = Vec::new();
        if let Some(prefixes) = self.prefixes() {
            self.check(&prefixes, target, &mut |prefix| unknown_prefixes.push(prefix));
        }
        unknown_prefixes.sort_unstable();
        unknown_prefixes.dedup();
        unknown_prefixes
    }

    /// Caches the response to a request for these hash prefixes.
    pub fn store_response(
        &self,
        requested: &[u32],
        response: &[u8],
    ) -> Result<LookupSummary, MalformedMessage> {
        let found = message::read_search_response(response)?;
        let mut responses = self.responses.write().unwrap_or_else(PoisonError::into_inner);
        Ok(LookupSummary { threats: responses.insert(requested, &found, self.clock.steady()) })
    }

    fn steady_ms(&self) -> i64 {
        self.clock.steady_micros() / 1000
    }

    fn prefixes(&self) -> Option<Arc<Prefixes>> {
        self.prefixes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a target is dangerous. Calls `unknown` for every prefix that must be requested.
    fn check(&self, prefixes: &Prefixes, target: &Target, unknown: &mut dyn FnMut(u32)) -> bool {
        let (responses, now) =
            (self.responses.read().unwrap_or_else(PoisonError::into_inner), self.clock.steady());
        let mut threat = false;
        let mut check = |target: &Target| {
            each_hash(target, |hash| {
                let prefix = prefix_of(hash);
                // Cached responses first, as the protocol requires: a threat stays one until its
                // response expires.
                match responses.get(prefix, now) {
                    Some(response) => threat |= response.contains(hash),
                    None if prefixes.contains(prefix) => unknown(prefix),
                    None => {}
                }
            });
        };
        check(target);
        if let Some(destination) = open_redirect::destination(target) {
            check(&destination);
        }
        threat
    }
}

/// The first four bytes of a hash, as a number in the same order.
fn prefix_of(hash: &[u8; 32]) -> u32 {
    u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
}

#[cfg(test)]
mod tests;
