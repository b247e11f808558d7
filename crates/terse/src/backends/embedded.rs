//! The embedded stores: SQLite files in the data folder.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use terse_core::limits::Limiter;
use terse_core::registry::NodeId;
use terse_core::{Clock, Timestamp};
use terse_embedded::{
    ClickOptions, DiskReserve, Embedded, EmbeddedClicks, EmbeddedRegistry, LocalLimiter, Options,
    RegistryOptions,
};

use super::Store;
use crate::config::Config;
use crate::memory_plan::MemoryPlan;
use crate::serve::alphabet;

const OLDER_REGISTRY: &str = "registry.db is older than the links: some links belong to accounts \
    that it does not know. New accounts get other ids. Restore a newer registry.db if there is one";

/// Opens the files that the settings name.
pub(super) async fn open(config: &Config) -> anyhow::Result<Store> {
    let memory = MemoryPlan::of(config);
    let options = Options {
        alphabet: alphabet(config),
        cache_bytes: memory.link_store,
        ..Options::new(config.store_file())
    };
    let path = options.path.clone();
    let opened = tokio::task::spawn_blocking(move || Embedded::open(options))
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
    Ok(Store {
        links: embedded.clone(),
        clicks: embedded_clicks.clone(),
        registry: embedded_registry.clone(),
        disk_reserve,
        shares_clicks: false,
        leases: embedded_registry.clone(),
        // One process at a time uses an embedded store, so every start has the same name and takes
        // its own lease again at once.
        node: NodeId::parse("local").context("naming this node")?,
        notice,
        queue_depth: Arc::new(move || waiting.queue_depth()),
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
            "the links are not affected: restore a backup, or move this file away to count anew";
        format!("opening the store of clicks {} ({advice})", path.display())
    })?);
    Ok((embedded_clicks, disk_reserve))
}

/// Counts against rate limits, in this process.
pub fn limiter(clock: &Clock) -> Arc<dyn Limiter> {
    Arc::new(LocalLimiter::new(clock.clone()))
}

/// Copies a snapshot of the store into a new file. Works while a server is using the store.
pub fn backup(config: &Config, to: &Path) -> anyhow::Result<()> {
    terse_embedded::backup(&config.store_file(), to).context("copying the store")
}

/// The same for clicks.
pub fn backup_clicks(config: &Config, to: &Path) -> anyhow::Result<()> {
    terse_embedded::backup_clicks(&config.clicks_file(), to).context("copying the clicks")
}

/// The same for the registry.
pub fn backup_registry(config: &Config, to: &Path) -> anyhow::Result<()> {
    terse_embedded::backup_registry(&config.registry_file(), to).context("copying the owners")
}

/// Reads a clicks file from end to end and returns the number of counted clicks.
pub fn verify_clicks(file: &Path) -> anyhow::Result<Option<u64>> {
    let report = terse_embedded::verify_clicks(file).context("reading the clicks")?;
    anyhow::ensure!(report.is_clean(), "the clicks are damaged: {report:?}");
    Ok(Some(report.clicks))
}

/// Checks that a clicks file can be opened.
pub fn inspect_clicks(file: &Path) -> anyhow::Result<()> {
    terse_embedded::inspect_clicks(file).context("opening the clicks")
}

/// Checks that a registry file can be opened.
pub fn inspect_registry(file: &Path) -> anyhow::Result<()> {
    terse_embedded::inspect_registry(file).context("opening the registry of owners")
}

/// Reads a registry file from end to end and returns the number of owners.
pub fn verify_registry(file: &Path) -> anyhow::Result<Option<u64>> {
    let report = terse_embedded::verify_registry(file).context("reading the registry of owners")?;
    anyhow::ensure!(report.is_clean(), "the registry of owners is damaged: {report:?}");
    Ok(Some(report.accounts))
}

/// Prepares a restored registry file for use: it skips ids that may have been assigned since the
/// backup, and ends all sessions.
pub fn skip_ahead_registry(file: &Path) -> anyhow::Result<()> {
    terse_embedded::skip_ahead_registry(file)
        .context("skipping the ids that may have been given out since")
}

/// Checks that a store file can be opened.
pub fn inspect(file: &Path) -> anyhow::Result<()> {
    terse_embedded::inspect(file).context("opening the store")
}

/// Prepares a restored store file for use: it skips codes that may have been generated since the
/// backup.
pub fn skip_ahead(file: &Path) -> anyhow::Result<()> {
    terse_embedded::skip_ahead(file)
        .context("skipping the codes that may have been given out since")
}

/// Reads a store file from end to end and returns the number of links.
pub fn verify(file: &Path) -> anyhow::Result<Option<u64>> {
    let report = terse_embedded::verify(file).context("reading the store")?;
    anyhow::ensure!(report.is_clean(), "the store is damaged: {report:?}");
    Ok(Some(report.links))
}

/// When a links file was last found to have lost writes.
pub fn last_loss(file: &Path) -> Option<Timestamp> {
    terse_embedded::last_loss(file)
}
