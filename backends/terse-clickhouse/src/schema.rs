//! The tables, and their migrations.
//!
//! Steps are never changed, only added, and a step only adds: nodes of both versions work side by
//! side during an upgrade.

use terse_core::StoreError;

use crate::client::Client;
use crate::options::{ClickHouseAddress, ClickHouseOpenError, ClickHouseOptions};

/// The first version with all settings that terse uses.
const OLDEST_SERVER: (u32, u32) = (24, 8);
/// Inserts whose tokens a table remembers, and for how many seconds replicated ones do.
const DEDUPLICATION_WINDOW: u32 = 100_000;
const DEDUPLICATION_SECONDS: u32 = 7 * 24 * 3600;

/// Single clicks. Times are milliseconds since 1970. `number` is unique: the number of the batch
/// and the click's place in it.
const CLICKS: &str = "
    domain          String CODEC(ZSTD(1)),
    code            String CODEC(ZSTD(1)),
    link_created_at Int64 CODEC(ZSTD(1)),
    at              Int64 CODEC(Delta, ZSTD(1)),
    sequence        UInt64 CODEC(Delta, ZSTD(1)),
    number          UInt64 CODEC(Delta, ZSTD(1)),
    owner           UInt64 CODEC(ZSTD(1)),
    weight          UInt32 CODEC(ZSTD(1)),
    took_nanos      UInt64 CODEC(ZSTD(1)),
    visitor         UInt64,
    kind            UInt8 CODEC(ZSTD(1)),
    warning         UInt8 CODEC(ZSTD(1)),
    address         Nullable(String) CODEC(ZSTD(1)),
    referrer        LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    country         LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    city            LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    device          LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    browser         LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    system          LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    language        LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    utm_source      LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    utm_medium      LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    utm_campaign    LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    utm_term        LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    utm_content     LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
    time            DateTime64(3, 'UTC') ALIAS fromUnixTimestamp64Milli(at, 'UTC')";
const CLICKS_KEYS: &str = "PARTITION BY intDiv(at, 86400000) \
     ORDER BY (domain, code, link_created_at, at, number)";

/// Roll-ups: one row per subject, hour or day, and batch. A row with `up_to` says that all rows of
/// its subject, unit and start with at most that number are replaced. A `sum` is in terse's own
/// format: a checksum, a sketch of the visitors, and all dimensions.
const SUMS: &str = "
    kind            UInt8 CODEC(ZSTD(1)),
    domain          String CODEC(ZSTD(1)),
    code            String CODEC(ZSTD(1)),
    link_created_at Int64 CODEC(ZSTD(1)),
    sum_of          UInt64 CODEC(ZSTD(1)),
    unit            UInt8 CODEC(ZSTD(1)),
    start           Int64 CODEC(Delta, ZSTD(1)),
    sequence        UInt64 CODEC(Delta, ZSTD(1)),
    up_to           UInt64 CODEC(ZSTD(1)),
    owner           UInt64 CODEC(ZSTD(1)),
    last            Int64 CODEC(ZSTD(1)),
    humans          UInt64 CODEC(ZSTD(1)),
    bots            UInt64 CODEC(ZSTD(1)),
    sum             String CODEC(ZSTD(3))";
const SUMS_KEYS: &str = "PARTITION BY intDiv(start, 2678400000) \
     ORDER BY (kind, domain, code, link_created_at, sum_of, start, unit, sequence)";

const VERSIONS: &str = "
    version UInt32,
    at      DateTime DEFAULT now()";

/// A table of a step.
struct Table {
    name: &'static str,
    columns: &'static str,
    keys: &'static str,
    /// Rows between two entries of the primary index.
    granularity: u32,
}

/// What each version adds.
const STEPS: &[&[Table]] = &[&[
    Table { name: "clicks", columns: CLICKS, keys: CLICKS_KEYS, granularity: 8192 },
    // A report reads few rows, and large ones.
    Table { name: "sums", columns: SUMS, keys: SUMS_KEYS, granularity: 1024 },
]];

const VERSION_TABLE: Table = Table {
    name: "schema_versions",
    columns: VERSIONS,
    keys: "ORDER BY version",
    granularity: 8192,
};

/// The statements that create all tables, for those who run them by hand. With a cluster in the URL
/// they are `ON CLUSTER`, with replicated engines.
pub fn create_statements(url: &ClickHouseAddress) -> Vec<String> {
    let tables = std::iter::once(&VERSION_TABLE).chain(STEPS.iter().copied().flatten());
    tables.map(|table| table.create(url)).collect()
}

impl Table {
    fn create(&self, url: &ClickHouseAddress) -> String {
        let Self { name, columns, keys, granularity } = self;
        let (on_cluster, engine) = match &url.cluster {
            None => (String::new(), "MergeTree".to_owned()),
            Some(cluster) => (
                format!(" ON CLUSTER {cluster}"),
                format!(
                    "ReplicatedMergeTree('/clickhouse/tables/{{shard}}/{}/{name}', '{{replica}}')",
                    url.database
                ),
            ),
        };
        let fsync = u8::from(url.fsync);
        format!(
            "CREATE TABLE IF NOT EXISTS {name}{on_cluster} ({columns}\n) ENGINE = {engine} {keys} \
             SETTINGS index_granularity = {granularity}, \
             non_replicated_deduplication_window = {DEDUPLICATION_WINDOW}, \
             replicated_deduplication_window = {DEDUPLICATION_WINDOW}, \
             replicated_deduplication_window_seconds = {DEDUPLICATION_SECONDS}, \
             fsync_after_insert = {fsync}, fsync_part_directory = {fsync}"
        )
    }
}

/// Checks the server, and brings the tables to the version that this program knows.
pub(crate) async fn migrate(
    client: &Client,
    options: &ClickHouseOptions,
) -> Result<(), ClickHouseOpenError> {
    let version = version(client).await.map_err(|error| client.failed(error))?;
    let mut parts = version.split('.').map_while(|part| part.parse().ok());
    if let (Some(major), Some(minor)) = (parts.next(), parts.next())
        && (major, minor) < OLDEST_SERVER
    {
        return Err(ClickHouseOpenError::Old(version));
    }
    run_steps(client, &options.url).await.map_err(|error| client.failed(error))?
}

async fn run_steps(
    client: &Client,
    url: &ClickHouseAddress,
) -> Result<Result<(), ClickHouseOpenError>, StoreError> {
    client.execute(VERSION_TABLE.create(url)).await?;
    let found = client.number("SELECT toUInt64(max(version)) FROM schema_versions").await?;
    let (found, known) = (u32::try_from(found).unwrap_or(u32::MAX), STEPS.len() as u32);
    if found > known {
        return Ok(Err(ClickHouseOpenError::Newer { found, known }));
    }
    // Nodes that start together may run a step twice: every statement can be repeated.
    for (version, step) in (1..).zip(STEPS).skip(found as usize) {
        for table in *step {
            client.execute(table.create(url)).await?;
        }
        let sql = format!("INSERT INTO schema_versions (version) VALUES ({version})");
        client.execute(sql).await?;
        tracing::info!(version, "the tables of ClickHouse were brought up to date");
    }
    Ok(Ok(()))
}

/// The version of the server.
pub(crate) async fn version(client: &Client) -> Result<String, StoreError> {
    let found = client.rows("SELECT version()", |row| row.text().map(str::to_owned)).await?;
    Ok(found.into_iter().next().unwrap_or_default())
}
