//! Moves the files of a server that runs.
//!
//! While the server goes on, the command copies its links, and copies again what has changed since.
//! It then keeps the server from counting clicks and copies those: later ones wait in the journal,
//! which the first node counts into the database. At last it keeps the server from writing at all
//! (a lock of SQLite on each file), copies the rest, compares, and releases the database to nodes.
//! A fence in the files replaces the locks before: from then on links redirect and nothing can be
//! changed, also if the command is killed.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use terse_core::LinkKey;
use terse_core::transfer::{Digest, MovedLink};
use terse_embedded::{DataDir, DataDirError, LinksFile, LockGuard, WriteLock};
use terse_postgres::DatabaseImport;
use tokio::runtime::Runtime;

use super::super::{MigratedCounts, embedded, postgres};
use super::{LINKS, Move, progress};
use crate::config::{Config, PostgresUrl};

/// How long a write of the server may be under way.
const LOCK_WAIT: Duration = Duration::from_secs(30);
/// Rounds before the server is kept from writing: each copies what the one before took.
const MAX_ROUNDS: usize = 5;
/// With fewer changes in a round, the next is the last.
const FEW_CHANGES: u64 = 200;
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Consecutive links, as they were when they were read last.
struct Chunk {
    /// Positions after this.
    after: i64,
    /// Up to this.
    to: i64,
    links: Digest,
}

/// Copies the links of a server that changes them meanwhile.
struct Links<'a> {
    config: &'a Config,
    runtime: &'a Runtime,
    say: &'a dyn Fn(String),
    links: LinksFile,
    import: DatabaseImport,
    chunks: Vec<Chunk>,
}

/// Moves everything, and returns when the server has stopped, or after `wait`.
pub(super) fn migrate(
    config: &Config,
    to: &PostgresUrl,
    folder: &DataDir,
    wait: Duration,
    say: &dyn Fn(String),
) -> anyhow::Result<MigratedCounts> {
    let runtime = Runtime::new().context("starting the threads")?;
    let server = RunningServer::of(folder)?;
    let links = open_links(config)?;
    let options = postgres::transfer_options(config, to);
    let leases = links.leases().context("reading the links")?;
    let begun = DatabaseImport::begin(&options, links.identity(), &leases);
    let import = runtime.block_on(begun)?;
    let files = [config.store_file(), config.registry_file(), config.clicks_file()];
    // Of a move that was killed just before its end.
    files.iter().try_for_each(|file| terse_embedded::remove_fence(file))?;
    let mut copier = Links { config, runtime: &runtime, say, links, import, chunks: Vec::new() };
    copier.copy(MAX_ROUNDS)?;

    let clicks_lock = WriteLock::take(&config.clicks_file(), LOCK_WAIT)
        .context("keeping the server from counting clicks")?;
    say("clicks wait in the journal from now on".to_owned());
    let copy = CopyFolder::new(folder).context("creating a folder for a copy of the clicks")?;
    let mut copied = config.clone();
    (copied.data_dir, copied.clicks.store) = (copy.folder.path().to_owned(), None);
    terse_embedded::backup_clicks(&config.clicks_file(), &copied.clicks_file())
        .context("copying the clicks")?;
    let of = Move {
        config,
        options,
        links: open_links(config)?,
        clicks: runtime.block_on(embedded::open_clicks(&copied))?.0,
        clicks_file: copied.clicks_file(),
        journal: Some(JournalWatch::new(config)),
        runtime: &runtime,
        say,
    };
    runtime.block_on(copier.import.clear_clicks())?;
    let (subjects, clicks) = of.move_clicks(&copier.import)?;
    copier.copy(1)?;
    if let Some(journal) = &of.journal {
        journal.check()?;
    }

    let read_only = Instant::now();
    let lock =
        |file: &Path| WriteLock::take(file, LOCK_WAIT).context("keeping the server from writing");
    let locks = [lock(&config.store_file())?, lock(&config.registry_file())?, clicks_lock];
    say("the server is read-only from now on: links redirect, and nothing can be changed".into());
    copier.links = open_links(config)?;
    let links = copier.copy_changes()?.0;
    copier.delete_purged(links)?;
    if let Some(journal) = &of.journal {
        journal.check()?;
    }
    let leases = copier.links.leases().context("reading the links")?;
    runtime.block_on(copier.import.raise_leases(&leases))?;
    let rows = of.move_tables(&copier.import)?;
    for lock in locks {
        lock.fence().context("keeping the server from writing")?;
    }
    if let Err(error) = runtime.block_on(copier.import.finish()) {
        // The answer may be lost, and not the commit. Only one of both sides may accept writes.
        match runtime.block_on(copier.import.is_finished()) {
            Ok(true) => {}
            Ok(false) => {
                files.iter().try_for_each(|file| terse_embedded::remove_fence(file))?;
                return Err(error.into());
            }
            Err(_) => {
                return Err(anyhow::Error::from(error).context(
                    "whether the database has everything is not known, so the files stay closed to \
                     writes. When the database answers again, run the command again: if it says \
                     that the move has finished, set store to the database; otherwise it continues",
                ));
            }
        }
    }
    say(format!(
        "everything is in the database, {} ms after the server became read-only. Now set store to \
         the database and restart the server: this command waits until it has stopped",
        read_only.elapsed().as_millis()
    ));
    let stopped = server.wait_for_end(folder, wait)?;
    let read_only_ms = u64::try_from(read_only.elapsed().as_millis()).unwrap_or(u64::MAX);
    ensure!(
        stopped,
        "everything is in the database, and the server was not stopped for {} seconds. It stays \
         read-only: set store to the database, and restart it",
        wait.as_secs()
    );
    Ok(MigratedCounts { links, rows, subjects, clicks, read_only_ms: Some(read_only_ms) })
}

