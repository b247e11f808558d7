//! The tables of a database, and their migrations.
//!
//! Each part has its own list of steps, and `terse_schema` says how many of them a database has
//! seen. Steps are never changed, only added. Old and new nodes work side by side during an
//! upgrade: a step first only adds (columns with defaults, tables, indexes), and a later release,
//! whose predecessor no longer needs the old form, removes it. Such a removal raises `needs`, the
//! version that a program must know to use the tables.
//!
//! A step writes `CREATE INDEX IF NOT EXISTS` for an index on a table that an earlier step made.
//! Such indexes are built before the step, without locking out the writers of nodes that run.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::options::PostgresOpenError;
use crate::pool::Connector;
use crate::sql::params;

/// Nodes that start together migrate one after the other.
const MIGRATION_LOCK: i64 = 0x7465_7273_655f_6d67;
/// How long a migration may wait for other nodes, and for locks of tables.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a step waits for the lock of a table. A statement that changes a table waits for all
/// transactions that use it, and each later statement of any node waits behind it: this is shorter
/// than a lookup may take.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// How long other nodes have the tables to themselves before the steps are tried again.
const LOCK_PAUSE: Duration = Duration::from_secs(2);
/// How often a node asks whether another one has ended.
const LOCK_INTERVAL: Duration = Duration::from_millis(20);
/// How long the version of the tables may take to read.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);
/// How long all steps of a part may take. Building an index on a large table takes long.
const MIGRATION_TIMEOUT: Duration = Duration::from_hours(2);

const VERSIONS: &str = "CREATE TABLE IF NOT EXISTS terse_schema (
    part    text PRIMARY KEY,
    version integer NOT NULL,
    needs   integer NOT NULL,
    at      timestamptz NOT NULL DEFAULT now()
)";

/// One step of a part.
pub(crate) struct Migration {
    /// Which version a program must know to use tables that have this step.
    pub(crate) needs: i32,
    pub(crate) sql: &'static str,
    /// Statements that may fail, as where an extension is not allowed.
    pub(crate) if_possible: &'static str,
}

/// Tables that belong together.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) steps: &'static [Migration],
}

/// Links and what belongs to them.
pub(crate) const LINKS: Part = Part {
    name: "links",
    steps: &[
        Migration {
            needs: 1,
            sql: include_str!("schema/links_1.sql"),
            if_possible: include_str!("schema/links_1_search.sql"),
        },
        Migration { needs: 1, sql: include_str!("schema/links_2.sql"), if_possible: "" },
        Migration { needs: 1, sql: include_str!("schema/links_3.sql"), if_possible: "" },
        Migration { needs: 1, sql: include_str!("schema/links_4.sql"), if_possible: "" },
        Migration { needs: 1, sql: "", if_possible: include_str!("schema/links_5_search.sql") },
    ],
};

/// Accounts, credentials, moderation, webhooks and jobs.
pub(crate) const REGISTRY: Part = Part {
    name: "registry",
    steps: &[
        Migration { needs: 1, sql: include_str!("schema/registry_1.sql"), if_possible: "" },
        Migration { needs: 1, sql: include_str!("schema/registry_2.sql"), if_possible: "" },
        Migration { needs: 1, sql: include_str!("schema/registry_3.sql"), if_possible: "" },
        Migration { needs: 1, sql: include_str!("schema/registry_4.sql"), if_possible: "" },
        Migration { needs: 1, sql: include_str!("schema/registry_5.sql"), if_possible: "" },
        Migration { needs: 1, sql: include_str!("schema/registry_6.sql"), if_possible: "" },
        Migration { needs: 1, sql: include_str!("schema/registry_7.sql"), if_possible: "" },
    ],
};

/// Clicks and their sums.
pub(crate) const CLICKS: Part = Part {
    name: "clicks",
    steps: &[
        Migration { needs: 1, sql: include_str!("schema/clicks_1.sql"), if_possible: "" },
        Migration { needs: 1, sql: include_str!("schema/clicks_2.sql"), if_possible: "" },
    ],
};

/// The ledger of a click store without transactions.
pub(crate) const LEDGER: Part = Part {
    name: "ledger",
    steps: &[Migration { needs: 1, sql: include_str!("schema/ledger_1.sql"), if_possible: "" }],
};

impl Part {
    fn known(&self) -> i32 {
        self.steps.len() as i32
    }

    /// Brings the tables to the version that this program knows. Needs no right to change tables if
    /// there is nothing to do.
    pub(crate) async fn migrate(&self, connector: &Connector) -> Result<(), PostgresOpenError> {
        self.migrate_partitioned(connector, 0).await
    }

