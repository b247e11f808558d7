//! Writes and merges the sorted lists of keys. See `key_runs`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rusqlite::params;
use terse_core::{LinkKey, OwnerId};

use crate::clicks::key_runs::{KeyGroup, KeyKind, KeyRun, encode_keys};
use crate::clicks::queries::ClickQueries;
use crate::clicks::runs::{ChunkIds, chunk_id, chunks_in, encode_chunks};
use crate::clicks::writes::ClickWrites;
use crate::failure::{Failure, corrupt};

const PUT_RUN: &str = "INSERT INTO key_runs (kind, keys, chunks) VALUES (?1, ?2, x'')";
const PUT_LIST: &str = "UPDATE key_runs SET keys = ?2, chunks = ?3 WHERE id = ?1";
const PUT_CHUNK: &str = "INSERT OR REPLACE INTO key_chunks VALUES (?1, ?2)";

/// The number of keys in a chunk: about as many as fit into a page.
const CHUNK_KEYS: usize = 500;
/// The number of runs of about the same size that are merged into one.
const MERGED_RUNS: usize = 6;
/// Runs with more keys are not merged. This bounds a transaction.
const MAX_MERGED: i64 = 4_000_000;
/// The number of links that one step reads when the keys are made again.
const REBUILT_LINKS: usize = 1_000_000;

/// Keys of links that a batch adds.
#[derive(Debug, Default)]
pub(crate) struct NewKeys {
    pub(crate) names: Vec<i64>,
    pub(crate) owners: Vec<i64>,
}

impl NewKeys {
    /// Adds a link, given the seed of the names.
    pub(crate) fn add(&mut self, seed: i64, key: &LinkKey, owner: OwnerId, subject: i64) {
        self.names.push(KeyGroup::of_name(seed, key).key(subject));
        self.owners.push(KeyGroup::of_owner(owner).key(subject));
    }
}

/// Writes the chunks of a run.
struct KeyWriter<'q> {
    queries: &'q ClickQueries,
    id: i64,
    keys: Vec<i64>,
    count: i64,
    chunks: Vec<ChunkIds>,
}

impl<'q> KeyWriter<'q> {
    fn new(queries: &'q ClickQueries, kind: KeyKind) -> Result<Self, Failure> {
        queries.conn.prepare_cached(PUT_RUN)?.execute([kind as i64, 0])?;
        let id = queries.conn.last_insert_rowid();
        let keys = Vec::with_capacity(CHUNK_KEYS);
        Ok(Self { queries, id, keys, count: 0, chunks: Vec::new() })
    }

    /// Adds a key. Keys ascend.
    fn push(&mut self, key: i64) -> Result<(), Failure> {
        if self.keys.len() == CHUNK_KEYS {
            self.end_chunk()?;
        }
        self.keys.push(key);
        Ok(())
    }

    fn end_chunk(&mut self) -> Result<(), Failure> {
        if let (Some(&first), Some(&last)) = (self.keys.first(), self.keys.last()) {
            self.queries.put_key_chunk(chunk_id(self.id, self.chunks.len()), &self.keys)?;
            self.chunks.push(ChunkIds { first, last });
            self.count += self.keys.len() as i64;
            self.keys.clear();
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), Failure> {
        self.end_chunk()?;
        let chunks = encode_chunks(self.id, &self.chunks);
        let chunks = chunks.ok_or_else(|| corrupt("a list of chunks cannot be written"))?;
        let row = params![self.id, self.count, chunks];
        self.queries.conn.prepare_cached(PUT_LIST)?.execute(row)?;
        Ok(())
    }
}

/// Reads the keys of a run one after the other.
struct KeyReader<'q> {
    queries: &'q ClickQueries,
    run: &'q KeyRun,
    next_chunk: usize,
    keys: std::vec::IntoIter<i64>,
}

impl KeyReader<'_> {
    fn next(&mut self) -> Result<Option<i64>, Failure> {
        loop {
            if let Some(key) = self.keys.next() {
                return Ok(Some(key));
            }
            if self.next_chunk == self.run.chunks.len() {
                return Ok(None);
            }
            self.keys = self.queries.key_chunk(self.run.id, self.next_chunk)?.into_iter();
            self.next_chunk += 1;
        }
    }
}

impl ClickQueries {
    fn put_key_chunk(&self, id: i64, keys: &[i64]) -> Result<(), Failure> {
        let row = params![id, encode_keys(id, keys)];
        self.conn.prepare_cached(PUT_CHUNK)?.execute(row)?;
        Ok(())
    }

