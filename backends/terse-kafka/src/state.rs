//! What a node remembers about its bus: the partition of its journal, and which segments were
//! deleted when.
//!
//! It is in a small file. A node that has lost it chooses a partition again, and keeps positions
//! longer than needed. If partitions were added since, its next messages may overtake earlier ones
//! in another partition; so the file is synced.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use terse_core::Timestamp;
use terse_core::clicks::JournalId;
use xxhash_rust::xxh3::xxh3_64;

/// The content of the file.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
struct Saved {
    /// The topic that the partition belongs to.
    topic: String,
    journal: String,
    partition: i32,
    /// Whether the bus knows how far the journal was counted before it had a bus.
    taken_over: bool,
    /// When each segment was found deleted, in milliseconds since 1970.
    gone: BTreeMap<u64, i64>,
}

/// The file with this node's partition and its deleted segments.
#[derive(Debug)]
pub(crate) struct BusState {
    path: PathBuf,
    saved: Mutex<Saved>,
}

impl BusState {
    /// Reads the file, if there is one.
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        let saved = match std::fs::read(&path) {
            // A damaged file counts as absent.
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Saved::default(),
            Err(error) => return Err(error),
        };
        Ok(Self { path, saved: Mutex::new(saved) })
    }

    /// The partition of a journal. It stays the same when partitions are added, so that one worker
    /// gets all messages of a journal in order.
    pub(crate) fn partition(
        &self,
        topic: &str,
        journal: JournalId,
        partitions: i32,
    ) -> io::Result<i32> {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        let name = journal.to_string();
        let is_known = (&*saved.topic, &saved.journal) == (topic, &name);
        if is_known && (0..partitions).contains(&saved.partition) {
            return Ok(saved.partition);
        }
        let count = u64::from(partitions.max(1).unsigned_abs());
        let partition = i32::try_from(xxh3_64(&journal.0) % count).unwrap_or(0);
        if saved.journal != name {
            *saved = Saved { journal: name, ..Saved::default() };
        }
        (saved.topic, saved.partition) = (topic.to_owned(), partition);
        self.save(&saved)?;
        Ok(partition)
    }

    /// Whether [`Self::set_taken_over`] was called for this journal.
    pub(crate) fn is_taken_over(&self, journal: JournalId) -> bool {
        let saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        saved.taken_over && saved.journal == journal.to_string()
    }

    /// Notes that the bus knows how far the journal was counted before.
    pub(crate) fn set_taken_over(&self, journal: JournalId) -> io::Result<()> {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        let name = journal.to_string();
        if saved.journal != name {
            *saved = Saved { journal: name, partition: -1, ..Saved::default() };
        }
        saved.taken_over = true;
        self.save(&saved)
    }

    /// Notes that segments are deleted. Returns all that were deleted by `before`.
    pub(crate) fn record_deleted(
        &self,
        segments: &[u64],
        now: Timestamp,
        before: Timestamp,
    ) -> io::Result<Vec<u64>> {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        for segment in segments {
            saved.gone.entry(*segment).or_insert(now.as_ms());
        }
        self.save(&saved)?;
        let due = saved.gone.iter().filter(|(_, since)| **since <= before.as_ms());
        Ok(due.map(|(segment, _)| *segment).collect())
    }

    /// Drops segments whose positions are forgotten.
    pub(crate) fn forgotten(&self, segments: &[u64]) -> io::Result<()> {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        saved.gone.retain(|segment, _| !segments.contains(segment));
        self.save(&saved)
    }

    fn save(&self, saved: &Saved) -> io::Result<()> {
        let temporary = self.path.with_extension("tmp");
        let mut file = std::fs::File::create(&temporary)?;
        file.write_all(&serde_json::to_vec(saved)?)?;
        file.sync_all()?;
        std::fs::rename(&temporary, &self.path)?;
        self.path.parent().map_or(Ok(()), |folder| std::fs::File::open(folder)?.sync_all())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOURNAL: JournalId = JournalId([7; 16]);

    #[test]
    fn a_journal_keeps_its_partition_when_partitions_are_added() {
        let folder = tempfile::tempdir().unwrap();
        let open = || BusState::open(folder.path().join("bus.json")).unwrap();
        let first = open().partition("clicks", JOURNAL, 5).unwrap();
        assert_eq!(i64::from(first), (xxh3_64(&JOURNAL.0) % 5) as i64);
        assert_eq!(open().partition("clicks", JOURNAL, 50).unwrap(), first);
        // Another topic, and one with fewer partitions.
        assert!((0..3).contains(&open().partition("other", JOURNAL, 3).unwrap()));
        assert_eq!(open().partition("other", JOURNAL, 1).unwrap(), 0);
    }

    #[test]
    fn segments_are_forgotten_once_they_are_old_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let open = || BusState::open(folder.path().join("bus.json")).unwrap();
        let at = Timestamp::from_ms;
        open().partition("clicks", JOURNAL, 1).unwrap();
        assert_eq!(open().record_deleted(&[1, 2], at(1000), at(0)).unwrap(), [0; 0]);
        // A restarted shipper names segments again: the first time counts.
        assert_eq!(open().record_deleted(&[2, 3], at(5000), at(1000)).unwrap(), [1, 2]);
        open().forgotten(&[1]).unwrap();
        assert_eq!(open().record_deleted(&[], at(9000), at(5000)).unwrap(), [2, 3]);
        open().set_taken_over(JOURNAL).unwrap();
        assert!(open().is_taken_over(JOURNAL) && !open().is_taken_over(JournalId([8; 16])));
        std::fs::write(folder.path().join("bus.json"), "{").unwrap();
        assert_eq!(open().record_deleted(&[], at(9000), at(5000)).unwrap(), [0; 0]);
    }
}
