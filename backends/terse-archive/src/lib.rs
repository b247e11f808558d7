//! Objects on S3 or in a folder, and the archive of single clicks in Parquet files.
//!
//! [`Storage`] reads and writes objects. [`ArchiveJob`] copies finished hours of the click store
//! into Parquet files, [`Archive`] lists and reads them.
//!
//! A file holds the clicks of a fixed range of time, and its name says which: a file that is
//! written again replaces itself. Its content depends on the clicks alone, whatever the order in
//! which the store returns them.

mod archive;
mod counts;
mod erase;
mod http_client;
mod job;
mod late;
mod layout;
mod parquet_file;
mod progress;
mod range_reader;
mod storage;
mod storage_url;
mod table;

pub use archive::{Archive, ArchiveError, ArchiveQuery, ArchivedFile};
pub use counts::ArchiveCounts;
pub use job::{ArchiveJob, ArchiveJobParts};
pub use storage::{S3Options, Storage, StorageError, StoredObject, Written};
pub use storage_url::{StorageUrl, StorageUrlError};
