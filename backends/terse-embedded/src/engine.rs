//! Connections, set up as measured.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

/// Where a file is, and by which way it is reached.
#[derive(Clone, Debug)]
pub(crate) struct DbLocation {
    pub(crate) path: PathBuf,
    /// Another way to the file system.
    pub(crate) vfs: Option<String>,
    /// The largest the file may grow.
    pub(crate) max_pages: Option<u32>,
    pub(crate) unsafe_no_sync: bool,
}

impl DbLocation {
    /// The usual way.
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), vfs: None, max_pages: None, unsafe_no_sync: false }
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

/// Makes the file, readable by its owner alone, and makes sure that its name survives a power cut.
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
    close_quietly(&conn, true)?;
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
        let why = "a write-ahead log is not possible here: the file system offers no shared memory"
            .to_owned();
        return Err(rusqlite::Error::SqliteFailure(code, Some(why)));
    }
    // FULL syncs the log at every commit: what was acknowledged survives a power cut. On macOS a
    // sync needs asking twice. A log that a long backup let grow gives its room back.
    let synchronous = if site.unsafe_no_sync { "OFF" } else { "FULL" };
    conn.execute_batch(&format!(
        "PRAGMA synchronous = {synchronous}; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = \
         ON;
         PRAGMA cache_size = -65536; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY; PRAGMA \
         foreign_keys = OFF;
         PRAGMA journal_size_limit = 67108864;"
    ))?;
    if let Some(pages) = site.max_pages {
        conn.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))?;
    }
    // Instead of the automatic checkpoint, whose errors nobody hears and whose stall delays answers
    // already earned.
    let length = LogLength::default();
    let seen = length.clone();
    conn.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: std::ffi::c_int| {
        seen.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
        Ok(())
    }))?;
    Ok((conn, length))
}

/// Whether closing this connection leaves the log as it is. The last one to close would otherwise
/// copy it into the file and delete it: right at the end of an untroubled life, but not after a
/// sync has failed.
pub(crate) fn close_quietly(conn: &Connection, quietly: bool) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, quietly).map(|_| ())
}

/// A connection that only reads.
pub(crate) fn connect_reader(site: &DbLocation) -> rusqlite::Result<Connection> {
    let conn = open(site, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    conn.busy_timeout(Duration::from_secs(1))?;
    // A map of a file that is written at the same time halves reads; a larger cache is dropped at
    // every foreign commit.
    conn.execute_batch(
        "PRAGMA query_only = ON; PRAGMA cache_size = -16384; PRAGMA mmap_size = 0; \
        PRAGMA temp_store = MEMORY;",
    )?;
    Ok(conn)
}

/// A bare connection, which has changed nothing yet.
pub(crate) fn connect_bare(site: &DbLocation) -> rusqlite::Result<Connection> {
    open(site, OpenFlags::SQLITE_OPEN_READ_WRITE)
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

/// Moves the log into the file and leaves nothing in it. `Ok(false)` if somebody stood in the way.
pub(crate) fn empty_log(site: &DbLocation) -> rusqlite::Result<bool> {
    let (conn, _) = connect_writer(site)?;
    conn.busy_timeout(Duration::from_secs(1))?;
    checkpoint(&conn, "TRUNCATE")
}

/// How many pages of the log SQLite believes to be in the file already.
pub(crate) fn backfilled(conn: &Connection) -> rusqlite::Result<i64> {
    conn.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get(2))
}

/// Copies the log into the file. `Ok(false)` if a reader stood in the way of finishing.
pub(crate) fn checkpoint(conn: &Connection, how: &str) -> rusqlite::Result<bool> {
    let mut statement = conn.prepare_cached(&format!("PRAGMA wal_checkpoint({how})"))?;
    let busy: i64 = statement.query_row([], |row| row.get(0))?;
    Ok(busy == 0)
}
