//! Restore drills: a backup is restored into a temporary folder, all of it is read, and what it
//! holds is compared with what it held when it was made.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use async_trait::async_trait;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::metrics::Metrics;
use terse_core::{BoxError, ObjectStorage};

use super::backup::{Manifest, record_time, restore};
use super::stored_backups::{StoredBackups, remove_leftovers};
use crate::data_files::DataFiles;

/// A drill of a backup at `backup.url` touches this file in the data folder.
pub const LAST_DRILL: &str = "last-drill";
/// The beginning of the name of a folder in which a backup is restored.
pub(super) const DRILLING: &str = ".terse-drill";
/// How long a drill waits for the first backup, and how often the job looks for it.
const NO_BACKUP_INTERVAL: Duration = Duration::from_hours(1);
const RETRY_DELAY: Duration = Duration::from_mins(30);

/// The files of the stores in another data folder, with their usual names.
pub type FilesIn = dyn Fn(&Path) -> anyhow::Result<DataFiles> + Send + Sync;

/// A temporary folder for a drill: in the data folder, which terse may write to wherever it runs
/// and whose disk has room for the data. On a machine without one, the system's.
pub(super) fn drill_folder(data_dir: Option<&Path>) -> std::io::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(DRILLING);
    match data_dir.filter(|dir| dir.is_dir()) {
        Some(dir) => builder.tempdir_in(dir),
        None => builder.tempdir(),
    }
}

/// Restores a backup into an empty folder, reads all files there, and compares the numbers of their
/// entries with those that the backup had when it was made. Messages call the backup `name`.
pub(super) fn drill(name: &str, from: &Path, files: &DataFiles) -> anyhow::Result<Manifest> {
    restore_and_compare(from, files).with_context(|| format!("{name} is useless"))
}

fn restore_and_compare(from: &Path, files: &DataFiles) -> anyhow::Result<Manifest> {
    std::fs::create_dir_all(&files.data_dir)?;
    let (manifest, _) = restore(from, files, false)?;
    for (file, _, count) in manifest.files(files) {
        (file.inspect)(&file.path).with_context(|| format!("opening {}", file.name))?;
        let found = (file.verify)(&file.path).with_context(|| format!("reading {}", file.name))?;
        ensure!(
            found == count,
            "{} has {found:?} {} after the restore, and had {count:?} when it was backed up",
            file.name,
            file.holds
        );
    }
    Ok(manifest)
}

impl StoredBackups {
    /// Fetches a backup, the newest if none is named, into a temporary folder and drills it there.
    /// If that succeeds, it notes the time in the data folder `data_dir`. `files_in` gives the
    /// files of the stores in another data folder. `None` if there is no backup.
    pub(super) async fn drill(
        &self,
        name: Option<&str>,
        data_dir: Option<&Path>,
        files_in: impl FnOnce(&Path) -> anyhow::Result<DataFiles>,
    ) -> anyhow::Result<Option<(String, Manifest)>> {
        let name = match name {
            Some(name) => Some(name.to_owned()),
            None => self.list().await?.pop(),
        };
        let Some(name) = name else { return Ok(None) };
        let temp = drill_folder(data_dir)?;
        // What is fetched, what is restored from it, and as much again for the server meanwhile.
        let needed = 3 * self.octets(&name).await?;
        let disk = rustix::fs::statvfs(temp.path())?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        ensure!(
            needed <= free,
            "a drill needs {needed} bytes of free disk space at {}, and there are {free}",
            temp.path().display()
        );
        let fetched = temp.path().join("fetched");
        self.fetch(&name, &fetched).await?;
        let files = files_in(&temp.path().join("data"))?;
        let shown = name.clone();
        let drilled = tokio::task::spawn_blocking(move || drill(&shown, &fetched, &files));
        let manifest = drilled.await??;
        if let Some(data_dir) = data_dir {
            record_time(data_dir, LAST_DRILL);
        }
        Ok(Some((name, manifest)))
    }
}

/// The counter of scheduled drills.
#[derive(Debug, Default)]
pub struct DrillCounts {
    failed: AtomicU64,
}

impl DrillCounts {
    /// Writes the metrics.
    pub fn write_metrics(&self, metrics: &mut Metrics) {
        let help = "Scheduled restore drills that failed";
        metrics.counter("terse_drill_failures", help, &self.failed);
    }
}

/// Drills the newest backup on a schedule. Runs under the lease.
pub struct ScheduledDrills {
    stored: StoredBackups,
    data_dir: PathBuf,
    files_in: Arc<FilesIn>,
    every: Duration,
    counts: Arc<DrillCounts>,
}

impl ScheduledDrills {
    /// Drills the newest backup in a temporary folder below `data_dir` whenever the last drill was
    /// `every` ago.
    pub fn new(
        storage: Arc<dyn ObjectStorage>,
        data_dir: PathBuf,
        files_in: Arc<FilesIn>,
        every: Duration,
        counts: Arc<DrillCounts>,
    ) -> Self {
        Self { stored: StoredBackups { storage }, data_dir, files_in, every, counts }
    }

    /// The time until a drill is due. `None` if it is due now, or if the clock was wrong at the
    /// last one.
    fn until_due(&self) -> Option<Duration> {
        let last = std::fs::metadata(self.data_dir.join(LAST_DRILL)).ok()?.modified().ok()?;
        let left = self.every.checked_sub(SystemTime::now().duration_since(last).ok()?)?;
        (!left.is_zero()).then_some(left)
    }

