//! Links, the registry and clicks on PostgreSQL, shared by several nodes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use terse_core::clicks::{ClickLedger, ClickStore};
use terse_core::registry::NodeId;
use terse_core::{CheckResult, Finding, LinkStore};
use terse_embedded::DiskReserve;
use terse_postgres::{
    DatabaseWatch, LedgerKind, OldLinkChanges, PostgresClicks, PostgresConnections,
    PostgresInspection, PostgresLedger, PostgresLinks, PostgresOpenError, PostgresOptions,
    PostgresRegistry, ReplicaInspection,
};

use super::{Stores, embedded};
use crate::config::{Config, PostgresUrl};
use crate::serve::alphabet;

/// More than the database may differ from this machine's clock.
const MAX_CLOCK_DIFFERENCE_MS: u64 = 5_000;

/// How long a statement of a move may take: it may read a whole table.
const TRANSFER_TIMEOUT: Duration = Duration::from_hours(1);

pub(super) fn options(config: &Config, url: &PostgresUrl) -> PostgresOptions {
    let reveal = |url: &Option<PostgresUrl>| url.as_ref().map(|url| url.reveal().to_owned());
    PostgresOptions {
        direct_url: reveal(&config.store_direct),
        replica_url: reveal(&config.store_replica),
        alphabet: alphabet(config),
        partitions: config.store_partitions,
        ..PostgresOptions::new(url.reveal())
    }
}

/// The same for moves, whose statements may take long.
pub(super) fn transfer_options(config: &Config, url: &PostgresUrl) -> PostgresOptions {
    PostgresOptions {
        replica_url: None,
        statement_timeout: TRANSFER_TIMEOUT,
        ..options(config, url)
    }
}

/// Opens the database that the settings name.
pub(super) async fn open(config: &Config, url: &PostgresUrl) -> anyhow::Result<Stores> {
    let options = options(config, url);
    let links = PostgresLinks::open(options.clone()).await.context("opening the store of links")?;
    let registry = PostgresRegistry::open_beside(&links.connections(), &options)
        .await
        .context("opening the registry of owners")?;
    let links = Arc::new(links);
    let waiting = Arc::clone(&links);
    let old_changes = OldLinkChanges::new(&links.connections());
    let queue_depth = Arc::new(move || waiting.queue_depth());
    let mut stores = open_beside(config, links, queue_depth, registry, &options).await?;
    // Without the role, a node must not take the lease of the jobs.
    if config.roles.worker {
        stores.jobs.push(Box::new(old_changes));
    }
    Ok(stores)
}