    fn put_keys(&self, kind: KeyKind, keys: &[i64]) -> Result<(), Failure> {
        let mut writer = KeyWriter::new(self, kind)?;
        keys.iter().try_for_each(|key| writer.push(*key))?;
        writer.finish()
    }

    fn delete_key_run(&self, run: &KeyRun) -> Result<(), Failure> {
        let mut chunks =
            self.conn.prepare_cached("DELETE FROM key_chunks WHERE id >= ?1 AND id < ?2")?;
        chunks.execute([chunk_id(run.id, 0), chunk_id(run.id + 1, 0)])?;
        self.conn.prepare_cached("DELETE FROM key_runs WHERE id = ?1")?.execute([run.id])?;
        Ok(())
    }

    /// Merges runs into one.
    fn merge_key_runs(&self, kind: KeyKind, runs: &[KeyRun]) -> Result<(), Failure> {
        let reader =
            |run| KeyReader { queries: self, run, next_chunk: 0, keys: Vec::new().into_iter() };
        let mut readers: Vec<KeyReader<'_>> = runs.iter().map(reader).collect();
        let mut next = BinaryHeap::new();
        for (at, reader) in readers.iter_mut().enumerate() {
            next.extend(reader.next()?.map(|key| Reverse((key, at))));
        }
        let mut writer = KeyWriter::new(self, kind)?;
        while let Some(mut first) = next.peek_mut() {
            let Reverse((key, at)) = *first;
            writer.push(key)?;
            match readers[at].next()? {
                Some(key) => *first = Reverse((key, at)),
                None => drop(std::collections::binary_heap::PeekMut::pop(first)),
            }
        }
        writer.finish()?;
        runs.iter().try_for_each(|run| self.delete_key_run(run))
    }

    /// Adds keys, and merges runs if there are many of one size.
    fn add_keys(&self, kind: KeyKind, mut keys: Vec<i64>) -> Result<(), Failure> {
        if keys.is_empty() {
            return Ok(());
        }
        let mut runs = self.key_runs(kind)?;
        // Few keys are added to the last run if it is short.
        if let Some(last) = runs.pop_if(|run| run.chunks.len() == 1)
            && last.keys as usize + keys.len() <= CHUNK_KEYS
        {
            keys.extend(self.key_chunk(last.id, 0)?);
            self.delete_key_run(&last)?;
        }
        keys.sort_unstable();
        self.put_keys(kind, &keys)?;
        while let Some(runs) = crowded(self.key_runs(kind)?) {
            self.merge_key_runs(kind, &runs)?;
        }
        Ok(())
    }

    /// Takes a key out, if it is there.
    fn remove_key(&self, kind: KeyKind, key: i64) -> Result<(), Failure> {
        for run in self.key_runs(kind)? {
            for at in chunks_in(&run.chunks, key, key + 1) {
                let mut keys = self.key_chunk(run.id, at)?;
                if let Ok(place) = keys.binary_search(&key) {
                    keys.remove(place);
                    return self.put_key_chunk(chunk_id(run.id, at), &keys);
                }
            }
        }
        Ok(())
    }

    /// Makes the keys of a file of an earlier version.
    pub(crate) fn make_missing_keys(&self) -> Result<(), Failure> {
        if !self.are_keys_missing()? {
            return Ok(());
        }
        let transaction = self.conn.unchecked_transaction()?;
        self.make_keys()?;
        transaction.execute("DELETE FROM meta WHERE name = 'keys_missing'", [])?;
        Ok(transaction.commit()?)
    }

    /// Whether this file of an earlier version has no keys yet.
    pub(crate) fn are_keys_missing(&self) -> rusqlite::Result<bool> {
        self.conn.prepare_cached("SELECT 1 FROM meta WHERE name = 'keys_missing'")?.exists([])
    }

