//! `terse backup` and `terse restore`.
//!
//! A backup is a folder: copies of the links, the clicks and the registry, and a manifest with
//! their checksums. The folder gets its name only when it is complete. A restore deletes nothing:
//! it moves the existing store aside.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;
use terse_core::{Clock, ObjectStorage};

use super::stored_backups::StoredBackupCommand;
use crate::data_files::{DataFile, DataFiles};
use crate::terminal::say;
use crate::transfer::digest_of;

pub(super) const MANIFEST: &str = "manifest.json";
/// The version of the manifest. Newer ones are refused, since they may list files that we would
/// lose. Version 1 had no clicks, version 2 no owners.
const VERSION: u32 = 3;
/// A backup touches this file in the data folder.
pub const LAST_BACKUP: &str = "last-backup";

/// Copy snapshots of links, clicks and accounts into a new folder. Works while a
/// server is running.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  terse backup /backups/terse-$(date +%F)
  terse backup send     to the place of the setting backup.url
  terse backup drill    restores the newest one there into a temporary folder, and checks it"
)]
pub struct BackupArgs {
    /// The folder to create; it must not exist or must be empty
    #[arg(required = true)]
    dir: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<StoredBackupCommand>,
}

/// What the commands about backups need.
pub struct BackupContext<'a> {
    /// The files of the settings' data folder, or of another one with the same names.
    pub files_in: &'a (dyn Fn(Option<&Path>) -> anyhow::Result<DataFiles> + Send + Sync),
    /// The place of the setting `backup.url`.
    pub storage: &'a dyn Fn() -> anyhow::Result<Arc<dyn ObjectStorage>>,
}

/// Replace the store with a backup. The server must not be running.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  terse restore /backups/terse-2030-01-31 --force")]
pub struct RestoreArgs {
    /// The folder that `terse backup` created
    dir: PathBuf,
    /// Restore even if there is a store; it is moved aside, not deleted
    #[arg(long)]
    force: bool,
}

/// The manifest of a backup.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Manifest {
    /// The version of the manifest.
    version: u32,
    /// The version of terse that wrote it.
    terse: String,
    pub(super) created_at: String,
    /// The checksum of the links' file.
    sha256: String,
    bytes: u64,
    /// The number of links, if known.
    links: Option<u64>,
    /// The clicks, if there is a clicks file.
    #[serde(default)]
    clicks: Option<BackupFile>,
    /// The owners, if there is a registry file.
    #[serde(default)]
    owners: Option<BackupFile>,
}

/// One file of a backup.
#[derive(Debug, Deserialize, Serialize)]
struct BackupFile {
    sha256: String,
    bytes: u64,
    /// The number of entries, if known.
    count: Option<u64>,
}

impl Manifest {
    /// The files, each with what it holds, its checksum and its number of entries.
    pub(super) fn files<'a>(
        &'a self,
        of: &'a DataFiles,
    ) -> impl Iterator<Item = (&'a DataFile, &'a str, Option<u64>)> {
        let further = [(&of.clicks, &self.clicks), (&of.owners, &self.owners)];
        let further = further.into_iter().filter_map(|(file, copied)| {
            copied.as_ref().map(|copied| (file, copied.sha256.as_str(), copied.count))
        });
        std::iter::once((&of.links, self.sha256.as_str(), self.links)).chain(further)
    }

    /// The bytes of all files.
    pub(super) fn total_bytes(&self) -> u64 {
        let further = [&self.clicks, &self.owners].into_iter().flatten();
        self.bytes + further.map(|copied| copied.bytes).sum::<u64>()
    }

    /// What it holds, in words.
    pub(super) fn summary(&self) -> String {
        let counted = |count: Option<u64>, what: &str| match count {
            Some(1) => format!("1 {what}, "),
            Some(count) => format!("{count} {what}s, "),
            None => String::new(),
        };
        let count = |copied: &Option<BackupFile>| copied.as_ref().and_then(|copied| copied.count);
        format!(
            "{}{}{}{} bytes",
            counted(self.links, "link"),
            counted(count(&self.clicks), "click"),
            counted(count(&self.owners), "account"),
            self.total_bytes()
        )
    }
}

