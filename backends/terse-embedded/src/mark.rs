//! The mark of a links file: what the file held at its last commit, kept in a small file beside it.
//!
//! SQLite silently drops the end of a damaged write-ahead log, and all of a log that was deleted.
//! The links in it are then gone, and their codes would be issued again. The mark records how many
//! frames the log had and which numbers were leased, so that the next open notices the loss.
//!
//! The writer writes the mark after each commit, before it answers. It syncs the mark only when
//! leases have changed: after a power cut the mark may be behind the file, never ahead of it.
//!
//! Two slots of 512 bytes, at 0 and 4096, are written in turn, so that one is always whole:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | `trsm` |
//! | 4 | 4 | version, 1 |
//! | 8 | 8 | sequence: the higher of the two slots counts |
//! | 16 | 8 | which store it belongs to |
//! | 24 | 88 | by code length from 0 to 10, the first number that was not leased |
//! | 112 | 8 | the salts of the log |
//! | 120 | 8 | the frames of the log; 0 if nothing depends on the log |
//! | 128 | 8 | when a loss was noticed last, in milliseconds since 1970; 0 for never |
//! | 136 | 8 | xxh3 of the bytes before |
//!
//! Numbers are little-endian.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use terse_core::{StoreIdentity, Timestamp};
use xxhash_rust::xxh3::xxh3_64;

use crate::engine::sync_folder_of;
use crate::leases::Leases;

const MAGIC: &[u8; 8] = b"trsm\x01\0\0\0";
const SLOT: usize = 144;
const SLOTS: [u64; 2] = [0, 4096];

/// The notice about a file that was lost as a whole.
pub(crate) const NEW_BESIDE_OLD_MARK: &str = "the links file is new, but the mark beside it \
    belongs to an earlier one: that file was deleted, or lost its log before it held anything. \
    Restore a backup if there is one";

/// What a file held at its last commit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Mark {
    sequence: u64,
    store: [u8; 8],
    pub(crate) leases: Leases,
    salts: [u8; 8],
    frames: u64,
    loss_at: i64,
}

/// What the log beside a file is like before SQLite opens it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WalState {
    /// There is none, or it is empty.
    Missing,
    /// Its header is damaged: SQLite ignores all of it.
    Damaged,
    /// It has these salts.
    Salted([u8; 8]),
}

/// The open mark of a store.
#[derive(Debug)]
pub(crate) struct MarkFile {
    file: File,
    log: PathBuf,
    mark: Mark,
    is_synced: bool,
    /// Whether the mark that was found belongs to another store.
    is_foreign: bool,
    /// How many other connections empty the log meanwhile.
    emptying: u32,
}

/// The path of the mark of a links file.
pub(crate) fn path_of(db: &Path) -> PathBuf {
    beside(db, "-mark")
}

fn beside(db: &Path, suffix: &str) -> PathBuf {
    let mut path = db.to_owned().into_os_string();
    path.push(suffix);
    path.into()
}

/// When a loss was noticed last, according to the mark of a links file.
pub fn last_loss(db: &Path) -> Option<Timestamp> {
    let mut file = File::open(path_of(db)).ok()?;
    read(&mut file).filter(|mark| mark.loss_at != 0).map(|mark| Timestamp::from_ms(mark.loss_at))
}

