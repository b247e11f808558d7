//! The least revision of recently changed links that a copy must have.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use terse_core::{LinkKey, Revision};

/// Longer than a change takes to replace the copies in Redis.
const KEPT: Duration = Duration::from_secs(60);
/// How long a link whose revision is unknown is not read from Redis.
const UNKNOWN: Duration = Duration::from_secs(5);
/// The most links at a time: some 20 MB. Above it, no copy is used until the oldest are dropped.
const MOST: usize = 100_000;

/// What this node knows of recent changes.
#[derive(Default)]
pub(crate) struct Floors(Mutex<State>);

#[derive(Default)]
struct State {
    floors: HashMap<LinkKey, (Revision, Instant)>,
    swept: Option<Instant>,
    /// Changes did not fit. Until then no copy is used.
    overfull_until: Option<Instant>,
}

impl Floors {
    /// Notes a revision; `false` if this or a later one is known.
    pub(crate) fn raise(&self, key: &LinkKey, revision: Revision) -> bool {
        let until = Instant::now() + KEPT;
        self.set(key, revision, until)
    }

    /// The link may have any revision: for a while no copy is used.
    pub(crate) fn avoid(&self, key: &LinkKey) {
        let until = Instant::now() + UNKNOWN;
        self.set(key, Revision(u64::MAX), until);
    }

    fn set(&self, key: &LinkKey, revision: Revision, until: Instant) -> bool {
        let mut state = self.lock();
        state.sweep();
        if let Some((known, known_until)) = state.floors.get_mut(key)
            && *known_until > Instant::now()
        {
            let is_new = revision > *known;
            if revision >= *known {
                (*known, *known_until) = (revision, until.max(*known_until));
            }
            return is_new;
        }
        if state.floors.len() >= MOST {
            state.overfull_until = Some(Instant::now() + KEPT);
            return true;
        }
        state.floors.insert(key.clone(), (revision, until));
        true
    }

    /// Whether a copy of this revision may be used.
    pub(crate) fn allow(&self, key: &LinkKey, revision: Revision) -> bool {
        let (state, now) = (self.lock(), Instant::now());
        if state.overfull_until.is_some_and(|until| until > now) {
            return false;
        }
        match state.floors.get(key) {
            Some((floor, until)) => *until <= now || revision >= *floor,
            None => true,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Drops what is over, at most once a second.
    fn sweep(&mut self) {
        let now = Instant::now();
        if self.swept.is_none_or(|at| now - at > Duration::from_secs(1)) {
            self.floors.retain(|_, (_, until)| *until > now);
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
        let floors = Floors::default();
        assert!(floors.allow(&key("a"), Revision(1)));
        assert!(floors.raise(&key("a"), Revision(3)));
        assert!(!floors.raise(&key("a"), Revision(3)) && !floors.raise(&key("a"), Revision(2)));
        assert!(!floors.allow(&key("a"), Revision(2)) && floors.allow(&key("a"), Revision(3)));
        assert!(floors.raise(&key("a"), Revision(4)) && !floors.allow(&key("a"), Revision(3)));
        floors.avoid(&key("b"));
        assert!(!floors.allow(&key("b"), Revision(9)) && floors.allow(&key("c"), Revision(1)));
    }

    #[test]
    fn no_copy_is_used_while_there_are_too_many_changes() {
        let floors = Floors::default();
        for n in 0..=MOST {
            floors.raise(&key(&format!("k{n}")), Revision(2));
        }
        assert!(!floors.allow(&key("other"), Revision(9)));
    }
}
