//! Connections to SQLite, with settings chosen by measurement.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use terse_core::StoreError;

/// A database file and how to open it.
#[derive(Clone, Debug)]
pub(crate) struct DbLocation {
    pub(crate) path: PathBuf,
    /// A VFS of SQLite instead of the default one.
    pub(crate) vfs: Option<String>,
    /// The largest the file may grow.
    pub(crate) max_pages: Option<u32>,
    pub(crate) unsafe_no_sync: bool,
    pub(crate) caches: CacheSizes,
}

/// The page caches of a file's connections, in KiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheSizes {
    writer: u64,
    reader: u64,
}

impl CacheSizes {
    /// SQLite drops a larger cache of a reader at every commit of the writer.
    const MAX_READER: u64 = 16 << 10;

    /// Half of the bytes for the writer, the rest for the readers.
    pub(crate) fn of(bytes: u64, readers: usize) -> Self {
        let half = bytes / 2 / 1024;
        Self { writer: half, reader: (half / readers.max(1) as u64).min(Self::MAX_READER) }
    }
}

impl DbLocation {
    /// The default settings.
    pub(crate) fn at(path: &Path) -> Self {
        let caches = CacheSizes { writer: 64 << 10, reader: CacheSizes::MAX_READER };
        Self { path: path.to_owned(), vfs: None, max_pages: None, unsafe_no_sync: false, caches }
    }

    /// How many bytes the file takes on the disk, its log included.
    pub(crate) fn disk_size(&self) -> u64 {
        let beside = ["", "-wal", "-shm"].iter().filter_map(|suffix| {
            let mut path = self.path.clone().into_os_string();
            path.push(suffix);
            std::fs::metadata(path).ok()
        });
        beside.map(|file| file.len()).sum()
    }
}

/// Creates the file, readable by its owner only, and syncs its name to the disk.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(file) => file.sync_all()?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    }
    sync_folder_of(path)
}

/// Makes a new name in a folder durable.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// How many pages the write-ahead log holds, as of the last commit.
pub(crate) type LogLength = Arc<AtomicU32>;

/// The connection that writes.
pub(crate) fn connect_writer(site: &DbLocation) -> rusqlite::Result<(Connection, LogLength)> {
    let mut conn = open(site, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    conn.busy_timeout(Duration::from_secs(5))?;
    keep_log_on_close(&conn, true)?;
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
        let why = "a write-ahead log is not possible here: the file system offers no shared memory"
            .to_owned();
        return Err(rusqlite::Error::SqliteFailure(code, Some(why)));
    }
    // FULL syncs the log at every commit, so acknowledged writes survive a power cut. macOS needs
    // the fullfsync options too. The size limit shrinks a log that grew during a long backup.
    let cache = site.caches.writer;
    let synchronous = if site.unsafe_no_sync { "OFF" } else { "FULL" };
    conn.execute_batch(&format!(
        "PRAGMA synchronous = {synchronous}; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = \
         ON;
         PRAGMA cache_size = -{cache}; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY; PRAGMA \
         foreign_keys = OFF;
         PRAGMA journal_size_limit = 67108864;"
    ))?;
    if let Some(pages) = site.max_pages {
        conn.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))?;
    }
    // Replaces the automatic checkpoint, which hides its errors and delays answers to committed
    // writes.
    let length = LogLength::default();
    let seen = length.clone();
    conn.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: std::ffi::c_int| {
        seen.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
        Ok(())
    }))?;
    Ok((conn, length))
}

/// Sets whether closing this connection leaves the log as it is. By default, the last connection to
/// close copies the log into the file and deletes it: correct at a normal end, but not after a
/// failed sync.
pub(crate) fn keep_log_on_close(conn: &Connection, quietly: bool) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, quietly).map(|_| ())
}

