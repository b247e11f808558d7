//! The lock of the data folder and the address of the running server.
//!
//! A process that uses the folder holds its lock. A server also writes `run.json`, so that commands
//! on the same machine can reach it. The file counts only while the lock is held, so a file left by
//! a crash is ignored.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

const LOCK: &str = "lock";
const RUN: &str = "run.json";
/// Neither file is ever longer.
const MAX_FILE_SIZE: u64 = 64 << 10;

/// The folder that everything is kept in.
#[derive(Clone, Debug)]
pub struct DataDir(PathBuf);

/// How to reach the server of a folder.
#[derive(Clone, Deserialize, Serialize)]
pub struct RunInfo {
    /// Its process.
    pub pid: u32,
    /// Where its API is, such as `http://127.0.0.1:8080`.
    pub url: String,
    /// A key that may do everything, good for as long as this server runs.
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

/// Holds the folder until dropped, or until the process ends in whatever way.
#[derive(Debug)]
pub struct LockGuard {
    _file: File,
}

/// Somebody else holds the folder.
#[derive(Debug, thiserror::Error)]
#[error("another terse is running on this folder{}: \
    {}", pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default(), path.display())]
pub struct InUse {
    /// Who, if they said so.
    pub pid: Option<u32>,
    /// Which folder.
    pub path: PathBuf,
}

impl DataDir {
    /// Opens the folder, making it if need be: for its owner's eyes only.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .create(path)
            .with_context(|| format!("making the data folder {}", path.display()))?;
        Ok(Self(path.to_owned()))
    }

    /// The folder if it exists.
    pub fn existing(path: &Path) -> Option<Self> {
        path.is_dir().then(|| Self(path.to_owned()))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Takes the folder for this process, and removes a note that a crash left. The error is
    /// Fails with [`InUse`] if another process uses the folder.
    pub fn lock(&self) -> anyhow::Result<LockGuard> {
        let path = self.0.join(LOCK);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file =
            options.open(&path).with_context(|| format!("opening {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // Who it is helps people, but is not needed.
                let _ = (&mut file).take(MAX_FILE_SIZE).read_to_string(&mut text);
                return Err(InUse { pid: text.trim().parse().ok(), path: self.0.clone() }.into());
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("locking {}", path.display()));
            }
        }
        // Whoever left a note is gone; what answers at its address now may be anything.
        self.remove_run().context("removing an old run.json")?;
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        Ok(LockGuard { _file: file })
    }

    /// Leaves the note, whole or not at all, for its owner's eyes only. The caller holds the lock.
    pub fn write_run(&self, info: &RunInfo) -> anyhow::Result<()> {
        let path = self.0.join(RUN);
        let write = || -> anyhow::Result<()> {
            let mut file = tempfile::Builder::new().prefix(".run").tempfile_in(&self.0)?; // 0600 from the beginning
            serde_json::to_writer(&mut file, info)?;
            file.persist(&path)?;
            Ok(())
        };
        write().with_context(|| format!("writing {}", path.display()))
    }

    /// The note, if there is one.
    pub fn read_run(&self) -> anyhow::Result<Option<RunInfo>> {
        let path = self.0.join(RUN);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("opening {}", path.display())),
        };
        let info: RunInfo = serde_json::from_reader(file.take(MAX_FILE_SIZE))
            .with_context(|| format!("reading {}", path.display()))?;
        if !info.url.starts_with("http://") && !info.url.starts_with("https://") {
            bail!("{} does not say where the server is", path.display());
        }
        Ok(Some(info))
    }

    /// Takes the note away.
    pub fn remove_run(&self) -> anyhow::Result<()> {
        match std::fs::remove_file(self.0.join(RUN)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
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
        assert_eq!(refused.downcast_ref::<InUse>().unwrap().pid, Some(std::process::id()));
        assert!(
            refused.to_string().starts_with("another terse is running on this folder (pid "),
            "{refused}"
        );
        drop(held);
        dir.lock().unwrap();
    }

    #[test]
    fn a_note_does_not_outlive_its_server() {
        let (_temp, dir) = folder();
        let server = dir.lock().unwrap();
        dir.write_run(&RunInfo { pid: 1, url: "http://127.0.0.1:1".into(), key: "k".into() })
            .unwrap();
        drop(server); // a crash leaves run.json
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
        // The lock belongs to the whole group of the holder's handles; the shell replaced itself,
        // so two processes share it.
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
    fn nobody_else_can_read_the_folder_or_the_note() {
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
    fn a_broken_note_is_an_error_and_not_a_server() {
        let (_temp, dir) = folder();
        for text in ["", "{}", "[1]", r#"{"pid":1,"url":"file:///etc","key":"k"}"#] {
            std::fs::write(dir.path().join(RUN), text).unwrap();
            assert!(dir.read_run().is_err(), "{text}");
        }
    }
}
