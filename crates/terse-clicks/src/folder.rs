//! The folder of the journal: which segments exist, and which can be deleted.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use terse_core::Timestamp;
use terse_core::clicks::{HEADER, SegmentHeader};
use tracing::warn;

use crate::disk::{FileSystem, JournalDisk};
use crate::segment::Segment;

const SEGMENT: &str = ".clicks";
const UNFINISHED: &str = ".new";
const DAMAGED: &str = ".damaged";
/// The folder for segments that an old copy of the journal still had.
const OUTDATED: &str = "outdated";
/// An unfinished file without a header that is older than this belongs to a process that ended.
const UNFINISHED_FOR: Duration = Duration::from_secs(600);
/// At most this many damaged files are kept for inspection.
const MAX_DAMAGED: usize = 16;

/// Whether a segment holds its header and otherwise zeros. One other octet keeps it: a power cut
/// may have torn a record.
fn is_unused(disk: &dyn JournalDisk, name: &str) -> io::Result<bool> {
    if header_of(disk, name)?.is_none() {
        return Ok(false);
    }
    let mut part = vec![0; 256 * 1024];
    let mut place = HEADER as u64;
    loop {
        match disk.read(name, &mut part, place)? {
            0 => return Ok(true),
            count if part[..count].iter().any(|&octet| octet != 0) => return Ok(false),
            count => place += count as u64,
        }
    }
}

/// The place of a segment among the others: the oldest comes first.
pub(crate) type SegmentAge = (i64, u64);

/// The segments of a journal.
#[derive(Debug)]
pub struct JournalFolder {
    disk: Arc<dyn JournalDisk>,
    run: u64,
    began: Timestamp,
    ended: bool,
    segments: BTreeMap<SegmentAge, Segment>,
}

impl JournalFolder {
    /// The folder of the process `run`, which began writing at `began` or later.
    pub fn new(path: PathBuf, run: u64, began: Timestamp) -> Self {
        Self::on(Arc::new(FileSystem::new(path)), run, began)
    }

    /// The same on another disk.
    pub(crate) fn on(disk: Arc<dyn JournalDisk>, run: u64, began: Timestamp) -> Self {
        Self { disk, run, began, ended: false, segments: BTreeMap::new() }
    }

