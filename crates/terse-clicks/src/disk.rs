//! The files of a journal's folder, as the click pipeline uses them.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A folder with files. The pipeline does all its file operations through it, so that a simulation
/// can lose what was not synced.
///
/// A name that was created, renamed or removed survives a power cut once [`JournalDisk::sync`] has
/// returned. The content of a segment may be lost in part: its writer syncs nothing.
pub trait JournalDisk: fmt::Debug + Send + Sync + 'static {
    /// The names of all files that are valid text.
    fn names(&self) -> io::Result<Vec<String>>;

    /// The length of a file.
    fn length(&self, name: &str) -> io::Result<u64>;

    /// How long ago a file was last written; `None` if that is unknown or in the future.
    fn since_written(&self, name: &str) -> Option<Duration>;

    /// Reads from `place` on until the buffer is full or the file ends. Returns how much was read.
    fn read(&self, name: &str, buffer: &mut [u8], place: u64) -> io::Result<usize>;

    /// Writes a new file, or replaces the content of one, and syncs the content.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Renames a file. `to` may be in a subfolder, which is created if necessary.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Syncs the names.
    fn sync(&self) -> io::Result<()>;

    /// Where a file is, for messages.
    fn path_of(&self, name: &str) -> PathBuf;
}

/// A folder of the file system.
#[derive(Clone, Debug)]
pub(crate) struct FileSystem(PathBuf);

impl FileSystem {
    pub(crate) fn new(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }
}

impl JournalDisk for FileSystem {
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn length(&self, name: &str) -> io::Result<u64> {
        Ok(fs::symlink_metadata(self.0.join(name))?.len())
    }

    fn since_written(&self, name: &str) -> Option<Duration> {
        let modified = fs::symlink_metadata(self.0.join(name)).and_then(|of| of.modified()).ok()?;
        SystemTime::now().duration_since(modified).ok()
    }

    fn read(&self, name: &str, buffer: &mut [u8], mut place: u64) -> io::Result<usize> {
        let file = File::open(self.0.join(name))?;
        let mut have = 0;
        while have < buffer.len() {
            match file.read_at(&mut buffer[have..], place) {
                Ok(0) => break,
                Ok(count) => {
                    have += count;
                    place += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(have)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.0.join(name);
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let to = self.0.join(to);
        if let Some(folder) = to.parent().filter(|folder| *folder != self.0) {
            fs::create_dir_all(folder)?;
        }
        fs::rename(self.0.join(from), to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.0.join(Path::new(name))
    }
}
