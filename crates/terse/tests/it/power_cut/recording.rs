//! Records what a command does to its files, and rebuilds what the disk holds after a power cut.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How many power cuts each command gets.
fn cuts() -> usize {
    std::env::var("TERSE_TEST_CUTS").ok().and_then(|cuts| cuts.parse().ok()).unwrap_or(8)
}

/// The recorder, compiled once for each test.
fn recorder(folder: &Path) -> PathBuf {
    let library = folder.join("recorder.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/power_cut/recorder.c");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .args([source, "-ldl", "-lpthread"])
        .status()
        .expect("a C compiler, which Rust needs, too");
    assert!(compiled.success());
    library
}

#[derive(Debug)]
pub(super) enum Step {
    Write(String, u64, Vec<u8>),
    Truncate(String, u64),
    Sync(String),
    Name(NameChange),
}

/// A change of names, which a sync of the folder makes durable.
#[derive(Clone, Debug)]
pub(super) enum NameChange {
    File(String),
    Folder(String),
    Rename(String, String),
    Link(String, String),
    Remove(String),
}

impl NameChange {
    fn is_in(&self, folder: &str) -> bool {
        let parent = |path: &str| path.rsplit_once('/').is_some_and(|(parent, _)| parent == folder);
        match self {
            Self::File(path) | Self::Folder(path) | Self::Remove(path) => parent(path),
            Self::Rename(from, to) => parent(from) || parent(to),
            Self::Link(_, to) => parent(to),
        }
    }
}

fn parse(record: &[u8]) -> Vec<Step> {
    let (mut steps, mut rest) = (Vec::new(), record);
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let line = std::str::from_utf8(&rest[..end]).expect("a line");
        rest = &rest[end + 1..];
        let (kind, path) = line.split_once(' ').expect("a kind");
        let number = |text: &str| text.parse::<u64>().expect("a number");
        steps.push(match kind {
            "W" => {
                let mut parts = path.rsplitn(3, ' ');
                let length = number(parts.next().expect("a length")) as usize;
                let at = number(parts.next().expect("an offset"));
                let path = parts.next().expect("a path").to_owned();
                // A process that was killed wrote less.
                if rest.len() < length + 1 {
                    return steps;
                }
                let bytes = rest[..length].to_vec();
                rest = &rest[length + 1..];
                Step::Write(path, at, bytes)
            }
            "T" => {
                let (path, size) = path.rsplit_once(' ').expect("a size");
                Step::Truncate(path.into(), number(size))
            }
            "S" => Step::Sync(path.into()),
            "C" => Step::Name(NameChange::File(path.into())),
            "M" => Step::Name(NameChange::Folder(path.into())),
            "U" => Step::Name(NameChange::Remove(path.into())),
            "R" | "L" => {
                let (from, to) = path.split_once('\t').expect("two paths");
                let (from, to) = (from.to_owned(), to.to_owned());
                let renames = kind == "R";
                Step::Name(if renames {
                    NameChange::Rename(from, to)
                } else {
                    NameChange::Link(from, to)
                })
            }
            other => panic!("{other}"),
        });
    }
    steps
}

/// What the disk does with what was not synced.
#[derive(Clone, Copy, Debug)]
pub(super) enum Luck {
    Nothing,
    Prefix,
    Sectors,
}

const LUCKS: [Luck; 3] = [Luck::Nothing, Luck::Prefix, Luck::Sectors];

pub(super) struct Dice(pub(super) u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

#[derive(Clone, Debug)]
enum Change {
    Write(u64, Vec<u8>),
    Truncate(u64),
}

#[derive(Clone, Default)]
struct FileState {
    synced: Vec<u8>,
    pending: Vec<Change>,
}

impl FileState {
    fn apply(bytes: &mut Vec<u8>, change: &Change, mut keeps: impl FnMut() -> bool) {
        match change {
            Change::Truncate(size) => bytes.resize(*size as usize, 0),
            Change::Write(at, new) => {
                let at = *at as usize;
                if bytes.len() < at + new.len() {
                    bytes.resize(at + new.len(), 0);
                }
                for (n, sector) in new.chunks(512).enumerate() {
                    if keeps() {
                        bytes[at + n * 512..at + n * 512 + sector.len()].copy_from_slice(sector);
                    }
                }
            }
        }
    }

    fn sync(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            Self::apply(&mut self.synced, &change, || true);
        }
    }

    fn after_cut(&self, luck: Luck, dice: &mut Dice) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        let kept = match luck {
            Luck::Nothing => 0,
            Luck::Prefix => dice.below(self.pending.len() + 1),
            Luck::Sectors => self.pending.len(),
        };
        for change in &self.pending[..kept] {
            let torn = matches!(luck, Luck::Sectors);
            Self::apply(&mut bytes, change, || !torn || dice.below(2) == 0);
        }
        bytes
    }
}

/// Names of files, each with its number, and of folders.
#[derive(Clone, Default)]
struct Names(BTreeMap<String, Option<usize>>);

