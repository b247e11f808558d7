//! Moves the files of an embedded store into an empty PostgreSQL database; [`to_files`] moves a
//! database into files.
//!
//! The command locks the data folder meanwhile, so that nothing changes; [`live`] moves the files
//! of a server that runs. A move that was interrupted continues where it stopped. In the end the
//! command reads everything back and compares it; only then do nodes start on the database.

mod live;
mod to_files;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use terse_core::clicks::{Bucket, ClickReport, ClickReports, ClickSubject, Period, RawQuery, Unit};
use terse_core::transfer::{Digest, MovedSums, StoreFile, TABLES, Table};
use terse_core::{OwnerId, Timestamp};
use terse_embedded::{DataDir, DataDirError, EmbeddedClicks, LinksFile, TablesFile};
use terse_postgres::{DatabaseImport, PostgresOptions};
use tokio::runtime::Runtime;

use self::live::JournalWatch;
use super::{MigratedCounts, Migration, embedded, postgres};
use crate::config::{Config, PostgresUrl, StoreUrl};

/// How many links or rows are written in one transaction.
const LINKS: usize = 500;
const ROWS: usize = 1000;
const CLICKS: usize = 1000;
/// How many links, rows or subjects pass between two reports of progress.
const REPORTED: u64 = 100_000;

/// Moves everything.
pub(crate) fn migrate(
    config: &Config,
    migration: &Migration,
    say: &dyn Fn(String),
) -> anyhow::Result<MigratedCounts> {
    let mut config = config.clone();
    match (&migration.from, &migration.to) {
        (StoreUrl::File(_), StoreUrl::Postgres(to)) => {
            config.store = migration.from.clone();
            to_database(&config, to, migration.live, say)
        }
        (StoreUrl::Postgres(from), StoreUrl::File(_)) => {
            ensure!(migration.live.is_none(), "--live moves a server that runs on files");
            config.store = migration.from.clone();
            ensure!(
                config.clicks_database() == Some(from),
                "the clicks are in another store (clicks.store): only clicks in the same database \
                 can be moved"
            );
            ensure!(
                config.clicks.bus.is_none(),
                "clicks may still be on their way (clicks.bus): wait until `terse doctor` finds no lag, stop \
                 the workers, and take clicks.bus out of the settings"
            );
            (config.store, config.clicks.store) = (migration.to.clone(), None);
            to_files::migrate(&config, from, say)
        }
        (from, to) => anyhow::bail!(
            "data moves from files into PostgreSQL (--to postgres://…), or back (--from \
             postgres://… --to file:terse.db), not from {from} to {to}"
        ),
    }
}

/// Lets the files be used again after a move of a server that ran.
pub(crate) fn undo(config: &Config) -> anyhow::Result<()> {
    let folder = DataDir::existing(&config.data_dir)
        .with_context(|| format!("there is no folder {}", config.data_dir.display()))?;
    let _lock = folder.lock().context("stop the server first")?;
    for file in [config.store_file(), config.registry_file(), config.clicks_file()] {
        terse_embedded::remove_fence(&file)
            .with_context(|| format!("changing {}", file.display()))?;
    }
    Ok(())
}

/// Moves files into a database. With `live`, a server may run: then this returns when the server
/// has stopped, and waits for that at most as long as `live` says.
fn to_database(
    config: &Config,
    to: &PostgresUrl,
    live: Option<Duration>,
    say: &dyn Fn(String),
) -> anyhow::Result<MigratedCounts> {
    let folder = DataDir::existing(&config.data_dir)
        .filter(|_| config.has_store())
        .with_context(|| format!("there is no store in {}", config.data_dir.display()))?;
    let _lock = match (folder.lock(), live) {
        (Err(DataDirError::InUse { .. }), Some(wait)) => {
            return live::migrate(config, to, &folder, wait, say);
        }
        (lock, _) => lock.context(
            "stop the server first, so that nothing changes meanwhile, or move with --live",
        )?,
    };
    let runtime = Runtime::new().context("starting the threads")?;
    // Like the start of a server: upgrades the files, and skips codes and account ids that lost
    // writes may have issued.
    (runtime.block_on(embedded::open(config))?.close)();
    Move {
        config,
        options: postgres::transfer_options(config, to),
        links: LinksFile::open(&config.store_file()).context("reading the links")?,
        clicks: runtime.block_on(embedded::open_clicks(config))?.0,
        clicks_file: config.clicks_file(),
        journal: None,
        runtime: &runtime,
        say,
    }
    .run()
}

