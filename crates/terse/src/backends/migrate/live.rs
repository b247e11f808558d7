//! Moves the files of a server that runs.
//!
//! While the server goes on, the command copies its links, and copies again what has changed since.
//! Then it keeps the server from writing (a lock of SQLite on each file), copies the rest, compares,
//! and releases the database to nodes. From the lock until the server is stopped, links redirect and
//! nothing can be changed. Clicks are locked from the beginning: they wait in the journal, which the
//! first node counts into the database.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use terse_core::LinkKey;
use terse_core::transfer::{Digest, MovedLink};
use terse_embedded::{DataDir, DataDirError, LinksFile, WriteLock};
use terse_postgres::DatabaseImport;
use tokio::runtime::Runtime;

use super::super::{MigratedCounts, embedded, postgres};
use super::{LINKS, Move};
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

struct Live<'a> {
    of: Move<'a>,
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
    let links = open_links(config)?;
    let clicks_lock = WriteLock::take(&config.clicks_file(), LOCK_WAIT)
        .context("keeping the server from counting clicks")?;
    say("clicks wait in the journal from now on".to_owned());
    let copy = CopyFolder::new(folder).context("creating a folder for a copy of the clicks")?;
    let mut copied = config.clone();
    (copied.data_dir, copied.clicks.store) = (copy.0.clone(), None);
    terse_embedded::backup_clicks(&config.clicks_file(), &copied.clicks_file())
        .context("copying the clicks")?;
    let options = postgres::options(config, to);
    let leases = links.leases().context("reading the links")?;
    let begun = DatabaseImport::begin(&options, links.identity(), &leases);
    let import = runtime.block_on(begun)?;
    let of = Move {
        config,
        options,
        links,
        clicks: runtime.block_on(embedded::open_clicks(&copied))?.0,
        clicks_file: copied.clicks_file(),
        runtime: &runtime,
        say,
    };
    let mut live = Live { of, import, chunks: Vec::new() };
    live.copy_links(MAX_ROUNDS)?;
    runtime.block_on(live.import.clear_clicks())?;
    let (subjects, clicks) = live.of.move_clicks(&live.import)?;
    live.copy_links(1)?;

    let read_only = Instant::now();
    let lock =
        |file: &Path| WriteLock::take(file, LOCK_WAIT).context("keeping the server from writing");
    let locks = (lock(&config.store_file())?, lock(&config.registry_file())?);
    say("the server is read-only from now on: links redirect, and nothing can be changed".into());
    live.of.links = open_links(config)?;
    let links = live.copy_changes()?.0;
    live.delete_purged(links)?;
    let leases = live.of.links.leases().context("reading the links")?;
    runtime.block_on(live.import.raise_leases(&leases))?;
    let rows = live.of.move_tables(&live.import)?;
    runtime.block_on(live.import.finish())?;
    say(format!(
        "everything is in the database, {} ms after the server became read-only. Now set store to \
         the database and restart the server: this command waits until it has stopped",
        read_only.elapsed().as_millis()
    ));
    let stopped = wait_for_end(folder, wait)?;
    let read_only_ms = u64::try_from(read_only.elapsed().as_millis()).unwrap_or(u64::MAX);
    drop((locks, clicks_lock));
    ensure!(
        stopped,
        "the server was not stopped for {} seconds and can write to its files again: what it \
         writes now is not in the database. Stop it, and use the database",
        wait.as_secs()
    );
    Ok(MigratedCounts { links, rows, subjects, clicks, read_only_ms: Some(read_only_ms) })
}

/// A folder for the copy of the clicks. Of a move that was killed, it is still there.
struct CopyFolder(PathBuf);

impl CopyFolder {
    fn new(folder: &DataDir) -> io::Result<Self> {
        let path = folder.path().join("migrating");
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => std::fs::create_dir(&path)?,
        }
        Ok(Self(path))
    }
}

impl Drop for CopyFolder {
    fn drop(&mut self) {
        let _left = std::fs::remove_dir_all(&self.0);
    }
}

fn open_links(config: &Config) -> anyhow::Result<LinksFile> {
    LinksFile::open(&config.store_file()).context("reading the links")
}

/// Whether the server has stopped in time.
fn wait_for_end(folder: &DataDir, wait: Duration) -> anyhow::Result<bool> {
    let begun = Instant::now();
    loop {
        match folder.lock() {
            Ok(_) => return Ok(true),
            Err(DataDirError::InUse { .. }) if begun.elapsed() < wait => {
                std::thread::sleep(POLL_INTERVAL);
            }
            Err(DataDirError::InUse { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

impl Live<'_> {
    /// Copies changed links until few change meanwhile.
    fn copy_links(&mut self, rounds: usize) -> anyhow::Result<()> {
        for _ in 0..rounds {
            self.of.links = open_links(self.of.config)?;
            let (links, changed) = self.copy_changes()?;
            (self.of.say)(format!("{links} links, {changed} of them written"));
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
            let some = self.of.links.links(after, LINKS).context("reading the links")?;
            let Some(last) = some.last() else { return Ok((links, written)) };
            let to = last.position;
            let count = some.len();
            links += count as u64;
            written += self.write(after, to, &[some])?;
            self.of.progress("links", links, count);
            // A long transaction would keep SQLite from shortening its log.
            self.of.links.refresh().context("reading the links")?;
            after = to;
        }
    }

    /// The links of a chunk now. There may be more or fewer than there were.
    fn pages(&self, mut after: i64, to: i64) -> anyhow::Result<Vec<Vec<MovedLink>>> {
        let mut pages = Vec::new();
        loop {
            let page = self.of.links.links_to(after, to, LINKS).context("reading the links")?;
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
            written += self.of.runtime.block_on(sync).context("writing links")?;
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
        let runtime = self.of.runtime;
        if runtime.block_on(self.import.count_links())? > links {
            let mut after: Option<LinkKey> = None;
            loop {
                let keys = runtime.block_on(self.import.keys(after.as_ref(), LINKS))?;
                let Some(last) = keys.last().cloned() else { break };
                let mut gone = Vec::new();
                for key in keys {
                    if !self.of.links.contains(&key).context("reading the links")? {
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