    /// Deletes segments that a killed process had prepared and never wrote to: they take room that
    /// clicks need, and a server that is killed again and again would fill its bound with them.
    /// Call it before this process creates segments.
    pub fn sweep_unused(&self) -> io::Result<()> {
        for name in self.disk.names()? {
            if name.ends_with(SEGMENT) && is_unused(&*self.disk, &name).unwrap_or(false) {
                self.disk.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Notes that no thread writes to the journal any more: all segments are dead.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Whether this segment may still be written to.
    pub fn is_alive(&self, header: &SegmentHeader) -> bool {
        !self.ended && header.run == self.run
    }

    /// The segments, the oldest first.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.segments.values()
    }

    /// The segments, the oldest first, each with whether it is alive.
    pub fn segments_mut(&mut self) -> impl Iterator<Item = (&mut Segment, bool)> {
        let (ended, run) = (self.ended, self.run);
        self.segments.values_mut().map(move |segment| {
            let alive = !ended && segment.header.run == run;
            (segment, alive)
        })
    }

    /// The segment of this age.
    pub(crate) fn segment_mut(&mut self, age: SegmentAge) -> Option<(&mut Segment, bool)> {
        let (ended, run) = (self.ended, self.run);
        let segment = self.segments.get_mut(&age)?;
        let alive = !ended && segment.header.run == run;
        Some((segment, alive))
    }

    /// Octets of all segments.
    pub(crate) fn length(&self) -> u64 {
        self.segments().map(Segment::length).sum()
    }

    /// Reads the folder again for new and deleted segments.
    pub fn rescan(&mut self) -> io::Result<()> {
        let mut there = BTreeSet::new();
        for name in self.disk.names()? {
            if name.ends_with(UNFINISHED) {
                self.sweep(&name);
                continue;
            }
            let Some(stem) = name.strip_suffix(SEGMENT) else { continue };
            let age = age_of(stem);
            if let Some(age) = age.filter(|age| self.segments.contains_key(age)) {
                there.insert(age);
                continue;
            }
            match header_of(&*self.disk, &name) {
                Ok(Some(header)) if age == Some((header.made_ms, header.id)) => {
                    let age = (header.made_ms, header.id);
                    there.insert(age);
                    let (disk, length) = (Arc::clone(&self.disk), self.disk.length(&name)?);
                    self.segments.insert(age, Segment::new(header, disk, name, length));
                }
                Ok(_) => self.set_aside(age, &name),
                // Deleted since the folder was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        self.segments.retain(|age, segment| {
            let stays = there.contains(age);
            if !stays {
                warn!(segment = %segment.path().display(), "a segment of the journal was deleted, \
                    and not by terse");
            }
            stays
        });
        Ok(())
    }

    /// Moves the segments of earlier processes that have no position into a folder of their own.
    /// Says how many, and where they are.
    pub(crate) fn set_aside_outdated(
        &mut self,
        counted: &HashMap<u64, u64>,
    ) -> io::Result<(usize, PathBuf)> {
        let outdated = |segment: &&Segment| {
            segment.header.run != self.run && !counted.contains_key(&segment.header.id)
        };
        let outdated: Vec<SegmentAge> =
            self.segments().filter(outdated).map(Segment::age).collect();
        for age in &outdated {
            let Some(segment) = self.segments.get(age) else { continue };
            let aside = format!("{OUTDATED}/{}", name_of(&segment.header));
            self.disk.rename(segment.name(), &aside)?;
            self.segments.remove(age);
        }
        self.sync()?;
        Ok((outdated.len(), self.disk.path_of(OUTDATED)))
    }

    /// Deletes segments. If one cannot be deleted, the others still are.
    pub(crate) fn delete(&mut self, ages: &[SegmentAge]) -> io::Result<()> {
        let mut failed = None;
        for age in ages {
            let Some(segment) = self.segments.get(age) else { continue };
            match self.disk.remove(segment.name()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => failed = Some(error),
                _ => drop(self.segments.remove(age)),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Syncs the folder, so that a power cut does not bring deleted segments back. Positions may be
    /// forgotten only then: a segment without a position counts as one that was never counted.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }

    /// Removes an unfinished file of another process.
    fn sweep(&self, name: &str) {
        let dead = match header_of(&*self.disk, name) {
            Ok(Some(header)) => !self.is_alive(&header),
            Ok(None) => self.disk.since_written(name).is_some_and(|age| age > UNFINISHED_FOR),
            Err(_) => false,
        };
        if dead && let Err(error) = self.disk.remove(name) {
            let path = self.disk.path_of(name);
            warn!(path = %path.display(), %error, "an unfinished segment cannot be removed");
        }
    }

    /// Handles a file that does not begin as a segment does. This process may be writing its header
    /// right now; any other is moved aside for inspection.
    fn set_aside(&self, age: Option<SegmentAge>, name: &str) {
        if !self.ended && age.is_some_and(|(made_ms, _)| made_ms >= self.began.as_ms()) {
            return;
        }
        let names = self.disk.names().unwrap_or_default();
        let kept = names.iter().filter(|name| name.ends_with(DAMAGED)).count();
        let moved = if kept < MAX_DAMAGED {
            self.disk.rename(name, &format!("{name}{DAMAGED}"))
        } else {
            self.disk.remove(name)
        };
        let path = self.disk.path_of(name);
        match moved {
            Ok(()) => {
                warn!(path = %path.display(), "a damaged segment of the journal was moved aside");
            }
            Err(error) => {
                warn!(path = %path.display(), %error, "a damaged segment of the journal cannot be \
                    moved aside");
            }
        }
    }
}

/// The file name of a segment.
pub(crate) fn name_of(header: &SegmentHeader) -> String {
    format!("{:013}-{:016x}{SEGMENT}", header.made_ms, header.id)
}

fn age_of(stem: &str) -> Option<SegmentAge> {
    let (made_ms, id) = stem.rsplit_once('-')?;
    let age = (made_ms.parse().ok()?, u64::from_str_radix(id, 16).ok()?);
    // Only in this spelling, so that no segment has two names.
    (name_of(&SegmentHeader { id: age.1, run: 0, made_ms: age.0 }).strip_suffix(SEGMENT)
        == Some(stem))
    .then_some(age)
}

fn header_of(disk: &dyn JournalDisk, name: &str) -> io::Result<Option<SegmentHeader>> {
    let mut bytes = [0; HEADER];
    let read = disk.read(name, &mut bytes, 0)?;
    Ok(SegmentHeader::decode(&bytes[..read]))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;
    use std::time::SystemTime;

    use super::*;
    use crate::written::Written;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn segments_are_found_oldest_first_and_deleted_ones_are_gone() {
        let temp = tempfile::tempdir().unwrap();
        for (id, made) in
            [(9, 2000), (3, 5000), (7, 2000), (8, 1), (1, 12_345_678_901_234), (4, -5)]
        {
            Written::new(id, 1, made, 4096).save(temp.path());
        }
        let mut folder = JournalFolder::new(temp.path().into(), 1, Timestamp::from_ms(0));
        folder.rescan().unwrap();
        let ids: Vec<u64> = folder.segments().map(|segment| segment.header.id).collect();
        assert_eq!(ids, [4, 8, 7, 9, 3, 1]);
        assert_eq!(folder.length(), 6 * 4096);
        folder.delete(&[(1, 8), (2000, 9), (77, 77)]).unwrap();
        fs::remove_file(temp.path().join("0000000002000-0000000000000007.clicks")).unwrap();
        folder.rescan().unwrap();
        assert_eq!(folder.segments().count(), 3);
        assert_eq!(names(temp.path()).len(), 3);
        folder.sync().unwrap();
    }

    #[test]
    fn a_segment_that_cannot_be_deleted_is_not_in_the_way_of_others() {
        let temp = tempfile::tempdir().unwrap();
        let paths: Vec<_> =
            (1..=3).map(|id| Written::new(id, 1, id as i64, 4096).save(temp.path())).collect();
        let mut folder = JournalFolder::new(temp.path().into(), 1, Timestamp::from_ms(0));
        folder.rescan().unwrap();
        fs::remove_file(&paths[1]).unwrap();
        fs::create_dir(&paths[1]).unwrap();
        assert!(folder.delete(&[(1, 1), (2, 2), (3, 3)]).is_err());
        assert_eq!(folder.segments().map(|segment| segment.header.id).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn segments_of_another_run_are_dead_and_all_are_in_the_end() {
        let mut folder = JournalFolder::new("nowhere".into(), 1, Timestamp::from_ms(0));
        let header = |run| SegmentHeader { id: 1, run, made_ms: 0 };
        assert!(folder.is_alive(&header(1)) && !folder.is_alive(&header(2)));
        folder.end();
        assert!(!folder.is_alive(&header(1)));
    }

    #[test]
    fn outdated_segments_are_those_of_earlier_processes_without_a_position() {
        let temp = tempfile::tempdir().unwrap();
        for (id, run) in [(1, 1), (2, 2), (3, 2)] {
            Written::new(id, run, id as i64, 4096).save(temp.path());
        }
        let mut folder = JournalFolder::new(temp.path().into(), 1, Timestamp::from_ms(0));
        folder.rescan().unwrap();
        let (count, aside) = folder.set_aside_outdated(&HashMap::from([(3, 100)])).unwrap();
        assert_eq!(
            (count, names(&aside)),
            (1, vec!["0000000000002-0000000000000002.clicks".into()])
        );
        assert_eq!(folder.segments().map(|segment| segment.header.id).collect::<Vec<_>>(), [1, 3]);
        folder.rescan().unwrap();
        assert_eq!(folder.segments().count(), 2);
    }

    #[test]
    fn damaged_files_are_moved_aside_but_not_those_on_their_way() {
        let temp = tempfile::tempdir().unwrap();
        let mut old = Written::new(1, 2, 1000, 4096);
        old.bytes[3] ^= 1;
        old.save(temp.path());
        let mut young = Written::new(2, 1, 5000, 4096);
        young.bytes.fill(0);
        young.save(temp.path());
        Written::new(3, 2, 1000, 10_000).save(temp.path());
        fs::rename(
            temp.path().join("0000000001000-0000000000000003.clicks"),
            temp.path().join("0000000001000-0000000000000004.clicks"),
        )
        .unwrap();
        fs::write(temp.path().join("odd.clicks"), "").unwrap();
        fs::write(temp.path().join("else.txt"), "").unwrap();
        let mut folder = JournalFolder::new(temp.path().into(), 1, Timestamp::from_ms(5000));
        folder.rescan().unwrap();
        assert_eq!(folder.segments().count(), 0);
        let want = [
            "0000000001000-0000000000000001.clicks.damaged",
            "0000000001000-0000000000000004.clicks.damaged",
            "0000000005000-0000000000000002.clicks",
            "else.txt",
            "odd.clicks.damaged",
        ];
        assert_eq!(names(temp.path()), want);
        folder.end();
        folder.rescan().unwrap();
        assert_eq!(names(temp.path())[2], "0000000005000-0000000000000002.clicks.damaged");
        for n in 0..100 {
            fs::write(temp.path().join(format!("odd{n}.clicks")), "").unwrap();
        }
        folder.rescan().unwrap();
        assert_eq!(names(temp.path()).len(), MAX_DAMAGED + 1);
    }

    #[test]
    fn beginnings_of_dead_runs_are_swept_away() {
        let temp = tempfile::tempdir().unwrap();
        let new = |name: &str, bytes: &[u8]| fs::write(temp.path().join(name), bytes).unwrap();
        new("a.clicks.new", &Written::new(1, 2, 0, 4096).bytes);
        new("b.clicks.new", &Written::new(2, 1, 0, 4096).bytes);
        new("c.clicks.new", &[0; 4096]);
        new("d.clicks.new", &[0; 4096]);
        let file = File::options().append(true).open(temp.path().join("d.clicks.new")).unwrap();
        file.set_modified(SystemTime::now() - 2 * UNFINISHED_FOR).unwrap();
        let mut folder = JournalFolder::new(temp.path().into(), 1, Timestamp::from_ms(0));
        folder.rescan().unwrap();
        assert_eq!(names(temp.path()), ["b.clicks.new", "c.clicks.new"]);
    }

    #[test]
    fn what_was_never_written_to_goes_and_what_was_stays() {
        let temp = tempfile::tempdir().unwrap();
        let make = |id: u64, mark: Option<usize>| {
            let mut bytes = vec![0; 1 << 20];
            bytes[..HEADER].copy_from_slice(&SegmentHeader { id, run: 1, made_ms: 5 }.encode());
            mark.into_iter().for_each(|at| bytes[at] = 1);
            let path = temp.path().join(format!("{:013}-{id:016x}.clicks", 5));
            fs::write(&path, bytes).unwrap();
            path
        };
        let (unused, written, torn) =
            (make(1, None), make(2, Some(HEADER)), make(3, Some((1 << 20) - 1)));
        fs::write(temp.path().join("0000000000005-0000000000000004.clicks"), vec![0; 1000])
            .unwrap();
        JournalFolder::new(temp.path().to_owned(), 9, Timestamp::from_ms(9))
            .sweep_unused()
            .unwrap();
        assert!(!unused.exists() && written.exists() && torn.exists());
        assert_eq!(
            fs::read_dir(temp.path()).unwrap().count(),
            3,
            "a file without a header is left alone"
        );
    }
}
