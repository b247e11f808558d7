//! Resolves backends by the scheme of their URL. The only module that knows every backend, and the
//! only one with `#[cfg(feature = …)]`.

#[cfg(feature = "archive")]
mod archive;
#[cfg(feature = "clickhouse")]
mod clickhouse;
#[cfg(feature = "dynamodb")]
mod dynamodb;
#[cfg(feature = "embedded")]
mod embedded;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "postgres")]
mod migrate;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;

#[cfg(feature = "embedded")]
pub(crate) use embedded::{data_files, data_files_in, limiter, lost_writes, remove_leftovers};
#[cfg(feature = "embedded")]
pub use terse_embedded::{DataDir, DataDirError, DiskReserve, DiskWatch, LockGuard, RunInfo};

use std::sync::Arc;
use std::time::Duration;

use terse_core::clicks::{ClickIngest, ClickLedger, ClickStore, Period};
use terse_core::job::Job;
use terse_core::limits::Limiter;
use terse_core::metrics::MetricsSource;
use terse_core::registry::{JobLease, NodeId, Registry};
use terse_core::{
    ChangeCallback, Clock, Finding, LinkKey, LinkReader, LinkStore, RouteCache, SharedCache,
    Timestamp,
};

use crate::config::{Config, StoreUrl};

#[cfg(not(feature = "embedded"))]
compile_error!("terse needs a store: build it with the feature `embedded`");

/// A store that terse can be built with.
struct Backend {
    /// The scheme of its URL.
    scheme: &'static str,
    /// A URL to show in messages.
    example: &'static str,
    /// The cargo feature that builds it in.
    feature: &'static str,
    is_built_in: bool,
}

const STORES: [Backend; 3] = [
    Backend {
        scheme: "file",
        example: "file:terse.db",
        feature: "embedded",
        is_built_in: cfg!(feature = "embedded"),
    },
    Backend {
        scheme: "postgres",
        example: "postgres://user@host/database",
        feature: "postgres",
        is_built_in: cfg!(feature = "postgres"),
    },
    Backend {
        scheme: "dynamodb",
        example: "dynamodb://TABLE?region=REGION",
        feature: "dynamodb",
        is_built_in: cfg!(feature = "dynamodb"),
    },
];

/// The opened stores.
pub struct Stores {
    /// The links.
    pub links: Arc<dyn LinkStore>,
    /// Their clicks.
    pub clicks: Arc<dyn ClickStore>,
    /// Their owners.
    pub registry: Arc<dyn Registry>,
    /// The free space that single clicks leave to links.
    pub disk_reserve: Arc<DiskReserve>,
    /// Whether other nodes count clicks in the same store. Then statistics include only what is
    /// stored: otherwise they would depend on the node that answers.
    pub shares_clicks: bool,
    /// What decides which clicks are on the bus, if the settings name one.
    bus_ledger: Option<Arc<dyn ClickLedger>>,
    leases: Arc<dyn JobLease>,
    node: NodeId,
    notice: Option<String>,
    queue_depth: Arc<dyn Fn() -> usize + Send + Sync>,
    metrics: Vec<MetricsSource>,
    jobs: Vec<Box<dyn Job + Sync>>,
    close: Box<dyn Fn() + Send + Sync>,
}

impl Stores {
    /// The leases that decide which node runs the background jobs.
    pub fn leases(&self) -> Arc<dyn JobLease> {
        Arc::clone(&self.leases)
    }

    /// This node's name in leases.
    pub fn node(&self) -> NodeId {
        self.node.clone()
    }

    /// What an operator must know about the state in which the stores were found.
    pub fn notice(&self) -> Option<String> {
        self.notice.clone()
    }

