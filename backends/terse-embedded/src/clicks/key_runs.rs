//! Finds links by name and by owner.
//!
//! An index of SQLite over names is changed in a place of its own for each new link, so a batch
//! with many new links writes nearly all of its pages. Sorted lists that are merged from time to
//! time (`key_merge`) are written a few times, each time from one end to the other.
//!
//! A key is a number of 63 bits: 27 bits of a hash and the 36 bits of a subject. The hash is that
//! of the link's name (domain and code), or of its owner. The keys with one hash are its group. The
//! rows of the subjects in a group tell which of them are meant.
//!
//! `key_chunks.data`, with the id of a run times 2^24, plus the place of the chunk in the run:
//!
//! | octets | content |
//! |---|---|
//! | 8 | checksum of the rest |
//! | 8 | the first key, little endian |
//! | 1 | how many octets a difference has |
//! | the rest | of each key, ascending, the difference to the first one, little endian |

use std::ops::Range;
use std::sync::Arc;

use rusqlite::{OptionalExtension, Row};
use terse_core::clicks::LinkId;
use terse_core::{LinkKey, OwnerId};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::clicks::queries::ClickQueries;
use crate::clicks::runs::{ChunkIds, chunk_id, chunks_in, decode_chunks};
use crate::failure::{Failure, corrupt};

pub(crate) const KEY_RUNS: &str = "SELECT id, keys FROM key_runs WHERE kind = ?1 ORDER BY id";
pub(crate) const KEY_LIST: &str = "SELECT chunks FROM key_runs WHERE id = ?1";
pub(crate) const KEY_CHUNK: &str = "SELECT data FROM key_chunks WHERE id = ?1";
pub(crate) const LINK_BY_ID: &str =
    "SELECT domain, code, born, owner FROM subjects WHERE id = ?1 AND kind = 0";

const SUBJECT_BITS: u32 = 36;
const HASH_BITS: u32 = 63 - SUBJECT_BITS;
const HEAD: usize = 17;
/// A connection remembers about this many lists of chunks.
const MAX_LISTS: usize = 64;

/// What links are found by.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum KeyKind {
    Names = 0,
    Owners = 1,
}

/// The hash that keys begin with. All keys of a group are in one stretch of a run.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct KeyGroup(i64);

impl KeyGroup {
    pub(crate) fn of_name(seed: i64, LinkKey { domain, code }: &LinkKey) -> Self {
        let (domain, code) = (domain.as_str().as_bytes(), code.as_str().as_bytes());
        let seed = match domain {
            [] => seed.cast_unsigned(),
            domain => xxh3_64_with_seed(domain, seed.cast_unsigned()),
        };
        Self((xxh3_64_with_seed(code, seed) >> (64 - HASH_BITS)).cast_signed())
    }

    pub(crate) fn of_owner(OwnerId(owner): OwnerId) -> Self {
        Self((xxh3_64_with_seed(&owner.to_le_bytes(), 0) >> (64 - HASH_BITS)).cast_signed())
    }

    fn of_key(key: i64) -> Self {
        Self(key >> SUBJECT_BITS)
    }

    /// The key of a subject in this group.
    pub(crate) fn key(self, subject: i64) -> i64 {
        self.0 << SUBJECT_BITS | subject
    }

    fn keys(self) -> Range<i64> {
        let first = self.0 << SUBJECT_BITS;
        // The keys of the last group end at the highest number.
        first..first.saturating_add(1 << SUBJECT_BITS)
    }
}

pub(crate) fn subject_of_key(key: i64) -> i64 {
    key & ((1 << SUBJECT_BITS) - 1)
}

/// A sorted list of keys. It is never changed, except that keys are taken out.
#[derive(Debug)]
pub(crate) struct KeyRun {
    pub(crate) id: i64,
    pub(crate) keys: i64,
    pub(crate) chunks: Arc<Vec<ChunkIds>>,
}

/// The stored form of a chunk.
pub(crate) fn encode_keys(id: i64, keys: &[i64]) -> Vec<u8> {
    let first = keys.first().copied().unwrap_or(0);
    let span = keys.last().map_or(0, |last| last - first).cast_unsigned();
    let width = (64 - span.leading_zeros()).div_ceil(8) as usize;
    let mut data = vec![0; 8];
    data.extend(first.to_le_bytes());
    data.push(width as u8);
    for key in keys {
        data.extend(&(key - first).to_le_bytes()[..width]);
    }
    let checksum = xxh3_64_with_seed(&data[8..], chunk_seed(id, keys.len()));
    data[..8].copy_from_slice(&checksum.to_le_bytes());
    data
}

/// A chunk of one key has differences of no octets, so the checksum covers the number of keys.
fn chunk_seed(id: i64, keys: usize) -> u64 {
    id.cast_unsigned().rotate_left(32) ^ keys as u64
}

