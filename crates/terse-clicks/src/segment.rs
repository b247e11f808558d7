//! One segment of the journal, read step by step.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use terse_core::clicks::{Frame, HEADER, JournalRecord, MAX_FRAME_SIZE, SegmentHeader, read_frame};

use crate::disk::JournalDisk;

/// Octets per read; fewer for one record, and for a segment that had nothing new the last time.
const CHUNK: usize = 256 * 1024;
const GLANCE: usize = 4096;
/// The longest frame with its length and checksum. With fewer octets in the buffer, a frame may be
/// cut off by the buffer's end.
const WHOLE: usize = MAX_FRAME_SIZE + 8;

/// Why reading ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReadStop {
    /// The requested number of records was read.
    Enough,
    /// Nothing more was written yet.
    Now,
    /// Nothing more will come.
    End,
}

/// A segment, and how far it was read.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Its header.
    pub header: SegmentHeader,
    disk: Arc<dyn JournalDisk>,
    name: String,
    length: u64,
    read_to: u64,
    until: ReadStop,
    /// When the next record was made, if reading stopped before it.
    next_ms: Option<i64>,
    /// How far the end mark was searched for, and whether it was found.
    sought_to: u64,
    ended: bool,
}

impl Segment {
    /// A segment of which nothing was read yet.
    pub(crate) fn new(
        header: SegmentHeader,
        disk: Arc<dyn JournalDisk>,
        name: String,
        length: u64,
    ) -> Self {
        Self {
            header,
            disk,
            name,
            length,
            read_to: 0,
            until: ReadStop::Enough,
            next_ms: None,
            sought_to: 0,
            ended: false,
        }
    }

    /// Its position in the order of segments.
    pub(crate) fn age(&self) -> (i64, u64) {
        (self.header.made_ms, self.header.id)
    }

    /// The name of its file.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its file.
    pub(crate) fn path(&self) -> PathBuf {
        self.disk.path_of(&self.name)
    }

    /// How long its file is.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// How far it was read: 0, or the position after a record.
    pub fn read_to(&self) -> u64 {
        self.read_to
    }

    /// Why reading ended the last time.
    pub(crate) fn until(&self) -> ReadStop {
        self.until
    }

    /// Reads on from another position.
    pub(crate) fn go_to(&mut self, place: u64) {
        if place != self.read_to {
            (self.read_to, self.until, self.next_ms) = (place, ReadStop::Enough, None);
        }
    }

    /// Octets that may hold unread records; 0 once reading has reached the end of what is written.
    pub(crate) fn unread(&self) -> u64 {
        match self.until {
            ReadStop::Enough => self.length.saturating_sub(self.read_to.max(HEADER as u64)),
            ReadStop::Now | ReadStop::End => 0,
        }
    }

    /// Whether the segment is complete, without moving the reading position. Searches each part of
    /// the file once.
    pub(crate) fn has_ended(&mut self, buffer: &mut Vec<u8>, alive: bool) -> io::Result<bool> {
        if !alive || self.ended || self.until == ReadStop::End {
            return Ok(true);
        }
        let mut ahead = self.clone();
        if self.sought_to > self.read_to {
            (ahead.read_to, ahead.until) = (self.sought_to, ReadStop::Now);
        }
        let until = ahead.read(buffer, alive, usize::MAX, |_, _| true)?;
        (self.sought_to, self.ended) = (ahead.read_to, until == ReadStop::End);
        Ok(self.ended)
    }

    /// Notes that the rest is to be read later: it does not count as a lag.
    pub(crate) fn wait(&mut self) {
        self.until = ReadStop::Now;
    }

    /// When the next record was made, if it is known. Reads it if necessary.
    pub(crate) fn next_ms(&mut self, buffer: &mut Vec<u8>, alive: bool) -> io::Result<Option<i64>> {
        if self.next_ms.is_none() {
            self.read(buffer, alive, 1, |_, _| false)?;
        }
        Ok(self.next_ms)
    }

