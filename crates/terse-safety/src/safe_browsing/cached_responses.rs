//! Cached responses of the server.

use std::collections::HashMap;
use std::time::Duration;

use super::message::SearchResponse;
use super::prefix_of;

/// Beyond this number the cache is cleared.
const MAX_CACHED: usize = 200_000;
/// How long an empty response is cached at least. The protocol allows up to a day. Most prefix
/// matches are chance, and without this the next re-scan would request them all again.
const MIN_EMPTY_TTL: Duration = Duration::from_hours(1);
/// No response is cached for longer.
const MAX_TTL: Duration = Duration::from_hours(24);

/// Responses by hash prefix.
#[derive(Debug, Default)]
pub(crate) struct CachedResponses {
    by_prefix: HashMap<u32, CachedResponse>,
    /// When the last response that names a threat expires, by the steady clock.
    threats_until: Option<Duration>,
}

/// The dangerous hashes with one prefix.
#[derive(Debug)]
pub(crate) struct CachedResponse {
    threats: Vec<[u8; 32]>,
    /// By the steady clock: a change of the system time forgets no threat.
    expires_at: Duration,
}

impl CachedResponse {
    pub(crate) fn contains(&self, hash: &[u8; 32]) -> bool {
        self.threats.contains(hash)
    }
}

impl CachedResponses {
    pub(crate) fn get(&self, prefix: u32, now: Duration) -> Option<&CachedResponse> {
        // Nearly always the cache is empty.
        if self.by_prefix.is_empty() {
            return None;
        }
        self.by_prefix.get(&prefix).filter(|response| now <= response.expires_at)
    }

    /// Caches a response for every requested prefix, including those without hashes. Returns the
    /// number of dangerous hashes.
    pub(crate) fn insert(
        &mut self,
        requested: &[u32],
        response: &SearchResponse,
        now: Duration,
    ) -> usize {
        if self.by_prefix.len() + requested.len() > MAX_CACHED {
            self.by_prefix.retain(|_, response| now <= response.expires_at);
            if self.by_prefix.len() + requested.len() > MAX_CACHED {
                self.by_prefix.clear();
            }
        }
        let ttl =
            if response.any { response.ttl } else { response.ttl.max(MIN_EMPTY_TTL) }.min(MAX_TTL);
        let expires_at = now.saturating_add(ttl);
        let mut threats = 0;
        for prefix in requested {
            let matching: Vec<[u8; 32]> = response
                .threats
                .iter()
                .filter(|hash| prefix_of(hash) == *prefix)
                .copied()
                .collect();
            threats += matching.len();
            self.by_prefix.insert(*prefix, CachedResponse { threats: matching, expires_at });
        }
        if threats > 0 {
            self.threats_until = self.threats_until.max(Some(expires_at));
        }
        threats
    }

    /// Whether any cached response names a threat. Nearly always none does.
    pub(crate) fn have_threats(&self, now: Duration) -> bool {
        self.threats_until.is_some_and(|until| now <= until)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_prefix.len()
    }
}
