//! The sums of rows. [`StoredSum`] is their stored form.

use std::ops::{Deref, DerefMut};

use rusqlite::Row;
use terse_core::clicks::{ClickSum, Count, Sketch, StoredSum};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::failure::{Failure, corrupt};

/// Which row a sum belongs to. It seeds the checksum, so that the sum of one row is invalid in
/// another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Slot {
    Ever {
        subject: i64,
    },
    /// In hours since 1970.
    Hour {
        subject: i64,
        hour: i64,
    },
    /// In days since 1970.
    Day {
        subject: i64,
        day: i64,
    },
}

impl Slot {
    fn seed(self) -> u64 {
        let (kind, subject, bucket) = match self {
            Self::Ever { subject } => (1, subject, 0),
            Self::Hour { subject, hour } => (2, subject, hour),
            Self::Day { subject, day } => (3, subject, day),
        };
        xxh3_64_with_seed(&bucket.to_le_bytes(), (subject as u64) << 2 | kind)
    }
}

/// A sum of this file's rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sum(StoredSum);

impl Deref for Sum {
    type Target = StoredSum;

    fn deref(&self) -> &StoredSum {
        &self.0
    }
}

impl DerefMut for Sum {
    fn deref_mut(&mut self) -> &mut StoredSum {
        &mut self.0
    }
}

impl Sum {
    /// A sum that another store has made.
    pub(crate) fn of(tally: &ClickSum, visitors: &Sketch) -> Self {
        Self(StoredSum::of(tally.clone(), visitors.clone()))
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    pub(crate) fn into_stored(self) -> StoredSum {
        self.0
    }

    /// Encodes the sum for this row.
    pub(crate) fn encode(&self, slot: Slot) -> Vec<u8> {
        self.0.encode(slot.seed())
    }

    /// Adds the stored sum of a row. False, and nothing changes, if the checksum does not match.
    #[must_use]
    pub(crate) fn merge_stored(&mut self, bytes: &[u8], slot: Slot) -> bool {
        self.0.merge_stored(bytes, slot.seed()).is_some()
    }

    /// Like [`Self::merge_stored`], for `humans, bots, sum` from column `at` on, whose plain
    /// numbers must match too. After an error the sum is in an unknown state.
    pub(crate) fn merge_row(
        &mut self,
        row: &Row<'_>,
        at: usize,
        slot: Slot,
    ) -> Result<(), Failure> {
        let before = self.tally.clicks;
        let bytes = row.get_ref(at + 2)?.as_blob().map_err(rusqlite::Error::from)?;
        if !self.merge_stored(bytes, slot) || self.tally.clicks.without(before) != count(row, at)? {
            return Err(damaged(slot));
        }
        Ok(())
    }

    /// Adds the stored sum of all time in this column. An empty column is a sum of nothing.
    pub(crate) fn merge_ever(
        &mut self,
        row: &Row<'_>,
        at: usize,
        slot: Slot,
    ) -> Result<(), Failure> {
        let bytes = row.get_ref(at)?.as_blob().map_err(rusqlite::Error::from)?;
        if !bytes.is_empty() && !self.merge_stored(bytes, slot) {
            return Err(damaged(slot));
        }
        Ok(())
    }

    /// The same, for counting: a damaged sum is nothing. The row has the number of all clicks.
    pub(crate) fn merge_or_mend_ever(
        &mut self,
        row: &Row<'_>,
        at: usize,
        slot: Slot,
    ) -> Result<(), Failure> {
        match self.merge_ever(row, at, slot) {
            Err(Failure::Refused(error)) => {
                log_damage(&error);
                Ok(())
            }
            merged => merged,
        }
    }

    /// The stored sum of a row, for counting: of a damaged one, only the plain numbers.
    pub(crate) fn read_or_mend(row: &Row<'_>, at: usize, slot: Slot) -> Result<Self, Failure> {
        let mut stored = Self::default();
        match stored.merge_row(row, at, slot) {
            Ok(()) => Ok(stored),
            Err(Failure::Refused(error)) => {
                log_damage(&error);
                let mut mended = Self::default();
                mended.tally.clicks = count(row, at)?;
                Ok(mended)
            }
            Err(error) => Err(error),
        }
    }

    /// Adds the stored sum of a row before what this one has, see [`Self::read_or_mend`].
    pub(crate) fn merge_or_mend(
        &mut self,
        row: &Row<'_>,
        at: usize,
        slot: Slot,
    ) -> Result<(), Failure> {
        let mut kept = Self::read_or_mend(row, at, slot)?;
        kept.merge(self);
        *self = kept;
        Ok(())
    }
}

fn damaged(slot: Slot) -> Failure {
    corrupt(format!("the sum at {slot:?} is not what was written there")).into()
}

fn log_damage(error: &dyn std::error::Error) {
    log_damaged_sum(&error.source().map(ToString::to_string).unwrap_or_default());
}

pub(crate) fn log_damaged_sum(cause: &str) {
    tracing::error!(cause, "a sum of clicks is damaged: its count continues, its details are lost");
}

/// The plain numbers of a row.
pub(crate) fn count(row: &Row<'_>, at: usize) -> rusqlite::Result<Count> {
    Ok(Count { humans: row.get::<_, i64>(at)? as u64, bots: row.get::<_, i64>(at + 1)? as u64 })
}

#[cfg(test)]
mod tests {
    use terse_core::clicks::{Batch, Click, ClickTarget, SumSubject};
    use terse_core::{OwnerId, Timestamp};
    use terse_testkit::key;

    use super::*;

    #[test]
    fn no_byte_can_change_and_no_row_can_pass_for_another() {
        let link =
            terse_core::clicks::LinkId { key: key("abc"), created_at: Timestamp::from_ms(5) };
        let mut sum = Sum::default();
        let clicks = (0..200).map(|n| Click {
            visitor: Some(n as u64 * 77 + 1),
            referrer: Some("a.example".into()),
            ..Click::bare(Timestamp::from_ms(n), ClickTarget::Link(link.clone(), OwnerId(1)))
        });
        let batch = Batch::of(vec![], clicks);
        let link = batch.sums.iter().find(|delta| delta.subject == SumSubject::Link(0)).unwrap();
        sum.add_delta(link, &batch.clicks);
        assert_eq!((sum.tally.clicks.humans, sum.visitors.count() > 190), (200, true));
        let slot = Slot::Hour { subject: 5, hour: -7 };
        let bytes = sum.encode(slot);
        let mut back = Sum::default();
        assert!(back.merge_stored(&bytes, slot));
        assert_eq!((&back.tally, back.visitors.count()), (&sum.tally, sum.visitors.count()));
        for other in [
            Slot::Hour { subject: 5, hour: -6 },
            Slot::Hour { subject: 6, hour: -7 },
            Slot::Day { subject: 5, day: -7 },
        ] {
            assert!(!Sum::default().merge_stored(&bytes, other));
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x10;
            assert!(!Sum::default().merge_stored(&bytes, slot), "octet {at}");
            assert!(!Sum::default().merge_stored(&bytes[..at], slot), "cut at {at}");
        }
    }
}
