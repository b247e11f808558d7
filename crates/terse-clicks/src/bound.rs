//! Keeps the journal within its bound on disk.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use tokio::time::Instant;

use crate::folder::{Age, Folder};
use crate::segment::Until;

/// The size that the journal may have. Past it the oldest clicks are dropped, but only while the
/// store does not answer, or counts more slowly than visitors click.
///
/// Segments that are being written, or are prepared for writing, do not count: there are a few for
/// each serving thread, and dropping others in their place would lose clicks for no reason.
#[derive(Debug)]
pub(crate) struct Bound {
    limit: u64,
    catch_up: Duration,
    /// Whether waiting for the store has not helped since it last counted something.
    stuck: bool,
    /// Since when the journal is over its bound, and how many octets were uncounted then.
    over: Option<(Instant, u64)>,
}

impl Bound {
    /// A bound of `limit` octets. While the store counts, the journal may be over it for `catch_up`
    /// before it must have become smaller.
    pub(crate) fn new(limit: u64, catch_up: Duration) -> Self {
        Self { limit, catch_up, stuck: false, over: None }
    }

    /// The store does not answer.
    pub(crate) fn store_fails(&mut self) {
        self.stuck = true;
    }

    /// The store has counted something.
    pub(crate) fn store_counts(&mut self) {
        self.stuck = false;
    }

    /// Drops the oldest segments if necessary, and calls `dropped` for each with the number of
    /// unread visits in it. Keeps segments that cannot be read right now, and those that are being
    /// written: their writer would go on writing to a deleted file.
    pub(crate) fn keep(
        &mut self,
        folder: &mut Folder,
        counted: &HashMap<u64, u64>,
        buffer: &mut Vec<u8>,
        now: Instant,
        mut dropped: impl FnMut(u64),
    ) -> io::Result<()> {
        if folder.length() <= self.limit {
            self.over = None;
            return Ok(());
        }
        let mut failed = None;
        let mut finished = Vec::new();
        let (mut held, mut waiting) = (0, 0);
        for (segment, alive) in folder.segments_mut() {
            match segment.has_ended(buffer, alive) {
                Ok(true) => {
                    held += segment.length();
                    waiting += segment
                        .length()
                        .saturating_sub(counted.get(&segment.header.id).copied().unwrap_or(0));
                    finished.push((segment.age(), segment.length()));
                }
                Ok(false) => {}
                Err(error) => failed = Some(error),
            }
        }
        if held <= self.limit {
            self.over = None;
        } else if self.is_stuck(waiting, now) {
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
        }
        failed.map_or(Ok(()), Err)
    }

    /// Whether waiting longer does not help.
    fn is_stuck(&mut self, waiting: u64, now: Instant) -> bool {
        let (since, before) = *self.over.get_or_insert((now, waiting));
        if now.duration_since(since) >= self.catch_up {
            self.over = Some((now, waiting));
            self.stuck |= waiting >= before;
        }
        self.stuck
    }
}

/// Deletes a segment. Returns the number of unread visits in it.
fn drop_segment(folder: &mut Folder, age: Age, buffer: &mut Vec<u8>) -> io::Result<u64> {
    let Some((segment, alive)) = folder.segment_mut(age) else { return Ok(0) };
    let mut rest = segment.clone();
    let mut visits = 0;
    let until = rest.read(buffer, alive, usize::MAX, |record, _| {
        visits += u64::from(record.weight.max(1));
        true
    })?;
    if until != Until::End {
        return Err(io::Error::other("a segment that had ended goes on"));
    }
    folder.delete(&[age])?;
    Ok(visits)
}

#[cfg(test)]
mod tests {
    use terse_core::Timestamp;
    use terse_core::clicks::Record;

    use super::*;
    use crate::written::{Written, click};

    const SIZE: u64 = 8192;
    const CATCH_UP: Duration = Duration::from_secs(1);

    /// One of this run that is still being written, the oldest of all; one of this run that is
    /// finished; dead ones.
    fn journal(path: &std::path::Path) -> Folder {
        for id in 1..=6 {
            let mut written = Written::new(id, u64::from(id <= 2), id as i64, SIZE as usize);
            (0..id as u32).for_each(|n| written.add(n));
            if id == 2 {
                written.finish();
            }
            written.save(path);
        }
        let mut folder = Folder::new(path.into(), 1, Timestamp::from_ms(0));
        folder.look().unwrap();
        folder
    }

