//! The data folder: its lock, and how commands reach the server that holds it.
//!
//! One process at a time works on the folder and holds its lock. A server also writes `run.json`,
//! which gives commands on the same host its address. The file counts only while the lock is held,
//! so commands ignore one that a crash left behind.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

const LOCK: &str = "lock";
const RUN: &str = "run.json";
/// The largest size of either file.
const MAX_FILE_SIZE: u64 = 64 << 10;

/// How often, and how long apart, a server tries to lock its folder.
const LOCK_ATTEMPTS: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The folder that holds all data.
#[derive(Clone, Debug)]
pub struct DataDir(PathBuf);

/// How to reach the server of a folder.
#[derive(Clone, Deserialize, Serialize)]
pub struct RunInfo {
    /// The server's process.
    pub pid: u32,
    /// The address of its API, such as `http://127.0.0.1:8080`.
    pub url: String,
    /// An API key with all permissions, valid while this server runs.
    pub key: String,
}

impl fmt::Debug for RunInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunInfo")
            .field("pid", &self.pid)
            .field("url", &self.url)
            .field("key", &"[hidden]")
            .finish()
    }
}

/// Holds the folder until dropped, or until the process ends.
#[derive(Debug)]
pub struct LockGuard {
    _file: File,
}

/// Why the data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Another process holds it.
    #[error("another terse is running on this folder{}: {}", shown(*pid), path.display())]
    InUse {
        /// The process, if its id could be read.
        pid: Option<u32>,
        /// The folder.
        path: PathBuf,
    },
    /// A file or folder cannot be read or written.
    #[error("{doing} {}", path.display())]
    Io {
        /// The failed operation.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// `run.json` is damaged.
    #[error("{} does not say where the server is", .0.display())]
    RunInfo(PathBuf),
}

fn shown(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
}

impl DataDir {
    /// Opens the folder, and creates it if it does not exist, accessible by its owner only.
    pub fn open(path: &Path) -> Result<Self, DataDirError> {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path).map_err(io_error("making the data folder", path))?;
        Ok(Self(path.to_owned()))
    }

    /// The folder if it exists.
    pub fn existing(path: &Path) -> Option<Self> {
        path.is_dir().then(|| Self(path.to_owned()))
    }

    /// Whether a process has ever locked the folder. A command does not lock other folders, because
    /// that would write into them.
    pub fn was_locked(&self) -> bool {
        self.0.join(LOCK).exists()
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Locks the folder for this process, and removes a `run.json` that a crash left.
    pub fn lock(&self) -> Result<LockGuard, DataDirError> {
        let path = self.0.join(LOCK);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(io_error("opening", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // The process id helps operators, but is not needed.
                let _ = (&mut file).take(MAX_FILE_SIZE).read_to_string(&mut text);
                let (pid, path) = (text.trim().parse().ok(), self.0.clone());
                return Err(DataDirError::InUse { pid, path });
            }
            Err(TryLockError::Error(source)) => return Err(io_error("locking", &path)(source)),
        }
        // The process that wrote it has ended; its address may belong to any process now.
        self.remove_run()?;
        let mut write = || -> io::Result<()> {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        write().map_err(io_error("writing", &path))?;
        Ok(LockGuard { _file: file })
    }

    /// Locks the folder for a server. A command that checks whether a server runs holds the lock
    /// for a moment, so this tries several times.
    pub fn lock_for_server(&self) -> Result<LockGuard, DataDirError> {
        for _ in 1..LOCK_ATTEMPTS {
            match self.lock() {
                Err(DataDirError::InUse { .. }) => std::thread::sleep(LOCK_PAUSE),
                locked => return locked,
            }
        }
        self.lock()
    }

    /// Writes `run.json`, whole or not at all, readable by its owner only. The caller holds the
    /// lock.
    pub fn write_run(&self, info: &RunInfo) -> Result<(), DataDirError> {
        let path = self.0.join(RUN);
        let write = || -> io::Result<()> {
            // 0600 from the beginning.
            let mut file = tempfile::Builder::new().prefix(".run").tempfile_in(&self.0)?;
            serde_json::to_writer(&mut file, info)?;
            file.persist(&path)?;
            Ok(())
        };
        write().map_err(io_error("writing", &path))
    }

    /// Reads `run.json`, if it exists.
    pub fn read_run(&self) -> Result<Option<RunInfo>, DataDirError> {
        let path = self.0.join(RUN);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(io_error("opening", &path)(source)),
        };
        let info: RunInfo = serde_json::from_reader(file.take(MAX_FILE_SIZE))
            .map_err(|error| io_error("reading", &path)(error.into()))?;
        if !["http://", "https://", "unix:/"].iter().any(|start| info.url.starts_with(start)) {
            return Err(DataDirError::RunInfo(path));
        }
        Ok(Some(info))
    }

    /// Removes `run.json`.
    pub fn remove_run(&self) -> Result<(), DataDirError> {
        let path = self.0.join(RUN);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(io_error("removing", &path)(error))
            }
            _ => Ok(()),
        }
    }
}

fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DataDirError {
    let path = path.to_owned();
    move |source| DataDirError::Io { doing, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, DataDir) {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(&temp.path().join("a/b")).unwrap();
        (temp, dir)
    }

    #[test]
    fn one_at_a_time_works_on_a_folder() {
        let (_temp, dir) = folder();
        let held = dir.lock().unwrap();
        let refused = DataDir::open(dir.path()).unwrap().lock().unwrap_err();
        let pid = std::process::id();
        assert!(matches!(refused, DataDirError::InUse { pid: Some(held), .. } if held == pid));
        assert!(
            refused.to_string().starts_with("another terse is running on this folder (pid "),
            "{refused}"
        );
        drop(held);
        dir.lock().unwrap();
    }

    #[test]
    fn run_info_does_not_outlive_its_server() {
        let (_temp, dir) = folder();
        let server = dir.lock().unwrap();
        dir.write_run(&RunInfo { pid: 1, url: "http://127.0.0.1:1".into(), key: "k".into() })
            .unwrap();
        drop(server); // a crash: the file stays
        let _next = dir.lock().unwrap();
        assert!(dir.read_run().unwrap().is_none());
    }

    #[cfg(unix)]
    #[test]
    fn a_dead_process_holds_nothing() {
        let (_temp, dir) = folder();
        drop(dir.lock().unwrap());
        // Another process takes the lock, and is killed with it.
        let mut holder = std::process::Command::new("flock")
            .arg(dir.path().join("lock"))
            .args(["-c", "echo held; exec sleep 60"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 5];
        holder.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        assert!(dir.lock().is_err());
        // All handles of the holder share the lock; the shell replaced itself, so two processes
        // share it.
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", holder.id()))
            .unwrap_or_default();
        for child in children.split_whitespace() {
            let _ = std::process::Command::new("kill").args(["-9", child]).status();
        }
        holder.kill().unwrap();
        holder.wait().unwrap();
        let free = (0..100).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            dir.lock().ok()
        });
        assert!(free.is_some());
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_can_read_the_folder_and_the_run_info() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_temp, dir) = folder();
        dir.write_run(&RunInfo {
            pid: 7,
            url: "http://127.0.0.1:8080".into(),
            key: "secret".into(),
        })
        .unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(dir.path()), mode(&dir.path().join(RUN))), (0o700, 0o600));
        assert_eq!(dir.read_run().unwrap().unwrap().pid, 7);
        assert!(!format!("{:?}", dir.read_run().unwrap()).contains("secret"));
        dir.remove_run().unwrap();
        dir.remove_run().unwrap();
        assert!(dir.read_run().unwrap().is_none());
    }

    #[test]
    fn damaged_run_info_is_an_error_and_not_a_server() {
        let (_temp, dir) = folder();
        for text in ["", "{}", "[1]", r#"{"pid":1,"url":"file:///etc","key":"k"}"#] {
            std::fs::write(dir.path().join(RUN), text).unwrap();
            assert!(dir.read_run().is_err(), "{text}");
        }
    }
}