/// The state of the log, to be read before SQLite opens the file.
pub(crate) fn wal_state(db: &Path) -> io::Result<WalState> {
    let mut header = [0; 32];
    match File::open(beside(db, "-wal")).and_then(|mut log| log.read_exact(&mut header)) {
        Ok(()) => Ok(parse_wal_header(&header)),
        Err(error) if is_missing(&error) => Ok(WalState::Missing),
        Err(error) => Err(error),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
}

/// Checks the header of a log in the way SQLite does
/// (<https://sqlite.org/fileformat2.html#walformat>).
fn parse_wal_header(header: &[u8; 32]) -> WalState {
    let word = |at: usize, big: bool| {
        let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
        if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    let magic = word(0, true);
    let big = magic & 1 == 1;
    let (mut first, mut second) = (0u32, 0u32);
    for at in (0..24).step_by(8) {
        first = first.wrapping_add(word(at, big)).wrapping_add(second);
        second = second.wrapping_add(word(at + 4, big)).wrapping_add(first);
    }
    if magic & !1 != 0x377f_0682 || (first, second) != (word(24, true), word(28, true)) {
        return WalState::Damaged;
    }
    let mut salts = [0; 8];
    salts.copy_from_slice(&header[16..24]);
    WalState::Salted(salts)
}

impl Mark {
    /// How many frames of the log were lost, if SQLite found `found` frames in this log.
    pub(crate) fn lost_frames(&self, log: WalState, found: u64) -> u64 {
        match log {
            // A log with other salts was begun after all of the marked one was in the file.
            WalState::Salted(salts) if salts != self.salts => 0,
            WalState::Salted(_) => self.frames.saturating_sub(found),
            WalState::Missing | WalState::Damaged => self.frames,
        }
    }

    fn to_bytes(self) -> [u8; SLOT] {
        let mut bytes = [0; SLOT];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.store);
        for (n, next) in self.leases.iter().enumerate() {
            bytes[24 + 8 * n..32 + 8 * n].copy_from_slice(&next.to_le_bytes());
        }
        bytes[112..120].copy_from_slice(&self.salts);
        bytes[120..128].copy_from_slice(&self.frames.to_le_bytes());
        bytes[128..136].copy_from_slice(&self.loss_at.to_le_bytes());
        let sum = xxh3_64(&bytes[..136]);
        bytes[136..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; SLOT]) -> Option<Self> {
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(number)
        };
        if bytes[..8] != MAGIC[..] || number(136) != xxh3_64(&bytes[..136]) {
            return None;
        }
        let mut leases = Leases::default();
        leases.iter_mut().enumerate().for_each(|(n, next)| *next = number(24 + 8 * n));
        Some(Self {
            sequence: number(8),
            store: number(16).to_le_bytes(),
            leases,
            salts: number(112).to_le_bytes(),
            frames: number(120),
            loss_at: number(128).cast_signed(),
        })
    }
}

fn read(file: &mut File) -> Option<Mark> {
    let read_slot = |at: u64| {
        let mut bytes = [0; SLOT];
        file.seek(SeekFrom::Start(at)).ok()?;
        file.read_exact(&mut bytes).ok()?;
        Mark::from_bytes(&bytes)
    };
    SLOTS.map(read_slot).into_iter().flatten().max_by_key(|mark| mark.sequence)
}