/// Copies the files into a new folder, reads the copies back and writes their checksums.
pub(super) fn write_backup(dir: &Path, files: &DataFiles) -> anyhow::Result<Manifest> {
    let empty = std::fs::read_dir(dir).map(|mut entries| entries.next().is_none());
    ensure!(empty.unwrap_or(!dir.exists()), "{} exists already and is not empty", dir.display());
    let folder =
        dir.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    // A private folder (0700), which is deleted if anything below fails.
    let partial = tempfile::Builder::new().prefix(".terse-backup").tempdir_in(folder)?;
    let copied = |of: &DataFile| -> anyhow::Result<BackupFile> {
        let path = partial.path().join(of.name);
        (of.copy)(&of.path, &path).with_context(|| format!("copying {}", of.name))?;
        let count =
            (of.verify)(&path).with_context(|| format!("the copy of {} is damaged", of.name))?;
        let file = File::open(&path)?;
        file.sync_all()?;
        Ok(BackupFile { sha256: digest_of(&file)?, bytes: file.metadata()?.len(), count })
    };
    let created_at = Clock::default().now().to_string();
    let BackupFile { sha256, bytes, count: links } = copied(&files.links)?;
    let if_there = |of: &DataFile| of.path.exists().then(|| copied(of)).transpose();
    // Copy owners after links: an owner without links is harmless, a link without its owner is
    // not.
    let (clicks, owners) = (if_there(&files.clicks)?, if_there(&files.owners)?);
    let terse = env!("CARGO_PKG_VERSION").into();
    let manifest =
        Manifest { version: VERSION, terse, created_at, sha256, bytes, links, clicks, owners };
    let mut out = File::create(partial.path().join(MANIFEST))?;
    out.write_all(&serde_json::to_vec_pretty(&manifest)?)?;
    out.sync_all()?;
    sync_folder(partial.path())?;
    std::fs::rename(partial.path(), dir)
        .with_context(|| format!("naming the backup {}", dir.display()))?;
    drop(partial.keep());
    sync_folder(folder)?;
    Ok(manifest)
}

/// Records that something was done now, for the metrics of a server on this folder: `name` is
/// [`LAST_BACKUP`] or [`LAST_DRILL`](super::restore_drill::LAST_DRILL). It writes a new file each
/// time. The server could not touch one that belongs to another user, such as root.
pub(super) fn record_time(data_dir: &Path, name: &str) {
    let note = tempfile::Builder::new().prefix(&format!(".{name}")).tempfile_in(data_dir);
    let recorded = note.and_then(|note| Ok(note.persist(data_dir.join(name))?));
    // Not fatal: the backup is complete.
    if let Err(error) = recorded {
        eprintln!("the file {name} could not be written: {error}");
    }
}

impl BackupArgs {
    /// Copies the files, or does what the subcommand says.
    pub fn run(&self, context: &BackupContext<'_>, json: bool) -> anyhow::Result<bool> {
        let dir = match (&self.command, &self.dir) {
            (Some(command), _) => return command.run(context, json),
            (None, Some(dir)) => dir,
            (None, None) => bail!("the folder for the backup is missing"),
        };
        let files = (context.files_in)(None)?;
        let manifest = write_backup(dir, &files)?;
        record_time(&files.data_dir, LAST_BACKUP);
        if json {
            let mut shown = json!(manifest);
            shown["dir"] = json!(dir);
            say(&shown.to_string())?;
        } else {
            say(&format!("{} in {}", manifest.summary(), dir.display()))?;
        }
        Ok(true)
    }
}

impl RestoreArgs {
    /// Replaces the files.
    pub fn run(&self, files: &DataFiles, json: bool) -> anyhow::Result<bool> {
        let (manifest, aside) = restore(&self.dir, files, self.force)?;
        let target = &files.links.path;
        if json {
            say(&json!({ "store": target, "links": manifest.links, "moved_aside": aside })
                .to_string())?;
        } else {
            say(&format!(
                "restored the backup of {} to {}",
                manifest.created_at,
                target.display()
            ))?;
            if let Some(aside) = aside {
                say(&format!("the store that was there is now in {}", aside.display()))?;
            }
        }
        Ok(true)
    }
}

