//! The state of a database, for `terse doctor`.

use std::time::{Instant, SystemTime};

use terse_core::Timestamp;

use crate::options::{PostgresOpenError, PostgresOptions};
use crate::pool::Connector;
use crate::replica::{MAX_LAG, POLL_INTERVAL};
use crate::schema;
use crate::sql::{SqlTimestamp, params};

/// The state of a database, as a node sees it.
#[derive(Clone, Debug)]
pub struct PostgresInspection {
    /// The version of the server.
    pub server: String,
    /// Whether it accepts writes.
    pub writable: bool,
    /// Its setting `synchronous_commit`, which decides how durable 201 is.
    pub synchronous_commit: String,
    /// Its setting `fsync`.
    pub fsync: bool,
    /// How many standbys follow it, if the database role may see them.
    pub standbys: u64,
    /// Its setting `synchronous_standby_names`.
    pub synchronous_standbys: String,
    /// How many connections it allows, and how many there are.
    pub connections: (u64, u64),
    /// How far its clock is ahead of this machine's, in milliseconds.
    pub clock_ahead_ms: i64,
    /// Whether searches have an index.
    pub search_index: bool,
}

/// Reads the state of a database. Changes nothing.
pub async fn inspect(options: &PostgresOptions) -> Result<PostgresInspection, PostgresOpenError> {
    let connector = Connector::new(&options.url, options.connect_timeout)?;
    let failed = |error: tokio_postgres::Error| connector.failed(error);
    let connection = connector.connect().await.map_err(|error| connector.failed(error))?;
    let client = &connection.client;
    for part in [&schema::LINKS, &schema::REGISTRY] {
        part.check(client).await.map_err(failed)??;
    }
    let rows = client
        .query_typed(
            "SELECT current_setting('server_version'), \
             NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off', \
             current_setting('synchronous_commit'), current_setting('fsync') = 'on', \
             (SELECT count(*) FROM pg_stat_replication), \
             current_setting('synchronous_standby_names'), \
             current_setting('max_connections')::bigint, \
             (SELECT sum(numbackends)::bigint FROM pg_stat_database), \
             to_regclass('links_search') IS NOT NULL \
             AND to_regclass('links_search_rules') IS NOT NULL",
            &[],
        )
        .await
        .map_err(failed)?;
    let row = rows.first().ok_or_else(|| connector.failed("the server said nothing"))?;
    let before = now();
    let clock = client.query_typed("SELECT clock_timestamp()", &[]).await.map_err(failed)?;
    let between = (before.as_ms() + now().as_ms()) / 2;
    let theirs = clock.first().map_or(between, |row| row.get::<_, SqlTimestamp>(0).0.as_ms());
    Ok(PostgresInspection {
        server: row.get(0),
        writable: row.get(1),
        synchronous_commit: row.get(2),
        fsync: row.get(3),
        standbys: row.get::<_, i64>(4).cast_unsigned(),
        synchronous_standbys: row.get(5),
        connections: (
            row.get::<_, i64>(6).cast_unsigned(),
            row.get::<_, Option<i64>>(7).unwrap_or(0).cast_unsigned(),
        ),
        clock_ahead_ms: theirs - between,
        search_index: row.get(8),
    })
}

/// The state of a replica, as a node sees it.
#[derive(Clone, Debug)]
pub struct ReplicaInspection {
    /// The version of the server.
    pub server: String,
    /// Whether it replays the log of another server.
    pub is_standby: bool,
    /// Whether it has the tables of terse.
    pub has_tables: bool,
    /// How many bytes of the primary's log it had not replayed after `MAX_LAG` of waiting; 0 if it
    /// had caught up by then.
    pub behind: u64,
}

/// Reads the state of the replica in `options`; `None` without one. Changes nothing.
pub async fn inspect_replica(
    options: &PostgresOptions,
) -> Result<Option<ReplicaInspection>, PostgresOpenError> {
    let Some(url) = &options.replica_url else { return Ok(None) };
    let primary = Connector::new(&options.url, options.connect_timeout)?;
    let connection = primary.connect().await.map_err(|error| primary.failed(error))?;
    let rows = connection.client.query_typed("SELECT pg_current_wal_lsn()::text", &[]).await;
    let rows = rows.map_err(|error| primary.failed(error))?;
    let position: String = rows.first().map(|row| row.get(0)).unwrap_or_default();
    let replica = Connector::new_replica(url, options.connect_timeout)?;
    let connection = replica.connect().await.map_err(|error| replica.failed(error))?;
    let begun = Instant::now();
    loop {
        let rows = connection
            .client
            .query_typed(
                "SELECT current_setting('server_version'), pg_is_in_recovery(), \
                 to_regclass('links') IS NOT NULL, CASE WHEN pg_is_in_recovery() THEN greatest(0, \
                 pg_wal_lsn_diff($1::text::pg_lsn, pg_last_wal_replay_lsn()))::bigint ELSE 0 END",
                params![position],
            )
            .await
            .map_err(|error| replica.failed(error))?;
        let row = rows.first().ok_or_else(|| replica.failed("the server said nothing"))?;
        let behind = row.get::<_, Option<i64>>(3).unwrap_or(i64::MAX).cast_unsigned();
        if behind == 0 || begun.elapsed() > MAX_LAG {
            let (server, is_standby, has_tables) = (row.get(0), row.get(1), row.get(2));
            return Ok(Some(ReplicaInspection { server, is_standby, has_tables, behind }));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