impl MarkFile {
    /// Opens or creates the mark of a store. The mark is `None` if there is none yet, or only one
    /// of another store.
    pub(crate) fn open(
        db: &Path,
        identity: &StoreIdentity,
        is_synced: bool,
    ) -> io::Result<(Self, Option<Mark>)> {
        let path = path_of(db);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path)?;
        sync_folder_of(&path)?;
        let mut store = [0; 8];
        store.copy_from_slice(&identity.derive("terse mark v1")[..8]);
        let known = read(&mut file);
        let sequence = known.map_or(0, |known| known.sequence);
        let is_foreign = known.is_some_and(|known| known.store != store);
        let known = known.filter(|known| known.store == store);
        let mark = known.unwrap_or(Mark { sequence, store, ..Mark::default() });
        let log = beside(db, "-wal");
        Ok((Self { file, log, mark, is_synced, is_foreign, emptying: 0 }, known))
    }

    /// Whether the mark that was found belongs to another store.
    pub(crate) fn is_of_another_store(&self) -> bool {
        self.is_foreign
    }

    /// Records a commit: the leases, and the frames of the log.
    pub(crate) fn committed(&mut self, leases: &Leases, frames: u64) -> io::Result<()> {
        let is_leased = self.mark.leases != *leases;
        if frames == 0 && !is_leased {
            return Ok(());
        }
        if self.emptying > 0 {
            // Another connection may remove these frames at any time, after copying them into the
            // file.
            self.mark.frames = 0;
        } else if frames > 0 {
            self.mark.frames = self.needed_frames(frames)?;
        }
        self.mark.leases = *leases;
        self.write(is_leased)
    }

    /// How many frames of the log a commit needs. Reads the salts if the log was restarted.
    fn needed_frames(&mut self, frames: u64) -> io::Result<u64> {
        if frames > self.mark.frames && self.mark.frames > 0 {
            return Ok(frames);
        }
        match self.read_salts() {
            Ok(salts) => self.mark.salts = salts,
            // Another connection has emptied the log since this commit.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
            Err(error) => return Err(error),
        }
        Ok(frames)
    }

    /// Another connection begins to empty the log. The mark of commits in between does not depend
    /// on the log: a process that is killed before it could mark the empty log has lost nothing.
    pub(crate) fn begin_emptying(&mut self) -> io::Result<()> {
        self.emptying += 1;
        self.log_ends()
    }

    /// The other connection is done.
    pub(crate) fn end_emptying(&mut self) {
        self.emptying = self.emptying.saturating_sub(1);
    }

    /// Records that the log is about to be emptied or deleted: all of it is in the file.
    pub(crate) fn log_ends(&mut self) -> io::Result<()> {
        self.mark.frames = 0;
        self.write(false)
    }

    /// Records that a loss was noticed.
    pub(crate) fn lost(&mut self, at: Timestamp) -> io::Result<()> {
        (self.mark.frames, self.mark.loss_at) = (0, at.as_ms());
        self.write(true)
    }

    fn read_salts(&self) -> io::Result<[u8; 8]> {
        let (mut log, mut salts) = (File::open(&self.log)?, [0; 8]);
        log.seek(SeekFrom::Start(16))?;
        log.read_exact(&mut salts)?;
        Ok(salts)
    }

    fn write(&mut self, sync: bool) -> io::Result<()> {
        self.mark.sequence += 1;
        let at = SLOTS[usize::from(self.mark.sequence % 2 == 1)];
        self.file.seek(SeekFrom::Start(at))?;
        io::Write::write_all(&mut self.file, &self.mark.to_bytes())?;
        if sync && self.is_synced { self.file.sync_data() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use terse_core::{Alphabet, CodeHash};

    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written_and_survives_a_torn_write() {
        let folder = tempfile::tempdir().unwrap();
        let db = folder.path().join("terse.db");
        let identity = StoreIdentity::from_stored([1; 32], Alphabet::Base62, CodeHash::Hmac);
        let (mut file, none) = MarkFile::open(&db, &identity, true).unwrap();
        assert_eq!(none, None);
        let mut leases = Leases::default();
        for next in [1000, 2000] {
            leases[7] = next;
            file.committed(&leases, 0).unwrap();
        }
        let (_, known) = MarkFile::open(&db, &identity, true).unwrap();
        assert_eq!(known.unwrap().leases, leases);
        // The slot of the last write is torn: the one before counts.
        let mut bytes = std::fs::read(path_of(&db)).unwrap();
        let at = SLOTS[usize::from(known.unwrap().sequence % 2 == 1)];
        bytes[usize::try_from(at).unwrap() + 30] ^= 1;
        std::fs::write(path_of(&db), bytes).unwrap();
        let (_, known) = MarkFile::open(&db, &identity, true).unwrap();
        assert_eq!(known.unwrap().leases[7], 1000);
        // The mark of another store is ignored.
        let other = StoreIdentity::from_stored([2; 32], Alphabet::Base62, CodeHash::Hmac);
        assert_eq!(MarkFile::open(&db, &other, true).unwrap().1, None);
    }

    #[test]
    fn a_commit_while_the_log_is_emptied_does_not_depend_on_it() {
        let folder = tempfile::tempdir().unwrap();
        let db = folder.path().join("terse.db");
        let identity = StoreIdentity::from_stored([1; 32], Alphabet::Base62, CodeHash::Hmac);
        let frames = || MarkFile::open(&db, &identity, true).unwrap().1.unwrap().frames;
        let (mut file, _) = MarkFile::open(&db, &identity, true).unwrap();
        std::fs::write(beside(&db, "-wal"), [7; 32]).unwrap();
        let mut leases = Leases::default();
        file.committed(&leases, 5).unwrap();
        assert_eq!(frames(), 5);
        file.begin_emptying().unwrap();
        leases[7] = 1000;
        for count in [6, 237] {
            file.committed(&leases, count).unwrap();
            assert_eq!(frames(), 0, "a kill here finds an empty log, and nothing is lost");
        }
        file.end_emptying();
        // The log was emptied between a commit and its mark.
        std::fs::write(beside(&db, "-wal"), []).unwrap();
        leases[7] = 2000;
        file.committed(&leases, 238).unwrap();
        let known = MarkFile::open(&db, &identity, true).unwrap().1.unwrap();
        assert_eq!((known.frames, known.leases), (0, leases));
        std::fs::write(beside(&db, "-wal"), [7; 32]).unwrap();
        file.committed(&leases, 2).unwrap();
        assert_eq!(frames(), 2);
    }

    #[test]
    fn a_log_is_lost_only_if_it_was_needed() {
        let mark = Mark { salts: [1; 8], frames: 10, ..Mark::default() };
        for (log, found, lost) in [
            (WalState::Salted([1; 8]), 10, 0),
            (WalState::Salted([1; 8]), 12, 0),
            (WalState::Salted([1; 8]), 7, 3),
            (WalState::Salted([2; 8]), 1, 0),
            (WalState::Missing, 0, 10),
            (WalState::Damaged, 0, 10),
        ] {
            assert_eq!(mark.lost_frames(log, found), lost, "{log:?} {found}");
        }
        assert_eq!(Mark { frames: 0, ..mark }.lost_frames(WalState::Missing, 0), 0);
    }
}
