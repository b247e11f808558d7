//! The disk of one node, in memory: a power cut loses what was not synced, in part.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use terse_clicks::JournalDisk;

use crate::dice::Dice;

/// A disk writes a sector whole or not at all, unless it is torn.
const SECTOR: usize = 512;
/// One operation in this many fails while the disk is ill.
const FAILS_1_IN: u64 = 5;

/// A folder. File contents and names each have a state that processes see, and one that a power cut
/// leaves.
#[derive(Debug)]
pub(crate) struct SimDisk {
    dice: Arc<Dice>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<String, u64>,
    synced_names: BTreeMap<String, u64>,
    files: BTreeMap<u64, File>,
    last_file: u64,
    /// Operations fail at random.
    ill: bool,
    /// After so many more operations, the process gets nothing done any more.
    dies_after: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct File {
    bytes: Vec<u8>,
    synced: Vec<u8>,
}

impl State {
    /// Every operation begins here.
    fn begin(&mut self, dice: &Dice) -> io::Result<()> {
        match &mut self.dies_after {
            Some(0) => return Err(io::Error::other("the process is gone")),
            Some(left) => *left -= 1,
            None => {}
        }
        if self.ill && dice.below(FAILS_1_IN) == 0 {
            return Err(io::Error::other("the disk fails"));
        }
        Ok(())
    }

