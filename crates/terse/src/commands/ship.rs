//! `terse ship`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use terse_cli::terminal::say;
use terse_clicks::{Shipper, ShipperParts};
use terse_core::Clock;
use terse_core::clicks::{ClickStore, LiveFeed};

use super::import_clicks::address_precision;
use crate::backends::{self, DataDir, LockGuard};
use crate::cli::LocalContext;
use crate::memory_plan::MemoryPlan;

/// Count the clicks in the journal of a node that does not come back, and delete what is counted.
/// Each click counts once: the store knows how far the node has counted it. The settings say where
/// clicks are stored. With a store in files, stop the server first.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  terse ship --journal /mnt/rescued/terse/journal

A node that starts on the data folder counts its journal by itself. Do not ship a copy of a journal
whose node still runs: that node then stops counting until it is restarted.")]
pub(crate) struct ShipArgs {
    /// The folder `journal` of the node's data folder
    #[arg(long, value_name = "DIR")]
    journal: PathBuf,
    /// How long to try, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    wait: u32,
}

impl ShipArgs {
    pub(crate) fn run(&self, context: &LocalContext) -> anyhow::Result<bool> {
        let config = context.config();
        anyhow::ensure!(config.has_store(), "there is no store in {}", config.data_dir.display());
        anyhow::ensure!(
            config.clicks.bus.is_none(),
            "with clicks.bus only a node knows what of its journal is on the bus: start a node on \
             the data folder instead"
        );
        let folder = journal_folder(&self.journal)?;
        let _locks = lock(&folder, context)?;
        // The store works on the runtime's threads while the shipper's thread waits for it.
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let store = runtime.block_on(backends::open(config))?;
        let shipper = Shipper::start(ShipperParts {
            folder,
            run: getrandom::u64().context("naming this run")?,
            store: Arc::<dyn ClickStore>::clone(&store.clicks),
            live: Arc::<LiveFeed>::default(),
            places: config.clicks.geo_database.clone(),
            keep: address_precision(config),
            // Nothing is dropped: no new clicks come.
            limit_bytes: u64::MAX,
            batch_bytes: MemoryPlan::of(config).click_batch(),
            flush: config.clicks.flush.get(),
            clock: Clock::default(),
        })
        .context("reading the journal")?;
        let counts = shipper.counts();
        let complete = shipper.stop(Duration::from_secs(self.wait.into()), true);
        drop(store);
        let counted = counts.recorded.load(Ordering::Relaxed);
        let unreadable = counts.unreadable.load(Ordering::Relaxed);
        anyhow::ensure!(
            !counts.fenced.load(Ordering::Relaxed),
            "another process has opened this journal and counts the rest; {counted} clicks were \
             counted before"
        );
        anyhow::ensure!(
            complete,
            "{counted} clicks were counted; the rest is still in the journal. Run the command again"
        );
        say(&if context.json {
            json!({ "counted": counted, "unreadable": unreadable }).to_string()
        } else {
            format!("{counted} clicks counted, {unreadable} cannot be read. The journal is empty.")
        })?;
        Ok(true)
    }
}

/// The folder, if it is one of a journal. The shipper would make a new journal of any other.
fn journal_folder(path: &Path) -> anyhow::Result<PathBuf> {
    let folder = path.canonicalize().with_context(|| format!("opening {}", path.display()))?;
    let entries = folder.read_dir().with_context(|| format!("reading {}", path.display()))?;
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    let is_journal = names.iter().any(|name| {
        name == "journal.id" || Path::new(name).extension().is_some_and(|e| e == "clicks")
    });
    anyhow::ensure!(
        is_journal,
        "{} is no journal: name the folder `journal` in the data folder of a node",
        path.display()
    );
    Ok(folder)
}

/// Locks the data folder around the journal, so that no node starts there meanwhile, and that of
/// the store if it is one of files.
fn lock(journal: &Path, context: &LocalContext) -> anyhow::Result<Vec<LockGuard>> {
    let config = context.config();
    let own = DataDir::open(&config.data_dir)?;
    let mut locks = Vec::new();
    let around = journal.parent().and_then(DataDir::existing).filter(DataDir::was_locked);
    if let Some(around) = &around {
        locks.push(around.lock().context("the journal is in use")?);
    }
    let is_shared = config.is_shared() && config.clicks_database().is_some();
    let is_own = around
        .is_some_and(|around| own.path().canonicalize().is_ok_and(|own| own == around.path()));
    if !is_shared && !is_own {
        locks.push(own.lock()?);
    }
    Ok(locks)
}
