//! The archive as readers see it: which files there are, and the clicks of a link or a period.

use std::sync::Arc;

use terse_core::clicks::{Click, Period};
use terse_core::{BoxError, LinkKey, Timestamp};

use crate::job::blocking;
use crate::layout::{FileRange, ROOT};
use crate::parquet_file::{All, ClickFile, Filter, GroupFilter, kind_word};
use crate::range_reader::RangeReader;
use crate::storage::{Storage, StorageError, StoredObject};
use crate::table::{CODE, ClickTable, DOMAIN, TableRow};

/// Why a file of the archive cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A file is damaged, or terse did not write it.
    #[error("{file}: {source}")]
    File {
        /// Its name.
        file: String,
        /// What is wrong.
        source: BoxError,
    },
}

/// A file of the archive.
#[derive(Clone, Debug)]
pub struct ArchivedFile {
    /// Its name in the storage.
    pub name: String,
    /// The start of the time whose clicks it holds.
    pub from: Timestamp,
    /// The end, exclusive.
    pub to: Timestamp,
    /// Its size in bytes.
    pub octets: u64,
    /// When it was written.
    pub written_at: Timestamp,
    object: StoredObject,
}

/// Which clicks to read.
#[derive(Clone, Debug, Default)]
pub struct ArchiveQuery {
    /// Only clicks of links with this key.
    pub link: Option<LinkKey>,
    /// Only clicks of this period, to the millisecond.
    pub period: Period,
}

impl ArchiveQuery {
    fn touches(&self, file: &ArchivedFile) -> bool {
        self.period.from.is_none_or(|from| file.to > from)
            && self.period.to.is_none_or(|to| file.from < to)
    }
}

impl Filter for ArchiveQuery {
    fn may_hold(&self, group: &GroupFilter<'_>) -> bool {
        self.link.as_ref().is_none_or(|link| group.may_hold_code(link.code.as_str()))
    }

    fn keeps(&self, table: &ClickTable, row: &TableRow) -> bool {
        let is = |column: usize, wanted: &str| {
            table.text(row.texts[column]).map_or("", |text| text) == wanted
        };
        let is_link =
            |link: &LinkKey| is(CODE, link.code.as_str()) && is(DOMAIN, link.domain.as_str());
        self.link.as_ref().is_none_or(is_link)
            && self.period.from.is_none_or(|from| row.at >= from.as_ms())
            && self.period.to.is_none_or(|to| row.at < to.as_ms())
    }
}

/// The files of an archive.
#[derive(Clone, Debug)]
pub struct Archive {
    storage: Storage,
}

impl Archive {
    /// The archive in this storage.
    pub fn new(storage: Storage) -> Self {
        Self { storage }
    }

    /// All files that hold clicks of a period, the earliest first.
    pub async fn files(&self, query: &ArchiveQuery) -> Result<Vec<ArchivedFile>, StorageError> {
        let mut files = Vec::new();
        for object in self.storage.list(ROOT).await? {
            let Some(range) = FileRange::parse(&object.name) else { continue };
            let file = ArchivedFile {
                name: object.name.clone(),
                from: range.from,
                to: range.to(),
                octets: object.size,
                written_at: object.written_at,
                object,
            };
            if query.touches(&file) {
                files.push(file);
            }
        }
        files.sort_by_key(|file| file.from);
        Ok(files)
    }

    /// How many clicks a file holds.
    pub async fn count(&self, file: &ArchivedFile) -> Result<u64, ArchiveError> {
        let reader = RangeReader::open(&self.storage, &file.object).await?;
        let count = blocking(move || Ok(ClickFile::open(reader)?.len())).await;
        count.map_err(|source| ArchiveError::File { file: file.name.clone(), source })
    }

    /// The clicks of one file that a query asks for, the earliest first.
    pub async fn read(
        &self,
        file: &ArchivedFile,
        query: &ArchiveQuery,
    ) -> Result<Vec<Click>, ArchiveError> {
        let damaged = |source| ArchiveError::File { file: file.name.clone(), source };
        let reader = RangeReader::open(&self.storage, &file.object).await?;
        let query = Arc::new(query.clone());
        let read = blocking(move || {
            let mut table = ClickTable::default();
            ClickFile::open(reader)?.read_into(&mut table, &*query)?;
            table.rows.sort_by_key(|row| row.at);
            Ok(table.rows.iter().filter_map(|row| table.click(row)).collect())
        });
        read.await.map_err(damaged)
    }

    /// Reads a whole file, to find out whether it is sound. Returns how many clicks it has.
    pub async fn verify(&self, file: &ArchivedFile) -> Result<u64, ArchiveError> {
        let damaged = |source| ArchiveError::File { file: file.name.clone(), source };
        let content = self.storage.get(&file.name).await?;
        let (from, to) = (file.from.as_ms(), file.to.as_ms());
        let read = blocking(move || {
            let mut table = ClickTable::default();
            ClickFile::open(content)?.read_into(&mut table, &All)?;
            let is_in = |row: &TableRow| (from..to).contains(&row.at);
            match table.rows.iter().all(is_in) {
                true => Ok(table.rows.len() as u64),
                false => Err("a click is not of the time that the name says".into()),
            }
        });
        read.await.map_err(damaged)
    }

    /// The word for who clicked, as in the column `kind`.
    pub fn kind(click: &Click) -> &'static str {
        kind_word(click.kind())
    }
}
