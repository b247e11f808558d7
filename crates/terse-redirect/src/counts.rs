//! What the redirect plane counts about itself.

use std::sync::atomic::{AtomicU64, Ordering};

/// Upper ends of the latency buckets, in microseconds; what is slower goes into one more.
pub const BUCKETS_MICROS: [u64; 14] =
    [10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000];

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of one serving thread, written by it alone and read by anyone.
        #[derive(Debug, Default)]
        pub struct Counts {
            $($(#[$doc])* pub(crate) $name: Tally,)*
            pub(crate) latency: [Tally; BUCKETS_MICROS.len() + 1],
            pub(crate) latency_micros: Tally,
        }

        /// The sum over all threads at one moment.
        #[derive(Clone, Debug, Default)]
        pub struct Snapshot {
            $($(#[$doc])* pub $name: u64,)*
            /// How many answers took up to each of [`BUCKETS_MICROS`], and longer; not cumulative.
            pub latency: [u64; BUCKETS_MICROS.len() + 1],
            /// All of their times together.
            pub latency_micros: u64,
        }

        impl Snapshot {
            /// Adds one thread's counters.
            pub fn add(&mut self, counts: &Counts) {
                $(self.$name += counts.$name.get();)*
                for (sum, tally) in self.latency.iter_mut().zip(&counts.latency) {
                    *sum += tally.get();
                }
                self.latency_micros += counts.latency_micros.get();
            }
        }
    };
}

counts! {
    /// Redirects answered.
    redirected,
    /// Answered 404.
    not_found,
    /// Of these, refused by arithmetic without a look.
    never_issued,
    /// Answered 410.
    gone,
    /// Answered 451.
    blocked,
    /// Answered 429.
    limited,
    /// Shown a warning.
    warned,
    /// Asked for a password.
    asked,
    /// Answered 503.
    unavailable,
    /// Redirected from an old memory while the store was away.
    stale,
    /// Found in memory.
    hits,
    /// Not found in memory.
    misses,
    /// Looked up ahead of time.
    refreshes,
    /// Connections accepted.
    connections,
    /// Connections open now: accepted minus closed.
    closed,
    /// Connections refused because there were too many.
    refused,
    /// Connections closed because the client was too slow.
    timed_out,
    /// Connections handed over to hyper.
    handed_over,
    /// Visits written into the journal: clicks, and failures by themselves or for others.
    clicks_journaled,
    /// Visits that could not be written, because no segment was ready.
    clicks_lost,
    /// Failed visits that another one stands for in the journal.
    orphans_skipped,
}

impl Counts {
    /// Notes how long some answers took, all of them together.
    pub(crate) fn took(&self, micros: u64, answers: u64) {
        let bucket =
            BUCKETS_MICROS.iter().position(|&end| micros <= end).unwrap_or(BUCKETS_MICROS.len());
        self.latency[bucket].add(answers);
        self.latency_micros.add(micros * answers);
    }
}

/// A counter with a single writer: an ordinary addition, no locked instruction.
#[derive(Debug, Default)]
pub(crate) struct Tally(AtomicU64);

impl Tally {
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
