//! One hash list and its incremental updates.

use sha2::{Digest as _, Sha256};

use super::message::{HashListUpdate, MalformedMessage};

/// A sorted list of hash prefixes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HashList {
    name: String,
    version: Vec<u8>,
    prefixes: Vec<u32>,
    checksum: [u8; 32],
}

/// Why an update was rejected. The list must then be fetched in full.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum UpdateError {
    /// The update is malformed.
    #[error(transparent)]
    Malformed(#[from] MalformedMessage),
    /// The updated list does not have the server's checksum.
    #[error("the updated list does not match the server's checksum")]
    Mismatch,
}

impl HashList {
    /// An empty list without a version.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            version: Vec::new(),
            prefixes: Vec::new(),
            checksum: Sha256::digest([]).into(),
        }
    }

    /// Reads a list that [`to_bytes`](Self::to_bytes) wrote. `None` if the checksum differs.
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

    /// The prefixes in big-endian order.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.prefixes.iter().flat_map(|prefix| prefix.to_be_bytes()).collect()
    }

    /// The name of the list.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The server's version token; empty before the first update.
    pub fn version(&self) -> &[u8] {
        &self.version
    }

    /// The SHA-256 of all prefixes.
    pub fn checksum(&self) -> [u8; 32] {
        self.checksum
    }

    /// The number of prefixes.
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// Forces a full fetch next time. The prefixes stay.
    pub fn forget_version(&mut self) {
        self.version.clear();
    }

    pub(crate) fn prefixes(&self) -> &[u32] {
        &self.prefixes
    }

    /// Applies an update.
    pub fn updated(&self, update: &HashListUpdate) -> Result<Self, UpdateError> {
        if update.other_length {
            return Err(MalformedMessage("entries of another length").into());
        }
        let removals = update
            .removals
            .as_ref()
            .map(super::rice::RiceDeltas::decode)
            .transpose()?
            .unwrap_or_default();
        let additions = update
            .additions
            .as_ref()
            .map(super::rice::RiceDeltas::decode)
            .transpose()?
            .unwrap_or_default();
        let old: &[u32] = if update.partial { &self.prefixes } else { &[] };
        // Removals first: they are positions in the old list.
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
        // Merges two sorted runs.
        prefixes.sort();
        let version = if update.partial && update.version.is_empty() {
            &self.version
        } else {
            &update.version
        };
        let mut new =
            Self { name: self.name.clone(), version: version.clone(), prefixes, checksum: [0; 32] };
        new.checksum = Sha256::digest(new.to_bytes()).into();
        // Without changes the server omits the checksum: it is still the old one.
        let expected = match update.checksum {
            Some(checksum) => checksum,
            None if update.partial => self.checksum,
            None => return Err(MalformedMessage("no checksum").into()),
        };
        if new.checksum == expected { Ok(new) } else { Err(UpdateError::Mismatch) }
    }
}
