//! Where an interrupted import continues.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

/// The progress of an import.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct ImportCounts {
    /// Links created.
    pub(crate) created: u64,
    /// Links that already existed.
    pub(crate) existing: u64,
    /// Rows refused.
    pub(crate) refused: u64,
    /// Rows skipped on purpose.
    pub(crate) skipped: u64,
}

impl ImportCounts {
    /// How many rows were processed.
    pub(crate) fn rows(self) -> u64 {
        self.created + self.existing + self.refused + self.skipped
    }
}

/// The position in a file up to which the server has acknowledged every row.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct ImportPosition {
    /// The server or data folder.
    pub(crate) place: String,
    /// In bytes.
    pub(crate) offset: u64,
    /// The next line.
    pub(crate) line: u64,
    /// SHA-256 of the file up to there: an import does not continue with another or a changed file.
    pub(crate) sha256: String,
    /// The progress up to there.
    pub(crate) done: ImportCounts,
}

impl ImportPosition {
    /// The path of the resume file beside a file.
    pub(crate) fn path(file: &Path) -> PathBuf {
        let mut name = file.as_os_str().to_owned();
        name.push(".terse-progress");
        name.into()
    }

    /// Reads the resume file, if there is one.
    pub(crate) fn read(file: &Path) -> anyhow::Result<Option<Self>> {
        let path = Self::path(file);
        match std::fs::read(&path) {
            Ok(bytes) => {
                let position = serde_json::from_slice(&bytes);
                position.map(Some).with_context(|| {
                    format!("{} is damaged; --restart starts at the first row", path.display())
                })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
        }
    }

    /// Writes the resume file atomically.
    pub(crate) fn write(&self, file: &Path) -> anyhow::Result<()> {
        let path = Self::path(file);
        let write = || -> anyhow::Result<()> {
            let folder = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty())
                .unwrap_or(Path::new("."));
            let mut temp = tempfile::NamedTempFile::new_in(folder)?;
            temp.write_all(&serde_json::to_vec(self)?)?;
            temp.persist(&path)?;
            Ok(())
        };
        write().with_context(|| format!("writing {}", path.display()))
    }

    /// Removes the resume file.
    pub(crate) fn remove(file: &Path) {
        // If it stays, its checksum shows that it is outdated, or it points to the very end.
        let _ = std::fs::remove_file(Self::path(file));
    }
}
