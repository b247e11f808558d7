//! `terse backup` and `terse restore`.
//!
//! A backup is a folder: copies of the links, the clicks and the registry, and a manifest with
//! their checksums. The folder gets its name only when it is complete. A restore deletes nothing:
//! it moves the existing store aside.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;
use terse_core::Clock;

use crate::backends;
use crate::backends::DataDir;
use crate::cli::Context;
use crate::config::Config;
use terse_cli::digest_of;
use terse_cli::terminal::say;

const MANIFEST: &str = "manifest.json";
/// The version of the manifest. Newer ones are refused, since they may list files that we would
/// lose. Version 1 had no clicks, version 2 no owners.
const VERSION: u32 = 3;

/// A file of a backup.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Piece {
    Links,
    Clicks,
    Owners,
}

impl Piece {
    /// The file's name in a backup.
    fn name(self) -> &'static str {
        match self {
            Self::Links => "terse.db",
            Self::Clicks => "clicks.db",
            Self::Owners => "registry.db",
        }
    }

    /// The file's path in use.
    fn place(self, config: &Config) -> PathBuf {
        match self {
            Self::Links => config.store_file(),
            Self::Clicks => config.clicks_file(),
            Self::Owners => config.registry_file(),
        }
    }

    fn copy(self, config: &Config, to: &Path) -> anyhow::Result<()> {
        match self {
            Self::Links => backends::backup(config, to),
            Self::Clicks => backends::backup_clicks(config, to),
            Self::Owners => backends::backup_registry(config, to),
        }
    }

    fn verify(self, file: &Path) -> anyhow::Result<Option<u64>> {
        match self {
            Self::Links => backends::verify(file),
            Self::Clicks => backends::verify_clicks(file),
            Self::Owners => backends::verify_registry(file),
        }
    }

    /// Prepares a restored file for use.
    fn skip_ahead(self, file: &Path) -> anyhow::Result<()> {
        match self {
            Self::Links => backends::skip_ahead(file),
            Self::Clicks => Ok(()),
            Self::Owners => backends::skip_ahead_registry(file),
        }
    }
}

/// Copy snapshots of links, clicks and accounts into a new folder. Works while a
/// server is running.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  terse backup /backups/terse-$(date +%F)")]
pub(crate) struct Backup {
    /// The folder to create; it must not exist or must be empty
    dir: PathBuf,
}

/// Replace the store with a backup. The server must not be running.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  terse restore /backups/terse-2030-01-31 --force")]
pub(crate) struct Restore {
    /// The folder that `terse backup` created
    dir: PathBuf,
    /// Restore even if there is a store; it is moved aside, not deleted
    #[arg(long)]
    force: bool,
}

/// The manifest of a backup.
#[derive(Debug, Deserialize, Serialize)]
struct Manifest {
    /// The version of the manifest.
    version: u32,
    /// The version of terse that wrote it.
    terse: String,
    created_at: String,
    /// The checksum of the links' file.
    sha256: String,
    bytes: u64,
    /// The number of links, if known.
    links: Option<u64>,
    /// The clicks, if there is a clicks file.
    #[serde(default)]
    clicks: Option<Copied>,
    /// The owners, if there is a registry file.
    #[serde(default)]
    owners: Option<Copied>,
}

/// One file of a backup.
#[derive(Debug, Deserialize, Serialize)]
struct Copied {
    sha256: String,
    bytes: u64,
    /// The number of entries, if known.
    count: Option<u64>,
}

/// Files can be copied; a database is its server's to copy.
fn refuse_database(config: &Config) -> anyhow::Result<()> {
    ensure!(
        !config.is_shared(),
        "links and owners are in PostgreSQL: back them up and restore them with its own tools, \
         such as pg_dump"
    );
    Ok(())
}

impl Backup {
    pub(crate) fn run(&self, context: &Context) -> anyhow::Result<bool> {
        refuse_database(context.config())?;
        self.through(context, |piece, to| piece.copy(context.config(), to), Piece::verify)
    }