/// Replaces the files by those of a backup. Returns where the old ones are, if there were any.
pub(super) fn restore(
    dir: &Path,
    files: &DataFiles,
    force: bool,
) -> anyhow::Result<(Manifest, Option<PathBuf>)> {
    let manifest = read_manifest(dir)?;
    let target = files.links.path.clone();
    let _lock = (files.lock)().context("stop the server first")?;
    ensure!(
        force || !target.exists(),
        "there is a store already: {}; --force moves it aside and continues",
        target.display()
    );
    // Move nothing until all files have been copied and verified.
    let links = copy_in(dir, &files.links, &manifest.sha256)?;
    let mut all = Vec::new();
    for (file, copied) in [(&files.clicks, &manifest.clicks), (&files.owners, &manifest.owners)] {
        if let Some(copied) = copied {
            all.push(copy_in(dir, file, &copied.sha256)?);
        }
    }
    // The links last: if a step before fails, there is no store, and the restore can be
    // repeated.
    all.push(links);
    let mut aside = None;
    for arrived in all.iter().rev() {
        move_aside(&arrived.place, &mut aside)?;
    }
    for arrived in &all {
        std::fs::rename(&arrived.file, &arrived.place).with_context(|| match &aside {
            Some(aside) => {
                format!("putting the backup in place; what was there is in {}", aside.display())
            }
            None => "putting the backup in place".into(),
        })?;
        sync_folder(arrived.place.parent().unwrap_or(Path::new(".")))?;
    }
    Ok((manifest, aside))
}

/// A file of a backup, copied next to the path where it will be used.
struct RestoredFile {
    file: PathBuf,
    place: PathBuf,
    /// A private folder, so that files which verification leaves next to the copy are deleted too.
    _folder: tempfile::TempDir,
}

fn copy_in(dir: &Path, of: &DataFile, sha256: &str) -> anyhow::Result<RestoredFile> {
    let (name, place) = (of.name, &of.path);
    let folder = place.parent().context("the store has no folder")?;
    std::fs::create_dir_all(folder)?;
    let arriving = tempfile::Builder::new().prefix(".terse-restore").tempdir_in(folder)?;
    let incoming = arriving.path().join(name);
    let mut file = private_file(&incoming)?;
    std::io::copy(&mut File::open(dir.join(name))?, &mut file).context("copying the backup")?;
    file.sync_all()?;
    // The checksum of the copy, since the copy will be used.
    let found = digest_of(File::open(&incoming)?)?;
    ensure!(
        found == sha256,
        "the backup is damaged: the checksum of {name} is not the one in {MANIFEST}"
    );
    (of.verify)(&incoming).with_context(|| format!("{name} in the backup is damaged"))?;
    (of.skip_ahead)(&incoming)?;
    Ok(RestoredFile { file: incoming, place: place.to_owned(), _folder: arriving })
}

pub(super) fn read_manifest(dir: &Path) -> anyhow::Result<Manifest> {
    let path = dir.join(MANIFEST);
    let text = std::fs::read(&path)
        .with_context(|| format!("{} is not a backup: reading {MANIFEST}", dir.display()))?;
    parse_manifest(&text, &path.display().to_string())
}

/// Reads a manifest, which came from the place that is shown.
pub(super) fn parse_manifest(text: &[u8], shown: &str) -> anyhow::Result<Manifest> {
    let version: serde_json::Value =
        serde_json::from_slice(text).with_context(|| format!("{shown} is damaged"))?;
    match version.get("version").and_then(serde_json::Value::as_u64) {
        Some(version) if (1..=u64::from(VERSION)).contains(&version) => {}
        Some(version) => bail!(
            "the backup has version {version}, and this terse knows {VERSION}: use a newer terse"
        ),
        None => bail!("{shown} is damaged"),
    }
    serde_json::from_slice(text).with_context(|| format!("{shown} is damaged"))
}

