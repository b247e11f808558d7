//! Which journal a folder holds, and how current the folder is.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use terse_core::clicks::JournalId;

const ID: &str = "journal.id";
const GENERATION: &str = "journal.generation";

/// The identity of a journal's folder, in two small files beside the segments.
///
/// `journal.id` holds the journal's id. It is written once, before the first segment, or when the
/// folder of an earlier version without an id is opened. `journal.generation` holds a number that
/// rises before positions are forgotten, so that an old copy of the folder can be recognised.
#[derive(Debug)]
pub(crate) struct FolderIdentity {
    folder: PathBuf,
    journal: JournalId,
    generation: u64,
}

impl FolderIdentity {
    /// Reads the identity of a folder, or gives it one.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let journal = match read(folder, ID)? {
            Some(text) => JournalId::parse(text.trim_end()).ok_or_else(|| {
                let path = folder.join(ID);
                invalid(&path, "must hold the journal's id, 32 hexadecimal digits")
            })?,
            None => {
                let journal = JournalId::generate()?;
                write(folder, ID, &journal.to_string())?;
                journal
            }
        };
        let generation = match read(folder, GENERATION)? {
            Some(text) => text
                .trim_end()
                .parse()
                .map_err(|_| invalid(&folder.join(GENERATION), "must hold a whole number"))?,
            None => 0,
        };
        Ok(Self { folder: folder.to_owned(), journal, generation })
    }

    /// The journal.
    pub(crate) fn journal(&self) -> JournalId {
        self.journal
    }

    /// The generation on disk.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Writes a new generation. It is on disk when this returns.
    pub(crate) fn set_generation(&mut self, generation: u64) -> io::Result<()> {
        write(&self.folder, GENERATION, &generation.to_string())?;
        self.generation = generation;
        Ok(())
    }
}

fn invalid(path: &Path, rule: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{} {rule}; restore it from a backup of this folder", path.display()),
    )
}

fn read(folder: &Path, name: &str) -> io::Result<Option<String>> {
    match fs::read_to_string(folder.join(name)) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces a file atomically: after a power cut it has the old content or the new.
fn write(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let temporary = folder.join(format!("{name}.tmp"));
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    fs::rename(&temporary, folder.join(name))?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_keeps_its_identity() {
        let temp = tempfile::tempdir().unwrap();
        let mut first = FolderIdentity::open(temp.path()).unwrap();
        assert_eq!(first.generation(), 0);
        first.set_generation(7).unwrap();
        let again = FolderIdentity::open(temp.path()).unwrap();
        assert_eq!((again.journal(), again.generation()), (first.journal(), 7));
        let other = tempfile::tempdir().unwrap();
        assert_ne!(FolderIdentity::open(other.path()).unwrap().journal(), first.journal());
    }

    #[test]
    fn a_damaged_identity_is_an_error_and_stays_as_it_is() {
        for (name, text) in [(ID, ""), (ID, "xyz"), (GENERATION, "-1"), (GENERATION, "")] {
            let temp = tempfile::tempdir().unwrap();
            fs::write(temp.path().join(name), text).unwrap();
            let error = FolderIdentity::open(temp.path()).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
            assert_eq!(fs::read_to_string(temp.path().join(name)).unwrap(), text);
        }
    }
}