    /// Whether the keys are those of the links.
    pub(crate) fn has_right_keys(&self) -> Result<bool, Failure> {
        let seed = self.names_seed()?;
        let mut expected = NewKeys::default();
        let mut statement = self
            .conn
            .prepare("SELECT domain, code, born, owner, id FROM subjects WHERE kind = 0")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let owner = OwnerId(row.get::<_, i64>(3)?.cast_unsigned());
            expected.add(seed, &crate::clicks::queries::link_of_row(row)?.key, owner, row.get(4)?);
        }
        for (kind, mut expected) in
            [(KeyKind::Names, expected.names), (KeyKind::Owners, expected.owners)]
        {
            let mut found = Vec::with_capacity(expected.len());
            for run in self.key_runs(kind)? {
                for at in 0..run.chunks.len() {
                    found.extend(self.key_chunk(run.id, at)?);
                }
            }
            found.sort_unstable();
            expected.sort_unstable();
            if found != expected {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn make_keys(&self) -> Result<(), Failure> {
        self.conn.execute_batch("DELETE FROM key_runs; DELETE FROM key_chunks")?;
        self.key_lists.borrow_mut().clear();
        let seed = self.names_seed()?;
        let mut statement = self.conn.prepare(
            "SELECT domain, code, born, owner, id FROM subjects WHERE kind = 0 AND id > ?1 \
             ORDER BY id LIMIT ?2",
        )?;
        let mut last = 0;
        loop {
            let mut keys = NewKeys::default();
            let mut rows = statement.query([last, REBUILT_LINKS as i64])?;
            while let Some(row) = rows.next()? {
                let owner = OwnerId(row.get::<_, i64>(3)?.cast_unsigned());
                last = row.get(4)?;
                let link = crate::clicks::queries::link_of_row(row)?;
                keys.add(seed, &link.key, owner, last);
            }
            drop(rows);
            let count = keys.names.len();
            self.add_keys(KeyKind::Names, keys.names)?;
            self.add_keys(KeyKind::Owners, keys.owners)?;
            if count < REBUILT_LINKS {
                return Ok(());
            }
        }
    }
}

/// Runs of about the same size, if there are many; the smallest first.
fn crowded(mut runs: Vec<KeyRun>) -> Option<Vec<KeyRun>> {
    let size = |run: &KeyRun| (run.keys / CHUNK_KEYS as i64).max(1).ilog(MERGED_RUNS as i64);
    runs.retain(|run| run.keys <= MAX_MERGED);
    runs.sort_unstable_by_key(|run| run.keys);
    let same = runs.chunk_by(|one, other| size(one) == size(other));
    let same = same.map(<[_]>::len).scan(0, |end, count| {
        *end += count;
        Some((*end - count, *end))
    });
    let (start, end) = same.into_iter().find(|(start, end)| end - start >= MERGED_RUNS)?;
    runs.truncate(end);
    Some(runs.split_off(start))
}

impl ClickWrites {
    /// Adds the keys of links whose rows are written.
    pub(crate) fn put_new_keys(&self, NewKeys { names, owners }: NewKeys) -> Result<(), Failure> {
        for (kind, keys) in [(KeyKind::Names, names), (KeyKind::Owners, owners)] {
            match self.add_keys(kind, keys) {
                Err(Failure::Refused(error)) => return self.rebuild_keys(&error),
                added => added?,
            }
        }
        Ok(())
    }

    /// Takes out the keys of a link whose row is to be deleted.
    pub(crate) fn remove_keys(&self, subject: i64) -> Result<(), Failure> {
        let Some((link, owner)) = self.link_by_id(subject)? else { return Ok(()) };
        let name = KeyGroup::of_name(self.names_seed()?, &link.key).key(subject);
        let owner = KeyGroup::of_owner(owner).key(subject);
        for (kind, key) in [(KeyKind::Names, name), (KeyKind::Owners, owner)] {
            match self.remove_key(kind, key) {
                Err(Failure::Refused(error)) => return self.rebuild_keys(&error),
                removed => removed?,
            }
        }
        Ok(())
    }

    /// Gives a link that has a row to another owner.
    pub(crate) fn change_owner(
        &self,
        subject: i64,
        owner: OwnerId,
        new: &mut NewKeys,
    ) -> Result<(), Failure> {
        // The row of a new link is written later, with its latest owner.
        let Some((_, before)) = self.link_by_id(subject)? else { return Ok(()) };
        let mut statement =
            self.conn.prepare_cached("UPDATE subjects SET owner = ?2 WHERE id = ?1")?;
        statement.execute([subject, owner.0.cast_signed()])?;
        let key = KeyGroup::of_owner(owner).key(subject);
        let key_before = KeyGroup::of_owner(before).key(subject);
        // Two owners may share a group.
        if key == key_before || new.owners.contains(&key) {
            return Ok(());
        }
        new.owners.retain(|key| *key != key_before);
        match self.remove_key(KeyKind::Owners, key_before) {
            // The new keys are of the rows, which have the new owner already.
            Err(Failure::Refused(error)) => return self.rebuild_keys(&error),
            removed => removed?,
        }
        new.owners.push(key);
        Ok(())
    }

    /// Makes all keys again from the rows of the links, because some are damaged.
    pub(crate) fn rebuild_keys(&self, error: &terse_core::StoreError) -> Result<(), Failure> {
        tracing::error!(%error, "keys that find links are damaged and are made again");
        self.make_keys().map_err(Failure::after_writes)
    }
}
