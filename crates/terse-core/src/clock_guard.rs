//! Decides whether jobs that delete by age can trust the system time.
//!
//! A clock that is wrong for a few seconds must not delete what is still needed. The guard compares
//! the system time with the monotonic clock of the process, and at the start with the newest time
//! that is known from earlier.

use std::time::Duration;

use crate::time::Timestamp;

/// How far the two clocks may drift apart between two observations.
const TOLERANCE: Duration = Duration::from_mins(5);
/// How long the system time must be steady after a jump before it is trusted again.
const SETTLE: Duration = Duration::from_hours(1);
/// A jump ahead beyond this is implausible: it needs the operator's confirmation, or a newer write
/// and a longer time without another jump.
const IMPLAUSIBLE: Duration = Duration::from_hours(7 * 24);
const SETTLE_IMPLAUSIBLE: Duration = Duration::from_hours(24);

/// Why the system time is not trusted.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ClockProblem {
    /// It jumped, and is trusted again once it has been steady for an hour.
    #[error("the system time jumped by {} s", .by_ms / 1000)]
    Jumped {
        /// By how many milliseconds; negative for a jump back.
        by_ms: i64,
    },
    /// It is implausibly far ahead of the newest time that is known.
    #[error("the system time is {} days ahead of the newest write", .by_ms / 86_400_000)]
    Implausible {
        /// By how many milliseconds.
        by_ms: i64,
    },
}

/// A system time and the monotonic time at which it was read.
#[derive(Clone, Copy, Debug)]
struct Reading {
    wall: Timestamp,
    steady: Duration,
}

impl Reading {
    /// By how many milliseconds a later system time is ahead of what this reading predicts.
    fn ahead_ms(self, later: Self) -> i64 {
        let passed = later.steady.saturating_sub(self.steady).as_millis();
        let predicted = self.wall.as_ms().saturating_add(i64::try_from(passed).unwrap_or(i64::MAX));
        later.wall.as_ms().saturating_sub(predicted)
    }
}

/// Watches the clock of one process.
#[derive(Debug, Default)]
pub struct ClockGuard {
    /// The last reading that was trusted.
    trusted: Option<Reading>,
    /// The first reading after the latest jump.
    jumped: Option<Reading>,
}

impl ClockGuard {
    /// Checks a reading of the clocks. `newest` is the newest time that is known from the store:
    /// its newest write, or the last time that was trusted.
    pub fn check(
        &mut self,
        wall: Timestamp,
        steady: Duration,
        newest: Option<Timestamp>,
    ) -> Result<(), ClockProblem> {
        let now = Reading { wall, steady };
        let first = || match newest {
            Some(newest) if wall.saturating_sub(IMPLAUSIBLE) > newest => {
                Reading { wall: newest, steady }
            }
            _ => now,
        };
        let ahead = self.trusted.get_or_insert_with(first).ahead_ms(now);
        if ahead.unsigned_abs() <= ms(TOLERANCE) {
            (self.trusted, self.jumped) = (Some(now), None);
            return Ok(());
        }
        let is_new_jump =
            self.jumped.is_none_or(|jumped| jumped.ahead_ms(now).unsigned_abs() > ms(TOLERANCE));
        if is_new_jump {
            self.jumped = Some(now);
        }
        let since = self.jumped.map_or(steady, |jumped| jumped.steady);
        let settled = steady.saturating_sub(since);
        let is_implausible = ahead > 0 && ahead.unsigned_abs() > ms(IMPLAUSIBLE);
        let is_recent = newest.is_some_and(|newest| newest >= wall.saturating_sub(IMPLAUSIBLE));
        match is_implausible {
            true if settled < SETTLE_IMPLAUSIBLE || !is_recent => {
                Err(ClockProblem::Implausible { by_ms: ahead })
            }
            false if settled < SETTLE => Err(ClockProblem::Jumped { by_ms: ahead }),
            _ => {
                self.accept(wall, steady);
                Ok(())
            }
        }
    }

    /// Trusts the system time as it is: the operator has confirmed it.
    pub fn accept(&mut self, wall: Timestamp, steady: Duration) {
        (self.trusted, self.jumped) = (Some(Reading { wall, steady }), None);
    }
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;
    const HOUR: i64 = 3_600_000;

    /// Checks readings of (system time, monotonic time, newest write), all in milliseconds.
    fn check(guard: &mut ClockGuard, wall: i64, steady: i64, newest: i64) -> Option<ClockProblem> {
        let steady = Duration::from_millis(steady.cast_unsigned());
        let newest = Some(Timestamp::from_ms(newest));
        guard.check(Timestamp::from_ms(wall), steady, newest).err()
    }

    #[test]
    fn time_that_passes_is_trusted_and_a_jump_is_not() {
        let (mut guard, start) = (ClockGuard::default(), 1000 * DAY);
        assert_eq!(check(&mut guard, start, 0, start), None);
        assert_eq!(check(&mut guard, start + 40 * DAY, 40 * DAY, start), None);
        let (wall, steady) = (start + 40 * DAY, 40 * DAY);
        // A step of the time service is no jump.
        assert_eq!(check(&mut guard, wall + 60_000, steady, start), None);
        let far = ClockProblem::Implausible { by_ms: 60 * DAY - 60_000 };
        assert_eq!(check(&mut guard, wall + 60 * DAY, steady, start), Some(far));
        // Back again: trusted at once.
        assert_eq!(check(&mut guard, wall + 3000, steady + 3000, start), None);
    }

    #[test]
    fn a_small_jump_settles_within_an_hour() {
        for by in [2 * HOUR, -2 * HOUR] {
            let (mut guard, start) = (ClockGuard::default(), 1000 * DAY);
            assert_eq!(check(&mut guard, start, 0, start), None);
            let doubt = ClockProblem::Jumped { by_ms: by };
            assert_eq!(check(&mut guard, start + by, 0, start), Some(doubt));
            let late = HOUR - 1;
            assert_eq!(check(&mut guard, start + by + late, late, start), Some(doubt));
            // Another jump begins the hour again.
            let other = ClockProblem::Jumped { by_ms: by + HOUR };
            assert_eq!(check(&mut guard, start + by + 2 * HOUR, HOUR, start), Some(other));
            assert_eq!(
                check(&mut guard, start + by + 3 * HOUR - 1, 2 * HOUR - 1, start),
                Some(other)
            );
            assert_eq!(check(&mut guard, start + by + 3 * HOUR, 2 * HOUR, start), None);
        }
    }

    #[test]
    fn a_start_far_from_the_newest_write_needs_a_newer_write_or_a_confirmation() {
        let (newest, start) = (1000 * DAY, 1060 * DAY);
        let far = |by_ms| Some(ClockProblem::Implausible { by_ms });
        let mut guard = ClockGuard::default();
        assert_eq!(check(&mut guard, start, 0, newest), far(60 * DAY));
        assert_eq!(check(&mut guard, start + 2 * DAY, 2 * DAY, newest), far(60 * DAY), "no write");
        assert_eq!(check(&mut guard, start + 2 * DAY, 2 * DAY, start + DAY), None);
        let mut guard = ClockGuard::default();
        assert_eq!(check(&mut guard, start, 0, newest), far(60 * DAY));
        guard.accept(Timestamp::from_ms(start), Duration::ZERO);
        assert_eq!(check(&mut guard, start + 1, 1, newest), None);
        // A week without a write is plausible.
        assert_eq!(check(&mut ClockGuard::default(), newest + 7 * DAY, 0, newest), None);
    }
}
