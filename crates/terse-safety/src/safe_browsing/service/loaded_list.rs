//! The Safe Browsing lists in force, and their copy on disk for the next start.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use terse_core::Timestamp;

use crate::safe_browsing::{HashList, HashListUpdate, LISTS, MAX_LIST_AGE};

/// The file name of the copy.
const COPY: &str = "safe-browsing.lists";
/// The largest size of the copy.
const MAX_COPY_SIZE: u64 = 512 << 20;

/// The lists.
pub(crate) struct LoadedHashLists {
    path: PathBuf,
    lists: Vec<HashList>,
    head: Head,
}

/// The first line of the copy; the entries of the lists follow.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Head {
    /// When the lists last matched the server's.
    confirmed: Option<i64>,
    /// Since when they have matched without too long a gap.
    since: i64,
    /// The time of the next update, at the earliest.
    next: i64,
    lists: Vec<Entry>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Entry {
    name: String,
    version: Vec<u8>,
    entries: usize,
    checksum: [u8; 32],
}

/// The result of an update.
#[derive(Debug, Default)]
pub(crate) struct FetchResult {
    /// The entries changed, or there were none before.
    pub(crate) changed: bool,
    /// The lists were missing or too old before, so links may have been created with the flag
    /// `unscreened`.
    pub(crate) back: bool,
    /// How many lists did not match the server's and must be fetched in full.
    pub(crate) reset: usize,
    /// How long to wait before the next update.
    pub(crate) wait: Duration,
}

impl LoadedHashLists {
    /// Reads the copy; without one the lists are empty.
    pub(crate) fn read(folder: &Path) -> Self {
        let path = folder.join(COPY);
        let (head, lists) = match read(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Default::default(),
            Err(error) => {
                tracing::warn!(%error, "the copy of the Safe Browsing lists cannot be read; they \
                    are fetched anew");
                Default::default()
            }
        };
        // A version with other lists wrote the copy: missing lists are fetched in full.
        let known = |name: &&str| lists.iter().find(|list| list.name() == *name).cloned();
        let all: Vec<HashList> =
            LISTS.iter().map(|name| known(name).unwrap_or_else(|| HashList::new(name))).collect();
        let whole = LISTS.iter().all(|name| known(name).is_some());
        Self { path, lists: all, head: if whole { head } else { Head::default() } }
    }

    pub(crate) fn lists(&self) -> &[HashList] {
        &self.lists
    }

    /// When the lists last matched the server's; `None` if there are none.
    pub(crate) fn confirmed(&self) -> Option<Timestamp> {
        self.head.confirmed.map(Timestamp::from_ms)
    }

    /// The time of the next update, at the earliest.
    pub(crate) fn next(&self) -> Timestamp {
        Timestamp::from_ms(self.head.next)
    }

    pub(crate) fn wait(&mut self, until: Timestamp) {
        self.head.next = until.as_ms();
    }

    pub(crate) fn fingerprint(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(self.head.since.to_be_bytes());
        self.lists.iter().for_each(|list| digest.update(list.checksum()));
        digest.finalize().into()
    }

    /// Applies updates from the server. A list that would not match the server's checksum stays as
    /// it is and is fetched in full next time.
    pub(crate) fn take(
        &mut self,
        updates: &[HashListUpdate],
        now: Timestamp,
    ) -> Result<FetchResult, String> {
        let mut outcome =
            FetchResult { changed: self.head.confirmed.is_none(), ..FetchResult::default() };
        let (mut waits, mut more) = (Duration::ZERO, false);
        let mut lists = Vec::with_capacity(self.lists.len());
        for list in &mut self.lists {
            let update = updates.iter().find(|update| update.name() == list.name());
            let update = update.ok_or_else(|| format!("the list {} is missing", list.name()))?;
            (waits, more) = (waits.max(update.wait()), more || update.wait().is_zero());
            match list.updated(update) {
                Ok(new) => {
                    outcome.changed |= new.checksum() != list.checksum();
                    lists.push(new);
                }
                Err(error) => {
                    tracing::warn!(list = list.name(), %error, "a Safe Browsing list is fetched \
                        as a whole");
                    list.forget_version();
                    outcome.reset += 1;
                }
            }
        }
        outcome.wait = if more { Duration::ZERO } else { waits };
        if outcome.reset > 0 {
            // Apply all updates or none, so that the lists match each other. The next update
            // repeats the others.
            outcome.changed = false;
            return Ok(outcome);
        }
        self.lists = lists;
        let trusted = |at: i64| {
            now <= Timestamp::from_ms(at).checked_add(MAX_LIST_AGE).unwrap_or(Timestamp::MAX)
        };
        if !self.head.confirmed.is_some_and(trusted) {
            (outcome.back, self.head.since) = (true, now.as_ms());
        }
        self.head.confirmed = Some(now.as_ms());
        Ok(outcome)
    }

    /// Writes the copy for the next start, atomically.
    pub(crate) fn keep(&mut self) -> io::Result<()> {
        let entry = |list: &HashList| Entry {
            name: list.name().to_owned(),
            version: list.version().to_vec(),
            entries: list.len(),
            checksum: list.checksum(),
        };
        self.head.lists = self.lists.iter().map(entry).collect();
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer(&mut file, &self.head)?;
        file.write_all(b"\n")?;
        for list in &self.lists {
            file.write_all(&list.to_bytes())?;
        }
        file.as_file().sync_all()?;
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

fn read(path: &Path) -> io::Result<(Head, Vec<HashList>)> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_COPY_SIZE).read_to_end(&mut bytes)?;
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or(io::ErrorKind::InvalidData)?;
    let head: Head = serde_json::from_slice(&bytes[..end])?;
    let (mut rest, mut lists) = (&bytes[end + 1..], Vec::new());
    for entry in &head.lists {
        let length = entry.entries.checked_mul(4).ok_or(io::ErrorKind::InvalidData)?;
        let (ours, behind) = rest.split_at_checked(length).ok_or(io::ErrorKind::UnexpectedEof)?;
        let list = HashList::from_bytes(&entry.name, entry.version.clone(), ours, entry.checksum);
        lists.push(list.ok_or(io::ErrorKind::InvalidData)?);
        rest = behind;
    }
    Ok((head, lists))
}
