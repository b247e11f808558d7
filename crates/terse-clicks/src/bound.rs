//! Keeps the journal within its bound on disk.

use std::io;
use std::time::Duration;

use tokio::time::Instant;

use crate::folder::{JournalFolder, SegmentAge};
use crate::segment::ReadStop;

/// The size that the journal may have. Past it the shipper drops the oldest clicks, but only while
/// the store accepts nothing: it failed or timed out, and has counted nothing since. While the
/// store counts, if slowly, no click is dropped.
///
/// Segments that are being written, or are prepared for writing, do not count: there are a few for
/// each serving thread, and dropping others in their place would lose clicks for no reason.
#[derive(Debug)]
pub(crate) struct Bound {
    limit: u64,
    /// How long the store may fail before clicks are dropped.
    grace: Duration,
    /// Since when the store fails and counts nothing.
    failing_since: Option<Instant>,
}

impl Bound {
    /// A bound of `limit` bytes. Nothing is dropped until the store has failed for `grace`: a
    /// single failed call is no reason.
    pub(crate) fn new(limit: u64, grace: Duration) -> Self {
        Self { limit, grace, failing_since: None }
    }

    /// The store does not answer.
    pub(crate) fn store_fails(&mut self) {
        self.failing_since.get_or_insert_with(Instant::now);
    }

    /// The store has counted something.
    pub(crate) fn store_counts(&mut self) {
        self.failing_since = None;
    }