struct Move<'a> {
    config: &'a Config,
    options: PostgresOptions,
    links: LinksFile,
    clicks: Arc<EmbeddedClicks>,
    /// The file of these clicks. It may be a copy.
    clicks_file: PathBuf,
    /// Where the clicks of a server that runs wait meanwhile.
    journal: Option<JournalWatch>,
    runtime: &'a Runtime,
    say: &'a dyn Fn(String),
}

impl Drop for Move<'_> {
    fn drop(&mut self) {
        self.clicks.close();
    }
}

impl Move<'_> {
    fn run(&self) -> anyhow::Result<MigratedCounts> {
        let leases = self.links.leases().context("reading the links")?;
        let begun = DatabaseImport::begin(&self.options, self.links.identity(), &leases);
        let mut import = self.runtime.block_on(begun)?;
        if import.position() > i64::MIN {
            (self.say)("continuing an earlier move".to_owned());
        }
        let links = self.move_links(&mut import)?;
        let rows = self.move_tables(&import)?;
        let (subjects, clicks) = self.move_clicks(&import)?;
        self.runtime.block_on(import.finish())?;
        Ok(MigratedCounts { links, rows, subjects, clicks, read_only_ms: None })
    }

    fn progress(&self, what: &str, done: u64, some: usize) {
        progress(self.say, what, done, some);
    }

    fn move_links(&self, import: &mut DatabaseImport) -> anyhow::Result<u64> {
        let (mut position, mut read) = (i64::MIN, Digest::default());
        loop {
            let some = self.links.links(position, LINKS).context("reading the links")?;
            let Some(last) = some.last() else { break };
            position = last.position;
            some.iter().for_each(|moved| moved.digest(&mut read));
            // Those that an earlier attempt has written are only read.
            let new = some.partition_point(|moved| moved.position <= import.position());
            self.runtime.block_on(import.put_links(&some[new..])).context("writing links")?;
            self.progress("links", read.count, some.len());
        }
        let written = self.runtime.block_on(import.links_digest()).context("reading links back")?;
        compare("links", read, written)?;
        Ok(read.count)
    }

    fn move_tables(&self, import: &DatabaseImport) -> anyhow::Result<u64> {
        let mut rows = 0;
        for part in [StoreFile::Links, StoreFile::Registry, StoreFile::Clicks] {
            let file = match part {
                StoreFile::Links => self.config.store_file(),
                StoreFile::Registry => self.config.registry_file(),
                StoreFile::Clicks => self.config.clicks_file(),
            };
            let opened = TablesFile::open(&file, part);
            let file = opened.with_context(|| format!("reading {}", file.display()))?;
            for table in TABLES.iter().filter(|table| table.part == part) {
                rows += self
                    .move_table(import, &file, table)
                    .with_context(|| format!("moving the table {}", table.name))?;
            }
        }
        Ok(rows)
    }

    fn move_table(
        &self,
        import: &DatabaseImport,
        file: &TablesFile,
        table: &Table,
    ) -> anyhow::Result<u64> {
        self.runtime.block_on(import.clear(table))?;
        let mut read = Digest::default();
        file.rows(table, ROWS, |rows| -> anyhow::Result<()> {
            rows.iter().for_each(|row| read.add_row(row));
            self.progress(table.name, read.count, rows.len());
            Ok(self.runtime.block_on(import.put_rows(table, &rows))?)
        })?;
        if table.numbered {
            let last = file.last_number(table)?;
            self.runtime.block_on(import.set_last_number(table, last))?;
        }
        let written = self.runtime.block_on(import.digest(table))?;
        compare(table.name, read, written)?;
        Ok(read.count)
    }

    /// Returns how many subjects have sums, and how many single clicks there are.
    fn move_clicks(&self, import: &DatabaseImport) -> anyhow::Result<(u64, u64)> {
        let file = TablesFile::open(&self.clicks_file, StoreFile::Clicks)?;
        let written = self.runtime.block_on(import.clicks(&self.options))?;
        let (mut after, mut subjects, mut clicks) = (i64::MIN, 0_u64, 0_u64);
        loop {
            let some = file.subjects(after, ROWS).context("reading the clicks")?;
            let Some((last, ..)) = some.last() else { break };
            after = *last;
            for (_, subject, owner) in &some {
                let moved = self.move_subject(import, &written, subject, *owner);
                clicks += self
                    .runtime
                    .block_on(moved)
                    .with_context(|| format!("moving the clicks of {subject:?}"))?;
                if let Some(journal) = &self.journal {
                    journal.check()?;
                }
            }
            subjects += some.len() as u64;
            self.progress("sums of clicks", subjects, some.len());
        }
        let found = self.runtime.block_on(import.single_clicks())?;
        ensure!(found == clicks, "there are {clicks} single clicks, and {found} were written");
        Ok((subjects, clicks))
    }

    /// Returns how many single clicks the subject has.
    async fn move_subject(
        &self,
        import: &DatabaseImport,
        written: &dyn ClickReports,
        subject: &ClickSubject,
        owner: OwnerId,
    ) -> anyhow::Result<u64> {
        let now = Timestamp::from_ms(0);
        let report = |period| self.clicks.report(subject, period, now);
        let total = report(Period::default()).await?;
        let mut buckets = Vec::with_capacity(total.buckets.len());
        for Bucket { start, unit, .. } in &total.buckets {
            let end = Timestamp::from_ms(start.as_ms() + unit.ms());
            let one = report(Period { from: Some(*start), to: Some(end) }).await?;
            buckets.push((*unit, *start, one.tally, one.visitors));
        }
        let sums = MovedSums {
            subject: subject.clone(),
            owner,
            total: (total.tally.clone(), total.visitors.clone()),
            buckets,
        };
        let writer = import.put_sums(&sums).await?;
        let mut single = 0;
        if let ClickSubject::Link(link) = subject {
            let mut after = None;
            loop {
                let (link, limit) = (link.clone(), CLICKS);
                let query = RawQuery { link, from: None, to: None, after, limit };
                let page = self.clicks.clicks(&query).await?;
                single += page.clicks.len() as u64;
                if let Some(writer) = &writer {
                    writer.put_clicks(&page.clicks).await?;
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        if let Some(writer) = writer {
            writer.commit().await?;
        }
        let back = written.report(subject, Period::default(), now).await?;
        ensure!(
            is_same(&total, &back),
            "the sums in the database differ from those in the file: name an empty database"
        );
        Ok(single)
    }
}

/// Reports that `some` more were moved, if it is time to.
fn progress(say: &dyn Fn(String), what: &str, done: u64, some: usize) {
    if done / REPORTED != (done - some as u64) / REPORTED {
        say(format!("{done} {what}"));
    }
}

fn is_same(a: &ClickReport, b: &ClickReport) -> bool {
    let buckets = |report: &ClickReport| -> Vec<(Timestamp, bool, terse_core::clicks::Count)> {
        let bucket = |bucket: &Bucket| (bucket.start, bucket.unit == Unit::Hour, bucket.clicks);
        report.buckets.iter().map(bucket).collect()
    };
    a.tally == b.tally && a.visitors.count() == b.visitors.count() && buckets(a) == buckets(b)
}

fn compare(what: &str, read: Digest, written: Digest) -> anyhow::Result<()> {
    ensure!(
        read == written,
        "{what}: {} were read and {} were written, or their checksums differ. If terse ran since the \
         move began, begin again with an empty database or folder",
        read.count,
        written.count
    );
    Ok(())
}