    /// How many writes are waiting.
    pub fn queue_depth(&self) -> impl Fn() -> usize + Send + Sync + 'static {
        let depth = Arc::clone(&self.queue_depth);
        move || depth()
    }

    /// The metrics that only this kind of store has.
    pub(crate) fn take_metrics(&mut self) -> Vec<MetricsSource> {
        std::mem::take(&mut self.metrics)
    }

    /// The jobs that only this kind of store has.
    pub(crate) fn take_jobs(&mut self) -> Vec<Box<dyn Job>> {
        std::mem::take(&mut self.jobs).into_iter().map(|job| -> Box<dyn Job> { job }).collect()
    }
}

impl Drop for Stores {
    /// Commits the waiting writes before the process ends.
    fn drop(&mut self) {
        (self.close)();
    }
}

/// Opens the stores that the settings name.
pub async fn open(config: &Config) -> anyhow::Result<Stores> {
    match &config.store {
        StoreUrl::File(_) => embedded::open(config).await,
        StoreUrl::Postgres(url) => open_postgres(config, url).await,
        StoreUrl::Dynamo(url) => open_dynamodb(config, url).await,
        // Refused when the settings are read.
        StoreUrl::ClickHouse(_) => anyhow::bail!("ClickHouse is for clicks only"),
    }
}

#[cfg(feature = "postgres")]
use postgres::open as open_postgres;

/// Settings with such a URL are refused before.
#[cfg(not(feature = "postgres"))]
async fn open_postgres(
    _config: &Config,
    _url: &crate::config::PostgresUrl,
) -> anyhow::Result<Stores> {
    check_scheme("postgres").map_err(anyhow::Error::msg)?;
    anyhow::bail!("PostgreSQL is not built in")
}

#[cfg(feature = "dynamodb")]
use dynamodb::open as open_dynamodb;

/// Settings with such a URL are refused before.
#[cfg(not(feature = "dynamodb"))]
async fn open_dynamodb(
    _config: &Config,
    _url: &crate::config::DynamoUrl,
) -> anyhow::Result<Stores> {
    anyhow::bail!("DynamoDB is not built in")
}

/// Checks the URL of a table, and returns it in its usual form.
#[cfg(feature = "dynamodb")]
pub(crate) use dynamodb::check_url as check_dynamodb_url;

/// Refuses every URL.
#[cfg(not(feature = "dynamodb"))]
pub(crate) fn check_dynamodb_url(_url: &str) -> Result<String, String> {
    check_scheme("dynamodb").and(Err("DynamoDB is not built in".into()))
}

/// What [`create_table`] has done.
#[derive(Clone, Debug)]
pub(crate) struct CreatedTable {
    pub(crate) name: String,
    /// Whether it is new.
    pub(crate) is_new: bool,
    /// What the service refused; the table works without it.
    pub(crate) refused: Vec<String>,
}

#[cfg(feature = "dynamodb")]
pub(crate) use dynamodb::create_table;

/// Such URLs are refused before.
#[cfg(not(feature = "dynamodb"))]
pub(crate) fn create_table(
    _config: &Config,
    _url: &crate::config::DynamoUrl,
) -> anyhow::Result<CreatedTable> {
    anyhow::bail!("DynamoDB is not built in")
}

/// Opens the ClickHouse database of the settings, with its ledger in the database of the registry.
#[cfg(feature = "clickhouse")]
use clickhouse::open as open_clickhouse;

/// Settings with such a URL are refused before.
#[cfg(all(feature = "postgres", not(feature = "clickhouse")))]
async fn open_clickhouse(
    _config: &Config,
    _url: &crate::config::ClickHouseUrl,
    _connections: &terse_postgres::PostgresConnections,
    _options: &terse_postgres::PostgresOptions,
) -> anyhow::Result<Arc<dyn ClickStore>> {
    anyhow::bail!("ClickHouse is not built in")
}

/// Where data moves from, and where to.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "only some backends read the fields")]
pub(crate) struct Migration {
    pub(crate) from: StoreUrl,
    pub(crate) to: StoreUrl,
    /// Whether a server may run, and how long to wait until it has stopped at the end.
    pub(crate) live: Option<std::time::Duration>,
}

