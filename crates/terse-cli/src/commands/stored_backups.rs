//! Backups in an object storage: sent on a schedule, kept for a time, fetched, and tried.
//!
//! A backup is a set of objects under `backups/terse-20261118T101500Z/`, with the names that
//! `terse backup` gives its files. The manifest is sent last and deleted first: a backup without
//! one is not complete.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use async_trait::async_trait;
use clap::Subcommand;
use serde_json::json;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::metrics::Metrics;
use terse_core::{BoxError, Clock, ObjectStorage, Timestamp};

use super::backup::{
    BackupContext, LAST_BACKUP, MANIFEST, Manifest, parse_manifest, read_manifest, record_time,
    write_backup,
};
use super::restore_drill::{DRILLING, drill, drill_folder};
use crate::data_files::DataFiles;
use crate::terminal::say;

const ROOT: &str = "backups";
/// However old they are, this many of the newest backups stay.
const ALWAYS_KEPT: usize = 3;
/// How many backups one run deletes at most. A new backup makes about one too old; more of them are
/// a sign that the clock has jumped.
const MAX_DELETED: usize = 2;
/// The beginning of the name of a folder with a backup that is being sent.
const SENDING: &str = ".terse-send";
/// After this time, such a folder belongs to no process.
const LEFTOVER_AGE: Duration = Duration::from_hours(24);
const RETRY_DELAY: Duration = Duration::from_mins(5);

/// Commands about the backups at the place of the setting `backup.url`.
#[derive(Debug, Subcommand)]
pub enum StoredBackupCommand {
    /// Send a backup to the place of the setting backup.url
    Send,
    /// List the backups there
    List,
    /// Fetch a backup from there into a new folder, for `terse restore`
    Fetch {
        /// Its name, as `terse backup list` prints it
        name: String,
        /// The folder to create
        dir: PathBuf,
    },
    /// Restore a backup into a temporary folder, read all of it, and compare what it holds
    Drill {
        /// Its name [default: the newest]
        name: Option<String>,
        /// A folder that `terse backup DIR` created, instead
        #[arg(long, value_name = "DIR", conflicts_with = "name")]
        dir: Option<PathBuf>,
    },
}

impl StoredBackupCommand {
    pub(super) fn run(&self, context: &BackupContext<'_>, json: bool) -> anyhow::Result<bool> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let stored = || Ok::<_, anyhow::Error>(StoredBackups { storage: (context.storage)()? });
        let show = |shown: serde_json::Value, text: String| match json {
            true => say(&shown.to_string()),
            false => say(&text),
        };
        match self {
            Self::Send => {
                let (stored, files) = (stored()?, (context.files_in)(None)?);
                let now = Clock::default().now();
                let (name, manifest) = runtime.block_on(stored.send(Arc::new(files), now))?;
                let place = stored.storage.place();
                let text = format!("{} in {place}/{ROOT}/{name}", manifest.summary());
                show(json!({ "name": name, "place": place, "manifest": manifest }), text)?;
            }
            Self::List => {
                let names = runtime.block_on(stored()?.list())?;
                show(json!({ "backups": names }), names.join("\n"))?;
            }
            Self::Fetch { name, dir } => {
                runtime.block_on(stored()?.fetch(name, dir))?;
                let manifest = read_manifest(dir)?;
                let text = format!("{} in {}", manifest.summary(), dir.display());
                show(json!({ "dir": dir, "manifest": manifest }), text)?;
            }
            Self::Drill { name, dir } => {
                // A drill of a folder needs no data folder.
                let own = (context.files_in)(None).ok().map(|files| files.data_dir);
                let files_in = |dir: &Path| (context.files_in)(Some(dir));
                let (shown, manifest) = match dir {
                    Some(dir) => {
                        let temp = drill_folder(own.as_deref())?;
                        let shown = dir.display().to_string();
                        let manifest = drill(&shown, dir, &files_in(&temp.path().join("data"))?)?;
                        (shown, manifest)
                    }
                    None => {
                        let stored = stored()?;
                        let drilled = stored.drill(name.as_deref(), own.as_deref(), files_in);
                        runtime.block_on(drilled)?.with_context(|| {
                            format!("there is no backup in {}", stored.storage.place())
                        })?
                    }
                };
                let text = format!("{shown} can be restored: {}", manifest.summary());
                show(json!({ "name": shown, "restored": true, "manifest": manifest }), text)?;
            }
        }
        Ok(true)
    }
}