/// Moves a store and its files into a folder, which it creates if there is something to move.
fn move_aside(store: &Path, aside: &mut Option<PathBuf>) -> anyhow::Result<()> {
    let name = store.file_name().context("the store has no name")?;
    let folder = store.parent().unwrap_or(Path::new("."));
    // The log before the store: a failure in between must not leave a log next to another store.
    for suffix in ["-wal", "-shm", "-journal", "-mark", ""] {
        let mut name = name.to_owned();
        name.push(suffix);
        let from = folder.join(&name);
        if !from.exists() {
            continue;
        }
        let into = match &mut *aside {
            Some(into) => into,
            none => none.insert(make_aside(folder)?),
        };
        std::fs::rename(&from, into.join(&name))
            .with_context(|| format!("moving {} aside", from.display()))?;
    }
    Ok(sync_folder(folder)?)
}

fn make_aside(folder: &Path) -> anyhow::Result<PathBuf> {
    let now = Clock::default().now().to_string().replace([':', '.'], "-");
    let path = folder.join(format!("before-restore-{now}"));
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&path).with_context(|| format!("making {}", path.display()))?;
    Ok(path)
}

fn private_file(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Makes names in a folder durable.
fn sync_folder(folder: &Path) -> std::io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const STORE: &str = "terse.db";

    #[test]
    fn what_was_there_is_moved_aside_whole() {
        let temp = tempfile::tempdir().unwrap();
        let store = temp.path().join(STORE);
        let mut aside = None;
        move_aside(&store, &mut aside).unwrap();
        assert_eq!(aside, None);
        for suffix in ["", "-wal", "-shm"] {
            std::fs::write(temp.path().join(format!("{STORE}{suffix}")), suffix).unwrap();
        }
        std::fs::write(temp.path().join("other"), "").unwrap();
        move_aside(&store, &mut aside).unwrap();
        let aside = aside.unwrap();
        assert!(!store.exists() && temp.path().join("other").exists());
        assert_eq!(std::fs::read_to_string(aside.join("terse.db-wal")).unwrap(), "-wal");
        assert_eq!(std::fs::read_dir(&aside).unwrap().count(), 3);
    }

    /// A note that belongs to another user cannot be written to. An open file shows whether
    /// it was, for a test that may run as root.
    #[test]
    fn a_note_of_another_user_is_replaced() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join(LAST_BACKUP);
        std::fs::write(&path, "of root").unwrap();
        let old = File::open(&path).unwrap();
        let before = std::time::SystemTime::now() - std::time::Duration::from_hours(1);
        old.set_modified(before).unwrap();
        record_time(temp.path(), LAST_BACKUP);
        assert_eq!(old.metadata().unwrap().len(), 7);
        assert!(std::fs::metadata(&path).unwrap().modified().unwrap() > before);
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 1);
    }

    /// Files whose copies hold the same text every time.
    pub(in crate::commands) fn files(data: &Path) -> DataFiles {
        let file = |name: &'static str, text: &'static str| DataFile {
            name,
            holds: "",
            path: data.join(name),
            copy: Box::new(move |_, to| Ok(std::fs::write(to, text)?)),
            inspect: Box::new(|_| Ok(())),
            verify: Box::new(|_| Ok(Some(7))),
            skip_ahead: Box::new(|_| Ok(())),
        };
        // Stands in for skipping the codes that were generated since the backup.
        let later = |file: &Path| -> anyhow::Result<()> {
            Ok(File::options().append(true).open(file)?.write_all(b", and later ones")?)
        };
        DataFiles {
            data_dir: data.to_owned(),
            links: DataFile { skip_ahead: Box::new(later), ..file(STORE, "good links") },
            clicks: file("clicks.db", "good clicks"),
            owners: DataFile { skip_ahead: Box::new(later), ..file("registry.db", "good owners") },
            lock: Box::new(|| Ok(Box::new(()))),
        }
    }

    #[test]
    fn a_backup_comes_back_and_nothing_is_lost_on_the_way() {
        let temp = tempfile::tempdir().unwrap();
        let (data, dir) = (temp.path().join("data"), temp.path().join("backups/one"));
        let files = files(&data);
        let with = |change: &dyn Fn(&mut DataFiles)| {
            let mut other = self::files(&data);
            change(&mut other);
            other
        };
        let torn = with(&|files| files.links.verify = Box::new(|_| bail!("torn")));
        let backup = |files: &DataFiles| write_backup(&dir, files);
        std::fs::create_dir_all(&data).unwrap();
        std::fs::write(data.join("clicks.db"), "clicks").unwrap();
        std::fs::write(data.join("registry.db"), "owners").unwrap();
        let full = with(&|files| files.links.copy = Box::new(|_, _| bail!("no room")));
        assert!(backup(&full).is_err());
        assert!(backup(&torn).is_err());
        assert_eq!(
            std::fs::read_dir(temp.path().join("backups")).unwrap().count(),
            0,
            "nothing half done is left"
        );
        backup(&files).unwrap();
        assert!(backup(&files).map(drop).unwrap_err().to_string().contains("not empty"));

        let read = || std::fs::read_to_string(data.join(STORE)).unwrap();
        let restore = |force| RestoreArgs { dir: dir.clone(), force };
        assert!(restore(false).run(&files, true).unwrap());
        assert_eq!(read(), "good links, and later ones");
        let clicks = || std::fs::read_to_string(data.join("clicks.db")).unwrap();
        assert_eq!(clicks(), "good clicks");
        let owners = || std::fs::read_to_string(data.join("registry.db")).unwrap();
        assert_eq!(owners(), "good owners, and later ones");
        std::fs::write(data.join(STORE), "newer links").unwrap();
        std::fs::write(data.join("clicks.db"), "newer clicks").unwrap();
        std::fs::write(data.join("registry.db"), "newer owners").unwrap();
        std::fs::write(data.join("terse.db-wal"), "log").unwrap();
        assert!(restore(false).run(&files, true).unwrap_err().to_string().contains("--force"));
        assert!(restore(true).run(&torn, true).is_err());
        let held = with(&|files| files.lock = Box::new(|| bail!("in use")));
        assert!(
            restore(true).run(&held, true).unwrap_err().to_string().contains("stop the server")
        );
        std::fs::write(dir.join(STORE), "bad links").unwrap();
        assert!(restore(true).run(&files, true).unwrap_err().to_string().contains("checksum"));
        std::fs::write(dir.join(STORE), "good links").unwrap();
        std::fs::write(dir.join("clicks.db"), "bad clicks").unwrap();
        assert!(
            restore(true)
                .run(&files, true)
                .unwrap_err()
                .to_string()
                .contains("checksum of clicks.db")
        );
        assert_eq!(
            (read(), clicks()),
            ("newer links".into(), "newer clicks".into()),
            "a restore that fails touches nothing"
        );
        assert_eq!(owners(), "newer owners");
        std::fs::write(dir.join("clicks.db"), "good clicks").unwrap();
        assert!(restore(true).run(&files, true).unwrap());
        assert_eq!(read(), "good links, and later ones");
        assert!(!data.join("terse.db-wal").exists());
        let mut names = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path());
        let aside = names.find(|path| path.join(STORE).exists()).unwrap();
        assert_eq!(std::fs::read_to_string(aside.join(STORE)).unwrap(), "newer links");
        assert_eq!(std::fs::read_to_string(aside.join("clicks.db")).unwrap(), "newer clicks");
        assert_eq!(std::fs::read_to_string(aside.join("registry.db")).unwrap(), "newer owners");
        assert_eq!(std::fs::read_to_string(aside.join("terse.db-wal")).unwrap(), "log");
    }

    #[test]
    fn a_manifest_from_the_future_is_not_guessed_at() {
        let temp = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            std::fs::write(temp.path().join(MANIFEST), text).unwrap();
            read_manifest(temp.path()).map(|_| ()).unwrap_err().to_string()
        };
        assert!(read(r#"{"version":4,"whatever":1}"#).contains("newer terse"));
        assert!(read("{}").contains("damaged"));
        assert!(read("nonsense").contains("damaged"));
        assert!(read(r#"{"version":1}"#).contains("damaged"));
        assert!(
            read_manifest(&temp.path().join("absent"))
                .unwrap_err()
                .to_string()
                .contains("not a backup")
        );
    }
}