    fn through(
        &self,
        context: &Context,
        copy: impl Fn(Piece, &Path) -> anyhow::Result<()>,
        verify: impl Fn(Piece, &Path) -> anyhow::Result<Option<u64>>,
    ) -> anyhow::Result<bool> {
        let empty = std::fs::read_dir(&self.dir).map(|mut entries| entries.next().is_none());
        ensure!(
            empty.unwrap_or(!self.dir.exists()),
            "{} is there already and not empty",
            self.dir.display()
        );
        let folder = self
            .dir
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        // A private folder (0700), which is deleted if anything below fails.
        let partial = tempfile::Builder::new().prefix(".terse-backup").tempdir_in(folder)?;
        let copied = |piece: Piece| -> anyhow::Result<Copied> {
            let path = partial.path().join(piece.name());
            copy(piece, &path).with_context(|| format!("copying {}", piece.name()))?;
            let count = verify(piece, &path)
                .with_context(|| format!("the copy of {} is not sound", piece.name()))?;
            let file = File::open(&path)?;
            file.sync_all()?;
            Ok(Copied { sha256: digest_of(&file)?, bytes: file.metadata()?.len(), count })
        };
        let created_at = Clock::default().now().to_string();
        let Copied { sha256, bytes, count: links } = copied(Piece::Links)?;
        let if_there = |piece: Piece| {
            piece.place(context.config()).exists().then(|| copied(piece)).transpose()
        };
        // Copy owners after links: an owner without links is harmless, a link without its owner is
        // not.
        let (clicks, owners) = (if_there(Piece::Clicks)?, if_there(Piece::Owners)?);
        let terse = env!("CARGO_PKG_VERSION").into();
        let manifest =
            Manifest { version: VERSION, terse, created_at, sha256, bytes, links, clicks, owners };
        let mut out = File::create(partial.path().join(MANIFEST))?;
        out.write_all(&serde_json::to_vec_pretty(&manifest)?)?;
        out.sync_all()?;
        sync_folder(partial.path())?;
        std::fs::rename(partial.path(), &self.dir)
            .with_context(|| format!("naming the backup {}", self.dir.display()))?;
        drop(partial.keep());
        sync_folder(folder)?;
        // For the metrics of a server on this folder. Not fatal: the backup is complete.
        let note = context.config().data_dir.join(crate::metrics::LAST_BACKUP);
        if let Err(error) = File::create(note) {
            tracing::warn!(%error, "the time of the backup was not noted");
        }
        if context.json {
            let mut told = json!(manifest);
            told["dir"] = json!(self.dir);
            say(&told.to_string())?;
        } else {
            let told = |count: Option<u64>, what: &str| match count {
                Some(1) => format!("1 {what}, "),
                Some(count) => format!("{count} {what}s, "),
                None => String::new(),
            };
            let links = told(manifest.links, "link");
            let count = |copied: &Option<Copied>| copied.as_ref().and_then(|copied| copied.count);
            let (clicks, owners) =
                (told(count(&manifest.clicks), "click"), told(count(&manifest.owners), "account"));
            let further = [&manifest.clicks, &manifest.owners].into_iter().flatten();
            let bytes = manifest.bytes + further.map(|copied| copied.bytes).sum::<u64>();
            say(&format!("{links}{clicks}{owners}{bytes} bytes in {}", self.dir.display()))?;
        }
        Ok(true)
    }
}

impl Restore {
    pub(crate) fn run(&self, context: &Context) -> anyhow::Result<bool> {
        refuse_database(context.config())?;
        self.through(context, Piece::verify, Piece::skip_ahead)
    }

