//! The registry: accounts, credentials, moderation, webhooks and jobs.

mod accounts;
mod acme;
mod audit;
mod credentials;
mod domains;
mod jobs;
mod maintenance;
mod node_versions;
mod reports;
mod rows;
mod step;
mod webhooks;

use std::sync::Arc;

use terse_core::registry::RegistryError;
use tokio_postgres::Row;

use crate::failure::Failure;
use crate::options::{PostgresOpenError, PostgresOptions};
use crate::pool::{Connector, Pool, PostgresConnections};
use crate::schema;
use crate::sql::{Param, params};
use crate::transfer;

type Answer<T> = Result<T, RegistryError>;

/// The largest number of rows that one query returns, and that one transaction writes.
const BATCH: usize = 10_000;

/// The registry in a database that several nodes share.
pub struct PostgresRegistry {
    pool: Arc<Pool>,
}

impl PostgresRegistry {
    /// Connects, and creates or migrates the tables. Connections belong to the runtime that calls
    /// this.
    pub async fn open(options: PostgresOptions) -> Result<Self, PostgresOpenError> {
        let pool = Arc::new(Pool::open(&options).await?);
        transfer::check_finished(&pool).await?;
        Self::open_on(pool, &options).await
    }

    /// The same, with the connections of another store in the same database.
    pub async fn open_beside(
        connections: &PostgresConnections,
        options: &PostgresOptions,
    ) -> Result<Self, PostgresOpenError> {
        Self::open_on(Arc::clone(&connections.0), options).await
    }

    /// Its connections, for other stores in the same database.
    pub fn connections(&self) -> PostgresConnections {
        PostgresConnections(Arc::clone(&self.pool))
    }

    async fn open_on(
        pool: Arc<Pool>,
        options: &PostgresOptions,
    ) -> Result<Self, PostgresOpenError> {
        let direct = options.direct_url.as_ref().unwrap_or(&options.url);
        let direct = Connector::new(direct, options.connect_timeout)?;
        schema::REGISTRY.migrate(&direct).await?;
        let random = i64::from(getrandom::u32().unwrap_or(1));
        pool.write_unrepeatable(
            "INSERT INTO registry_store (incarnation, version) VALUES ($1, 0) \
             ON CONFLICT (one) DO NOTHING",
            params![random],
        )
        .await
        .map_err(|error| direct.failed(error))?;
        Ok(Self { pool })
    }

    /// The rows of a short query.
    async fn query(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
        self.pool.lookup(sql, params).await
    }
}

impl std::fmt::Debug for PostgresRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresRegistry").finish_non_exhaustive()
    }
}

/// The first row, converted.
fn first<T>(
    rows: &[Row],
    read: impl FnOnce(&Row) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    rows.first().map(read).transpose()
}

/// All rows, converted.
fn all<T>(rows: &[Row], read: impl Fn(&Row) -> Result<T, Failure>) -> Result<Vec<T>, Failure> {
    rows.iter().map(read).collect()
}

/// The largest number of rows that one query returns.
fn at_most(limit: usize) -> i64 {
    limit.min(BATCH) as i64
}

/// A number as the bound of a range of ids.
fn bound(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