/// A read-only connection.
pub(crate) fn connect_reader(site: &DbLocation) -> rusqlite::Result<Connection> {
    let conn = open(site, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    conn.busy_timeout(Duration::from_secs(1))?;
    // Mapping a file that is written at the same time halves read throughput. SQLite drops a larger
    // cache at every commit of another connection.
    let cache = site.caches.reader;
    conn.execute_batch(&format!(
        "PRAGMA query_only = ON; PRAGMA cache_size = -{cache}; PRAGMA mmap_size = 0; \
        PRAGMA temp_store = MEMORY;"
    ))?;
    Ok(conn)
}

/// A connection without any settings applied. Closing it leaves the log as it is.
pub(crate) fn connect_bare(site: &DbLocation) -> rusqlite::Result<Connection> {
    let conn = open(site, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    keep_log_on_close(&conn, true)?;
    Ok(conn)
}

fn open(site: &DbLocation, access: OpenFlags) -> rusqlite::Result<Connection> {
    crate::memory::stop_counting();
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = match &site.vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(&site.path, flags, vfs.as_str())?,
        None => Connection::open_with_flags(&site.path, flags)?,
    };
    conn.set_prepared_statement_cache_capacity(64);
    Ok(conn)
}

/// Moves the whole log into the file and empties it. `Ok(false)` if another connection prevents it.
pub(crate) fn empty_log(site: &DbLocation) -> rusqlite::Result<bool> {
    let (conn, _) = connect_writer(site)?;
    conn.busy_timeout(Duration::from_secs(1))?;
    checkpoint(&conn, "TRUNCATE")
}

/// How often, and how long apart, an attempt to empty the log is repeated.
const SCRUB_ATTEMPTS: u32 = 20;
const SCRUB_PAUSE: Duration = Duration::from_millis(100);

/// Empties the log, so that deleted content is in no file: the writer overwrites it in the pages.
/// `Busy` if readers prevent it for too long.
pub(crate) async fn scrub(site: &DbLocation) -> Result<(), StoreError> {
    scrub_by(site, empty_log).await
}

/// The same, with another function that empties the log.
pub(crate) async fn scrub_by(
    site: &DbLocation,
    empty_log: impl Fn(&DbLocation) -> rusqlite::Result<bool> + Clone + Send + 'static,
) -> Result<(), StoreError> {
    for _ in 0..SCRUB_ATTEMPTS {
        let (site, empty_log) = (site.clone(), empty_log.clone());
        match tokio::task::spawn_blocking(move || empty_log(&site)).await {
            Ok(Ok(true)) => return Ok(()),
            Ok(Ok(false)) => tokio::time::sleep(SCRUB_PAUSE).await,
            Ok(Err(error)) => return Err(StoreError::Unavailable(error.into())),
            Err(stopping) => return Err(StoreError::Unavailable(stopping.into())),
        }
    }
    Err(StoreError::Busy)
}

/// How many pages of the log SQLite believes to be in the file already.
pub(crate) fn backfilled(conn: &Connection) -> rusqlite::Result<i64> {
    conn.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get(2))
}

/// How many frames SQLite finds in the log of a file.
pub(crate) fn log_frames(site: &DbLocation) -> rusqlite::Result<u64> {
    if !site.path.exists() {
        return Ok(0);
    }
    let conn = connect_bare(site)?;
    // Makes SQLite read the log.
    conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    let frames: i64 = conn.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get(1))?;
    Ok(u64::try_from(frames).unwrap_or(0))
}

/// Copies the log into the file. `Ok(false)` if a reader prevented it from finishing.
pub(crate) fn checkpoint(conn: &Connection, how: &str) -> rusqlite::Result<bool> {
    let mut statement = conn.prepare_cached(&format!("PRAGMA wal_checkpoint({how})"))?;
    let busy: i64 = statement.query_row([], |row| row.get(0))?;
    Ok(busy == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_caches_of_all_connections_stay_within_their_share() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("links.db");
        create(&path).unwrap();
        for (bytes, readers) in [(4 << 20, 3), (8 << 20, 1), (64 << 20, 5), (1 << 30, 8)] {
            let site =
                DbLocation { caches: CacheSizes::of(bytes, readers), ..DbLocation::at(&path) };
            let (writer, _) = connect_writer(&site).unwrap();
            let cache = |conn: &Connection| {
                // A negative number is in KiB.
                let size = conn.query_row("PRAGMA cache_size", [], |row| row.get::<_, i64>(0));
                (-size.unwrap()).cast_unsigned() * 1024
            };
            let all: u64 = (0..readers).map(|_| cache(&connect_reader(&site).unwrap())).sum();
            let all = all + cache(&writer);
            assert!(all <= bytes && all > bytes / 2, "{all} of {bytes}");
        }
    }
}
