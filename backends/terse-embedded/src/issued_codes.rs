//! Answers from memory which numbers were leased, and which other codes look like generated ones.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use crate::leases::{self, Leases};
use rusqlite::Connection;
use terse_core::{AbsenceCertainty, Domain, LeaseMarks, LinkKey, Numbering};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The largest number of codes that only look generated to keep in memory.
const MAX_REMEMBERED: usize = 200_000;
/// The largest number of rows to read for it when the store is opened, so that opening stays fast.
const MAX_ROWS: usize = 1_000_000;

/// Which codes may exist. It may list numbers and codes whose write then failed, but never misses
/// one that was written.
pub(crate) struct IssuedCodes {
    leased: LeaseMarks,
    alike: RwLock<HashSet<u64, BuildHasherDefault<IdentityHasher>>>,
    too_many: AtomicBool,
    /// Whether a page of the file was found to be damaged.
    damaged: AtomicBool,
}

impl IssuedCodes {
    /// Loads the state from the file.
    pub(crate) fn load(conn: &Connection, numbering: &Numbering) -> rusqlite::Result<Self> {
        let issued = Self {
            leased: LeaseMarks::default(),
            alike: RwLock::default(),
            too_many: AtomicBool::new(false),
            damaged: AtomicBool::new(false),
        };
        issued.publish_leases(&leases::stored(conn)?);
        let mut aliases =
            conn.prepare("SELECT d.name, a.code FROM aliases a JOIN domains d ON d.id = a.domain")?;
        let mut rows = aliases.query([])?;
        let mut read = 0;
        while let Some(row) = rows.next()? {
            let (domain, code) = (row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
            if numbering.number(code.as_bytes()).is_some() {
                issued.add(hash(domain, code));
            }
            read += 1;
            if read > MAX_ROWS {
                issued.too_many.store(true, Ordering::Release);
            }
            if issued.too_many.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(issued)
    }

    /// Call this when a page of the file cannot be read: from now on no miss is certain.
    pub(crate) fn note_damage(&self) {
        self.damaged.store(true, Ordering::Release);
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Acquire)
    }

    /// How many numbers of this length were leased.
    pub(crate) fn leased(&self, length: u8) -> u64 {
        self.leased.mark(length)
    }

    /// Call this before leases are committed.
    pub(crate) fn publish_leases(&self, leases: &Leases) {
        for (length, end) in (0u8..).zip(leases) {
            self.leased.raise(length, *end);
        }
    }

    /// Call this before a link with such a code is committed.
    pub(crate) fn publish_alike(&self, key: &LinkKey) {
        self.add(hash(key.domain.as_str(), key.code.as_str()));
    }

    /// `Certain` or `Unknown`: this process is the only one that leases and inserts.
    pub(crate) fn surely_absent(
        &self,
        domain: &Domain,
        code: &str,
        numbering: &Numbering,
    ) -> AbsenceCertainty {
        if self.leased.absence(code, numbering) == AbsenceCertainty::Unknown {
            return AbsenceCertainty::Unknown;
        }
        let alike = self.alike.read().unwrap_or_else(PoisonError::into_inner);
        // Checked under the lock, because the set is emptied when it overflows.
        if self.too_many.load(Ordering::Acquire) || alike.contains(&hash(domain.as_str(), code)) {
            AbsenceCertainty::Unknown
        } else {
            AbsenceCertainty::Certain
        }
    }

    fn add(&self, hash: u64) {
        if self.too_many.load(Ordering::Relaxed) {
            return;
        }
        let mut alike = self.alike.write().unwrap_or_else(PoisonError::into_inner);
        alike.insert(hash);
        if alike.len() > MAX_REMEMBERED {
            self.too_many.store(true, Ordering::Release);
            *alike = HashSet::default();
        }
    }
}

fn hash(domain: &str, code: &str) -> u64 {
    xxh3_64_with_seed(code.as_bytes(), xxh3_64(domain.as_bytes()))
}

/// The keys are hashes already, so this hasher passes them through.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0 << 8 | u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