/// Completes stores of links and owners with everything else that is in the database of the owners.
pub(super) async fn open_beside(
    config: &Config,
    links: Arc<dyn LinkStore>,
    queue_depth: Arc<dyn Fn() -> usize + Send + Sync>,
    registry: PostgresRegistry,
    options: &PostgresOptions,
) -> anyhow::Result<Stores> {
    let connections = registry.connections();
    let Clicks { store: clicks, disk_reserve, is_shared, close } =
        open_clicks(config, &connections, options).await?;
    let bus_ledger: Option<Arc<dyn ClickLedger>> = match &config.clicks.bus {
        Some(_) => {
            let ledger = PostgresLedger::open_beside(&connections, options, LedgerKind::Bus).await;
            Some(Arc::new(ledger.context("opening the ledger of the bus")?))
        }
        None => None,
    };
    let registry = Arc::new(registry);
    let watch = DatabaseWatch::new(&connections);
    let watched = watch.results();
    Ok(Stores {
        links,
        clicks,
        shares_clicks: is_shared,
        registry: registry.clone(),
        disk_reserve,
        bus_ledger,
        leases: registry,
        node: node(config)?,
        notice: None,
        queue_depth,
        metrics: vec![Box::new(move |to| watched.write_metrics(to))],
        jobs: vec![Box::new(watch)],
        // Every create was answered when its link was stored.
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
    connections: &PostgresConnections,
    options: &PostgresOptions,
) -> anyhow::Result<Clicks> {
    if let Some(url) = config.clickhouse() {
        let store = super::open_clickhouse(config, url, connections, options).await?;
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
        PostgresClicks::open_beside(connections, options, keep_raw).await
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

/// Looks at the database that a setting names: `store`, or `registry` where links are elsewhere.
/// Blocks, and may be called on any thread.
pub(super) fn doctor(config: &Config, url: &PostgresUrl, setting: &str) -> Vec<Finding> {
    let options = options(config, url);
    let inspected = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let inspection = runtime.block_on(terse_postgres::inspect(&options))?;
        let replica = runtime.block_on(terse_postgres::inspect_replica(&options));
        anyhow::Ok((inspection, replica))
    });
    match inspected.join() {
        Ok(Ok((inspection, replica))) => {
            let mut all = findings(&inspection, setting);
            all.extend(replica_finding(replica));
            all
        }
        Ok(Err(error)) => vec![Finding {
            what: setting.to_owned(),
            verdict: CheckResult::Problem,
            found: format!("{error:#}"),
            advice: format!("start the database, or correct the setting `{setting}`"),
        }],
        Err(_) => vec![Finding {
            what: setting.to_owned(),
            verdict: CheckResult::Problem,
            found: "it could not be checked".into(),
            advice: String::new(),
        }],
    }
}

/// Nodes work without the replica, so none of it is a problem.
fn replica_finding(seen: Result<Option<ReplicaInspection>, PostgresOpenError>) -> Option<Finding> {
    use CheckResult::{Good, Warning};
    let instead = "the primary answers searches and statistics meanwhile";
    let (verdict, found, advice) = match seen {
        Ok(None) => return None,
        Err(error) => (
            Warning,
            format!("{:#}; {instead}", anyhow::Error::from(error)),
            "start the replica, or correct the setting",
        ),
        Ok(Some(seen)) if !seen.has_tables => (
            Warning,
            format!("PostgreSQL {} has no tables of terse; {instead}", seen.server),
            "name the same database as in `store`",
        ),
        Ok(Some(seen)) if !seen.is_standby => (
            Warning,
            format!("PostgreSQL {} is no standby: nobody knows how old its rows are", seen.server),
            "name a standby of the database in `store`",
        ),
        Ok(Some(seen)) if seen.behind > 0 => (
            Warning,
            format!("the replica is {} bytes of the log behind; {instead}", seen.behind),
            "look for long queries on the replica, and at its disk and network",
        ),
        Ok(Some(seen)) => (Good, format!("PostgreSQL {} has caught up", seen.server), ""),
    };
    let what = "store_replica".to_owned();
    Some(Finding { what, verdict, found, advice: advice.to_owned() })
}

fn findings(seen: &PostgresInspection, setting: &str) -> Vec<Finding> {
    use CheckResult::{Good, Problem, Warning};
    let finding = |verdict: CheckResult, found: String, advice: &str| {
        let (what, advice) = (setting.to_owned(), advice.to_owned());
        Finding { what, verdict, found, advice }
    };
    let has_links = setting == "store";
    let acknowledged = if has_links { "links" } else { "changes" };
    let mut all = Vec::new();
    if !seen.writable {
        let found = format!("PostgreSQL {} is read-only", seen.server);
        let advice = format!("name the primary in `{setting}`, or promote this one");
        all.push(finding(Problem, found, &advice));
    }
    let (allowed, used) = seen.connections;
    let each = PostgresOptions::CONNECTIONS as u64;
    let found = format!(
        "PostgreSQL {}; {used} of {allowed} connections are in use, each node opens up to {each}: \
         {} nodes at most",
        seen.server,
        allowed / each
    );
    let scarce = allowed.saturating_sub(used) < each;
    all.push(if scarce {
        finding(Warning, found, "raise max_connections, or put a pooler in between")
    } else {
        finding(Good, found, "")
    });
    if !seen.fsync || matches!(seen.synchronous_commit.as_str(), "off") {
        let found = format!(
            "fsync is {}, synchronous_commit is {}: {acknowledged} that were acknowledged may be \
             lost",
            if seen.fsync { "on" } else { "off" },
            seen.synchronous_commit
        );
        all.push(finding(Warning, found, "set fsync = on and synchronous_commit = on"));
    }
    let has_synchronous = !seen.synchronous_standbys.is_empty();
    let not_waited_for = match seen.synchronous_commit.as_str() {
        "local" if has_synchronous => Some("does not wait for the standbys: a failover"),
        "remote_write" if has_synchronous => Some(
            "waits until the standbys have received a commit, not until it is on their disks: a \
             failover to one that lost power",
        ),
        _ => None,
    };
    if let Some(what) = not_waited_for {
        let found = format!(
            "synchronous_commit is {}, which {what} may lose {acknowledged} that were acknowledged",
            seen.synchronous_commit
        );
        all.push(finding(Warning, found, "set synchronous_commit = on"));
    }
    if seen.standbys > 0 && !has_synchronous {
        let found = format!(
            "the standbys are not waited for: a failover may lose {acknowledged} that were \
             acknowledged"
        );
        let advice = "set synchronous_standby_names, with a quorum of standbys";
        all.push(finding(Warning, found, advice));
    }
    let ahead = seen.clock_ahead_ms;
    if ahead.unsigned_abs() > MAX_CLOCK_DIFFERENCE_MS {
        let found = format!("the clocks of the database and this machine differ by {ahead} ms");
        all.push(finding(Warning, found, "synchronise both clocks (NTP)"));
    }
    if has_links && !seen.search_index {
        let found = "searches have no index: the extension pg_trgm could not be created".to_owned();
        let advice = "create the extension as a superuser, then the indexes links_search and \
                      links_search_rules (see docs/fleet.md)";
        all.push(finding(Warning, found, advice));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inspection() -> PostgresInspection {
        PostgresInspection {
            server: "15.1".to_owned(),
            writable: true,
            synchronous_commit: "on".to_owned(),
            fsync: true,
            standbys: 1,
            synchronous_standbys: "ANY 1 (*)".to_owned(),
            connections: (100, 20),
            clock_ahead_ms: 0,
            search_index: true,
        }
    }

    fn warnings(seen: &PostgresInspection) -> Vec<String> {
        let all = findings(seen, "store").into_iter();
        all.filter(|finding| finding.verdict != CheckResult::Good).map(|f| f.found).collect()
    }

    #[test]
    fn a_commit_that_does_not_wait_for_the_disk_of_a_standby_is_a_warning() {
        for waits in ["on", "remote_apply"] {
            let seen = PostgresInspection { synchronous_commit: waits.into(), ..inspection() };
            assert!(warnings(&seen).is_empty(), "{waits}");
        }
        for less in ["off", "local", "remote_write"] {
            let seen = PostgresInspection { synchronous_commit: less.into(), ..inspection() };
            let found = warnings(&seen);
            assert_eq!(found.len(), 1, "{less}: {found:?}");
            assert!(found[0].contains(&format!("synchronous_commit is {less}")), "{found:?}");
            // Without standbys to wait for, only `off` acknowledges too early.
            let alone =
                PostgresInspection { standbys: 0, synchronous_standbys: String::new(), ..seen };
            assert_eq!(warnings(&alone).len(), usize::from(less == "off"), "{less}");
        }
    }

    #[test]
    fn the_budget_of_connections_is_shown() {
        let found = findings(&inspection(), "store").remove(0).found;
        let expected = format!("{} nodes at most", 100 / PostgresOptions::CONNECTIONS);
        assert!(found.contains(&expected), "{found}");
    }
}