/// What [`migrate`] has moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MigratedCounts {
    pub(crate) links: u64,
    /// Rows of tables.
    pub(crate) rows: u64,
    /// Links, owners and others that have sums of clicks.
    pub(crate) subjects: u64,
    /// Single clicks.
    pub(crate) clicks: u64,
    /// How long a server that ran could not write.
    pub(crate) read_only_ms: Option<u64>,
}

#[cfg(feature = "postgres")]
pub(crate) use migrate::{migrate, undo as undo_migration};

/// URLs of databases are refused before.
#[cfg(not(feature = "postgres"))]
pub(crate) fn migrate(
    _config: &Config,
    _migration: &Migration,
    _say: &dyn Fn(String),
) -> anyhow::Result<MigratedCounts> {
    check_scheme("postgres").map_err(anyhow::Error::msg)?;
    anyhow::bail!("PostgreSQL is not built in")
}

/// Nothing can have moved.
#[cfg(not(feature = "postgres"))]
pub(crate) fn undo_migration(_config: &Config) -> anyhow::Result<()> {
    check_scheme("postgres").map_err(anyhow::Error::msg)
}

/// What nodes share beside the store. Without Redis each node has its own.
pub(crate) struct SharedServices {
    /// Reads links for visitors.
    pub(crate) reader: Arc<dyn LinkReader>,
    /// The copies that changes must reach.
    pub(crate) cache: Option<Arc<dyn SharedCache>>,
    /// Counts against rate limits.
    pub(crate) limiter: Arc<dyn Limiter>,
    /// The metrics of the copies.
    pub(crate) metrics: Option<MetricsSource>,
    announce: Announce,
}

type Announce = Box<dyn FnOnce(Arc<dyn RouteCache>, ChangeCallback) -> Arc<dyn RouteCache> + Send>;

impl SharedServices {
    /// Connects to what the settings name.
    pub(crate) async fn open(
        config: &Config,
        store: &Arc<dyn LinkStore>,
        clock: &Clock,
    ) -> anyhow::Result<Self> {
        match &config.cache.url {
            #[cfg(feature = "redis")]
            Some(url) => redis::open(config, url, store, clock).await,
            _ => Ok(Self {
                reader: store.clone(),
                cache: None,
                limiter: limiter(clock),
                metrics: None,
                announce: Box::new(|routes, _| routes),
            }),
        }
    }

    /// The cache of routes that services call. It also announces changes to the other nodes, and
    /// `routes` forgets the links that they announce.
    pub(crate) fn announcing(
        &mut self,
        routes: Arc<dyn RouteCache>,
        on_change: ChangeCallback,
    ) -> Arc<dyn RouteCache> {
        let announce = std::mem::replace(&mut self.announce, Box::new(|routes, _| routes));
        announce(routes, on_change)
    }
}

/// The bus between the journals of nodes and the click store.
pub(crate) struct ClickBus {
    /// Publishes the clicks of this node.
    pub(crate) ingest: Arc<dyn ClickIngest>,
    /// The most memory of a batch, so that it fits into a message.
    pub(crate) batch_bytes: usize,
    /// How long clicks may be on the bus: the click store must know erased links that long.
    pub(crate) keep_tombstones: Duration,
    metrics: Vec<MetricsSource>,
    stop: Box<dyn FnOnce(Duration) + Send + Sync>,
}

impl ClickBus {
    /// Connects to the bus of the settings; `None` without one. In a process with the role
    /// `worker`, starts to count what nodes publish.
    pub(crate) async fn open(
        config: &Config,
        stores: &Stores,
        clock: &Clock,
    ) -> anyhow::Result<Option<Self>> {
        match (&config.clicks.bus, &stores.bus_ledger) {
            #[cfg(feature = "kafka")]
            (Some(url), Some(ledger)) => {
                kafka::open(config, url, ledger, &stores.clicks, clock).await.map(Some)
            }
            _ => {
                // Only a bus needs it.
                let _ = clock;
                Ok(None)
            }
        }
    }

