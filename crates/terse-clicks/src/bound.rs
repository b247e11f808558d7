//! Keeps the journal within its bound on disk.

use std::io;

use crate::folder::{Age, Folder};
use crate::segment::{Segment, Until};

/// A segment that went.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Dropped {
    /// Its id.
    pub(crate) segment: u64,
    /// How many of its records had not been read.
    pub(crate) records: u64,
    /// Whether the store may know a position of it.
    pub(crate) was_read: bool,
}

/// Deletes the oldest segment if the folder holds more than `limit` octets. One that is still being written stays: its writer
/// would go on writing to a file that nobody can see, and there is only one for each of them.
pub(crate) fn drop_oldest(folder: &mut Folder, limit: u64, buffer: &mut Vec<u8>) -> io::Result<Option<Dropped>> {
    if folder.length() <= limit {
        return Ok(None);
    }
    let ages: Vec<Age> = folder.segments().map(Segment::age).collect();
    for age in ages {
        let Some((segment, alive)) = folder.segment_mut(age) else { continue };
        let mut rest = segment.clone();
        let mut records = 0;
        // Records that cannot be read any more are lost without a number.
        let until = rest.read(buffer, alive, usize::MAX, |_| records += 1).unwrap_or(Until::End);
        if until == Until::End {
            let dropped = Dropped { segment: segment.header.id, records, was_read: segment.read_to() > 0 };
            folder.delete(&[age])?;
            return Ok(Some(dropped));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use terse_core::Moment;

    use super::*;
    use crate::written::Written;

    #[test]
    fn the_oldest_that_nobody_writes_goes_first() {
        let temp = tempfile::tempdir().unwrap();
        for id in 1..=6 {
            // The oldest is still being written; the next one is finished, though of this run; the others are dead.
            let mut written = Written::new(id, u64::from(id <= 2), id as i64, 8192);
            (0..id as u32).for_each(|n| written.add(n));
            if id == 2 {
                written.finish();
            }
            written.save(temp.path());
        }
        let mut folder = Folder::new(temp.path().into(), 1, Moment::from_ms(0));
        folder.look().unwrap();
        let (third, alive) = folder.segment_mut((3, 3)).unwrap();
        third.read(&mut vec![], alive, 1, |_| {}).unwrap();
        let mut drop_one = |limit| drop_oldest(&mut folder, limit, &mut vec![]).unwrap();
        assert_eq!(drop_one(6 * 8192), None);
        let dropped = |segment, records, was_read| Some(Dropped { segment, records, was_read });
        assert_eq!(drop_one(6 * 8192 - 1), dropped(2, 2, false));
        assert_eq!(drop_one(6 * 8192 - 1), None);
        assert_eq!(drop_one(0), dropped(3, 2, true));
        assert_eq!(drop_one(0), dropped(4, 4, false));
        assert_eq!(drop_one(0), dropped(5, 5, false));
        assert_eq!(drop_one(0), dropped(6, 6, false));
        assert_eq!(drop_one(0), None);
        assert_eq!(folder.segments().map(|segment| segment.header.id).collect::<Vec<_>>(), [1]);
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 1);
    }
}