    /// Reads up to `most` further records. `each` gets a record and where it begins; if it returns
    /// false, the record stays unread and reading ends. In an `alive` segment, reading stops at the
    /// first unreadable frame, which may still be incomplete. In a dead one it continues after it:
    /// a power cut may have left a hole with whole records after it.
    pub fn read(
        &mut self,
        buffer: &mut Vec<u8>,
        alive: bool,
        most: usize,
        mut each: impl FnMut(&JournalRecord<'_>, u64) -> bool,
    ) -> io::Result<ReadStop> {
        if self.until == ReadStop::End || most == 0 {
            return Ok(self.until);
        }
        let want = if self.until == ReadStop::Now || most == 1 { GLANCE } else { CHUNK };
        let mut want = want.max(WHOLE);
        let mut chunk = self.read_to.max(HEADER as u64);
        let mut read = 0;
        self.next_ms = None;
        self.until = loop {
            buffer.resize(buffer.len().max(want), 0);
            let have = self.disk.read(&self.name, &mut buffer[..want], chunk)?;
            let bytes = &buffer[..have];
            let mut at = 0;
            let ended = loop {
                if read == most {
                    break Some(ReadStop::Enough);
                }
                let place = chunk + at as u64;
                match read_frame(&bytes[at.min(have)..], self.header.id, place as usize) {
                    Frame::Record(record, next) => {
                        if !each(&record, place) {
                            self.next_ms = Some(record.at_ms);
                            break Some(ReadStop::Enough);
                        }
                        read += 1;
                        self.read_to = next as u64;
                        at = (self.read_to - chunk) as usize;
                    }
                    Frame::End => break Some(ReadStop::End),
                    Frame::Nothing if have == want && have - at < WHOLE => break None,
                    Frame::Nothing if alive => break Some(ReadStop::Now),
                    Frame::Nothing if at >= have => break Some(ReadStop::End),
                    Frame::Nothing => at += 1,
                }
            };
            if let Some(ended) = ended {
                break ended;
            }
            chunk += at as u64;
            want = CHUNK;
        };
        Ok(self.until)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::FileSystem;
    use crate::written::{Written, number_of};

    const ID: u64 = 5;

    fn open(folder: &Path, written: &Written) -> Segment {
        let path = written.save(folder);
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let disk = Arc::new(FileSystem::new(folder));
        Segment::new(written.header, disk, name, written.bytes.len() as u64)
    }

    fn numbers(segment: &mut Segment, alive: bool, most: usize) -> (Vec<u32>, ReadStop) {
        let mut numbers = vec![];
        let until = segment
            .read(&mut vec![], alive, most, |record, _| {
                numbers.push(number_of(record));
                true
            })
            .unwrap();
        (numbers, until)
    }

    #[test]
    fn records_are_read_as_they_come() {
        let folder = tempfile::tempdir().unwrap();
        let mut written = Written::new(ID, 1, 1000, 1 << 20);
        let mut segment = open(folder.path(), &written);
        assert_eq!(numbers(&mut segment, true, 10), (vec![], ReadStop::Now));
        assert_eq!(segment.read_to(), 0);
        (0..5).for_each(|n| written.add(n));
        written.save(folder.path());
        assert_eq!(numbers(&mut segment, true, 3), (vec![0, 1, 2], ReadStop::Enough));
        assert!(segment.unread() > 0);
        assert_eq!(numbers(&mut segment, true, 10), (vec![3, 4], ReadStop::Now));
        assert_eq!((segment.read_to(), segment.unread()), (written.at as u64, 0));
        // More than one short read holds.
        (5..500).for_each(|n| written.add(n));
        written.finish();
        written.save(folder.path());
        assert_eq!(numbers(&mut segment, true, 1000), ((5..500).collect(), ReadStop::End));
        assert_eq!(numbers(&mut segment, true, 1000), (vec![], ReadStop::End));
    }

    #[test]
    fn that_it_has_ended_is_found_out_without_reading_on() {
        let folder = tempfile::tempdir().unwrap();
        let mut written = Written::new(ID, 1, 1000, 1 << 20);
        let mut segment = open(folder.path(), &written);
        let ended = |segment: &mut Segment, alive| segment.has_ended(&mut vec![], alive).unwrap();
        assert!(!ended(&mut segment, true) && ended(&mut segment, false));
        (0..500).for_each(|n| written.add(n));
        written.save(folder.path());
        assert!(!ended(&mut segment, true));
        (500..1000).for_each(|n| written.add(n));
        written.finish();
        written.save(folder.path());
        assert!(ended(&mut segment, true));
        assert_eq!(segment.read_to(), 0);
        // Once known, the answer needs no file.
        std::fs::remove_file(segment.path()).unwrap();
        assert!(ended(&mut segment, true));
        written.save(folder.path());
        assert_eq!(numbers(&mut segment, true, usize::MAX), ((0..1000).collect(), ReadStop::End));
    }

    #[test]
    fn records_across_chunks_are_whole() {
        let folder = tempfile::tempdir().unwrap();
        // The places of the frames against the chunks differ with the length of the first record.
        for lead in [0, 1, 7, 100, 511] {
            let mut written = Written::new(ID, 1, 1000, 3 << 20);
            written.add_with(0, &vec![b'x'; lead]);
            let mut last = 0;
            while written.room() > 4096 {
                last += 1;
                written.add_with(last, &vec![b'y'; (last as usize * 37) % 512]);
            }
            let mut segment = open(folder.path(), &written);
            assert_eq!(
                numbers(&mut segment, false, usize::MAX),
                ((0..=last).collect(), ReadStop::End),
                "{lead}"
            );
            assert_eq!(segment.read_to(), written.at as u64);
        }
    }

    #[test]
    fn a_full_segment_without_an_end_mark_ends_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        for size in [CHUNK + HEADER, CHUNK + HEADER + 1, CHUNK + HEADER - 1, 2 * CHUNK, 3000] {
            let mut written = Written::new(ID, 1, 1000, size);
            let mut count = 0;
            while written.try_add(count) {
                count += 1;
            }
            let mut segment = open(folder.path(), &written);
            assert_eq!(
                numbers(&mut segment, true, usize::MAX),
                ((0..count).collect(), ReadStop::Now),
                "{size}"
            );
            assert_eq!(numbers(&mut segment, false, usize::MAX), (vec![], ReadStop::End), "{size}");
        }
    }

    #[test]
    fn what_is_behind_a_hole_or_torn_is_found_in_dead_segments_only() {
        let folder = tempfile::tempdir().unwrap();
        let mut written = Written::new(ID, 1, 1000, 1 << 20);
        let places: Vec<usize> = (0..3000).map(|n| (written.at, written.add(n)).0).collect();
        // A page lost, a record torn, and the tail too.
        written.bytes[places[10] + 20..places[10] + 20 + 4096].fill(0);
        written.bytes[places[1000] + 30] ^= 1;
        written.bytes[places[2999] + 12..].fill(0);
        let lost = |n: &u32| {
            let (from, to) =
                (places[*n as usize], places.get(*n as usize + 1).copied().unwrap_or(usize::MAX));
            *n == 1000 || *n == 2999 || (from < places[10] + 20 + 4096 && to > places[10] + 20)
        };
        let mut segment = open(folder.path(), &written);
        assert_eq!(numbers(&mut segment, true, usize::MAX), ((0..10).collect(), ReadStop::Now));
        let rest: Vec<u32> = (10..3000).filter(|n| !lost(n)).collect();
        assert!(rest.len() > 2900);
        assert_eq!(numbers(&mut segment, false, usize::MAX), (rest, ReadStop::End));
        assert_eq!(segment.read_to(), places[2999] as u64);
    }

    #[test]
    fn a_cut_or_empty_file_is_at_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let mut written = Written::new(ID, 1, 1000, 1 << 16);
        (0..100).for_each(|n| written.add(n));
        let cut = written.at - 5;
        written.bytes.truncate(cut);
        let mut segment = open(folder.path(), &written);
        assert_eq!(numbers(&mut segment, false, usize::MAX), ((0..99).collect(), ReadStop::End));
        written.bytes.truncate(HEADER);
        let mut segment = open(folder.path(), &written);
        assert_eq!(numbers(&mut segment, false, usize::MAX), (vec![], ReadStop::End));
        segment.go_to(1 << 40);
        assert_eq!(numbers(&mut segment, false, usize::MAX), (vec![], ReadStop::End));
    }
}
