//! Counters of the redirect plane.

use std::sync::atomic::{AtomicU64, Ordering};

use terse_core::Answered;

/// Upper ends of the latency buckets, in microseconds. One more bucket holds slower answers.
pub(crate) const BUCKETS_MICROS: [u64; 14] =
    [10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000];

/// An answer that takes longer is slow: it is counted, and some of them are logged.
pub(crate) const SLOW_NANOS: i64 = 50_000_000;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// A set of counters: one per serving thread, and a shared one for visits off the fast
        /// path.
        #[derive(Debug, Default)]
        pub(crate) struct Counts<C = ThreadCounter> {
            $($(#[$doc])* pub(crate) $name: C,)*
            pub(crate) latency: [C; BUCKETS_MICROS.len() + 1],
            pub(crate) latency_nanos: C,
        }

        /// The sums of all counters at one time.
        #[derive(Clone, Debug, Default)]
        pub struct RedirectCounts {
            $($(#[$doc])* pub $name: u64,)*
            /// How many answers took up to each of `BUCKETS_MICROS`, and longer; not cumulative.
            pub latency: [u64; BUCKETS_MICROS.len() + 1],
            /// The sum of these times.
            pub latency_nanos: u64,
        }

        impl RedirectCounts {
            /// Adds a set of counters.
            pub(crate) fn add<C: Counter>(&mut self, counts: &Counts<C>) {
                $(self.$name += counts.$name.get();)*
                for (sum, counter) in self.latency.iter_mut().zip(&counts.latency) {
                    *sum += counter.get();
                }
                self.latency_nanos += counts.latency_nanos.get();
            }
        }
    };
}

counts! {
    /// Redirects answered.
    redirected,
    /// Preview fetchers that got the link's own preview.
    previewed,
    /// Answered 404.
    not_found,
    /// Answered 404 without a lookup; also counted as `not_found`.
    never_issued,
    /// Answered 503 because too many lookups of codes that were probably never issued were
    /// waiting; also counted as `unavailable`.
    unissued_refused,
    /// Answered 410.
    gone,
    /// Answered 451.
    blocked,
    /// Answered 429.
    limited,
    /// Shown the warning page.
    warned,
    /// Redirected after the warning page; also counted as `redirected`.
    went_on,
    /// Shown the password form.
    password_asked,
    /// Answered 503.
    unavailable,
    /// Prefetches of links with limited clicks, answered 503.
    prefetches_refused,
    /// Answers that took longer than 50 ms.
    slow,
    /// Answered with an expired cache entry while the store was away.
    stale,
    /// Cache hits.
    hits,
    /// Cache misses.
    misses,
    /// Lookups of cached links ahead of their expiry.
    refreshes,
    /// Connections accepted.
    connections,
    /// Connections closed; accepted minus closed are open.
    closed,
    /// Connections refused because there were too many.
    refused,
    /// Connections refused because their source had its share.
    refused_per_source,
    /// Idle connections closed to make room for new ones.
    made_room,
    /// Connections closed because the client was too slow.
    timed_out,
    /// Connections handed over to hyper.
    handed_over,
    /// Connections of trusted proxies closed because they sent no valid header of the PROXY
    /// protocol.
    bad_proxy_headers,
    /// TLS handshakes that made a new session.
    handshakes_full,
    /// TLS handshakes that resumed a session.
    handshakes_resumed,
    /// TLS handshakes that failed.
    handshakes_failed,
    /// TLS connections refused because too many handshakes were in progress.
    handshakes_refused,
    /// Visits written to the journal. A sampled failure is one.
    clicks_journaled,
    /// Visits that the journal had no segment for.
    clicks_lost,
    /// Microseconds for which threads have paused, because counting was far behind.
    paused_micros,
    /// Failed visits that the journal left out; a sampled one stands for them.
    orphans_skipped,
}

impl<C: Counter> Counts<C> {
    /// Counts an answer.
    pub(crate) fn count(&self, answered: Answered) {
        match answered {
            Answered::Redirected => self.redirected.add(1),
            Answered::Previewed => self.previewed.add(1),
            Answered::Warned => self.warned.add(1),
            Answered::PasswordAsked => self.password_asked.add(1),
            Answered::NotFound => self.not_found.add(1),
            Answered::NeverIssued => {
                self.not_found.add(1);
                self.never_issued.add(1);
            }
            Answered::Gone | Answered::UsedUp => self.gone.add(1),
            Answered::Blocked => self.blocked.add(1),
            Answered::Limited(_) => self.limited.add(1),
            Answered::Unavailable => self.unavailable.add(1),
            Answered::WrongMethod => {}
            Answered::PrefetchRefused => self.prefetches_refused.add(1),
        }
    }

    /// Counts the latency of some answers that were sent together.
    pub(crate) fn count_latency(&self, nanos: i64, answers: u64) {
        let nanos = u64::try_from(nanos).unwrap_or(0);
        let bucket = BUCKETS_MICROS.iter().position(|&end| nanos <= end * 1000);
        self.latency[bucket.unwrap_or(BUCKETS_MICROS.len())].add(answers);
        self.latency_nanos.add(nanos * answers);
    }
}

/// A counter that other threads can read.
pub(crate) trait Counter {
    fn add(&self, n: u64);
    fn get(&self) -> u64;
}

/// A counter that one thread writes: an ordinary addition, no locked instruction.
#[derive(Debug, Default)]
pub(crate) struct ThreadCounter(AtomicU64);

impl Counter for ThreadCounter {
    fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A counter that all threads write.
#[derive(Debug, Default)]
pub(crate) struct SharedCounter(AtomicU64);

impl Counter for SharedCounter {
    fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_below_a_microsecond_is_counted() {
        let counts = Counts::<ThreadCounter>::default();
        counts.count_latency(750, 4);
        counts.count_latency(1_250, 1);
        // A clock that was set back adds no time.
        counts.count_latency(-5, 1);
        let mut seen = RedirectCounts::default();
        seen.add(&counts);
        assert_eq!((seen.latency_nanos, seen.latency.iter().sum::<u64>()), (4_250, 6));
    }
}
