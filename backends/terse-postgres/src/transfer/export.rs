//! Reads all data of a database, for `terse migrate` into files.
//!
//! Locks keep nodes from writing meanwhile; they can read. In the end the database is marked as
//! left, in the transaction that holds the locks: no node starts on it from then on, and triggers
//! refuse the writes of a node that was paused or cut off during the move.

use std::sync::Arc;
use std::time::{Duration, Instant};

use terse_core::clicks::Click;
use terse_core::transfer::{Cell, MovedLink, MovedSums, TABLES, Table};
use terse_core::{LinkKey, StoreError, StoreIdentity};
use tokio_postgres::Row;

use super::{
    TransferError, cells, check_arrived, columns_of, create_state, moved_links, name_of, read,
};
use crate::clicks::ClicksReader;
use crate::links;
use crate::options::PostgresOptions;
use crate::pool::{Connection, Connector, Pool};
use crate::schema;
use crate::sql::params;

/// Tables that hold data, beside [`TABLES`].
const OTHER_TABLES: &[&str] = &[
    "links",
    "link_revisions",
    "link_leases",
    "link_store",
    "click_subjects",
    "click_buckets",
    "click_raw",
    "click_raw_days",
];
/// Refuses writes while the database is marked as left.
const REFUSE_WRITES: &str = "CREATE OR REPLACE FUNCTION terse_refuse_writes() RETURNS trigger \
     LANGUAGE plpgsql AS $$ BEGIN \
     IF EXISTS (SELECT FROM terse_migration WHERE moved_to IS NOT NULL) THEN \
     RAISE EXCEPTION 'the data of this database has moved'; END IF; RETURN NULL; END $$";
/// A node reads changes every second.
const NODES: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
     AND pid <> pg_backend_pid() AND application_name = 'terse' \
     AND state_change > clock_timestamp() - interval '3 seconds'";
const LEASES: &str = "SELECT count(*) FROM job_leases WHERE node IS NOT NULL \
     AND expires_at > clock_timestamp()";
/// How long nodes may take to end.
const NODES_WAIT: Duration = Duration::from_secs(10);

/// A database that data moves out of.
pub struct DatabaseExport {
    pool: Arc<Pool>,
    /// Holds the locks, in a transaction.
    lock: Connection,
    identity: StoreIdentity,
}

impl DatabaseExport {
    /// Keeps nodes from writing to the database. Refuses one that nodes use.
    pub async fn begin(options: &PostgresOptions) -> Result<Self, TransferError> {
        let direct = options.direct_url.as_ref().unwrap_or(&options.url);
        let connector = Connector::new(direct, options.connect_timeout)?;
        let lock = connector.connect().await.map_err(|error| connector.failed(error))?;
        let failed = |error: tokio_postgres::Error| connector.failed(error);
        let there = "SELECT to_regclass('link_store') IS NOT NULL";
        let rows = lock.client.query_typed(there, &[]).await.map_err(failed)?;
        if !rows.iter().any(|row| row.get(0)) {
            return Err(TransferError::Refused("there is no store in this database".to_owned()));
        }
        for part in [&schema::LINKS, &schema::REGISTRY, &schema::CLICKS] {
            part.migrate(&connector).await?;
        }
        create_state(&connector).await?;
        wait_for_nodes(&lock, &connector).await?;
        let tables = tables();
        let sql = format!(
            "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 10000; \
             SET LOCAL idle_in_transaction_session_timeout = 0; \
             LOCK TABLE {} IN EXCLUSIVE MODE",
            tables.join(", ")
        );
        lock.client.batch_execute(&sql).await.map_err(failed)?;
        let pool = Arc::new(Pool::open(options).await?);
        check_arrived(&pool).await?;
        let identity = links::stored_identity(&pool).await?;
        let identity = identity
            .ok_or_else(|| TransferError::Refused("the store has no identity".to_owned()))?;
        Ok(Self { pool, lock, identity })
    }

    /// The secret of the store.
    pub fn identity(&self) -> &StoreIdentity {
        &self.identity
    }

    /// How often the store was restored.
    pub async fn incarnation(&self) -> Result<u64, TransferError> {
        let rows = read(&self.pool, "SELECT incarnation FROM link_store", &[]).await?;
        Ok(rows.first().map_or(1, |row| row.get::<_, i64>(0).cast_unsigned()))
    }

    /// By code length, the first number that was not leased.
    pub async fn leases(&self) -> Result<Vec<(u8, u64)>, TransferError> {
        let rows = read(&self.pool, "SELECT length, next FROM link_leases", &[]).await?;
        let lease = |row: &Row| {
            let (length, next): (i16, i64) = (row.get(0), row.get(1));
            (length.unsigned_abs() as u8, next.cast_unsigned())
        };
        Ok(rows.iter().map(lease).collect())
    }

    /// Up to `limit` links after one, deleted ones included.
    pub async fn links(
        &self,
        after: Option<&LinkKey>,
        limit: usize,
    ) -> Result<Vec<MovedLink>, TransferError> {
        moved_links(&self.pool, after, limit).await
    }

    /// Those of these links that the database does not have.
    pub async fn missing(&self, keys: &[LinkKey]) -> Result<Vec<LinkKey>, TransferError> {
        let (domains, codes): (Vec<&str>, Vec<&str>) =
            keys.iter().map(|key| (key.domain.as_str(), key.code.as_str())).unzip();
        let sql = "SELECT k.place FROM unnest($1, $2) WITH ORDINALITY AS k (domain, code, place) \
             WHERE NOT EXISTS (SELECT FROM links l WHERE l.domain = k.domain COLLATE \"C\" \
             AND l.code = k.code COLLATE \"C\")";
        let rows = read(&self.pool, sql, params![domains, codes]).await?;
        let place = |row: &Row| usize::try_from(row.get::<_, i64>(0) - 1).ok();
        Ok(rows.iter().filter_map(place).filter_map(|at| keys.get(at).cloned()).collect())
    }