/// The backups at one place.
pub(super) struct StoredBackups {
    pub(super) storage: Arc<dyn ObjectStorage>,
}

fn failed(error: BoxError) -> anyhow::Error {
    anyhow::Error::msg(error.to_string())
}

fn name_at(now: Timestamp) -> String {
    let text: String = now.to_string().chars().filter(|c| !matches!(c, '-' | ':')).collect();
    format!("terse-{}Z", &text[..15])
}

/// When the backup of this name was made.
fn time_of(name: &str) -> Option<Timestamp> {
    let text = name.strip_prefix("terse-")?.strip_suffix('Z')?;
    let is_time = text.len() == 15 && text.is_ascii();
    let (date, time) = is_time.then(|| text.split_at(8))?;
    let (y, m, d) = (&date[..4], &date[4..6], &date[6..]);
    let time = time.strip_prefix('T')?;
    Timestamp::parse(&format!("{y}-{m}-{d}T{}:{}:{}Z", &time[..2], &time[2..4], &time[4..]))
}

/// When the newest of these backups was made. One from the future says only that the clock was
/// wrong then.
fn newest_by(names: &[String], now: Timestamp) -> Option<Timestamp> {
    names.iter().rev().filter_map(|name| time_of(name)).find(|at| *at <= now)
}

/// Removes what a process that was killed while it sent or drilled a backup has left in the folder.
pub(super) fn remove_leftovers(data_dir: &Path) {
    let entries = std::fs::read_dir(data_dir).into_iter().flatten().flatten();
    for entry in entries {
        let age = entry.metadata().and_then(|found| found.modified()).ok();
        let age = age.and_then(|at| at.elapsed().ok());
        // Another process may be at work.
        let is_old = age.is_some_and(|age| age > LEFTOVER_AGE);
        let name = entry.file_name();
        if is_old
            && [SENDING, DRILLING].iter().any(|begin| name.to_string_lossy().starts_with(begin))
            && let Err(error) = std::fs::remove_dir_all(entry.path())
        {
            tracing::warn!(folder = %entry.path().display(), %error, "a left-over backup stays");
        }
    }
}

impl StoredBackups {
    /// The names of complete backups, the oldest first.
    pub(super) async fn list(&self) -> anyhow::Result<Vec<String>> {
        let objects = self.storage.names(ROOT).await.map_err(failed)?;
        let name = |object: &String| {
            let (name, file) = object.strip_prefix(ROOT)?.strip_prefix('/')?.split_once('/')?;
            (file == MANIFEST && time_of(name).is_some()).then(|| name.to_owned())
        };
        let mut names: Vec<String> = objects.iter().filter_map(name).collect();
        names.sort();
        Ok(names)
    }

    async fn send(
        &self,
        files: Arc<DataFiles>,
        now: Timestamp,
    ) -> anyhow::Result<(String, Manifest)> {
        remove_leftovers(&files.data_dir);
        let temp = tempfile::Builder::new().prefix(SENDING).tempdir_in(&files.data_dir)?;
        let dir = temp.path().join("backup");
        let (to, of) = (dir.clone(), Arc::clone(&files));
        let manifest = tokio::task::spawn_blocking(move || write_backup(&to, &of)).await??;
        let name = name_at(now);
        for (file, ..) in manifest.files(&files) {
            let object = format!("{ROOT}/{name}/{}", file.name);
            self.storage.upload(&dir.join(file.name), &object).await.map_err(failed)?;
        }
        let object = format!("{ROOT}/{name}/{MANIFEST}");
        self.storage.upload(&dir.join(MANIFEST), &object).await.map_err(failed)?;
        record_time(&files.data_dir, LAST_BACKUP);
        Ok((name, manifest))
    }

