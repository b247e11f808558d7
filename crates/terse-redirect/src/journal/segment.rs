//! One file of the journal, being written.

use std::io;
use std::path::Path;

use terse_core::clicks::{HEADER, Journaled, Record, SegmentHeader, finish};

use super::map::Map;

/// A segment and the next free place in it.
pub(super) struct Segment {
    map: Map,
    id: u64,
    at: usize,
}

impl Segment {
    /// Makes the file under a name of its own and gives it its real one when it is whole, so that
    /// no reader ever meets a part.
    pub(super) fn make(
        folder: &Path,
        header: SegmentHeader,
        bytes: usize,
        prefault: bool,
    ) -> io::Result<Self> {
        // As it stands in the header: the reader takes a file of another name for a damaged one.
        let name = format!("{:013}-{:016x}.clicks", header.made_ms, header.id);
        let (made, begun) = (folder.join(&name), folder.join(format!("{name}.new")));
        let make = || {
            let mut map = Map::create(&begun, bytes, prefault)?;
            map.bytes()[..HEADER].copy_from_slice(&header.encode());
            std::fs::rename(&begun, &made)?;
            Ok(Self { map, id: header.id, at: HEADER })
        };
        // What a full disk left of it would be in the way of the next try.
        make().inspect_err(|_| drop(std::fs::remove_file(&begun)))
    }

    /// Whether there was room.
    pub(super) fn write(&mut self, record: &Record<'_>) -> bool {
        match record.write(self.map.bytes(), self.id, self.at) {
            Journaled::Next(next) => {
                self.at = next;
                true
            }
            Journaled::Full => false,
        }
    }

    /// Marks that nothing follows.
    pub(super) fn finish(&mut self) {
        finish(self.map.bytes(), self.id, self.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_as_its_header_says_also_before_1970() {
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