/// A server that was running when the move began.
struct RunningServer {
    pid: Option<u32>,
    /// The key that it has written for commands: another one for each run.
    key: Option<String>,
}

impl RunningServer {
    fn of(folder: &DataDir) -> anyhow::Result<Self> {
        let pid = match folder.lock() {
            Err(DataDirError::InUse { pid, .. }) => pid,
            locked => locked.map(|_| None)?,
        };
        Ok(Self { pid, key: run_key(folder) })
    }

    /// Whether the server has stopped in time. Another one may run on the folder by then.
    fn wait_for_end(&self, folder: &DataDir, wait: Duration) -> anyhow::Result<bool> {
        let begun = Instant::now();
        loop {
            // Process ids of containers are often the same. The file is missing while a server
            // starts.
            let key = run_key(folder);
            if self.key.is_some() && key.is_some() && key != self.key {
                return Ok(true);
            }
            match folder.lock() {
                Ok(_) => return Ok(true),
                Err(DataDirError::InUse { pid, .. }) if pid.is_some() && pid != self.pid => {
                    return Ok(true);
                }
                Err(DataDirError::InUse { .. }) if begun.elapsed() < wait => {
                    std::thread::sleep(POLL_INTERVAL);
                }
                Err(DataDirError::InUse { .. }) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn run_key(folder: &DataDir) -> Option<String> {
    folder.read_run().ok().flatten().map(|run| run.key)
}

/// The journal in which clicks wait while they are copied. A full journal drops clicks.
pub(super) struct JournalWatch {
    folder: PathBuf,
    limit: u64,
    /// Its size when clicks began to wait: parts of it may be reserved, and empty.
    at_first: u64,
}

impl JournalWatch {
    fn new(config: &Config) -> Self {
        let folder = config.data_dir.join("journal");
        let at_first = size_of(&folder);
        Self { folder, limit: config.clicks.journal_size.bytes(), at_first }
    }

    /// An error if the journal is nearly full: the server must count again.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let size = size_of(&self.folder);
        ensure!(
            size <= self.at_first || size < self.limit / 5 * 4,
            "the clicks that wait have nearly filled the journal: the server counts them again. \
             Raise clicks.journal_size ({} bytes), restart the server, and run the command again; \
             or stop the server and move without --live",
            self.limit
        );
        Ok(())
    }
}

fn size_of(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

/// A folder for the copy of the clicks. A server that starts removes one that a killed move has
/// left, which nothing locks.
struct CopyFolder {
    folder: DataDir,
    _lock: LockGuard,
}

impl CopyFolder {
    fn new(folder: &DataDir) -> anyhow::Result<Self> {
        let path = folder.path().join(embedded::MIGRATING);
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let folder = DataDir::open(&path)?;
        Ok(Self { _lock: folder.lock()?, folder })
    }
}

impl Drop for CopyFolder {
    fn drop(&mut self) {
        let _left = std::fs::remove_dir_all(self.folder.path());
    }
}

fn open_links(config: &Config) -> anyhow::Result<LinksFile> {
    LinksFile::open(&config.store_file()).context("reading the links")
}

impl Links<'_> {
    /// Copies changed links until few change meanwhile.
    fn copy(&mut self, rounds: usize) -> anyhow::Result<()> {
        for _ in 0..rounds {
            self.links = open_links(self.config)?;
            let (links, changed) = self.copy_changes()?;
            (self.say)(format!("{links} links, {changed} of them written"));
            if changed < FEW_CHANGES {
                break;
            }
        }
        Ok(())
    }

    /// Compares all links with the last round and writes what differs. Returns how many links there
    /// are, and how many were written.
    fn copy_changes(&mut self) -> anyhow::Result<(u64, u64)> {
        let (mut links, mut written, mut after) = (0, 0, i64::MIN);
        let known = std::mem::take(&mut self.chunks);
        for chunk in known {
            after = chunk.to;
            let pages = self.pages(chunk.after, chunk.to)?;
            let mut now = Digest::default();
            pages.iter().flatten().for_each(|moved| moved.digest(&mut now));
            links += now.count;
            if now == chunk.links {
                self.chunks.push(chunk);
            } else {
                written += self.write(chunk.after, chunk.to, &pages)?;
            }
        }
        loop {
            let some = self.links.links(after, LINKS).context("reading the links")?;
            let Some(last) = some.last() else { return Ok((links, written)) };
            let to = last.position;
            let count = some.len();
            links += count as u64;
            written += self.write(after, to, &[some])?;
            progress(self.say, "links", links, count);
            // A long transaction would keep SQLite from shortening its log.
            self.links.refresh().context("reading the links")?;
            after = to;
        }
    }

    /// The links of a chunk now. There may be more or fewer than there were.
    fn pages(&self, mut after: i64, to: i64) -> anyhow::Result<Vec<Vec<MovedLink>>> {
        let mut pages = Vec::new();
        loop {
            let page = self.links.links_to(after, to, LINKS).context("reading the links")?;
            let Some(last) = page.last() else { return Ok(pages) };
            after = last.position;
            pages.push(page);
        }
    }

    /// Writes the links of a stretch that differ from the database, as new chunks.
    fn write(&mut self, mut after: i64, to: i64, pages: &[Vec<MovedLink>]) -> anyhow::Result<u64> {
        let mut written = 0;
        for (n, page) in pages.iter().enumerate() {
            let sync = self.import.sync_links(page);
            written += self.runtime.block_on(sync).context("writing links")?;
            let mut links = Digest::default();
            page.iter().for_each(|moved| moved.digest(&mut links));
            let is_last = n + 1 == pages.len();
            let end = if is_last { to } else { page.last().map_or(to, |moved| moved.position) };
            self.chunks.push(Chunk { after, to: end, links });
            after = end;
        }
        if pages.is_empty() {
            self.chunks.push(Chunk { after, to, links: Digest::default() });
        }
        Ok(written)
    }

    /// Deletes links that were purged since they were copied. The server writes nothing meanwhile.
    fn delete_purged(&self, links: u64) -> anyhow::Result<()> {
        let runtime = self.runtime;
        if runtime.block_on(self.import.count_links())? > links {
            let mut after: Option<LinkKey> = None;
            loop {
                let keys = runtime.block_on(self.import.keys(after.as_ref(), LINKS))?;
                let Some(last) = keys.last().cloned() else { break };
                let mut gone = Vec::new();
                for key in keys {
                    if !self.links.contains(&key).context("reading the links")? {
                        gone.push(key);
                    }
                }
                runtime.block_on(self.import.delete_links(&gone))?;
                after = Some(last);
            }
        }
        let found = runtime.block_on(self.import.count_links())?;
        ensure!(found == links, "there are {links} links, and {found} in the database");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_gives_up_before_the_journal_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let holds = |bytes: usize| {
            std::fs::write(folder.path().join("1.seg"), vec![0; bytes]).unwrap();
        };
        let watch = |at_first| JournalWatch { folder: folder.path().into(), limit: 1000, at_first };
        holds(799);
        watch(100).check().unwrap();
        holds(800);
        let full = watch(100).check().unwrap_err().to_string();
        assert!(full.contains("Raise clicks.journal_size"), "{full}");
        // What was reserved before clicks began to wait is no sign.
        watch(800).check().unwrap();
        holds(801);
        watch(800).check().unwrap_err();
    }
}