    /// The same. Divides the table of links into partitions, if it is new.
    pub(crate) async fn migrate_partitioned(
        &self,
        connector: &Connector,
        partitions: u32,
    ) -> Result<(), PostgresOpenError> {
        let connection = connector.connect().await.map_err(|error| connector.failed(error))?;
        let client = &connection.client;
        let silent = |_| connector.failed("the database did not answer in time");
        let version = tokio::time::timeout(VERSION_TIMEOUT, self.version(client)).await;
        if let Some(version) = version.map_err(silent)?.map_err(|error| connector.failed(error))?
            && self.allowed(version)?
        {
            return Ok(());
        }
        let steps = self.run_steps(connector, client, partitions);
        tokio::time::timeout(MIGRATION_TIMEOUT, steps).await.map_err(silent)?
    }

    async fn run_steps(
        &self,
        connector: &Connector,
        client: &Client,
        partitions: u32,
    ) -> Result<(), PostgresOpenError> {
        let failed = |error: tokio_postgres::Error| connector.failed(error);
        // Ends with the connection.
        let locked = tokio::time::timeout(PATIENCE, wait_for_lock(client)).await;
        let other = |_| connector.failed("another node has been changing the tables for a minute");
        locked.map_err(other)?.map_err(failed)?;
        self.build_indexes(client).await.map_err(failed)?;
        let begun = Instant::now();
        loop {
            let error = match self.try_steps(client, partitions).await {
                Ok(outcome) => return outcome,
                Err(error) => error,
            };
            if !is_locked(&error) {
                return Err(failed(error));
            }
            if begun.elapsed() > PATIENCE {
                return Err(connector.failed(
                    "a transaction has been using a table that must change for a minute: end it \
                     (pg_stat_activity says whose it is), and start terse again",
                ));
            }
            tracing::info!(part = self.name, "another transaction uses a table that must change");
            client.batch_execute("ROLLBACK").await.map_err(failed)?;
            tokio::time::sleep(LOCK_PAUSE).await;
        }
    }

    /// Runs the steps in one transaction. It does not wait for long where another transaction uses
    /// a table.
    async fn try_steps(
        &self,
        client: &Client,
        partitions: u32,
    ) -> Result<Result<(), PostgresOpenError>, tokio_postgres::Error> {
        let ms = LOCK_TIMEOUT.as_millis();
        let begin =
            format!("BEGIN; SET LOCAL lock_timeout = {ms}; SET LOCAL statement_timeout = 0");
        client.batch_execute(&begin).await?;
        client.batch_execute(VERSIONS).await?;
        let from = match self.version(client).await? {
            None => 0,
            Some(version) => match self.allowed(version) {
                Ok(_) => version.0,
                Err(error) => return Ok(Err(error)),
            },
        };
        for (n, step) in (1..).zip(self.steps).skip(from as usize) {
            client.batch_execute(&partitioned(step.sql, partitions)).await?;
            try_it(client, step.if_possible).await?;
            client
                .execute_typed(
                    "INSERT INTO terse_schema (part, version, needs) VALUES ($1, $2, $3) \
                     ON CONFLICT (part) DO UPDATE SET version = $2, needs = $3, at = now()",
                    params![self.name, n, step.needs],
                )
                .await?;
        }
        client.batch_execute("COMMIT").await?;
        tracing::info!(
            part = self.name,
            version = self.known(),
            "the tables were brought up to date"
        );
        Ok(Ok(()))
    }

    /// Builds the new indexes of present tables without locking out writers. The steps then find
    /// them. An index that cannot be built so, as on a table with partitions, is left to its step.
    async fn build_indexes(&self, client: &Client) -> Result<(), tokio_postgres::Error> {
        let Some((version, _)) = self.version(client).await? else { return Ok(()) };
        let missing = self.steps.iter().skip(usize::try_from(version).unwrap_or(usize::MAX));
        let indexes = missing.flat_map(|step| [step.sql, step.if_possible]).flat_map(new_indexes);
        client.batch_execute("SET statement_timeout = 0").await?;
        for NewIndex { name, definition } in indexes {
            // An attempt that was interrupted leaves an index that is not used.
            let broken = client
                .query_typed(
                    "SELECT FROM pg_index WHERE indexrelid = to_regclass($1) AND NOT indisvalid",
                    params![name],
                )
                .await?;
            if !broken.is_empty() {
                let drop = format!("DROP INDEX CONCURRENTLY IF EXISTS {name}");
                client.batch_execute(&drop).await?;
            }
            let build = format!("CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} {definition}");
            match client.batch_execute(&build).await {
                Ok(()) => tracing::info!(name, "an index was built"),
                Err(error) if error.is_closed() => return Err(error),
                Err(error) => tracing::debug!(%error, name, "an index is left to its step"),
            }
        }
        Ok(())
    }

