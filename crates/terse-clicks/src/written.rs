//! Segments as the redirect plane writes them, for tests.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use terse_core::clicks::{HEADER, JournalRecord, JournalWriteResult, SegmentHeader, finish};

use crate::folder::name_of;

/// A segment in memory, which can be saved several times.
pub(crate) struct Written {
    pub(crate) header: SegmentHeader,
    pub(crate) bytes: Vec<u8>,
    pub(crate) at: usize,
}

impl Written {
    pub(crate) fn new(id: u64, run: u64, made_ms: i64, size: usize) -> Self {
        let header = SegmentHeader { id, run, made_ms };
        let mut bytes = vec![0; size];
        bytes[..HEADER].copy_from_slice(&header.encode());
        Self { header, bytes, at: HEADER }
    }

    pub(crate) fn room(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Adds a click of this number.
    pub(crate) fn add(&mut self, number: u32) {
        assert!(self.try_add(number), "full");
    }

    pub(crate) fn add_with(&mut self, number: u32, agent: &[u8]) {
        assert!(self.try_add_record(&JournalRecord { agent, ..click(number) }), "full");
    }

    pub(crate) fn try_add(&mut self, number: u32) -> bool {
        self.try_add_record(&click(number))
    }

    pub(crate) fn try_add_record(&mut self, record: &JournalRecord<'_>) -> bool {
        match record.write(&mut self.bytes, self.header.id, self.at) {
            JournalWriteResult::Next(next) => {
                self.at = next;
                true
            }
            JournalWriteResult::Full => false,
        }
    }

    pub(crate) fn finish(&mut self) {
        finish(&mut self.bytes, self.header.id, self.at);
    }

    /// Makes the file appear in one go, or writes it in place.
    pub(crate) fn save(&self, folder: &Path) -> PathBuf {
        let path = folder.join(name_of(&self.header));
        if path.exists() {
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.write_all_at(&self.bytes, 0).unwrap();
            file.set_len(self.bytes.len() as u64).unwrap();
        } else {
            // Beside the folder: a shipper that starts deletes unfinished files in it.
            let new = folder.with_extension(format!("{}.new", self.header.id));
            fs::write(&new, &self.bytes).unwrap();
            fs::rename(&new, &path).unwrap();
        }
        path
    }
}

/// The number of a click.
pub(crate) fn number_of(record: &JournalRecord<'_>) -> u32 {
    (record.took_nanos / 1000) as u32
}

/// The click of a number, which has its own duration and its own visitor.
pub(crate) fn click(number: u32) -> JournalRecord<'static> {
    JournalRecord {
        at_ms: 1_763_000_000_000 + i64::from(number),
        took_nanos: u64::from(number) * 1000,
        weight: 1,
        visitor: u64::from(number) + 1,
        owner: 7,
        created_ms: 5,
        code: b"x7Kq2Lm",
        agent: b"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:127.0) Gecko/20100101 Firefox/127.0",
        ..JournalRecord::default()
    }
}