/// From the stored form; `None` if it is not what was written under this id.
pub(crate) fn decode_keys(id: i64, data: &[u8]) -> Option<Vec<i64>> {
    let (head, differences) = data.split_at_checked(HEAD)?;
    let (checksum, head) = head.split_first_chunk::<8>()?;
    let (first, width) = head.split_first_chunk::<8>()?;
    let width = usize::from(*width.first()?);
    let is_whole = |keys: usize| {
        xxh3_64_with_seed(&data[8..], chunk_seed(id, keys)) == u64::from_le_bytes(*checksum)
    };
    let first = i64::from_le_bytes(*first);
    match width {
        0 if is_whole(0) => Some(Vec::new()),
        0 if is_whole(1) => Some(vec![first]),
        1..=8 if is_whole(differences.len() / width) => {
            let key = |octets: &[u8]| {
                let mut difference = [0; 8];
                difference[..width].copy_from_slice(octets);
                first.wrapping_add(i64::from_le_bytes(difference))
            };
            Some(differences.chunks_exact(width).map(key).collect())
        }
        _ => None,
    }
}

pub(crate) fn damaged(run: i64) -> Failure {
    corrupt(format!("the keys {run} of links are not what was written there")).into()
}

impl ClickQueries {
    pub(crate) fn key_runs(&self, kind: KeyKind) -> Result<Vec<KeyRun>, Failure> {
        let mut statement = self.conn.prepare_cached(KEY_RUNS)?;
        let mut rows = statement.query([kind as i64])?;
        let mut runs = Vec::new();
        while let Some(row) = rows.next()? {
            let id = row.get(0)?;
            runs.push(KeyRun { id, keys: row.get(1)?, chunks: self.key_list(id)? });
        }
        // Some are of the other kind, and some of runs that are merged.
        let mut lists = self.key_lists.borrow_mut();
        if lists.len() > MAX_LISTS + 2 * runs.len() {
            lists.clear();
        }
        Ok(runs)
    }

    /// The list of a run's chunks, which never changes.
    fn key_list(&self, id: i64) -> Result<Arc<Vec<ChunkIds>>, Failure> {
        if let Some(chunks) = self.key_lists.borrow().get(&id) {
            return Ok(Arc::clone(chunks));
        }
        let mut statement = self.conn.prepare_cached(KEY_LIST)?;
        let read = |row: &Row<'_>| Ok(decode_chunks(id, row.get_ref(0)?.as_blob()?));
        let chunks = Arc::new(statement.query_row([id], read)?.ok_or_else(|| damaged(id))?);
        self.key_lists.borrow_mut().insert(id, Arc::clone(&chunks));
        Ok(chunks)
    }

    pub(crate) fn key_chunk(&self, run: i64, at: usize) -> Result<Vec<i64>, Failure> {
        let id = chunk_id(run, at);
        let mut statement = self.conn.prepare_cached(KEY_CHUNK)?;
        let read = |row: &Row<'_>| Ok(decode_keys(id, row.get_ref(0)?.as_blob()?));
        statement.query_row([id], read).optional()?.flatten().ok_or_else(|| damaged(run))
    }

    /// The subjects in these groups, which ascend, each with the place of its group. In no order.
    pub(crate) fn subjects_in(
        &self,
        kind: KeyKind,
        groups: &[KeyGroup],
    ) -> Result<Vec<(usize, i64)>, Failure> {
        let mut found = Vec::new();
        for run in self.key_runs(kind)? {
            let mut opened: Option<(usize, Vec<i64>)> = None;
            // Both only go forward.
            let (mut next_chunk, mut next_key) = (0, 0);
            for (place, group) in groups.iter().enumerate() {
                let keys = group.keys();
                next_chunk += skip(&run.chunks[next_chunk..], |chunk| chunk.last < keys.start);
                let chunks = run.chunks[next_chunk..].iter();
                for at in chunks.take_while(|chunk| chunk.first < keys.end).zip(next_chunk..) {
                    let at = at.1;
                    if opened.as_ref().is_none_or(|(of, _)| *of != at) {
                        opened = Some((at, self.key_chunk(run.id, at)?));
                        next_key = 0;
                    }
                    let Some((_, list)) = &opened else { break };
                    next_key += skip(&list[next_key..], |key| *key < keys.start);
                    let in_group = list[next_key..].iter().take_while(|key| **key < keys.end);
                    found.extend(in_group.map(|key| (place, subject_of_key(*key))));
                }
            }
        }
        Ok(found)
    }

    /// The subjects of an owner's links, up to about `limit`.
    pub(crate) fn links_of(&self, owner: OwnerId, limit: usize) -> Result<Vec<i64>, Failure> {
        let keys = KeyGroup::of_owner(owner).keys();
        let mut found = Vec::new();
        for run in self.key_runs(KeyKind::Owners)? {
            for at in chunks_in(&run.chunks, keys.start, keys.end) {
                if found.len() >= limit {
                    return Ok(found);
                }
                let chunk = self.key_chunk(run.id, at)?;
                let in_group = chunk.into_iter().filter(|key| keys.contains(key));
                found.extend(in_group.map(subject_of_key));
            }
        }
        Ok(found)
    }

