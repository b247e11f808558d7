//! The cached copy of a blocklist from another server, for a start without a network.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use terse_core::{RequestLimits, Validators};

/// A copy: one line of JSON, then the list byte for byte.
pub(crate) struct CachedCopy {
    path: PathBuf,
    /// The HTTP validators of the version in force.
    pub(crate) validators: Validators,
}

#[derive(Deserialize, Serialize)]
struct Head {
    etag: Option<String>,
    last_modified: Option<String>,
}

impl CachedCopy {
    /// The file name is a hash of the URL, because the URL may contain a key.
    pub(crate) fn new(folder: &Path, url: &str) -> Self {
        let name: String =
            Sha256::digest(url)[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        Self { path: folder.join(format!("{name}.list")), validators: Validators::default() }
    }

    /// Reads the copy, if there is one.
    pub(crate) fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        match fs::File::open(&self.path) {
            Ok(file) => file
                .take(RequestLimits::FEED.max_body as u64 + (64 << 10))
                .read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let end = bytes.iter().position(|byte| *byte == b'\n').ok_or(io::ErrorKind::InvalidData)?;
        let Head { etag, last_modified } = serde_json::from_slice(&bytes[..end])?;
        self.validators = Validators { etag, last_modified };
        Ok(Some(bytes.split_off(end + 1)))
    }

    /// Replaces the copy atomically.
    pub(crate) fn write(&mut self, bytes: &[u8], validators: &Validators) -> io::Result<()> {
        // Set these even if the write fails: this is the version in force.
        self.validators = validators.clone();
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let Validators { etag, last_modified } = validators.clone();
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer(&mut file, &Head { etag, last_modified })?;
        file.write_all(b"\n")?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}
