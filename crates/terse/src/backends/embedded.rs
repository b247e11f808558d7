//! The embedded stores: SQLite files in the data folder.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use terse_cli::{DataFile, DataFiles};
use terse_core::limits::Limiter;
use terse_core::registry::NodeId;
use terse_core::{CheckResult, Clock, Finding};
use terse_embedded::{
    ClickOptions, DataDir, DiskReserve, EmbeddedClicks, EmbeddedLinks, EmbeddedOptions,
    EmbeddedRegistry, LocalLimiter, RegistryOptions,
};

use super::Stores;
use crate::config::{Config, StoreUrl};
use crate::memory_plan::MemoryPlan;
use crate::serve::alphabet;

const OLDER_REGISTRY: &str = "registry.db is older than the links: some links belong to accounts \
    that it does not know. New accounts get other ids. Restore a newer registry.db if there is one";

/// The folder of a copy of the clicks, while a server moves.
pub(super) const MIGRATING: &str = "migrating";
/// The folder in which files of another store arrive, and the file that says that all are there.
pub(super) const INCOMING: &str = "incoming";
pub(super) const COMPLETE: &str = "complete";

/// Removes the copy that a move has left which was killed. The caller holds the lock of the data
/// folder.
pub(crate) fn remove_leftovers(config: &Config) {
    let Some(left) = DataDir::existing(&config.data_dir.join(MIGRATING)) else { return };
    // A move that is under way holds its lock.
    if left.lock().is_ok()
        && let Err(error) = std::fs::remove_dir_all(left.path())
    {
        tracing::warn!(%error, folder = %left.path().display(), "a copy that a move of the data \
            has left cannot be removed");
    }
}

/// Opens the files that the settings name.
pub(super) async fn open(config: &Config) -> anyhow::Result<Stores> {
    ensure!(
        !config.data_dir.join(INCOMING).join(COMPLETE).exists(),
        "a move into files has not finished: run `terse migrate` again"
    );
    let memory = MemoryPlan::of(config);
    let options = EmbeddedOptions {
        alphabet: alphabet(config),
        cache_bytes: memory.link_store,
        ..EmbeddedOptions::new(config.store_file())
    };
    let path = options.path.clone();
    let opened = tokio::task::spawn_blocking(move || EmbeddedLinks::open(options))
        .await
        .context("opening the store")?;
    let embedded =
        Arc::new(opened.with_context(|| format!("opening the store {}", path.display()))?);
    let (embedded_clicks, disk_reserve) = open_clicks(config).await?;
    let path = config.registry_file();
    let options =
        RegistryOptions { cache_bytes: memory.registry, ..RegistryOptions::new(path.clone()) };
    let opened = tokio::task::spawn_blocking(move || EmbeddedRegistry::open(options))
        .await
        .context("opening the registry of owners")?;
    let embedded_registry = Arc::new(
        opened.with_context(|| format!("opening the registry of owners {}", path.display()))?,
    );
    terse_embedded::move_into_registry(&embedded, &embedded_clicks, &embedded_registry)
        .await
        .context("moving the admin key and the salts of an earlier version into the registry")?;
    let older_registry = terse_embedded::skip_owners_of_links(&embedded, &embedded_registry)
        .await
        .context("comparing the accounts with the owners of links")?;
    if older_registry {
        tracing::error!("{OLDER_REGISTRY}");
    }
    let notice = embedded.notice().or(older_registry.then_some(OLDER_REGISTRY)).map(str::to_owned);
    let waiting = Arc::clone(&embedded);
    Ok(Stores {
        links: embedded.clone(),
        clicks: embedded_clicks.clone(),
        registry: embedded_registry.clone(),
        disk_reserve,
        shares_clicks: false,
        bus_ledger: None,
        leases: embedded_registry.clone(),
        // One process at a time uses an embedded store, so every start has the same name and takes
        // its own lease again at once.
        node: NodeId::parse("local").context("naming this node")?,
        notice,
        queue_depth: Arc::new(move || waiting.queue_depth()),
        metrics: Vec::new(),
        jobs: Vec::new(),
        close: Box::new(move || {
            embedded_clicks.close();
            embedded_registry.close();
            embedded.close();
        }),
    })
}

/// The free space of the data folder's disk that is left to links.
pub(super) fn disk_reserve(config: &Config) -> Arc<DiskReserve> {
    Arc::new(DiskReserve::new(&config.data_dir, config.storage.reserve.bytes()))
}

