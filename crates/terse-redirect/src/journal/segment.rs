//! One segment of the journal while it is written.

use std::io;
use std::path::Path;

use terse_core::clicks::{HEADER, JournalRecord, JournalWriteResult, SegmentHeader, finish};

use super::map::SegmentMap;

/// A segment and the position of its next frame.
pub(super) struct Segment {
    map: SegmentMap,
    id: u64,
    at: usize,
}

impl Segment {
    /// Creates the file under a temporary name and renames it when it is complete, so that no
    /// reader sees a part of it.
    pub(super) fn make(
        folder: &Path,
        header: SegmentHeader,
        bytes: usize,
        prefault: bool,
    ) -> io::Result<Self> {
        // The name repeats the header. The reader treats a file with another name as damaged.
        let name = format!("{:013}-{:016x}.clicks", header.made_ms, header.id);
        let (path, temporary) = (folder.join(&name), folder.join(format!("{name}.new")));
        let make = || {
            let mut map = SegmentMap::create(&temporary, bytes, prefault)?;
            map.bytes()[..HEADER].copy_from_slice(&header.encode());
            std::fs::rename(&temporary, &path)?;
            Ok(Self { map, id: header.id, at: HEADER })
        };
        // On a full disk the rest of a failed attempt would take the space of the next one.
        make().inspect_err(|_| drop(std::fs::remove_file(&temporary)))
    }

    /// Writes a record; `false` if it does not fit.
    pub(super) fn write(&mut self, record: &JournalRecord<'_>) -> bool {
        match record.write(self.map.bytes(), self.id, self.at) {
            JournalWriteResult::Next(next) => {
                self.at = next;
                true
            }
            JournalWriteResult::Full => false,
        }
    }

    /// Whether it holds a record.
    pub(super) fn has_records(&self) -> bool {
        self.at > HEADER
    }

    /// Writes the end mark.
    pub(super) fn finish(&mut self) {
        finish(self.map.bytes(), self.id, self.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_after_its_header_also_before_1970() {
        let folder = tempfile::tempdir().unwrap();
        for (made_ms, name) in [
            (1_763_000_000_000, "1763000000000-00000000000000ab.clicks"),
            (0, "0000000000000-00000000000000ab.clicks"),
            (-5, "-000000000005-00000000000000ab.clicks"),
        ] {
            Segment::make(folder.path(), SegmentHeader { id: 0xab, run: 1, made_ms }, 4096, false)
                .unwrap();
            assert!(folder.path().join(name).exists(), "{made_ms}");
        }
    }
}
