//! Moves a PostgreSQL database into new files of a data folder.
//!
//! All nodes are stopped; locks keep any other from writing meanwhile. The command writes the files
//! into a folder of their own, reads them back and compares them, marks the database as left, and
//! then gives the files their places. If it is interrupted, it continues: links that are written
//! already are compared only, tables and clicks are written anew.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use terse_core::clicks::{
    Bucket, ClickReport, ClickReports as _, Count, MAX_VALUES_TOTAL, Period, Unit,
};
use terse_core::transfer::{Digest, MovedSums, StoreFile, TABLES, Table};
use terse_core::{LinkKey, Timestamp};
use terse_embedded::{
    ClicksImport, DataDir, LinksFile, LinksImport, TablesFile, TablesImport, install_file, seal,
};
use terse_postgres::DatabaseExport;
use tokio::runtime::Runtime;

use super::super::{MigratedCounts, embedded, postgres};
use super::{CLICKS, LINKS, ROWS, compare, progress};
use crate::config::{Config, PostgresUrl, StoreUrl};

/// How many single clicks make a block of the file.
const CLICKS_A_BLOCK: usize = 16_384;

/// Moves everything from the database into the files that `config` names.
pub(super) fn migrate(
    config: &Config,
    from: &PostgresUrl,
    say: &dyn Fn(String),
) -> anyhow::Result<MigratedCounts> {
    let folder = DataDir::open(&config.data_dir)?;
    let _lock = folder.lock().context("stop all nodes first, so that nothing changes meanwhile")?;
    let incoming = Incoming::of(config);
    if let Some(counts) = incoming.counts()? {
        say("the files of an earlier move are complete".to_owned());
        incoming.install(config)?;
        return Ok(counts);
    }
    for file in [config.store_file(), config.registry_file(), config.clicks_file()] {
        ensure!(
            !file.exists(),
            "{} exists: name a data folder without files of a store, or move them away",
            file.display()
        );
    }
    std::fs::create_dir_all(&incoming.folder)
        .with_context(|| format!("creating {}", incoming.folder.display()))?;
    // Complete files are renamed, which works within one file system.
    let device = |path: &Path| -> anyhow::Result<u64> {
        let found = std::fs::metadata(path).with_context(|| format!("reading {}", path.display()));
        Ok(found?.dev())
    };
    for file in [config.store_file(), config.registry_file(), config.clicks_file()] {
        let folder = file.parent().filter(|parent| !parent.as_os_str().is_empty());
        ensure!(
            device(folder.unwrap_or(Path::new(".")))? == device(&config.data_dir)?,
            "{} is on another file system than the data folder {}: name a file in the data folder",
            file.display(),
            config.data_dir.display()
        );
    }
    let runtime = Runtime::new().context("starting the threads")?;
    let options = postgres::transfer_options(config, from);
    let export = runtime.block_on(DatabaseExport::begin(&options))?;
    say("nodes cannot write to the database from now on".to_owned());
    let mover = Mover { config, export, incoming, runtime: &runtime, say };
    let links = mover.move_links()?;
    let (subjects, clicks) = mover.move_clicks()?;
    let rows = mover.move_tables()?;
    let counts = MigratedCounts { links, rows, subjects, clicks, read_only_ms: None };
    mover.finish(&counts)?;
    Ok(counts)
}

/// The folder in which the files arrive.
struct Incoming {
    folder: PathBuf,
}

impl Incoming {
    fn of(config: &Config) -> Self {
        Self { folder: config.data_dir.join(embedded::INCOMING) }
    }

    fn file(&self, part: StoreFile) -> PathBuf {
        self.folder.join(match part {
            StoreFile::Links => "terse.db",
            StoreFile::Registry => "registry.db",
            StoreFile::Clicks => "clicks.db",
        })
    }

    /// Exists once all files are complete. It contains what has moved.
    fn ready(&self) -> PathBuf {
        self.folder.join(embedded::COMPLETE)
    }