    fn file(&self, name: &str) -> io::Result<&File> {
        let file = self.names.get(name).and_then(|id| self.files.get(id));
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn file_mut(&mut self, name: &str) -> io::Result<&mut File> {
        let file = self.names.get(name).and_then(|id| self.files.get_mut(id));
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn create(&mut self, name: &str, file: File) {
        self.last_file += 1;
        self.files.insert(self.last_file, file);
        self.names.insert(name.to_owned(), self.last_file);
    }
}

impl SimDisk {
    pub(crate) fn new(dice: Arc<Dice>) -> Self {
        Self { dice, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Sets whether operations of the pipeline fail at random.
    pub(crate) fn set_ill(&self, ill: bool) {
        self.state().ill = ill;
    }

    /// From so many operations on nothing gets done: the process is killed in between.
    pub(crate) fn die_after(&self, operations: u64) {
        self.state().dies_after = Some(operations);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.state().dies_after == Some(0)
    }

    /// The process is over, another one starts.
    pub(crate) fn revive(&self) {
        self.state().dies_after = None;
    }

    /// Creates a segment as its writer does: under another name, with its header, then renamed.
    /// None of it is synced.
    pub(crate) fn create_segment(&self, name: &str, size: usize, header: &[u8]) {
        let mut bytes = vec![0; size];
        bytes[..header.len()].copy_from_slice(header);
        let mut state = self.state();
        // A name that a power cut may bring back.
        let new = format!("{name}.new");
        state.create(&new, File { bytes, synced: Vec::new() });
        if let Some(id) = state.names.remove(&new) {
            state.names.insert(name.to_owned(), id);
        }
        if self.dice.percent(10) {
            let id = state.names[name];
            state.synced_names.insert(new, id);
        }
    }

    /// Changes a segment as its writer does, who has mapped it into memory. `None` if it is gone.
    pub(crate) fn change<T>(&self, name: &str, change: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
        self.state().file_mut(name).ok().map(|file| change(&mut file.bytes))
    }

    /// A part of a file, if there is one.
    pub(crate) fn part(&self, name: &str, from: usize, to: usize) -> Option<Vec<u8>> {
        self.state().file(name).ok()?.bytes.get(from..to).map(<[u8]>::to_vec)
    }

    /// The kernel writes some of what it holds to the disk.
    pub(crate) fn write_back(&self) {
        let state = &mut *self.state();
        let names: BTreeSet<String> =
            state.names.keys().chain(state.synced_names.keys()).cloned().collect();
        for name in names.into_iter().filter(|_| self.dice.percent(30)) {
            match state.names.get(&name) {
                Some(id) => drop(state.synced_names.insert(name, *id)),
                None => drop(state.synced_names.remove(&name)),
            }
        }
        let reachable: BTreeSet<u64> =
            state.names.values().chain(state.synced_names.values()).copied().collect();
        state.files.retain(|id, _| reachable.contains(id));
        for file in state.files.values_mut() {
            if file.synced.is_empty() && self.dice.percent(50) {
                file.synced = vec![0; file.bytes.len()];
            }
            for (sector, synced) in file.bytes.chunks(SECTOR).zip(file.synced.chunks_mut(SECTOR)) {
                if self.dice.percent(40) && sector.len() == synced.len() {
                    synced.copy_from_slice(sector);
                }
            }
        }
    }

    /// The power fails. Of each name and each sector that was not synced, the disk has the old
    /// state or the new; some sectors are torn. Returns how many files changed.
    pub(crate) fn cut_power(&self) -> usize {
        let state = &mut *self.state();
        let mut changed = 0;
        let names: BTreeSet<String> =
            state.names.keys().chain(state.synced_names.keys()).cloned().collect();
        for name in names {
            let (now, synced) = (state.names.get(&name), state.synced_names.get(&name).copied());
            if now.copied() != synced && self.dice.percent(50) {
                changed += 1;
                match synced {
                    Some(id) => drop(state.names.insert(name, id)),
                    None => drop(state.names.remove(&name)),
                }
            }
        }
        for file in state.files.values_mut() {
            let before = file.bytes.clone();
            // None of what was not synced is there, all of it, or some.
            let kept = [0, 100, 50][self.dice.below(3) as usize];
            if file.synced.is_empty() {
                // The length was not synced either.
                let length = match self.dice.percent(20) {
                    true => self.dice.below(file.bytes.len() as u64 + 1) as usize,
                    false => file.bytes.len(),
                };
                file.bytes.truncate(length);
                file.synced = vec![0; length];
            }
            let File { bytes, synced } = file;
            for (sector, synced) in bytes.chunks_mut(SECTOR).zip(synced.chunks(SECTOR)) {
                if sector == synced || self.dice.percent(kept) {
                    continue;
                }
                let torn = if self.dice.percent(10) { self.dice.below(SECTOR as u64) } else { 0 };
                let torn = (torn as usize).min(synced.len());
                sector[torn..].copy_from_slice(&synced[torn..]);
            }
            changed += usize::from(before != file.bytes);
            file.synced.clone_from(&file.bytes);
        }
        state.synced_names.clone_from(&state.names);
        let reachable: BTreeSet<u64> = state.names.values().copied().collect();
        state.files.retain(|id, _| reachable.contains(id));
        changed
    }
}

impl JournalDisk for SimDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.begin(&self.dice)?;
        Ok(state.names.keys().filter(|name| !name.contains('/')).cloned().collect())
    }

    fn length(&self, name: &str) -> io::Result<u64> {
        let mut state = self.state();
        state.begin(&self.dice)?;
        Ok(state.file(name)?.bytes.len() as u64)
    }

    fn since_written(&self, _name: &str) -> Option<Duration> {
        None
    }

    fn read(&self, name: &str, buffer: &mut [u8], place: u64) -> io::Result<usize> {
        let mut state = self.state();
        state.begin(&self.dice)?;
        let bytes = &state.file(name)?.bytes;
        let rest = bytes.get(place.min(bytes.len() as u64) as usize..).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        state.begin(&self.dice)?;
        state.create(name, File { bytes: bytes.to_vec(), synced: bytes.to_vec() });
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.begin(&self.dice)?;
        let id = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), id);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.begin(&self.dice)?;
        state.names.remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        state.begin(&self.dice)?;
        state.synced_names = state.names.clone();
        Ok(())
    }

    fn path_of(&self, name: &str) -> PathBuf {
        name.into()
    }
}
