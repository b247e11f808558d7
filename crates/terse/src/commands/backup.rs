//! `terse backup` and `terse restore`.
//!
//! A backup is a folder: a copy of the store, and a manifest with its checksum. It appears under its name only when it is
//! complete. A restore never deletes anything: what was there before is moved aside.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;
use terse_core::Clock;

use crate::backends;
use crate::cli::Context;
use crate::run_file::DataDir;
use crate::terminal::say;
use crate::transfer::digest_of;

const STORE: &str = "terse.db";
const MANIFEST: &str = "manifest.json";
/// The form of manifests; a later one may hold what we would lose.
const VERSION: u32 = 1;

/// Copy the store into a new folder, as it is at one moment. Works while a server is running.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  terse backup /backups/terse-$(date +%F)")]
pub(crate) struct Backup {
    /// The folder to make; it must not exist, or be empty
    dir: PathBuf,
}

/// Put a backup in the place of the store. The server must not be running.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  terse restore /backups/terse-2030-01-31 --force")]
pub(crate) struct Restore {
    /// The folder that `terse backup` made
    dir: PathBuf,
    /// Even if there is a store; it is moved aside, not deleted
    #[arg(long)]
    force: bool,
}

/// What a backup says about itself.
#[derive(Debug, Deserialize, Serialize)]
struct Manifest {
    /// The form of this manifest.
    version: u32,
    /// Which terse wrote it.
    terse: String,
    created_at: String,
    /// Of the store's file.
    sha256: String,
    bytes: u64,
    /// How many links there are, if it was known.
    links: Option<u64>,
}

impl Backup {
    pub(crate) fn run(&self, context: &Context) -> anyhow::Result<bool> {
        context.only_here("backup")?;
        self.through(context, |to| backends::backup(context.config(), to), backends::verify)
    }

    fn through(
        &self,
        context: &Context,
        copy: impl FnOnce(&Path) -> anyhow::Result<()>,
        verify: impl FnOnce(&Path) -> anyhow::Result<Option<u64>>,
    ) -> anyhow::Result<bool> {
        let empty = std::fs::read_dir(&self.dir).map(|mut entries| entries.next().is_none());
        ensure!(empty.unwrap_or(!self.dir.exists()), "{} is there already and not empty", self.dir.display());
        let folder = self.dir.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        // 0700, and gone again if anything below fails.
        let partial = tempfile::Builder::new().prefix(".terse-backup").tempdir_in(folder)?;
        let store = partial.path().join(STORE);
        copy(&store).context("copying the store")?;
        let links = verify(&store).context("the copy is not sound")?;
        let file = File::open(&store)?;
        let manifest = Manifest {
            version: VERSION,
            terse: env!("CARGO_PKG_VERSION").into(),
            created_at: Clock::default().now().to_string(),
            sha256: digest_of(&file)?,
            bytes: file.metadata()?.len(),
            links,
        };
        file.sync_all()?;
        let mut out = File::create(partial.path().join(MANIFEST))?;
        out.write_all(&serde_json::to_vec_pretty(&manifest)?)?;
        out.sync_all()?;
        sync_folder(partial.path())?;
        std::fs::rename(partial.path(), &self.dir).with_context(|| format!("naming the backup {}", self.dir.display()))?;
        drop(partial.keep());
        sync_folder(folder)?;
        if context.json {
            let mut told = json!(manifest);
            told["dir"] = json!(self.dir);
            say(&told.to_string())?;
        } else {
            let links = manifest.links.map(|links| format!("{links} links, ")).unwrap_or_default();
            say(&format!("{links}{} bytes in {}", manifest.bytes, self.dir.display()))?;
        }
        Ok(true)
    }
}

impl Restore {
    pub(crate) fn run(&self, context: &Context) -> anyhow::Result<bool> {
        context.only_here("restore")?;
        self.through(context, backends::verify, backends::skip_ahead)
    }