    /// What has moved, if all files are complete.
    fn counts(&self) -> anyhow::Result<Option<MigratedCounts>> {
        let text = match std::fs::read_to_string(self.ready()) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            text => text.context("reading the state of an earlier move")?,
        };
        let numbers: Vec<u64> =
            text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [links, rows, subjects, clicks] = numbers[..] else {
            anyhow::bail!("{} cannot be read", self.ready().display());
        };
        Ok(Some(MigratedCounts { links, rows, subjects, clicks, read_only_ms: None }))
    }

    fn set_counts(&self, counts: &MigratedCounts) -> anyhow::Result<()> {
        let MigratedCounts { links, rows, subjects, clicks, .. } = counts;
        let new = self.folder.join("new");
        let write = || -> std::io::Result<()> {
            std::fs::write(&new, format!("{links} {rows} {subjects} {clicks}\n"))?;
            std::fs::File::open(&new)?.sync_all()?;
            std::fs::rename(&new, self.ready())?;
            std::fs::File::open(&self.folder)?.sync_all()
        };
        write().context("noting that the files are complete")
    }

    /// Gives the files their places; the links last, because a store is there once they are.
    fn install(&self, config: &Config) -> anyhow::Result<()> {
        for (part, place) in [
            (StoreFile::Registry, config.registry_file()),
            (StoreFile::Clicks, config.clicks_file()),
            (StoreFile::Links, config.store_file()),
        ] {
            let file = self.file(part);
            if file.exists() {
                install_file(&file, &place)
                    .with_context(|| format!("moving a file to {}", place.display()))?;
            }
        }
        std::fs::remove_dir_all(&self.folder)
            .with_context(|| format!("removing {}", self.folder.display()))
    }
}

struct Mover<'a> {
    config: &'a Config,
    export: DatabaseExport,
    incoming: Incoming,
    runtime: &'a Runtime,
    say: &'a dyn Fn(String),
}