    /// Drops the oldest segments if necessary, and calls `dropped` for each with the number of
    /// unread visits in it. Keeps segments that cannot be read right now, and those that are being
    /// written: their writer would continue to write to a deleted file.
    pub(crate) fn keep(
        &mut self,
        folder: &mut JournalFolder,
        buffer: &mut Vec<u8>,
        mut dropped: impl FnMut(u64),
    ) -> io::Result<()> {
        let fails = self.failing_since.is_some_and(|since| since.elapsed() >= self.grace);
        if !fails || folder.length() <= self.limit {
            return Ok(());
        }
        let mut failed = None;
        let mut finished = Vec::new();
        let mut held = 0;
        for (segment, alive) in folder.segments_mut() {
            match segment.has_ended(buffer, alive) {
                Ok(true) => {
                    held += segment.length();
                    finished.push((segment.age(), segment.length()));
                }
                Ok(false) => {}
                Err(error) => failed = Some(error),
            }
        }
        for (age, length) in finished {
            if held <= self.limit {
                break;
            }
            match drop_segment(folder, age, buffer) {
                Ok(visits) => {
                    held -= length;
                    dropped(visits);
                }
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

/// Deletes a segment. Returns the number of unread visits in it.
fn drop_segment(
    folder: &mut JournalFolder,
    age: SegmentAge,
    buffer: &mut Vec<u8>,
) -> io::Result<u64> {
    let Some((segment, alive)) = folder.segment_mut(age) else { return Ok(0) };
    let mut rest = segment.clone();
    let mut visits = 0;
    let until = rest.read(buffer, alive, usize::MAX, |record, _| {
        visits += u64::from(record.weight.max(1));
        true
    })?;
    if until != ReadStop::End {
        return Err(io::Error::other("a segment that had ended goes on"));
    }
    folder.delete(&[age])?;
    Ok(visits)
}

#[cfg(test)]
mod tests {
    use terse_core::Timestamp;
    use terse_core::clicks::JournalRecord;

    use super::*;
    use crate::written::{Written, click};

    const SIZE: u64 = 8192;

    /// One of this run that is still being written, the oldest of all; one of this run that is
    /// finished; dead ones.
    fn journal(path: &std::path::Path) -> JournalFolder {
        for id in 1..=6 {
            let mut written = Written::new(id, u64::from(id <= 2), id as i64, SIZE as usize);
            (0..id as u32).for_each(|n| written.add(n));
            if id == 2 {
                written.finish();
            }
            written.save(path);
        }
        let mut folder = JournalFolder::new(path.into(), 1, Timestamp::from_ms(0));
        folder.rescan().unwrap();
        folder
    }

    fn ids(folder: &JournalFolder) -> Vec<u64> {
        folder.segments().map(|segment| segment.header.id).collect()
    }

    /// What was dropped of each.
    fn keep(bound: &mut Bound, folder: &mut JournalFolder) -> Vec<u64> {
        let mut dropped = vec![];
        bound.keep(folder, &mut vec![], |visits| dropped.push(visits)).unwrap();
        dropped
    }

    fn stuck(limit: u64) -> Bound {
        let mut bound = Bound::new(limit, Duration::ZERO);
        bound.store_fails();
        bound
    }

    #[test]
    fn while_the_store_fails_the_oldest_that_nobody_writes_go() {
        let temp = tempfile::tempdir().unwrap();
        let mut folder = journal(temp.path());
        let (third, alive) = folder.segment_mut((3, 3)).unwrap();
        third.read(&mut vec![], alive, 1, |_, _| true).unwrap();
        // The one that is being written does not count.
        assert_eq!(keep(&mut stuck(5 * SIZE), &mut folder), [0; 0]);
        assert_eq!(keep(&mut stuck(5 * SIZE - 1), &mut folder), [2]);
        assert_eq!(keep(&mut stuck(2 * SIZE), &mut folder), [2, 4]);
        assert_eq!(keep(&mut stuck(0), &mut folder), [5, 6]);
        assert_eq!(keep(&mut stuck(0), &mut folder), [0; 0]);
        assert_eq!(ids(&folder), [1]);
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 1);
    }

    #[test]
    fn while_the_store_counts_nothing_goes_however_much_waits() {
        let temp = tempfile::tempdir().unwrap();
        let mut folder = journal(temp.path());
        let mut bound = Bound::new(4 * SIZE, Duration::ZERO);
        assert_eq!(keep(&mut bound, &mut folder), [0; 0]);
        bound.store_fails();
        assert_eq!(keep(&mut bound, &mut folder), [2]);
        // One failure is not enough.
        let mut patient = Bound::new(0, Duration::from_secs(3600));
        patient.store_fails();
        assert_eq!(keep(&mut patient, &mut folder), [0; 0]);
        // It counts again, if slowly.
        bound.store_counts();
        Written::new(7, 2, 7, SIZE as usize).save(temp.path());
        folder.rescan().unwrap();
        assert_eq!(keep(&mut bound, &mut folder), [0; 0]);
        assert_eq!(ids(&folder), [1, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn what_is_dropped_is_counted_in_visits() {
        let temp = tempfile::tempdir().unwrap();
        let mut written = Written::new(1, 2, 1, SIZE as usize);
        for weight in [1, 64, 0] {
            assert!(written.try_add_record(&JournalRecord { weight, ..click(0) }));
        }
        written.save(temp.path());
        let mut folder = JournalFolder::new(temp.path().into(), 1, Timestamp::from_ms(0));
        folder.rescan().unwrap();
        assert_eq!(keep(&mut stuck(0), &mut folder), [66]);
    }

    #[test]
    fn a_segment_that_cannot_be_opened_right_now_stays() {
        let temp = tempfile::tempdir().unwrap();
        let mut folder = journal(temp.path());
        // As if descriptors had run out: opening fails for a reason that has nothing to do with the
        // file.
        for age in [(1, 1), (3, 3)] {
            let path = folder.segment_mut(age).unwrap().0.path().to_owned();
            std::fs::rename(&path, path.with_extension("kept")).unwrap();
            std::os::unix::fs::symlink(&path, &path).unwrap();
        }
        let mut dropped = vec![];
        let kept = stuck(0).keep(&mut folder, &mut vec![], |visits| dropped.push(visits));
        assert!(kept.is_err());
        assert_eq!((dropped, ids(&folder)), (vec![2, 4, 5, 6], vec![1, 3]));
    }
}