    /// Passes all rows of a table on, some at a time. Ends with the first error of `take`.
    pub async fn rows<E: From<TransferError>>(
        &self,
        table: &Table,
        some: usize,
        mut take: impl FnMut(Vec<Vec<Cell>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = |failure| TransferError::from(StoreError::from(failure));
        let order = match table.name {
            _ if table.numbered => format!("ORDER BY \"{}\"", table.columns[0].0),
            "outbox" => "ORDER BY id".to_owned(),
            _ => String::new(),
        };
        let (columns, name) = (columns_of(table), name_of(table));
        let transaction = self.pool.begin_snapshot().await.map_err(failed)?;
        transaction
            .batch(&format!(
                "DECLARE moved NO SCROLL CURSOR FOR SELECT {columns} FROM {name} {order}"
            ))
            .await
            .map_err(failed)?;
        loop {
            let fetch = format!("FETCH {some} FROM moved");
            let rows = transaction.query(&fetch, &[]).await.map_err(failed)?;
            if rows.is_empty() {
                return Ok(transaction.commit().await.map_err(failed)?);
            }
            let rows: Result<Vec<_>, _> = rows.iter().map(|row| cells(row, table)).collect();
            take(rows.map_err(TransferError::from)?)?;
        }
    }

    /// The highest number that a numbered table has assigned.
    pub async fn last_number(&self, table: &Table) -> Result<i64, TransferError> {
        let (name, (column, _)) = (name_of(table), table.columns[0]);
        let sql = format!(
            "SELECT coalesce(pg_sequence_last_value(\
             pg_get_serial_sequence('{name}', '{column}')::regclass), 0)"
        );
        let rows = read(&self.pool, &sql, &[]).await?;
        Ok(rows.first().map_or(0, |row| row.get(0)))
    }

    /// The last day (since 1970) that has a sum of the whole day, and the last that has a sum of an
    /// hour.
    pub async fn last_days(&self) -> Result<(Option<i64>, Option<i64>), TransferError> {
        Ok(ClicksReader(&self.pool).last_days().await?)
    }

    /// The sums of up to `limit` subjects after a position, each with its position.
    pub async fn sums(
        &self,
        after: i64,
        limit: usize,
    ) -> Result<Vec<(i64, MovedSums)>, TransferError> {
        Ok(ClicksReader(&self.pool).sums(after, limit).await?)
    }

    /// Up to `limit` single clicks after a position (a time and a number), the oldest first, and
    /// the position of the last one.
    pub async fn clicks(
        &self,
        after: (i64, i64),
        limit: usize,
    ) -> Result<(Vec<Click>, Option<(i64, i64)>), TransferError> {
        Ok(ClicksReader(&self.pool).clicks(after, limit).await?)
    }

    /// Marks the database as left: no node starts on it from now on. An error if nodes may have
    /// written meanwhile.
    pub async fn finish(self, to: &str) -> Result<(), TransferError> {
        let sql = "INSERT INTO terse_migration (source, position, finished, moved_to) \
             VALUES ('', 0, true, $1) ON CONFLICT (one) DO UPDATE SET moved_to = excluded.moved_to";
        let client = &self.lock.client;
        let refuse: Vec<String> = tables().iter().map(|table| refuse_writes_to(table)).collect();
        let mark = async {
            client.execute_typed(sql, params![to]).await?;
            client.batch_execute(&format!("{REFUSE_WRITES}; {}", refuse.join("; "))).await?;
            client.batch_execute("COMMIT").await
        };
        mark.await.map_err(|error| {
            TransferError::Refused(format!(
                "the connection that kept nodes from writing was lost: run the command again ({error})"
            ))
        })
    }
}

/// All tables that hold data.
fn tables() -> Vec<String> {
    let others = OTHER_TABLES.iter().map(|&table| table.to_owned());
    others.chain(TABLES.iter().map(name_of)).collect()
}

/// The trigger that refuses writes to a table. The last move replaces that of an earlier one.
fn refuse_writes_to(table: &str) -> String {
    format!(
        "DROP TRIGGER IF EXISTS terse_moved ON {table}; \
         CREATE TRIGGER terse_moved BEFORE INSERT OR UPDATE OR DELETE ON {table} \
         FOR EACH STATEMENT EXECUTE FUNCTION terse_refuse_writes()"
    )
}

/// Refuses a database that nodes use. Nodes that are ending have a moment.
async fn wait_for_nodes(lock: &Connection, connector: &Connector) -> Result<(), TransferError> {
    let begun = Instant::now();
    loop {
        let mut found = 0_i64;
        for sql in [NODES, LEASES] {
            let rows = lock.client.query_typed(sql, &[]).await;
            let rows = rows.map_err(|error| connector.failed(error))?;
            found += rows.first().map_or(0, |row| row.get(0));
        }
        if found == 0 {
            return Ok(());
        }
        if begun.elapsed() > NODES_WAIT {
            return Err(TransferError::Refused(
                "nodes of terse use the database: stop all of them. A node that was killed holds \
                 its lease for up to a minute"
                    .to_owned(),
            ));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