impl Mover<'_> {
    fn progress(&self, what: &str, done: u64, some: usize) {
        progress(self.say, what, done, some);
    }

    fn move_links(&self) -> anyhow::Result<u64> {
        let file = self.incoming.file(StoreFile::Links);
        let leases = self.runtime.block_on(self.export.leases())?;
        let incarnation = self.runtime.block_on(self.export.incarnation())? + 1;
        let mut import = LinksImport::open(&file, self.export.identity(), incarnation, &leases)
            .with_context(|| format!("opening {}", file.display()))?;
        let there = import.count()?;
        if there > 0 {
            (self.say)(format!("continuing an earlier move, which has written {there} links"));
        }
        let (mut after, mut read): (Option<LinkKey>, Digest) = (None, Digest::default());
        loop {
            let some = self.runtime.block_on(self.export.links(after.as_ref(), LINKS))?;
            let Some(last) = some.last() else { break };
            after = Some(last.link.key.clone());
            some.iter().for_each(|moved| moved.digest(&mut read));
            import.sync(&some).context("writing links")?;
            self.progress("links", read.count, some.len());
        }
        if import.count()? > read.count {
            self.remove_purged(&mut import)?;
        }
        drop(import);
        let written = LinksFile::open(&file).context("reading links back")?;
        let (mut position, mut found) = (i64::MIN, Digest::default());
        loop {
            let some = written.links(position, LINKS).context("reading links back")?;
            let Some(last) = some.last() else { break };
            position = last.position;
            some.iter().for_each(|moved| moved.digest(&mut found));
        }
        compare("links", read, found)?;
        Ok(read.count)
    }

    /// Removes links that an earlier attempt has written and that were purged since.
    fn remove_purged(&self, import: &mut LinksImport) -> anyhow::Result<()> {
        let mut after = i64::MIN;
        loop {
            let some = import.keys(after, LINKS).context("reading links back")?;
            let Some((last, _)) = some.last() else { return Ok(()) };
            after = *last;
            let keys: Vec<LinkKey> = some.into_iter().map(|(_, key)| key).collect();
            let gone = self.runtime.block_on(self.export.missing(&keys))?;
            import.remove(&gone).context("removing purged links")?;
        }
    }

    fn move_tables(&self) -> anyhow::Result<u64> {
        let mut rows = 0;
        for table in TABLES {
            rows += self
                .move_table(table)
                .with_context(|| format!("moving the table {}", table.name))?;
        }
        Ok(rows)
    }

    fn move_table(&self, table: &Table) -> anyhow::Result<u64> {
        let file = self.incoming.file(table.part);
        let import = TablesImport::open(&file, table.part)?;
        import.clear(table)?;
        let mut read = Digest::default();
        let moved = self.export.rows(table, ROWS, |rows| -> anyhow::Result<()> {
            rows.iter().for_each(|row| read.add_row(row));
            self.progress(table.name, read.count, rows.len());
            Ok(import.put_rows(table, &rows)?)
        });
        self.runtime.block_on(moved)?;
        if table.numbered {
            let last = self.runtime.block_on(self.export.last_number(table))?;
            import.set_last_number(table, last)?;
        }
        drop(import);
        let mut written = Digest::default();
        TablesFile::open(&file, table.part)?.rows(table, ROWS, |rows| -> anyhow::Result<()> {
            rows.iter().for_each(|row| written.add_row(row));
            Ok(())
        })?;
        compare(table.name, read, written)?;
        Ok(read.count)
    }

    /// Returns how many subjects have sums, and how many single clicks there are.
    fn move_clicks(&self) -> anyhow::Result<(u64, u64)> {
        let file = self.incoming.file(StoreFile::Clicks);
        for suffix in ["", "-wal", "-shm"] {
            let mut left = file.clone().into_os_string();
            left.push(suffix);
            match std::fs::remove_file(Path::new(&left)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).context("removing the clicks of an earlier attempt");
                }
                _ => {}
            }
        }
        let (whole_days, hours) = self.runtime.block_on(self.export.last_days())?;
        let hours_from = whole_days.map(|day| day + 1);
        let mut import = ClicksImport::create(&file, hours_from, hours.map_or(0, |day| day + 1))
            .with_context(|| format!("creating {}", file.display()))?;
        let subjects = self.each_sums("sums of clicks", |sums| Ok(import.put_sums(&sums)?))?;
        let (mut after, mut clicks) = ((i64::MIN, i64::MIN), 0_u64);
        loop {
            let read = self.export.clicks(after, CLICKS_A_BLOCK);
            let (some, last) = self.runtime.block_on(read)?;
            let Some(last) = last else { break };
            (after, clicks) = (last, clicks + some.len() as u64);
            let count = some.len();
            import.put_clicks(some).context("writing single clicks")?;
            self.progress("single clicks", clicks, count);
        }
        drop(import);
        self.check_clicks(hours_from, clicks)?;
        Ok((subjects, clicks))
    }

    /// Passes the sums of all subjects on. Returns how many subjects there are.
    fn each_sums(
        &self,
        what: &str,
        mut take: impl FnMut(Vec<MovedSums>) -> anyhow::Result<()>,
    ) -> anyhow::Result<u64> {
        let (mut after, mut subjects) = (i64::MIN, 0_u64);
        loop {
            let some = self.runtime.block_on(self.export.sums(after, CLICKS))?;
            let Some((last, _)) = some.last() else { return Ok(subjects) };
            after = *last;
            subjects += some.len() as u64;
            self.progress(what, subjects, some.len());
            take(some.into_iter().map(|(_, sums)| sums).collect())?;
        }
    }

    /// Compares the sums in the file with those in the database, and counts the single clicks.
    fn check_clicks(&self, hours_from: Option<i64>, single: u64) -> anyhow::Result<()> {
        let mut config = self.config.clone();
        config.data_dir.clone_from(&self.incoming.folder);
        (config.store, config.clicks.store) = (StoreUrl::File("terse.db".into()), None);
        let found = terse_embedded::verify_clicks(&config.clicks_file())?;
        ensure!(found.is_clean(), "the new file of clicks is damaged: {found:?}");
        let raw = found.raw;
        ensure!(raw == single, "there are {single} single clicks, and {raw} were written");
        let written = self.runtime.block_on(embedded::open_clicks(&config))?.0;
        let compared = self.each_sums("sums of clicks compared", |sums| {
            for sums in sums {
                let report =
                    written.report(&sums.subject, Period::default(), Timestamp::from_ms(0));
                let found = self.runtime.block_on(report)?;
                ensure!(
                    is_written(&sums, hours_from, &found),
                    "the sums of {:?} in the file differ from those in the database",
                    sums.subject
                );
            }
            Ok(())
        });
        written.close();
        compared.map(drop)
    }

    fn finish(self, counts: &MigratedCounts) -> anyhow::Result<()> {
        for part in [StoreFile::Links, StoreFile::Registry, StoreFile::Clicks] {
            let file = self.incoming.file(part);
            seal(&file).with_context(|| format!("completing {}", file.display()))?;
        }
        let place = self.config.store_file();
        self.runtime.block_on(self.export.finish(&place.display().to_string()))?;
        self.incoming.set_counts(counts)?;
        self.incoming.install(self.config)
    }
}

/// Whether a report of the file says what the database says. Hours before a day of which only the
/// sum of the whole day is known for another subject are in the sums of their days.
fn is_written(sums: &MovedSums, hours_from: Option<i64>, found: &ClickReport) -> bool {
    let MovedSums { total: (tally, visitors), buckets, .. } = sums;
    let mut expected: BTreeMap<(Timestamp, bool), Count> = BTreeMap::new();
    for (unit, start, tally, _) in buckets {
        let day = Unit::Day.floor(*start);
        let is_before = hours_from.is_some_and(|from| day.as_ms() < from * Unit::Day.ms());
        let key = match *unit == Unit::Hour && !is_before {
            true => (*start, true),
            false => (day, false),
        };
        expected.entry(key).or_default().add(tally.clicks);
    }
    expected.retain(|_, clicks| *clicks != Count::default());
    let bucket = |bucket: &Bucket| ((bucket.start, bucket.unit == Unit::Hour), bucket.clicks);
    let mut tally = tally.clone();
    tally.trim(MAX_VALUES_TOTAL);
    found.tally == tally
        && found.visitors.count() == visitors.count()
        && found.buckets.iter().map(bucket).collect::<BTreeMap<_, _>>() == expected
}