    /// The bytes of all files of a backup.
    pub(super) async fn octets(&self, name: &str) -> anyhow::Result<u64> {
        let object = format!("{ROOT}/{name}/{MANIFEST}");
        let text = self.storage.read(&object).await.map_err(failed)?;
        Ok(parse_manifest(&text, &object)?.total_bytes())
    }

    /// Writes a backup into a new folder, without comparing its checksums: a restore does.
    pub(super) async fn fetch(&self, name: &str, dir: &Path) -> anyhow::Result<()> {
        ensure!(
            self.list().await?.iter().any(|known| known == name),
            "there is no complete backup {name} in {}",
            self.storage.place()
        );
        std::fs::create_dir(dir).with_context(|| format!("making {}", dir.display()))?;
        let folder = format!("{ROOT}/{name}/");
        for object in self.storage.names(&format!("{ROOT}/{name}")).await.map_err(failed)? {
            let Some(file) = object.strip_prefix(&folder).filter(|file| !file.contains('/')) else {
                continue;
            };
            self.storage.download(&object, &dir.join(file)).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Deletes backups that are older than `keep` compared with the newest one, the oldest first,
    /// and what is left of backups that were never completed. Returns how many complete ones.
    async fn prune(&self, keep: Duration, now: Timestamp) -> anyhow::Result<u64> {
        let complete = self.list().await?;
        let Some(newest) = newest_by(&complete, now) else { return Ok(0) };
        let oldest = newest.saturating_sub(keep);
        let is_old = |name: &str| time_of(name).is_some_and(|at| at < oldest);
        let candidates = complete.len().saturating_sub(ALWAYS_KEPT);
        let old = complete[..candidates].iter().filter(|name| is_old(name));
        let old: Vec<&String> = old.take(MAX_DELETED).collect();
        let mut to_delete: Vec<String> = Vec::new();
        for object in self.storage.names(ROOT).await.map_err(failed)? {
            let Some((name, file)) =
                object.strip_prefix(&format!("{ROOT}/")).and_then(|rest| rest.split_once('/'))
            else {
                continue;
            };
            let was_never_completed = !complete.iter().any(|known| known == name) && is_old(name);
            if old.iter().any(|old| *old == name) || was_never_completed {
                // The manifest first.
                match file == MANIFEST {
                    true => to_delete.insert(0, object),
                    false => to_delete.push(object),
                }
            }
        }
        for object in &to_delete {
            self.storage.delete(object).await.map_err(failed)?;
        }
        Ok(old.len() as u64)
    }
}

/// Counters of scheduled backups.
#[derive(Debug, Default)]
pub struct BackupCounts {
    sent: AtomicU64,
    deleted: AtomicU64,
    failed: AtomicU64,
}

impl BackupCounts {
    /// Writes the metrics.
    pub fn write_metrics(&self, metrics: &mut Metrics) {
        metrics.counter("terse_backups_sent", "Backups sent to backup.url", &self.sent);
        let help = "Backups deleted at backup.url because of their age";
        metrics.counter("terse_backups_deleted", help, &self.deleted);
        metrics.counter("terse_backup_failures", "Scheduled backups that failed", &self.failed);
    }
}

/// Sends backups on a schedule. Runs under the lease.
pub struct ScheduledBackups {
    stored: StoredBackups,
    files: Arc<DataFiles>,
    every: Duration,
    keep: Duration,
    clock: Clock,
    counts: Arc<BackupCounts>,
}

impl ScheduledBackups {
    /// Sends a backup of these files whenever the newest one is `every` old, and deletes those that
    /// are `keep` older than the newest.
    pub fn new(
        storage: Arc<dyn ObjectStorage>,
        files: DataFiles,
        (every, keep): (Duration, Duration),
        clock: Clock,
        counts: Arc<BackupCounts>,
    ) -> Self {
        let (stored, files) = (StoredBackups { storage }, Arc::new(files));
        Self { stored, files, every, keep, clock, counts }
    }

    async fn run_once(&self, context: &JobContext) -> Result<NextRun, BoxError> {
        let now = self.clock.now();
        let newest = newest_by(&self.stored.list().await?, now);
        let due = newest.and_then(|at| at.checked_add(self.every));
        if let Some(due) = due.filter(|due| *due > now) {
            let left = due.as_ms().saturating_sub(now.as_ms()).unsigned_abs();
            return Ok(NextRun::After(Duration::from_millis(left).min(self.every)));
        }
        context.check_lease().await?;
        let (name, manifest) = self.stored.send(Arc::clone(&self.files), now).await?;
        self.counts.sent.fetch_add(1, Ordering::Relaxed);
        tracing::info!(
            backup = name,
            place = self.stored.storage.place(),
            "sent a backup: {}",
            manifest.summary()
        );
        context.check_lease().await?;
        let deleted = self.stored.prune(self.keep, now).await?;
        self.counts.deleted.fetch_add(deleted, Ordering::Relaxed);
        Ok(NextRun::After(self.every))
    }
}

#[async_trait]
impl Job for ScheduledBackups {
    fn name(&self) -> &'static str {
        "backup"
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

    async fn run(&mut self, context: &JobContext) -> Result<NextRun, BoxError> {
        let done = self.run_once(context).await;
        if done.is_err() {
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
        }
        done
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use terse_testkit::{MemoryRegistry, run_paused};

    use super::super::backup::tests::files;
    use super::*;

    /// Objects in memory, and how often one was read.
    #[derive(Default)]
    pub(in crate::commands) struct Objects(Mutex<BTreeMap<String, Vec<u8>>>, AtomicU64);

    impl Objects {
        pub(in crate::commands) fn reads(&self) -> u64 {
            self.1.load(Ordering::Relaxed)
        }

        /// Replaces the content of files with this name.
        pub(in crate::commands) fn damage(&self, file: &str) {
            let mut all = self.0.lock().unwrap();
            let files = all.iter_mut().filter(|(name, _)| name.ends_with(file));
            files.for_each(|(_, content)| *content = b"damaged".to_vec());
        }
    }

    #[async_trait]
    impl ObjectStorage for Objects {
        fn place(&self) -> String {
            "memory".into()
        }

        async fn names(&self, parts: &str) -> Result<Vec<String>, BoxError> {
            let all = self.0.lock().unwrap();
            let below = format!("{parts}/");
            Ok(all.keys().filter(|name| name.starts_with(&below)).cloned().collect())
        }

        async fn read(&self, name: &str) -> Result<Vec<u8>, BoxError> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Ok(self.0.lock().unwrap().get(name).cloned().ok_or("missing")?)
        }

        async fn upload(&self, file: &Path, name: &str) -> Result<(), BoxError> {
            self.0.lock().unwrap().insert(name.to_owned(), std::fs::read(file)?);
            Ok(())
        }

        async fn download(&self, name: &str, file: &Path) -> Result<(), BoxError> {
            Ok(std::fs::write(file, self.read(name).await?)?)
        }

        async fn delete(&self, name: &str) -> Result<(), BoxError> {
            self.0.lock().unwrap().remove(name);
            Ok(())
        }
    }

    pub(in crate::commands) fn site(temp: &Path) -> (Arc<Objects>, ScheduledBackups, Clock) {
        let data = temp.join("data");
        std::fs::create_dir_all(&data).unwrap();
        std::fs::write(data.join("clicks.db"), "clicks").unwrap();
        let clock = Clock::frozen(Timestamp::parse("2026-11-18T10:15:00Z").unwrap());
        let objects = Arc::<Objects>::default();
        let spans = (Duration::from_hours(24), Duration::from_hours(5 * 24));
        let counts = Arc::<BackupCounts>::default();
        let job =
            ScheduledBackups::new(objects.clone(), files(&data), spans, clock.clone(), counts);
        (objects, job, clock)
    }

    #[tokio::test]
    async fn a_backup_is_sent_when_the_newest_is_old_enough_and_old_ones_go() {
        let temp = tempfile::tempdir().unwrap();
        let (objects, mut job, clock) = site(temp.path());
        let context = JobContext::without_lease();
        let day = Duration::from_hours(24);
        assert_eq!(job.run(&context).await.unwrap(), NextRun::After(day));
        assert_eq!(job.stored.list().await.unwrap(), ["terse-20261118T101500Z"]);
        clock.advance(Duration::from_hours(23));
        // As after a restart of the server.
        assert_eq!(job.run(&context).await.unwrap(), NextRun::After(Duration::from_hours(1)));
        assert_eq!(job.stored.list().await.unwrap().len(), 1);
        let torn = "backups/terse-20261118T000000Z/terse.db".to_owned();
        objects.0.lock().unwrap().insert(torn.clone(), b"half".to_vec());
        objects.0.lock().unwrap().insert("backups/notes/mine".to_owned(), vec![]);
        for _ in 0..9 {
            clock.advance(day);
            job.run(&context).await.unwrap();
        }
        let kept = job.stored.list().await.unwrap();
        assert_eq!(kept.len(), 6, "{kept:?}");
        assert_eq!(kept.last().unwrap(), "terse-20261128T091500Z");
        let all = objects.0.lock().unwrap();
        assert!(!all.contains_key(&torn) && all.contains_key("backups/notes/mine"));
        assert_eq!(all.len(), 6 * 3 + 1, "links, clicks and a manifest each");
    }

    #[tokio::test]
    async fn a_process_without_the_lease_sends_and_deletes_no_backup() {
        let temp = tempfile::tempdir().unwrap();
        let (objects, mut job, clock) = site(temp.path());
        let registry = Arc::new(MemoryRegistry::new());
        run_paused(&registry, &mut job, 0).await;
        assert_eq!(objects.0.lock().unwrap().len(), 0);
        for _ in 0..ALWAYS_KEPT {
            job.run(&JobContext::without_lease()).await.unwrap();
            clock.advance(Duration::from_hours(30 * 24));
        }
        run_paused(&registry, &mut job, 1).await;
        assert_eq!(job.stored.list().await.unwrap().len(), ALWAYS_KEPT + 1, "none is deleted");
    }

    #[tokio::test]
    async fn the_newest_backups_stay_however_old_they_are() {
        let temp = tempfile::tempdir().unwrap();
        let (_, mut job, clock) = site(temp.path());
        for _ in 0..5 {
            job.run(&JobContext::without_lease()).await.unwrap();
            clock.advance(Duration::from_hours(100 * 24));
        }
        assert_eq!(job.stored.list().await.unwrap().len(), ALWAYS_KEPT);
    }

    #[tokio::test]
    async fn a_clock_that_jumps_ahead_costs_few_backups() {
        let temp = tempfile::tempdir().unwrap();
        let (_, mut job, clock) = site(temp.path());
        let (context, day) = (JobContext::without_lease(), Duration::from_hours(24));
        for _ in 0..5 {
            job.run(&context).await.unwrap();
            clock.advance(day);
        }
        let year = 365 * 24 * 3_600_000;
        clock.shift_wall_clock(year);
        job.run(&context).await.unwrap();
        assert_eq!(job.stored.list().await.unwrap().len(), 6 - MAX_DELETED);
        // The clock is right again: the backup from the future makes no other one old.
        clock.shift_wall_clock(-year);
        for _ in 0..2 {
            job.run(&context).await.unwrap();
            clock.advance(day);
        }
        let kept = job.stored.list().await.unwrap();
        assert_eq!(kept.len(), 8 - MAX_DELETED, "{kept:?}");
    }

    #[tokio::test]
    async fn an_old_folder_of_a_killed_process_is_removed() {
        let temp = tempfile::tempdir().unwrap();
        let (_, mut job, _) = site(temp.path());
        let names = [SENDING, DRILLING].map(|of| [format!("{of}-old"), format!("{of}-new")]);
        let folders = names.map(|pair| pair.map(|name| temp.path().join("data").join(name)));
        let before = std::time::SystemTime::now() - 2 * LEFTOVER_AGE;
        for [old, new] in &folders {
            std::fs::create_dir(old).unwrap();
            std::fs::create_dir(new).unwrap();
            std::fs::File::open(old).unwrap().set_modified(before).unwrap();
        }
        job.run(&JobContext::without_lease()).await.unwrap();
        for [old, new] in folders {
            assert_eq!((old.exists(), new.exists()), (false, true), "{}", old.display());
        }
    }
}