    /// The metrics of both sides.
    pub(crate) fn take_metrics(&mut self) -> Vec<MetricsSource> {
        std::mem::take(&mut self.metrics)
    }

    /// Ends the counting. Blocks for so long at most.
    pub(crate) fn stop(self, timeout: Duration) {
        (self.stop)(timeout);
    }
}

/// Checks the URL of a bus, and returns it without its password.
#[cfg(feature = "kafka")]
pub(crate) use kafka::check_url as check_bus_url;

/// Refuses every URL.
#[cfg(not(feature = "kafka"))]
pub(crate) fn check_bus_url(_url: &str) -> Result<String, String> {
    Err("Kafka is not built into this terse: build it with the feature `kafka`".into())
}

/// Checks the bus; no findings without one. Blocks.
pub(crate) fn inspect_bus(config: &Config) -> Vec<Finding> {
    match &config.clicks.bus {
        #[cfg(feature = "kafka")]
        Some(url) => kafka::doctor(url),
        _ => Vec::new(),
    }
}

/// Checks the URL of a cache, and returns it without its password.
#[cfg(feature = "redis")]
pub(crate) use redis::check_url as check_cache_url;

/// Refuses every URL.
#[cfg(not(feature = "redis"))]
pub(crate) fn check_cache_url(_url: &str) -> Result<String, String> {
    Err("Redis is not built into this terse: build it with the feature `redis`".into())
}

/// Checks the cache of the settings; no findings without one. Blocks.
pub(crate) fn inspect_cache(config: &Config) -> Vec<Finding> {
    match &config.cache.url {
        #[cfg(feature = "redis")]
        Some(url) => redis::doctor(url),
        _ => Vec::new(),
    }
}

/// A file of the archive of clicks.
#[derive(Clone, Debug)]
pub(crate) struct ArchiveFile {
    pub(crate) name: String,
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
    pub(crate) octets: u64,
    /// How many clicks it holds.
    pub(crate) clicks: u64,
}

/// Gets each file that was verified, with the number of its clicks or what is wrong with it.
pub(crate) type OnVerified<'a> =
    &'a mut dyn FnMut(&ArchiveFile, Result<u64, String>) -> anyhow::Result<()>;

/// Which clicks of the archive to read.
#[derive(Clone, Debug, Default)]
#[allow(dead_code, reason = "only some backends read the fields")]
pub(crate) struct ArchiveSelection {
    pub(crate) link: Option<LinkKey>,
    pub(crate) period: Period,
}

/// The jobs that write to the object storages of the settings, and their metrics.
#[derive(Default)]
pub(crate) struct ArchiveParts {
    pub(crate) jobs: Vec<Box<dyn Job>>,
    pub(crate) metrics: Vec<MetricsSource>,
}

#[cfg(feature = "archive")]
pub(crate) use archive::{
    backup_storage, check_storage as check_object_storage, check_url as check_object_url,
    doctor as inspect_archive, jobs as archive_jobs, list as list_archive, query as query_archive,
    verify as verify_archive,
};
#[cfg(not(feature = "archive"))]
pub(crate) use no_archive::*;

/// Settings with the URL of an object storage are refused.
#[cfg(not(feature = "archive"))]
mod no_archive {
    use super::{ArchiveFile, ArchiveParts, ArchiveSelection, OnVerified, Stores};
    use crate::config::Config;
    use std::sync::Arc;
    use terse_core::clicks::Click;
    use terse_core::{Clock, Finding, ObjectStorage};

    const MISSING: &str =
        "object storage is not built into this terse: build it with the feature `archive`";

    pub(crate) fn backup_storage(_config: &Config) -> anyhow::Result<Arc<dyn ObjectStorage>> {
        anyhow::bail!(MISSING)
    }

    pub(crate) fn check_object_url(_url: &str) -> Result<String, String> {
        Err(MISSING.into())
    }