/// Opens the clicks file that the settings name, and the reserve that it leaves to links.
pub(super) async fn open_clicks(
    config: &Config,
) -> anyhow::Result<(Arc<EmbeddedClicks>, Arc<DiskReserve>)> {
    let path = config.clicks_file();
    let disk_reserve = disk_reserve(config);
    let options = ClickOptions {
        keep_raw: !config.clicks.keep_raw.get().is_zero(),
        reserve: Arc::clone(&disk_reserve),
        cache_bytes: MemoryPlan::of(config).click_store,
        ..ClickOptions::new(path.clone())
    };
    let opened = tokio::task::spawn_blocking(move || EmbeddedClicks::open(options))
        .await
        .context("opening the store of clicks")?;
    let embedded_clicks = Arc::new(opened.with_context(|| {
        let advice =
            "the links are not affected: restore a backup, or move this file away to count again";
        format!("opening the store of clicks {} ({advice})", path.display())
    })?);
    Ok((embedded_clicks, disk_reserve))
}

/// Counts against rate limits, in this process.
pub(crate) fn limiter(clock: &Clock) -> Arc<dyn Limiter> {
    Arc::new(LocalLimiter::new(clock.clone()))
}

/// The files of the stores that are files, for backups and checks.
pub(crate) fn data_files(config: &Config) -> DataFiles {
    let data_dir = config.data_dir.clone();
    DataFiles {
        data_dir: data_dir.clone(),
        links: DataFile {
            name: "terse.db",
            holds: "links",
            path: config.store_file(),
            copy: Box::new(|from, to| {
                terse_embedded::backup(from, to).context("copying the store")
            }),
            inspect: Box::new(|file| terse_embedded::inspect(file).context("opening the store")),
            verify: Box::new(|file| {
                let report = terse_embedded::verify(file).context("reading the store")?;
                ensure!(report.is_clean(), "the store is damaged: {report:?}");
                Ok(Some(report.links))
            }),
            skip_ahead: Box::new(|file| {
                terse_embedded::skip_ahead(file)
                    .context("skipping the codes that may have been issued since")
            }),
        },
        clicks: DataFile {
            name: "clicks.db",
            holds: "clicks",
            path: config.clicks_file(),
            copy: Box::new(|from, to| {
                terse_embedded::backup_clicks(from, to).context("copying the clicks")
            }),
            inspect: Box::new(|file| {
                terse_embedded::inspect_clicks(file).context("opening the clicks")
            }),
            verify: Box::new(|file| {
                let report = terse_embedded::verify_clicks(file).context("reading the clicks")?;
                ensure!(report.is_clean(), "the clicks are damaged: {report:?}");
                Ok(Some(report.clicks))
            }),
            skip_ahead: Box::new(|_| Ok(())),
        },
        owners: DataFile {
            name: "registry.db",
            holds: "owners",
            path: config.registry_file(),
            copy: Box::new(|from, to| {
                terse_embedded::backup_registry(from, to).context("copying the owners")
            }),
            inspect: Box::new(|file| {
                terse_embedded::inspect_registry(file).context("opening the registry of owners")
            }),
            verify: Box::new(|file| {
                let report = terse_embedded::verify_registry(file)
                    .context("reading the registry of owners")?;
                ensure!(report.is_clean(), "the registry of owners is damaged: {report:?}");
                Ok(Some(report.accounts))
            }),
            skip_ahead: Box::new(|file| {
                terse_embedded::skip_ahead_registry(file)
                    .context("skipping the ids that may have been issued since")
            }),
        },
        lock: Box::new(move || Ok(Box::new(DataDir::open(&data_dir)?.lock()?))),
    }
}

/// The same files in another data folder, with their usual names.
pub(crate) fn data_files_in(config: &Config, dir: &Path) -> DataFiles {
    let mut config = config.clone();
    config.data_dir = dir.to_owned();
    config.store = StoreUrl::File("terse.db".into());
    config.registry = None;
    config.clicks.store = None;
    data_files(&config)
}

/// Whether the links file has lost writes within the last month.
pub(crate) fn lost_writes(store: &Path) -> Option<Finding> {
    let at = terse_embedded::last_loss(store)?;
    let month_ago = Clock::default().now().saturating_sub(Duration::from_hours(30 * 24));
    let found = format!(
        "on {at} the links file had lost writes: its log was damaged, or an older copy was put back"
    );
    let advice = "look for links that are missing, and restore a backup that has them; no code \
                  was issued twice";
    (at > month_ago).then(|| Finding {
        what: "lost writes".to_owned(),
        verdict: CheckResult::Warning,
        found,
        advice: advice.to_owned(),
    })
}