    fn through(
        &self,
        context: &Context,
        verify: impl Fn(Piece, &Path) -> anyhow::Result<Option<u64>>,
        skip_ahead: impl Fn(Piece, &Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<bool> {
        let manifest = read_manifest(&self.dir)?;
        let target = Piece::Links.place(context.config());
        let dir = DataDir::open(&context.config().data_dir)?;
        let _lock = dir.lock().context("stop the server first")?;
        ensure!(
            self.force || !target.exists(),
            "there is a store already: {}; --force moves it aside and goes on",
            target.display()
        );
        // Move nothing until all files have been copied and verified.
        let links = self.arrive(Piece::Links, &manifest.sha256, &target, &verify)?;
        skip_ahead(Piece::Links, &links.file)?;
        let mut all = Vec::new();
        for (piece, copied) in
            [(Piece::Clicks, &manifest.clicks), (Piece::Owners, &manifest.owners)]
        {
            let Some(copied) = copied else { continue };
            let arrived =
                self.arrive(piece, &copied.sha256, &piece.place(context.config()), &verify)?;
            skip_ahead(piece, &arrived.file)?;
            all.push(arrived);
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
        if context.json {
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

/// A file of a backup, copied next to the path where it will be used.
struct Arrived {
    file: PathBuf,
    place: PathBuf,
    /// A private folder, so that files which verification leaves next to the copy are deleted too.
    _folder: tempfile::TempDir,
}

impl Restore {
    fn arrive(
        &self,
        piece: Piece,
        sha256: &str,
        place: &Path,
        verify: impl Fn(Piece, &Path) -> anyhow::Result<Option<u64>>,
    ) -> anyhow::Result<Arrived> {
        let folder = place.parent().context("the store has no folder")?;
        std::fs::create_dir_all(folder)?;
        let arriving = tempfile::Builder::new().prefix(".terse-restore").tempdir_in(folder)?;
        let incoming = arriving.path().join(piece.name());
        let mut file = private_file(&incoming)?;
        std::io::copy(&mut File::open(self.dir.join(piece.name()))?, &mut file)
            .context("copying the backup")?;
        file.sync_all()?;
        // The checksum of the copy, since the copy will be used.
        let found = digest_of(File::open(&incoming)?)?;
        ensure!(
            found == sha256,
            "the backup is damaged: the checksum of {} is not the one in {MANIFEST}",
            piece.name()
        );
        verify(piece, &incoming)
            .with_context(|| format!("{} in the backup is not sound", piece.name()))?;
        Ok(Arrived { file: incoming, place: place.to_owned(), _folder: arriving })
    }
}

fn read_manifest(dir: &Path) -> anyhow::Result<Manifest> {
    let path = dir.join(MANIFEST);
    let text = std::fs::read(&path)
        .with_context(|| format!("{} is not a backup: reading {MANIFEST}", dir.display()))?;
    let version: serde_json::Value =
        serde_json::from_slice(&text).with_context(|| format!("{} is damaged", path.display()))?;
    match version.get("version").and_then(serde_json::Value::as_u64) {
        Some(version) if (1..=u64::from(VERSION)).contains(&version) => {}
        Some(version) => bail!(
            "the backup has version {version}, and this terse knows {VERSION}: use a newer terse"
        ),
        None => bail!("{} is damaged", path.display()),
    }
    serde_json::from_slice(&text).with_context(|| format!("{} is damaged", path.display()))
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
mod tests {
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

    fn context(data: &Path) -> Context {
        let flags = vec![("data_dir".to_owned(), data.display().to_string())];
        let loaded =
            crate::config::Config::load(&crate::config::Sources { flags, ..Default::default() })
                .unwrap();
        Context { loaded, json: true }
    }

    #[test]
    fn a_backup_comes_back_and_nothing_is_lost_on_the_way() {
        let temp = tempfile::tempdir().unwrap();
        let (data, dir) = (temp.path().join("data"), temp.path().join("backups/one"));
        let context = context(&data);
        let copy = |piece: Piece, to: &Path| {
            let text = match piece {
                Piece::Links => "good links",
                Piece::Clicks => "good clicks",
                Piece::Owners => "good owners",
            };
            Ok(std::fs::write(to, text)?)
        };
        let sound = |_: Piece, _: &Path| Ok(Some(7));
        // Stands in for skipping the codes that were generated since the backup.
        let later = |piece: Piece, file: &Path| match piece {
            Piece::Clicks => Ok(()),
            _ => Ok(File::options().append(true).open(file)?.write_all(b", and later ones")?),
        };
        let backup = Backup { dir: dir.clone() };
        std::fs::create_dir_all(&data).unwrap();
        std::fs::write(data.join("clicks.db"), "clicks").unwrap();
        std::fs::write(data.join("registry.db"), "owners").unwrap();
        assert!(backup.through(&context, |_, _| bail!("no room"), sound).is_err());
        assert!(backup.through(&context, copy, |_, _| bail!("torn")).is_err());
        assert_eq!(
            std::fs::read_dir(temp.path().join("backups")).unwrap().count(),
            0,
            "nothing half done is left"
        );
        assert!(backup.through(&context, copy, sound).unwrap());
        assert!(
            backup.through(&context, copy, sound).unwrap_err().to_string().contains("not empty")
        );

        let read = || std::fs::read_to_string(data.join(STORE)).unwrap();
        let restore = |force| Restore { dir: dir.clone(), force };
        assert!(restore(false).through(&context, sound, later).unwrap());
        assert_eq!(read(), "good links, and later ones");
        let clicks = || std::fs::read_to_string(data.join("clicks.db")).unwrap();
        assert_eq!(clicks(), "good clicks");
        let owners = || std::fs::read_to_string(data.join("registry.db")).unwrap();
        assert_eq!(owners(), "good owners, and later ones");
        std::fs::write(data.join(STORE), "newer links").unwrap();
        std::fs::write(data.join("clicks.db"), "newer clicks").unwrap();
        std::fs::write(data.join("registry.db"), "newer owners").unwrap();
        std::fs::write(data.join("terse.db-wal"), "log").unwrap();
        assert!(
            restore(false)
                .through(&context, sound, later)
                .unwrap_err()
                .to_string()
                .contains("--force")
        );
        assert!(restore(true).through(&context, |_, _| bail!("torn"), later).is_err());
        let held = DataDir::open(&data).unwrap().lock().unwrap();
        assert!(
            restore(true)
                .through(&context, sound, later)
                .unwrap_err()
                .to_string()
                .contains("stop the server")
        );
        drop(held);
        std::fs::write(dir.join(STORE), "bad links").unwrap();
        assert!(
            restore(true)
                .through(&context, sound, later)
                .unwrap_err()
                .to_string()
                .contains("checksum")
        );
        std::fs::write(dir.join(STORE), "good links").unwrap();
        std::fs::write(dir.join("clicks.db"), "bad clicks").unwrap();
        assert!(
            restore(true)
                .through(&context, sound, later)
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
        assert!(restore(true).through(&context, sound, later).unwrap());
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
