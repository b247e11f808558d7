//! Which journal a folder holds, and how current the folder is.

use std::io;
use std::path::Path;
use std::sync::Arc;

use terse_core::clicks::JournalId;

use crate::disk::JournalDisk;

const ID: &str = "journal.id";
const GENERATION: &str = "journal.generation";

/// The identity of a journal's folder, in two small files beside the segments.
///
/// `journal.id` holds the journal's id. It is written once, before the first segment, or when the
/// folder of an earlier version without an id is opened. `journal.generation` holds a number that
/// rises before positions are forgotten, so that an old copy of the folder can be recognised.
#[derive(Debug)]
pub(crate) struct FolderIdentity {
    disk: Arc<dyn JournalDisk>,
    journal: JournalId,
    generation: u64,
}

impl FolderIdentity {
    /// Reads the identity of a folder, or gives it one.
    pub(crate) fn open(disk: Arc<dyn JournalDisk>) -> io::Result<Self> {
        let journal = match read(&*disk, ID)? {
            Some(text) => JournalId::parse(text.trim_end()).ok_or_else(|| {
                invalid(&disk.path_of(ID), "must hold the journal's id, 32 hexadecimal digits")
            })?,
            None => {
                let journal = JournalId::generate()?;
                write(&*disk, ID, &journal.to_string())?;
                journal
            }
        };
        let generation = match read(&*disk, GENERATION)? {
            Some(text) => text
                .trim_end()
                .parse()
                .map_err(|_| invalid(&disk.path_of(GENERATION), "must hold a whole number"))?,
            None => 0,
        };
        Ok(Self { disk, journal, generation })
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
        write(&*self.disk, GENERATION, &generation.to_string())?;
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

/// The longest content that the files of an identity can have.
const MAX_LENGTH: usize = 256;

fn read(disk: &dyn JournalDisk, name: &str) -> io::Result<Option<String>> {
    let mut bytes = [0; MAX_LENGTH];
    match disk.read(name, &mut bytes, 0) {
        Ok(read) => {
            let text = std::str::from_utf8(&bytes[..read]);
            let text = text.map_err(|_| invalid(&disk.path_of(name), "must hold text"))?;
            Ok(Some(text.to_owned()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file whole: after a power cut it has the old content or the new.
fn write(disk: &dyn JournalDisk, name: &str, text: &str) -> io::Result<()> {
    let temporary = format!("{name}.tmp");
    disk.write(&temporary, format!("{text}\n").as_bytes())?;
    disk.rename(&temporary, name)?;
    disk.sync()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::disk::FileSystem;

    fn open(folder: &Path) -> io::Result<FolderIdentity> {
        FolderIdentity::open(Arc::new(FileSystem::new(folder)))
    }

    #[test]
    fn a_folder_keeps_its_identity() {
        let temp = tempfile::tempdir().unwrap();
        let mut first = open(temp.path()).unwrap();
        assert_eq!(first.generation(), 0);
        first.set_generation(7).unwrap();
        let again = open(temp.path()).unwrap();
        assert_eq!((again.journal(), again.generation()), (first.journal(), 7));
        let other = tempfile::tempdir().unwrap();
        assert_ne!(open(other.path()).unwrap().journal(), first.journal());
    }

    #[test]
    fn a_damaged_identity_is_an_error_and_stays_as_it_is() {
        for (name, text) in [(ID, ""), (ID, "xyz"), (GENERATION, "-1"), (GENERATION, "")] {
            let temp = tempfile::tempdir().unwrap();
            fs::write(temp.path().join(name), text).unwrap();
            let error = open(temp.path()).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
            assert_eq!(fs::read_to_string(temp.path().join(name)).unwrap(), text);
        }
    }
}