    fn through(
        &self,
        context: &Context,
        verify: impl FnOnce(&Path) -> anyhow::Result<Option<u64>>,
        skip_ahead: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<bool> {
        let manifest = read_manifest(&self.dir)?;
        let target = context.config().store_file();
        let dir = DataDir::open(&context.config().data_dir)?;
        let _lock = dir.lock().context("stop the server first")?;
        ensure!(
            self.force || !target.exists(),
            "there is a store already: {}; --force moves it aside and goes on",
            target.display()
        );
        let folder = target.parent().context("the store has no folder")?;
        std::fs::create_dir_all(folder)?;
        // In a folder of its own, private, so that whatever verifying leaves beside the copy goes away with it.
        let arriving = tempfile::Builder::new().prefix(".terse-restore").tempdir_in(folder)?;
        let incoming = arriving.path().join(STORE);
        let mut file = private_file(&incoming)?;
        std::io::copy(&mut File::open(self.dir.join(STORE))?, &mut file).context("copying the backup")?;
        file.sync_all()?;
        // Of the copy, which is what will be used.
        let sha256 = digest_of(File::open(&incoming)?)?;
        ensure!(sha256 == manifest.sha256, "the backup is damaged: its checksum is not the one in {MANIFEST}");
        verify(&incoming).context("the backup is not sound")?;
        skip_ahead(&incoming)?;
        let aside = move_aside(&target)?;
        std::fs::rename(&incoming, &target).with_context(|| match &aside {
            Some(aside) => format!("putting the backup in place; the old store is in {}", aside.display()),
            None => "putting the backup in place".into(),
        })?;
        sync_folder(folder)?;
        if context.json {
            say(&json!({ "store": target, "links": manifest.links, "moved_aside": aside }).to_string())?;
        } else {
            say(&format!("restored the backup of {} to {}", manifest.created_at, target.display()))?;
            if let Some(aside) = aside {
                say(&format!("the store that was there is now in {}", aside.display()))?;
            }
        }
        Ok(true)
    }
}

fn read_manifest(dir: &Path) -> anyhow::Result<Manifest> {
    let path = dir.join(MANIFEST);
    let text = std::fs::read(&path).with_context(|| format!("{} is not a backup: reading {MANIFEST}", dir.display()))?;
    let version: serde_json::Value = serde_json::from_slice(&text).with_context(|| format!("{} is damaged", path.display()))?;
    match version.get("version").and_then(serde_json::Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => bail!("the backup has version {version}, and this terse knows {VERSION}: use a newer terse"),
        None => bail!("{} is damaged", path.display()),
    }
    serde_json::from_slice(&text).with_context(|| format!("{} is damaged", path.display()))
}

/// Moves a store and the files that belong to it into a folder of their own.
fn move_aside(store: &Path) -> anyhow::Result<Option<PathBuf>> {
    let name = store.file_name().context("the store has no name")?;
    let folder = store.parent().unwrap_or(Path::new("."));
    let mut aside = None;
    // The log before the store itself: whatever happens, no log is left beside a store that it does not belong to.
    for suffix in ["-wal", "-shm", "-journal", ""] {
        let mut name = name.to_owned();
        name.push(suffix);
        let from = folder.join(&name);
        if !from.exists() {
            continue;
        }
        let into = match &aside {
            Some(into) => into,
            None => aside.insert(make_aside(folder)?),
        };
        std::fs::rename(&from, into.join(&name)).with_context(|| format!("moving {} aside", from.display()))?;
    }
    sync_folder(folder)?;
    Ok(aside)
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

    #[test]
    fn what_was_there_is_moved_aside_whole() {
        let temp = tempfile::tempdir().unwrap();
        let store = temp.path().join(STORE);
        assert_eq!(move_aside(&store).unwrap(), None);
        for suffix in ["", "-wal", "-shm"] {
            std::fs::write(temp.path().join(format!("{STORE}{suffix}")), suffix).unwrap();
        }
        std::fs::write(temp.path().join("other"), "").unwrap();
        let aside = move_aside(&store).unwrap().unwrap();
        assert!(!store.exists() && temp.path().join("other").exists());
        assert_eq!(std::fs::read_to_string(aside.join("terse.db-wal")).unwrap(), "-wal");
        assert_eq!(std::fs::read_dir(&aside).unwrap().count(), 3);
    }

    fn context(data: &Path) -> Context {
        let flags = vec![("data_dir".to_owned(), data.display().to_string())];
        let loaded = crate::config::Config::load(&crate::config::Sources { flags, ..Default::default() }).unwrap();
        Context { loaded, json: true, remote: None }
    }

    #[test]
    fn a_backup_comes_back_and_nothing_is_lost_on_the_way() {
        let temp = tempfile::tempdir().unwrap();
        let (data, dir) = (temp.path().join("data"), temp.path().join("backups/one"));
        let context = context(&data);
        let copy = |to: &Path| Ok(std::fs::write(to, "good links")?);
        let sound = |_: &Path| Ok(Some(7));
        // Stands in for the leap over the codes that were given out since.
        let later = |file: &Path| Ok(File::options().append(true).open(file)?.write_all(b", and later ones")?);
        let backup = Backup { dir: dir.clone() };
        assert!(backup.through(&context, |_| bail!("no room"), sound).is_err());
        assert!(backup.through(&context, copy, |_| bail!("torn")).is_err());
        assert_eq!(std::fs::read_dir(temp.path().join("backups")).unwrap().count(), 0, "nothing half done is left");
        assert!(backup.through(&context, copy, sound).unwrap());
        assert!(backup.through(&context, copy, sound).unwrap_err().to_string().contains("not empty"));

        let read = || std::fs::read_to_string(data.join(STORE)).unwrap();
        let restore = |force| Restore { dir: dir.clone(), force };
        assert!(restore(false).through(&context, sound, later).unwrap());
        assert_eq!(read(), "good links, and later ones");
        std::fs::write(data.join(STORE), "newer links").unwrap();
        std::fs::write(data.join("terse.db-wal"), "log").unwrap();
        assert!(restore(false).through(&context, sound, later).unwrap_err().to_string().contains("--force"));
        assert!(restore(true).through(&context, |_| bail!("torn"), later).is_err());
        let held = DataDir::open(&data).unwrap().lock().unwrap();
        assert!(restore(true).through(&context, sound, later).unwrap_err().to_string().contains("stop the server"));
        drop(held);
        std::fs::write(dir.join(STORE), "bad links").unwrap();
        assert!(restore(true).through(&context, sound, later).unwrap_err().to_string().contains("checksum"));
        assert_eq!(read(), "newer links", "a restore that fails touches nothing");
        std::fs::write(dir.join(STORE), "good links").unwrap();
        assert!(restore(true).through(&context, sound, later).unwrap());
        assert_eq!(read(), "good links, and later ones");
        assert!(!data.join("terse.db-wal").exists());
        let mut names = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path());
        let aside = names.find(|path| path.to_string_lossy().contains("before-restore")).unwrap();
        assert_eq!(std::fs::read_to_string(aside.join(STORE)).unwrap(), "newer links");
        assert_eq!(std::fs::read_to_string(aside.join("terse.db-wal")).unwrap(), "log");
    }

    #[test]
    fn a_manifest_from_the_future_is_not_guessed_at() {
        let temp = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            std::fs::write(temp.path().join(MANIFEST), text).unwrap();
            read_manifest(temp.path()).map(|_| ()).unwrap_err().to_string()
        };
        assert!(read(r#"{"version":2,"whatever":1}"#).contains("newer terse"));
        assert!(read("{}").contains("damaged"));
        assert!(read("nonsense").contains("damaged"));
        assert!(read(r#"{"version":1}"#).contains("damaged"));
        assert!(read_manifest(&temp.path().join("absent")).unwrap_err().to_string().contains("not a backup"));
    }
}