    /// An error if this program is too old for the tables. New and older tables are fine.
    pub(crate) async fn check(
        &self,
        client: &Client,
    ) -> Result<Result<(), PostgresOpenError>, tokio_postgres::Error> {
        let found = self.version(client).await?;
        Ok(found.map_or(Ok(()), |version| self.allowed(version).map(drop)))
    }

    /// The stored version, and the one that a program must know; `None` for a new database.
    async fn version(&self, client: &Client) -> Result<Option<(i32, i32)>, tokio_postgres::Error> {
        let table =
            client.query_typed("SELECT to_regclass('terse_schema') IS NOT NULL", &[]).await?;
        if !table.iter().any(|row| row.get(0)) {
            return Ok(None);
        }
        let rows = client
            .query_typed(
                "SELECT version, needs FROM terse_schema WHERE part = $1",
                params![self.name],
            )
            .await?;
        Ok(rows.first().map(|row| (row.get(0), row.get(1))))
    }

    /// Whether the tables are up to date; an error if this program is too old for them.
    fn allowed(&self, (found, needed): (i32, i32)) -> Result<bool, PostgresOpenError> {
        let known = self.known();
        if needed > known {
            return Err(PostgresOpenError::Newer { part: self.name, found, needed, known });
        }
        Ok(found >= known)
    }
}

/// Waits for other nodes that change the tables. A statement that waits would have a snapshot, and
/// the builder of an index waits for all earlier snapshots.
async fn wait_for_lock(client: &Client) -> Result<(), tokio_postgres::Error> {
    loop {
        let rows =
            client.query_typed("SELECT pg_try_advisory_lock($1)", params![MIGRATION_LOCK]).await?;
        if rows.iter().any(|row| row.get(0)) {
            return Ok(());
        }
        tokio::time::sleep(LOCK_INTERVAL).await;
    }
}

/// An index of a step.
struct NewIndex<'a> {
    name: &'a str,
    /// From `ON` on.
    definition: &'a str,
}

/// The indexes in the statements of a step that may exist already.
fn new_indexes(sql: &str) -> impl Iterator<Item = NewIndex<'_>> {
    sql.split(';').filter_map(|statement| {
        let (_, index) = statement.split_once("CREATE INDEX IF NOT EXISTS ")?;
        let (name, definition) = index.split_once(' ')?;
        Some(NewIndex { name, definition })
    })
}

/// How a plain table of links ends, and the settings of its rows.
const PLAIN_END: &str = "    PRIMARY KEY (domain, code)\n) WITH (fillfactor = 95,";

/// A step with a table of links that is divided by the hash of the code. Every lookup names the
/// code, so it reads one partition.
fn partitioned(sql: &str, partitions: u32) -> Cow<'_, str> {
    let Some((before, after)) = sql.split_once(PLAIN_END).filter(|_| partitions > 1) else {
        return sql.into();
    };
    let (settings, after) = after.split_once(");").unwrap_or((after, ""));
    let mut sql = format!("{before}    PRIMARY KEY (domain, code)\n) PARTITION BY HASH (code);\n");
    for n in 0..partitions {
        let _written = writeln!(
            sql,
            "CREATE TABLE links_{n} PARTITION OF links FOR VALUES \
             WITH (MODULUS {partitions}, REMAINDER {n}) WITH (fillfactor = 95,{settings});"
        );
    }
    sql.push_str(after);
    sql.into()
}

/// Runs statements that may fail without failing the transaction around them.
/// Whether another transaction stood in the way.
fn is_locked(error: &tokio_postgres::Error) -> bool {
    [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED]
        .iter()
        .any(|state| error.code() == Some(state))
}

async fn try_it(client: &Client, sql: &str) -> Result<(), tokio_postgres::Error> {
    if sql.is_empty() {
        return Ok(());
    }
    client.batch_execute("SAVEPOINT optional").await?;
    match client.batch_execute(sql).await {
        Ok(()) => client.batch_execute("RELEASE SAVEPOINT optional").await,
        Err(error) if error.is_closed() => Err(error),
        // It is possible later.
        Err(error) if is_locked(&error) => Err(error),
        Err(error) => {
            tracing::warn!(%error, "an optional part of the tables could not be made");
            client.batch_execute("ROLLBACK TO SAVEPOINT optional").await
        }
    }
}