impl Names {
    fn apply(&mut self, change: &NameChange, file: Option<usize>) {
        match change {
            NameChange::File(path) => drop(self.0.insert(path.clone(), file)),
            NameChange::Folder(path) => drop(self.0.insert(path.clone(), None)),
            NameChange::Remove(path) => drop(self.0.remove(path)),
            NameChange::Link(from, to) => {
                let file = self.0.get(from).copied().flatten();
                self.0.insert(to.clone(), file);
            }
            NameChange::Rename(from, to) => {
                let inner = format!("{from}/");
                let moved: Vec<String> = self
                    .0
                    .keys()
                    .filter(|path| *path == from || path.starts_with(&inner))
                    .cloned()
                    .collect();
                for path in moved {
                    let entry = self.0.remove(&path).expect("it was listed");
                    self.0.insert(format!("{to}{}", &path[from.len()..]), entry);
                }
            }
        }
    }
}

/// A folder before a command ran, and what the command did to it.
pub(super) struct Recording {
    root: String,
    files: Vec<FileState>,
    names: Names,
    pub(super) steps: Vec<Step>,
}

impl Recording {
    /// Runs the command with the recorder. `work` gets the command and returns when it ended.
    pub(super) fn of(root: &Path, mut command: Command, work: impl FnOnce(&mut Command)) -> Self {
        let outside = tempfile::tempdir().expect("a temporary folder");
        let root_text = root.to_str().expect("UTF-8").to_owned();
        let (mut files, mut names) = (Vec::new(), Names::default());
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
                let path = entry.path();
                let name = path.to_str().expect("UTF-8").to_owned();
                if path.is_dir() {
                    names.0.insert(name, None);
                    folders.push(path);
                } else if !name.ends_with("-shm") {
                    let synced = std::fs::read(&path).expect("a file");
                    names.0.insert(name, Some(files.len()));
                    files.push(FileState { synced, pending: Vec::new() });
                }
            }
        }
        let record = outside.path().join("record");
        command
            .env("LD_PRELOAD", recorder(outside.path()))
            .env("RECORD_TO", &record)
            .env("RECORD_ROOT", &root_text);
        work(&mut command);
        let steps = parse(&std::fs::read(&record).expect("a record"));
        assert!(steps.iter().any(|step| matches!(step, Step::Sync(_))), "nothing was recorded");
        Self { root: root_text, files, names, steps }
    }

    /// What a power cut after this many steps leaves, in a new folder.
    pub(super) fn cut(&self, after: usize, luck: Luck, dice: &mut Dice) -> tempfile::TempDir {
        let mut files = self.files.clone();
        // What programs see, what the disk has, and the changes of names in between.
        let (mut seen, mut durable) = (self.names.clone(), self.names.clone());
        let mut pending: Vec<(NameChange, Option<usize>)> = Vec::new();
        for step in &self.steps[..after] {
            let file = |path: &String| seen.0.get(path).copied().flatten();
            match step {
                Step::Write(path, at, bytes) => {
                    if let Some(file) = file(path) {
                        files[file].pending.push(Change::Write(*at, bytes.clone()));
                    }
                }
                Step::Truncate(path, size) => {
                    if let Some(file) = file(path) {
                        files[file].pending.push(Change::Truncate(*size));
                    }
                }
                Step::Sync(path) => match file(path) {
                    Some(file) => files[file].sync(),
                    None => {
                        let is_in = |change: &(NameChange, _)| change.0.is_in(path);
                        let count = pending.iter().rposition(is_in).map_or(0, |last| last + 1);
                        for (change, file) in pending.drain(..count) {
                            durable.apply(&change, file);
                        }
                    }
                },
                Step::Name(change) => {
                    let file = matches!(change, NameChange::File(_)).then(|| {
                        files.push(FileState::default());
                        files.len() - 1
                    });
                    seen.apply(change, file);
                    pending.push((change.clone(), file));
                }
            }
        }
        let kept = match luck {
            Luck::Nothing => 0,
            Luck::Prefix | Luck::Sectors => dice.below(pending.len() + 1),
        };
        for (change, file) in &pending[..kept] {
            durable.apply(change, *file);
        }
        let to = tempfile::tempdir().expect("a temporary folder");
        // Folders come before what is in them.
        for (path, file) in &durable.0 {
            let place = to.path().join(path[self.root.len()..].trim_start_matches('/'));
            match file {
                None => std::fs::create_dir_all(&place).expect("a folder"),
                Some(file) => {
                    // A file whose folder is not on the disk is not there either.
                    let Some(parent) = place.parent().filter(|parent| parent.exists()) else {
                        continue;
                    };
                    assert!(parent.is_dir());
                    std::fs::write(&place, files[*file].after_cut(luck, dice)).expect("a file");
                }
            }
        }
        to
    }

    /// Cuts the power at points all over the recording, and at its end with every kind of loss.
    pub(super) fn each(&self, mut check: impl FnMut(&Path, bool, &str)) {
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
        let ends = LUCKS.map(|luck| (self.steps.len(), luck));
        let within: Vec<_> =
            (0..cuts()).map(|n| (dice.below(self.steps.len()), LUCKS[n % 3])).collect();
        for (after, luck) in within.into_iter().chain(ends) {
            let left = self.cut(after, luck, &mut dice);
            let ended = after == self.steps.len();
            check(left.path(), ended, &format!("{after} of {}, {luck:?}", self.steps.len()));
        }
    }
}