    fn ids(folder: &Folder) -> Vec<u64> {
        folder.segments().map(|segment| segment.header.id).collect()
    }

    /// What was dropped of each.
    fn keep(bound: &mut Bound, folder: &mut Folder, now: Instant) -> Vec<u64> {
        let mut dropped = vec![];
        bound
            .keep(folder, &HashMap::new(), &mut vec![], now, |visits| dropped.push(visits))
            .unwrap();
        dropped
    }

    fn stuck(limit: u64) -> Bound {
        let mut bound = Bound::new(limit, CATCH_UP);
        bound.store_fails();
        bound
    }

    #[test]
    fn while_the_store_fails_the_oldest_that_nobody_writes_go() {
        let temp = tempfile::tempdir().unwrap();
        let mut folder = journal(temp.path());
        let (third, alive) = folder.segment_mut((3, 3)).unwrap();
        third.read(&mut vec![], alive, 1, |_, _| true).unwrap();
        let now = Instant::now();
        // The one that is being written does not count.
        assert_eq!(keep(&mut stuck(5 * SIZE), &mut folder, now), [0; 0]);
        assert_eq!(keep(&mut stuck(5 * SIZE - 1), &mut folder, now), [2]);
        assert_eq!(keep(&mut stuck(2 * SIZE), &mut folder, now), [2, 4]);
        assert_eq!(keep(&mut stuck(0), &mut folder, now), [5, 6]);
        assert_eq!(keep(&mut stuck(0), &mut folder, now), [0; 0]);
        assert_eq!(ids(&folder), [1]);
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 1);
    }

    #[test]
    fn while_the_store_counts_nothing_goes_as_long_as_less_and_less_waits() {
        let temp = tempfile::tempdir().unwrap();
        let mut folder = journal(temp.path());
        let mut bound = Bound::new(4 * SIZE, CATCH_UP);
        let mut now = Instant::now();
        let mut counted = HashMap::new();
        for to in [0, 100, 200, 300] {
            counted.insert(6, to);
            bound.keep(&mut folder, &counted, &mut vec![], now, |_| panic!("dropped")).unwrap();
            bound
                .keep(&mut folder, &counted, &mut vec![], now + CATCH_UP / 2, |_| panic!("dropped"))
                .unwrap();
            now += CATCH_UP;
        }
        // Nothing was counted for long enough: until something is again, it need not be waited for.
        let mut dropped = vec![];
        bound.keep(&mut folder, &counted, &mut vec![], now, |visits| dropped.push(visits)).unwrap();
        assert_eq!((dropped, ids(&folder)), (vec![2], vec![1, 3, 4, 5, 6]));
        Written::new(7, 2, 7, SIZE as usize).save(temp.path());
        folder.look().unwrap();
        assert_eq!(keep(&mut bound, &mut folder, now), [3]);
        bound.store_counts();
        Written::new(8, 2, 8, SIZE as usize).save(temp.path());
        folder.look().unwrap();
        assert_eq!(keep(&mut bound, &mut folder, now), [0; 0]);
    }

    #[test]
    fn what_is_dropped_is_counted_in_visits() {
        let temp = tempfile::tempdir().unwrap();
        let mut written = Written::new(1, 2, 1, SIZE as usize);
        for weight in [1, 64, 0] {
            assert!(written.try_add_record(&Record { weight, ..click(0) }));
        }
        written.save(temp.path());
        let mut folder = Folder::new(temp.path().into(), 1, Timestamp::from_ms(0));
        folder.look().unwrap();
        assert_eq!(keep(&mut stuck(0), &mut folder, Instant::now()), [66]);
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
        let kept =
            stuck(0).keep(&mut folder, &HashMap::new(), &mut vec![], Instant::now(), |visits| {
                dropped.push(visits);
            });
        assert!(kept.is_err());
        assert_eq!((dropped, ids(&folder)), (vec![2, 4, 5, 6], vec![1, 3]));
    }
}
