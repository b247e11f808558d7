//! The lowest revision that a copy of a recently changed link must have.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use terse_core::{LinkChange, LinkKey, Revision};

/// Longer than a change takes to replace the copies in Redis.
const KEPT: Duration = Duration::from_secs(60);
/// How long a link whose revision is unknown is not read from Redis.
const UNKNOWN: Duration = Duration::from_secs(5);
/// The most links at a time: some 20 MB. Above it, no copy is used until the oldest are dropped.
const MAX_LINKS: usize = 100_000;

/// What this node knows of recent changes.
#[derive(Default)]
pub(crate) struct MinimumRevisions(Mutex<State>);

#[derive(Default)]
struct State {
    minimums: HashMap<LinkKey, MinimumRevision>,
    swept: Option<Instant>,
    /// Changes did not fit. Until then no copy is used.
    overfull_until: Option<Instant>,
}

/// What is known of a link. Each of the two parts has its own end.
#[derive(Clone, Copy, Default)]
struct MinimumRevision {
    /// A copy has at least this revision, until then.
    least: Option<(Revision, Instant)>,
    /// No copy is used until then.
    avoided_until: Option<Instant>,
}

impl MinimumRevision {
    fn is_over(&self, now: Instant) -> bool {
        self.least.is_none_or(|(_, until)| until <= now)
            && self.avoided_until.is_none_or(|until| until <= now)
    }
}

impl MinimumRevisions {
    /// Notes a change; `false` if this or a later one is known.
    pub(crate) fn record(&self, change: &LinkChange) -> bool {
        match change.revision {
            Revision::UNKNOWN => {
                self.distrust(&change.key);
                true
            }
            revision => self.raise(&change.key, revision),
        }
    }

    /// Notes a revision; `false` if this or a later one is known.
    pub(crate) fn raise(&self, key: &LinkKey, revision: Revision) -> bool {
        let now = Instant::now();
        let mut is_new = true;
        self.change(key, now, |minimum| {
            match minimum.least {
                Some((known, until)) if until > now && known >= revision => is_new = false,
                _ => minimum.least = Some((revision, now + KEPT)),
            };
        });
        is_new
    }

    /// The link may have any revision: for a while no copy is used.
    pub(crate) fn distrust(&self, key: &LinkKey) {
        let now = Instant::now();
        self.change(key, now, |minimum| minimum.avoided_until = Some(now + UNKNOWN));
    }

    fn change(&self, key: &LinkKey, now: Instant, change: impl FnOnce(&mut MinimumRevision)) {
        let mut state = self.lock();
        state.sweep(now);
        if let Some(minimum) = state.minimums.get_mut(key) {
            change(minimum);
        } else if state.minimums.len() >= MAX_LINKS {
            state.overfull_until = Some(now + KEPT);
        } else {
            change(state.minimums.entry(key.clone()).or_default());
        }
    }

    /// Whether a copy of this revision may be used.
    pub(crate) fn allow(&self, key: &LinkKey, revision: Revision) -> bool {
        self.allow_at(key, revision, Instant::now())
    }

    fn allow_at(&self, key: &LinkKey, revision: Revision, now: Instant) -> bool {
        let state = self.lock();
        if state.overfull_until.is_some_and(|until| until > now) {
            return false;
        }
        state.minimums.get(key).is_none_or(|minimum| {
            minimum.avoided_until.is_none_or(|until| until <= now)
                && minimum.least.is_none_or(|(least, until)| until <= now || revision >= least)
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Drops entries whose time is over, at most once a second.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_none_or(|at| now - at > Duration::from_secs(1)) {
            self.minimums.retain(|_, minimum| !minimum.is_over(now));
            self.swept = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terse_testkit::key;

    #[test]
    fn only_copies_of_the_known_revision_or_later_are_used() {
        let minimums = MinimumRevisions::default();
        assert!(minimums.allow(&key("a"), Revision(1)));
        assert!(minimums.raise(&key("a"), Revision(3)));
        assert!(!minimums.raise(&key("a"), Revision(3)) && !minimums.raise(&key("a"), Revision(2)));
        assert!(!minimums.allow(&key("a"), Revision(2)) && minimums.allow(&key("a"), Revision(3)));
        assert!(minimums.raise(&key("a"), Revision(4)) && !minimums.allow(&key("a"), Revision(3)));
        minimums.distrust(&key("b"));
        assert!(!minimums.allow(&key("b"), Revision(9)) && minimums.allow(&key("c"), Revision(1)));
    }

    #[test]
    fn a_link_that_is_avoided_keeps_its_floor() {
        let minimums = MinimumRevisions::default();
        let (later, much_later) = (Instant::now() + UNKNOWN * 2, Instant::now() + KEPT * 2);
        minimums.raise(&key("a"), Revision(3));
        minimums.distrust(&key("a"));
        assert!(!minimums.allow(&key("a"), Revision(9)));
        assert!(!minimums.allow_at(&key("a"), Revision(2), later), "the revision is still known");
        assert!(
            minimums.allow_at(&key("a"), Revision(3), later),
            "not avoided for longer than said"
        );
        // A change that is learnt meanwhile is new, and known.
        assert!(minimums.raise(&key("a"), Revision(4)) && !minimums.raise(&key("a"), Revision(4)));
        assert!(!minimums.allow_at(&key("a"), Revision(3), later));
        assert!(minimums.allow_at(&key("a"), Revision(1), much_later));
    }

    #[test]
    fn no_copy_is_used_while_there_are_too_many_changes() {
        let minimums = MinimumRevisions::default();
        for n in 0..=MAX_LINKS {
            minimums.raise(&key(&format!("k{n}")), Revision(2));
        }
        assert!(!minimums.allow(&key("other"), Revision(9)));
    }
}