    async fn run_once(&self) -> anyhow::Result<NextRun> {
        if let Some(left) = self.until_due() {
            return Ok(NextRun::After(left));
        }
        remove_leftovers(&self.data_dir);
        let drilled = self.stored.drill(None, Some(&self.data_dir), &*self.files_in).await?;
        let Some((name, manifest)) = drilled else {
            return Ok(NextRun::After(NO_BACKUP_INTERVAL.min(self.every)));
        };
        tracing::info!(backup = name, "a backup can be restored: {}", manifest.summary());
        Ok(NextRun::After(self.every))
    }
}

#[async_trait]
impl Job for ScheduledDrills {
    fn name(&self) -> &'static str {
        "restore drill"
    }

    fn interval(&self) -> Duration {
        self.every
    }

    fn needs_lease(&self) -> bool {
        true
    }

    fn timeout(&self) -> Duration {
        Duration::from_hours(12)
    }

    fn retry_delay(&self) -> Duration {
        RETRY_DELAY
    }

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        let done = self.run_once().await;
        if done.is_err() {
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
        }
        Ok(done?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::backup::tests::files;
    use super::super::stored_backups::tests::site;
    use super::*;

    fn drills(objects: Arc<dyn ObjectStorage>, data: &Path) -> ScheduledDrills {
        let files_in: Arc<FilesIn> = Arc::new(|dir| Ok(files(dir)));
        let week = Duration::from_hours(7 * 24);
        ScheduledDrills::new(objects, data.to_owned(), files_in, week, Arc::default())
    }

    #[tokio::test]
    async fn the_newest_backup_is_drilled_when_the_last_drill_is_old_enough() {
        let temp = tempfile::tempdir().unwrap();
        let data = temp.path().join("data");
        let (objects, mut backups, _) = site(temp.path());
        let mut job = drills(objects.clone(), &data);
        let context = JobContext::without_lease();
        assert_eq!(
            job.run(&context).await.unwrap(),
            NextRun::After(NO_BACKUP_INTERVAL),
            "there is no backup"
        );
        backups.run(&context).await.unwrap();
        assert_eq!(job.run(&context).await.unwrap(), NextRun::After(job.every));
        let reads = objects.reads();
        // As after a restart of the server.
        let NextRun::After(left) = job.run(&context).await.unwrap() else { panic!("no time") };
        assert!(left <= job.every && left > job.every - Duration::from_hours(1), "{left:?}");
        assert_eq!(objects.reads(), reads);
        let note = std::fs::File::open(data.join(LAST_DRILL)).unwrap();
        note.set_modified(SystemTime::now() - job.every).unwrap();
        assert_eq!(job.run(&context).await.unwrap(), NextRun::After(job.every));
        assert!(objects.reads() > reads);
        let names = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name());
        let left_over = names.filter(|name| name.to_string_lossy().starts_with(DRILLING));
        assert_eq!(left_over.count(), 0);
    }

    #[tokio::test]
    async fn a_drill_that_fails_is_counted_and_not_recorded() {
        let temp = tempfile::tempdir().unwrap();
        let data = temp.path().join("data");
        let (objects, mut backups, _) = site(temp.path());
        let mut job = drills(objects.clone(), &data);
        let context = JobContext::without_lease();
        backups.run(&context).await.unwrap();
        objects.damage("clicks.db");
        let error = job.run(&context).await.unwrap_err().to_string();
        assert!(error.contains("is useless"), "{error}");
        assert_eq!(job.counts.failed.load(Ordering::Relaxed), 1);
        assert!(!data.join(LAST_DRILL).exists());
    }

    #[tokio::test]
    async fn a_drill_finds_damage_and_missing_entries() {
        let temp = tempfile::tempdir().unwrap();
        let (objects, mut backups, _) = site(temp.path());
        backups.run(&JobContext::without_lease()).await.unwrap();
        let stored = StoredBackups { storage: objects.clone() };
        let name = stored.list().await.unwrap().pop().unwrap();
        let drilled = async |n: u32| {
            let dir = temp.path().join(format!("fetched-{n}"));
            stored.fetch(&name, &dir).await.unwrap();
            let mut into = files(&temp.path().join(format!("drill-{n}")));
            if n == 3 {
                // Another number of entries than when it was made.
                into.links.verify = Box::new(|_| Ok(Some(6)));
            }
            let drilled = drill("it", &dir, &into);
            drilled.map(|manifest| manifest.summary()).map_err(|error| format!("{error:#}"))
        };
        assert!(drilled(1).await.unwrap().starts_with("7 links, 7 clicks, "));
        let error = drilled(3).await.unwrap_err();
        assert!(error.contains("Some(6)") && error.contains("Some(7)"), "{error}");
        objects.damage("clicks.db");
        let error = drilled(2).await.unwrap_err();
        assert!(error.contains("checksum of clicks.db"), "{error}");
        let missing = stored.fetch("terse-20200101T000000Z", &temp.path().join("x")).await;
        assert!(missing.unwrap_err().to_string().contains("no complete backup"));
    }

    #[test]
    fn a_drill_uses_the_data_folder_if_there_is_one() {
        let temp = tempfile::tempdir().unwrap();
        let folder = drill_folder(Some(temp.path())).unwrap();
        assert_eq!(folder.path().parent(), Some(temp.path()));
        let absent = temp.path().join("absent");
        for none in [None, Some(absent.as_path())] {
            let folder = drill_folder(none).unwrap();
            assert_eq!(folder.path().parent(), Some(std::env::temp_dir().as_path()));
        }
        assert!(!absent.exists());
    }
}
