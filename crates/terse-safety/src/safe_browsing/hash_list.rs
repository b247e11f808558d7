//! One list, and how it follows the server's.

use sha2::{Digest as _, Sha256};

use super::message::{ListUpdate, Malformed};

/// A list: beginnings of hashes, sorted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HashList {
    name: String,
    version: Vec<u8>,
    prefixes: Vec<u32>,
    checksum: [u8; 32],
}

/// Why an update was not taken. Either way the list has to be fetched as a whole.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum UpdateError {
    /// The update itself is broken.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// What it would make of our list is not what the server has.
    #[error("the list would not be the server's")]
    Mismatch,
}

impl HashList {
    /// A list of which nothing is known yet.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            version: Vec::new(),
            prefixes: Vec::new(),
            checksum: Sha256::digest([]).into(),
        }
    }

    /// A list as it was [written down](Self::to_bytes). `None` if it is not the same any more.
    pub fn from_bytes(
        name: &str,
        version: Vec<u8>,
        bytes: &[u8],
        checksum: [u8; 32],
    ) -> Option<Self> {
        let (four, rest) = bytes.as_chunks();
        let prefixes: Vec<u32> = four.iter().map(|four| u32::from_be_bytes(*four)).collect();
        let list = Self { name: name.into(), version, prefixes, checksum };
        (rest.is_empty() && list.prefixes.is_sorted() && Sha256::digest(bytes)[..] == checksum)
            .then_some(list)
    }

    /// The entries one after the other.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.prefixes.iter().flat_map(|prefix| prefix.to_be_bytes()).collect()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which version the server called it. Empty if nothing is known of it.
    pub fn version(&self) -> &[u8] {
        &self.version
    }

    /// The hash of all entries.
    pub fn checksum(&self) -> [u8; 32] {
        self.checksum
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// Has it asked for as a whole the next time. What is on it stays.
    pub fn forget_version(&mut self) {
        self.version.clear();
    }

    pub(crate) fn prefixes(&self) -> &[u32] {
        &self.prefixes
    }

    /// The list after an update.
    pub fn updated(&self, update: &ListUpdate) -> Result<Self, UpdateError> {
        if update.other_length {
            return Err(Malformed("entries of another length").into());
        }
        let removals = update
            .removals
            .as_ref()
            .map(super::rice::Coded::decode)
            .transpose()?
            .unwrap_or_default();
        let additions = update
            .additions
            .as_ref()
            .map(super::rice::Coded::decode)
            .transpose()?
            .unwrap_or_default();
        let old: &[u32] = if update.partial { &self.prefixes } else { &[] };
        // Removals first: they say where in the old list.
        let mut removals = removals.into_iter().map(|at| at as usize).peekable();
        let mut prefixes = Vec::with_capacity(old.len() + additions.len());
        for (at, prefix) in old.iter().enumerate() {
            if removals.next_if_eq(&at).is_none() {
                prefixes.push(*prefix);
            }
        }
        if removals.next().is_some() {
            return Err(UpdateError::Mismatch);
        }
        prefixes.extend(additions);
        // Two sorted runs: this merges them.
        prefixes.sort();
        let version = if update.partial && update.version.is_empty() {
            &self.version
        } else {
            &update.version
        };
        let mut new =
            Self { name: self.name.clone(), version: version.clone(), prefixes, checksum: [0; 32] };
        new.checksum = Sha256::digest(new.to_bytes()).into();
        // A server with nothing new to say leaves the checksum out: it is the one we have.
        let wanted = match update.checksum {
            Some(checksum) => checksum,
            None if update.partial => self.checksum,
            None => return Err(Malformed("no checksum").into()),
        };
        if new.checksum == wanted { Ok(new) } else { Err(UpdateError::Mismatch) }
    }
}