    /// The rows of the links with these names: the place of the name, the id and the owner.
    pub(crate) fn find_links(
        &self,
        names: &[&LinkKey],
    ) -> Result<Vec<(usize, i64, LinkId, OwnerId)>, Failure> {
        let seed = self.names_seed()?;
        let mut places: Vec<(KeyGroup, usize)> =
            names.iter().zip(0..).map(|(key, at)| (KeyGroup::of_name(seed, key), at)).collect();
        places.sort_unstable();
        let mut groups: Vec<KeyGroup> = places.iter().map(|(group, _)| *group).collect();
        groups.dedup();
        let mut found = Vec::new();
        for (group, id) in self.subjects_in(KeyKind::Names, &groups)? {
            let Some((link, owner)) = self.link_by_id(id)? else { continue };
            let first = places.partition_point(|(of, _)| *of < groups[group]);
            let same = places[first..].iter().take_while(|(of, _)| *of == groups[group]);
            for (_, at) in same.filter(|(_, at)| *names[*at] == link.key) {
                found.push((*at, id, link.clone(), owner));
            }
        }
        Ok(found)
    }

    /// The link of a row, and its owner.
    pub(crate) fn link_by_id(&self, id: i64) -> Result<Option<(LinkId, OwnerId)>, Failure> {
        let mut statement = self.conn.prepare_cached(LINK_BY_ID)?;
        let read = |row: &Row<'_>| {
            let owner = OwnerId(row.get::<_, i64>(3)?.cast_unsigned());
            Ok((crate::clicks::queries::link_of_row(row), owner))
        };
        let found = statement.query_row([id], read).optional()?;
        found.map(|(link, owner)| Ok((link?, owner))).transpose()
    }

    /// Up to `limit` links after this one: by groups, and in the order of their ids in each.
    pub(crate) fn links(
        &self,
        after: Option<&LinkId>,
        limit: usize,
    ) -> Result<Vec<LinkId>, Failure> {
        let limit = limit.clamp(1, 10_000);
        let from = match after {
            Some(after) => KeyGroup::of_name(self.names_seed()?, &after.key),
            None => KeyGroup(0),
        };
        let runs = self.key_runs(KeyKind::Names)?;
        let mut found: Vec<(KeyGroup, LinkId)> = Vec::new();
        let mut from = from.keys().start;
        while found.len() < limit && from < i64::MAX {
            let (keys, end) = self.next_keys(&runs, from, limit)?;
            for key in keys {
                if let Some((link, _)) = self.link_by_id(subject_of_key(key))? {
                    found.push((KeyGroup::of_key(key), link));
                }
            }
            found.sort_unstable();
            // Only the first group may have links up to it.
            if let Some(after) = after {
                let group = KeyGroup::of_name(self.names_seed()?, &after.key);
                found.retain(|(of, link)| *of > group || link > after);
            }
            from = end;
        }
        found.truncate(limit);
        Ok(found.into_iter().map(|(_, link)| link).collect())
    }

    /// At least `limit` keys from one on, in whole groups, if there are as many, and where the next
    /// ones begin.
    fn next_keys(
        &self,
        runs: &[KeyRun],
        from: i64,
        limit: usize,
    ) -> Result<(Vec<i64>, i64), Failure> {
        let mut keys = Vec::new();
        let mut end = i64::MAX;
        for run in runs {
            let before = keys.len();
            for at in chunks_in(&run.chunks, from, i64::MAX) {
                let start = run.chunks[at].first;
                if start >= end {
                    break;
                }
                // The group in which the chunk begins may have begun before.
                if keys.len() - before >= limit && KeyGroup::of_key(start).keys().start > from {
                    end = KeyGroup::of_key(start).keys().start.min(end);
                    break;
                }
                keys.extend(self.key_chunk(run.id, at)?.into_iter().filter(|key| *key >= from));
            }
        }
        keys.retain(|key| *key < end);
        Ok((keys, end))
    }

    pub(crate) fn names_seed(&self) -> Result<i64, Failure> {
        if let Some(seed) = self.names_seed.get() {
            return Ok(seed);
        }
        let sql = "SELECT value FROM meta WHERE name = 'names_seed'";
        let seed = self.conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        self.names_seed.set(Some(seed));
        Ok(seed)
    }
}

/// How many items at the beginning are before the wanted ones. Quick if they are few.
fn skip<T>(items: &[T], is_before: impl Fn(&T) -> bool) -> usize {
    let mut step = 1;
    while step < items.len() && is_before(&items[step - 1]) {
        step *= 2;
    }
    let start = step / 2;
    start + items[start..step.min(items.len())].partition_point(is_before)
}

#[cfg(test)]
mod tests {
    use super::KeyGroup;

    #[test]
    fn every_group_holds_its_keys() {
        for hash in [0, 1, (1 << 27) - 1] {
            let group = KeyGroup(hash);
            assert!(group.keys().contains(&group.key(0)), "{hash}");
            assert!(group.keys().contains(&group.key(1)), "{hash}");
        }
    }
}