    pub(crate) async fn check_object_storage(_config: &Config) -> anyhow::Result<()> {
        Ok(())
    }

    pub(crate) fn archive_jobs(
        _config: &Config,
        _stores: &Stores,
        _clock: &Clock,
    ) -> anyhow::Result<ArchiveParts> {
        Ok(ArchiveParts::default())
    }

    pub(crate) fn inspect_archive(_config: &Config) -> Vec<Finding> {
        Vec::new()
    }

    pub(crate) fn list_archive(
        _config: &Config,
        _selection: &ArchiveSelection,
    ) -> anyhow::Result<Vec<ArchiveFile>> {
        anyhow::bail!(MISSING)
    }

    pub(crate) fn verify_archive(
        _config: &Config,
        _selection: &ArchiveSelection,
        _each: OnVerified<'_>,
    ) -> anyhow::Result<()> {
        anyhow::bail!(MISSING)
    }

    pub(crate) fn query_archive(
        _config: &Config,
        _selection: &ArchiveSelection,
        _each: &mut dyn FnMut(&Click) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        anyhow::bail!(MISSING)
    }
}

/// Checks the databases of links and owners; no findings without one. Blocks.
pub(crate) fn inspect_database(config: &Config) -> Vec<Finding> {
    match &config.store {
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(url) => postgres::doctor(config, url, "store"),
        #[cfg(feature = "dynamodb")]
        StoreUrl::Dynamo(url) => dynamodb::doctor(config, url),
        _ => Vec::new(),
    }
}

/// Checks ClickHouse; no findings without it. Blocks.
pub(crate) fn inspect_clickhouse(config: &Config) -> Vec<Finding> {
    match (config.clickhouse(), config.registry_database()) {
        #[cfg(feature = "clickhouse")]
        (Some(url), Some(ledger)) => clickhouse::doctor(config, url, ledger),
        _ => Vec::new(),
    }
}

/// Checks the URL of a ClickHouse database, and returns it without its password.
#[cfg(feature = "clickhouse")]
pub(crate) use clickhouse::check_url as check_clickhouse_url;

/// Refuses every URL.
#[cfg(not(feature = "clickhouse"))]
pub(crate) fn check_clickhouse_url(_url: &str) -> Result<String, String> {
    Err("ClickHouse is not built into this terse: build it with the feature `clickhouse`".into())
}

/// Whether a store with this scheme can be opened. The error says which schemes are allowed, and
/// which feature is missing.
pub(crate) fn check_scheme(scheme: &str) -> Result<(), String> {
    check_scheme_of(&STORES, scheme)
}

fn check_scheme_of(stores: &[Backend], scheme: &str) -> Result<(), String> {
    let allowed: Vec<_> =
        stores.iter().filter(|store| store.is_built_in).map(|store| store.example).collect();
    let allowed = allowed.join(", ");
    match stores.iter().find(|store| store.scheme == scheme) {
        Some(store) if store.is_built_in => Ok(()),
        Some(Backend { feature, .. }) => Err(format!(
            "{scheme}: stores are not built into this terse: build it with the feature \
             `{feature}`, or use {allowed}"
        )),
        None => Err(format!("{scheme}: is not a kind of store; allowed: {allowed}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_not_built_in_names_its_feature() {
        let stores = [
            Backend {
                scheme: "file",
                example: "file:terse.db",
                feature: "embedded",
                is_built_in: true,
            },
            Backend {
                scheme: "postgres",
                example: "postgres://db/terse",
                feature: "postgres",
                is_built_in: false,
            },
        ];
        assert_eq!(check_scheme_of(&stores, "file"), Ok(()));
        let error = check_scheme_of(&stores, "postgres").unwrap_err();
        assert!(error.contains("the feature `postgres`, or use file:terse.db"), "{error}");
        let error = check_scheme_of(&stores, "mysql").unwrap_err();
        assert!(error.ends_with("is not a kind of store; allowed: file:terse.db"), "{error}");
    }
}
