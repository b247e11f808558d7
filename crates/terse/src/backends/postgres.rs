//! Links, the registry and clicks on PostgreSQL, shared by several nodes.

use std::sync::Arc;

use anyhow::Context as _;
use terse_core::clicks::ClickStore;
use terse_core::registry::NodeId;
use terse_core::{CheckResult, Finding};
use terse_embedded::DiskReserve;
use terse_postgres::{
    PostgresClicks, PostgresInspection, PostgresLinks, PostgresOptions, PostgresRegistry,
};

use super::{Stores, embedded};
use crate::config::{Config, PostgresUrl};
use crate::serve::alphabet;

/// More than the database may differ from this machine's clock.
const MAX_CLOCK_DIFFERENCE_MS: u64 = 5_000;

pub(super) fn options(config: &Config, url: &PostgresUrl) -> PostgresOptions {
    let reveal = |url: &Option<PostgresUrl>| url.as_ref().map(|url| url.reveal().to_owned());
    PostgresOptions {
        direct_url: reveal(&config.store_direct),
        replica_url: reveal(&config.store_replica),
        alphabet: alphabet(config),
        ..PostgresOptions::new(url.reveal())
    }
}

/// Opens the database that the settings name.
pub(super) async fn open(config: &Config, url: &PostgresUrl) -> anyhow::Result<Stores> {
    let options = options(config, url);
    let links = PostgresLinks::open(options.clone()).await.context("opening the store of links")?;
    let registry = PostgresRegistry::open_beside(&links, &options)
        .await
        .context("opening the registry of owners")?;
    let Clicks { store: clicks, disk_reserve, is_shared, close } =
        open_clicks(config, &links, &options).await?;
    let links = Arc::new(links);
    let waiting = Arc::clone(&links);
    let registry = Arc::new(registry);
    Ok(Stores {
        links,
        clicks,
        shares_clicks: is_shared,
        registry: registry.clone(),
        disk_reserve,
        leases: registry,
        node: node(config)?,
        notice: None,
        queue_depth: Arc::new(move || waiting.queue_depth()),
        // Every create was answered when its link was committed.
        close,
    })
}

/// An opened store of clicks.
struct Clicks {
    store: Arc<dyn ClickStore>,
    disk_reserve: Arc<DiskReserve>,
    is_shared: bool,
    close: Box<dyn Fn() + Send + Sync>,
}

async fn open_clicks(
    config: &Config,
    links: &PostgresLinks,
    options: &PostgresOptions,
) -> anyhow::Result<Clicks> {
    if let Some(url) = config.clickhouse() {
        let store = super::open_clickhouse(config, url, links, options).await?;
        let disk_reserve = embedded::disk_reserve(config);
        return Ok(Clicks { store, disk_reserve, is_shared: true, close: Box::new(|| {}) });
    }
    let Some(url) = config.clicks_database() else {
        let (file, disk_reserve) = embedded::open_clicks(config).await?;
        let closing = Arc::clone(&file);
        let close = Box::new(move || closing.close());
        return Ok(Clicks { store: file, disk_reserve, is_shared: false, close });
    };
    let keep_raw = !config.clicks.keep_raw.get().is_zero();
    let opened = if url.reveal() == options.url {
        PostgresClicks::open_beside(links, options, keep_raw).await
    } else {
        PostgresClicks::open(PostgresOptions::new(url.reveal()), keep_raw).await
    };
    let store = Arc::new(opened.context("opening the store of clicks")?);
    let disk_reserve = embedded::disk_reserve(config);
    Ok(Clicks { store, disk_reserve, is_shared: true, close: Box::new(|| {}) })
}

/// This node's name in leases: random, and kept in its data folder, so that it is the same after a
/// restart.
fn node(config: &Config) -> anyhow::Result<NodeId> {
    let path = config.data_dir.join("node");
    let read = || std::fs::read_to_string(&path).ok().and_then(|name| NodeId::parse(name.trim()));
    if let Some(node) = read() {
        return Ok(node);
    }
    let name = format!("{:016x}", getrandom::u64().context("naming this node")?);
    std::fs::write(&path, &name).with_context(|| format!("writing {}", path.display()))?;
    NodeId::parse(&name).context("naming this node")
}

/// Looks at the database. Blocks, and may be called on any thread.
pub(crate) fn doctor(config: &Config, url: &PostgresUrl) -> Vec<Finding> {
    let options = options(config, url);
    let inspected = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        anyhow::Ok(runtime.block_on(terse_postgres::inspect(&options))?)
    });
    match inspected.join() {
        Ok(Ok(inspection)) => findings(&inspection),
        Ok(Err(error)) => vec![finding(
            CheckResult::Problem,
            format!("{error:#}"),
            "start the database, or correct the setting `store`",
        )],
        Err(_) => vec![finding(CheckResult::Problem, "it could not be checked".into(), "")],
    }
}

fn finding(verdict: CheckResult, found: String, advice: &str) -> Finding {
    Finding { what: "store".to_owned(), verdict, found, advice: advice.to_owned() }
}

fn findings(seen: &PostgresInspection) -> Vec<Finding> {
    use CheckResult::{Good, Problem, Warning};
    let mut all = Vec::new();
    if !seen.writable {
        let found = format!("PostgreSQL {} is read-only", seen.server);
        all.push(finding(Problem, found, "name the primary in `store`, or promote this one"));
    }
    let (allowed, used) = seen.connections;
    let found = format!(
        "PostgreSQL {}; a node opens up to {} connections, {used} of {allowed} are in use",
        seen.server,
        PostgresOptions::CONNECTIONS
    );
    let scarce = allowed.saturating_sub(used) < PostgresOptions::CONNECTIONS as u64;
    all.push(if scarce {
        finding(Warning, found, "raise max_connections, or put a pooler in between")
    } else {
        finding(Good, found, "")
    });
    if !seen.fsync || matches!(seen.synchronous_commit.as_str(), "off") {
        let found = format!(
            "fsync is {}, synchronous_commit is {}: a link may be lost after it was acknowledged",
            if seen.fsync { "on" } else { "off" },
            seen.synchronous_commit
        );
        all.push(finding(Warning, found, "set fsync = on and synchronous_commit = on"));
    }
    if seen.standbys > 0 && seen.synchronous_standbys.is_empty() {
        let found = "the standbys are not waited for: a failover may lose links that were \
                     acknowledged";
        let advice = "set synchronous_standby_names, with a quorum of standbys";
        all.push(finding(Warning, found.to_owned(), advice));
    }
    let ahead = seen.clock_ahead_ms;
    if ahead.unsigned_abs() > MAX_CLOCK_DIFFERENCE_MS {
        let found = format!("the clocks of the database and this machine differ by {ahead} ms");
        all.push(finding(Warning, found, "synchronise both clocks (NTP)"));
    }
    if !seen.search_index {
        let found = "searches have no index: the extension pg_trgm could not be created".to_owned();
        let advice = "create the extension as a superuser, then the index links_search (see \
                      docs/fleet.md)";
        all.push(finding(Warning, found, advice));
    }
    all
}
