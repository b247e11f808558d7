//! Writes all data of another store into an empty database, for `terse migrate`; [`export`] reads
//! all data of a database.
//!
//! Every step can be repeated: it keeps rows that exist. No node starts on the database before
//! [`DatabaseImport::finish`]; until then `terse_migration` records what was moved.

mod export;
mod links;

pub use export::DatabaseExport;

use std::sync::Arc;

use terse_core::transfer::{Cell, ColumnKind, Digest, MovedLink, MovedSums, StoreFile, Table};
use terse_core::{LinkKey, LinkVersion, StoreError, StoreIdentity, Timestamp, link_codec};
use tokio_postgres::Row;

use self::links::insert_links;
use crate::clicks::{PostgresClicks, SumsWriter};
use crate::failure::corrupt;
use crate::links::row;
use crate::options::{PostgresOpenError, PostgresOptions};
use crate::pool::{Connector, Pool};
use crate::schema;
use crate::sql::{Param, SqlTimestamp, params};

const DAY_MS: i64 = 86_400_000;

/// Records what moves into the database, and how far the move has come; or where its data has moved
/// to.
const STATE: &str = "CREATE TABLE IF NOT EXISTS terse_migration (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    source   bytea NOT NULL,
    position bigint NOT NULL,
    finished boolean NOT NULL
);
ALTER TABLE terse_migration ADD COLUMN IF NOT EXISTS moved_to text";

/// An error of the database, or the reason why it is not used.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] PostgresOpenError),
    /// It failed.
    #[error("the database failed")]
    Store(#[from] StoreError),
    /// The database is not empty.
    #[error("{0}")]
    Refused(String),
}

/// A database that data moves into.
pub struct DatabaseImport {
    pool: Arc<Pool>,
    position: i64,
}

impl DatabaseImport {
    /// Creates the tables, and writes the identity of the store. Refuses a database that contains
    /// anything but the beginning of the same move.
    pub async fn begin(
        options: &PostgresOptions,
        identity: &StoreIdentity,
        leases: &[(u8, u64)],
    ) -> Result<Self, TransferError> {
        let direct = options.direct_url.as_ref().unwrap_or(&options.url);
        let connector = Connector::new(direct, options.connect_timeout)?;
        let pool = Arc::new(Pool::open(options).await?);
        for part in [&schema::LINKS, &schema::REGISTRY, &schema::CLICKS] {
            part.migrate_partitioned(&connector, options.partitions).await?;
        }
        create_state(&connector).await?;
        let source = identity.derive("terse migration v1");
        let import = Self { pool, position: 0 };
        let nodes = "SELECT FROM job_leases WHERE node IS NOT NULL \
                     AND expires_at > clock_timestamp()";
        if !import.read(nodes, &[]).await?.is_empty() {
            let why = "a node of terse runs on the database: stop it, and try again in a minute";
            return Err(TransferError::Refused(why.to_owned()));
        }
        let rows =
            import.read("SELECT source, position, finished FROM terse_migration", &[]).await?;
        if let Some(row) = rows.first() {
            let (known, position, finished): (Vec<u8>, i64, bool) =
                (row.get(0), row.get(1), row.get(2));
            if finished || known != source {
                let why = if finished { "a finished move" } else { "a part of another store" };
                return Err(TransferError::Refused(format!(
                    "the database contains {why}: name an empty one"
                )));
            }
            return Ok(Self { position, ..import });
        }
        for table in ["links", "accounts", "click_subjects", "link_quarantine", "audit"] {
            let rows = import.read(&format!("SELECT FROM {table} LIMIT 1"), &[]).await?;
            if !rows.is_empty() {
                return Err(TransferError::Refused(format!(
                    "the database is in use: its table {table} has rows. Name an empty one"
                )));
            }
        }
        // These exist if a node was started on the empty database.
        let secret = &identity.secret()[..];
        let (alphabet, hash) = (identity.alphabet.as_str(), identity.code_hash.as_str());
        let (lengths, next): (Vec<i16>, Vec<i64>) =
            leases.iter().map(|(length, next)| (i16::from(*length), next.cast_signed())).unzip();
        // In one step, because a move that is continued does not write the leases again.
        write(
            &import.pool,
            "WITH facts AS (DELETE FROM registry_facts), salts AS (DELETE FROM salts), \
             acme AS (DELETE FROM acme_records), \
             store AS (INSERT INTO link_store (secret, alphabet, code_hash, incarnation) \
             VALUES ($1, $2, $3, 1) ON CONFLICT (one) DO UPDATE SET secret = excluded.secret, \
             alphabet = excluded.alphabet, code_hash = excluded.code_hash, \
             incarnation = link_store.incarnation + 1), \
             leases AS (INSERT INTO link_leases AS l (length, next) SELECT * FROM unnest($6, $7) \
             ON CONFLICT (length) DO UPDATE SET next = greatest(l.next, excluded.next)) \
             INSERT INTO terse_migration (source, position, finished) VALUES ($4, $5, false)",
            params![secret, alphabet, hash, &source[..], i64::MIN, lengths, next],
        )
        .await?;
        Ok(Self { position: i64::MIN, ..import })
    }

    /// Links up to this position are in the database.
    pub fn position(&self) -> i64 {
        self.position
    }

    /// Writes links, in the order of their positions.
    pub async fn put_links(&mut self, links: &[MovedLink]) -> Result<(), TransferError> {
        let Some(last) = links.last() else { return Ok(()) };
        let transaction = self.pool.begin().await.map_err(StoreError::from)?;
        insert_links(&transaction, links).await.map_err(StoreError::from)?;
        let position = "UPDATE terse_migration SET position = $1";
        let work = async {
            transaction.execute(position, params![last.position]).await?;
            transaction.commit().await
        };
        work.await.map_err(StoreError::from)?;
        self.position = last.position;
        Ok(())
    }

    /// The digest of all links, read back.
    pub async fn links_digest(&self) -> Result<Digest, TransferError> {
        let (mut digest, mut after) = (Digest::default(), None);
        loop {
            let links = moved_links(&self.pool, after.as_ref(), 500).await?;
            let Some(last) = links.last() else { return Ok(digest) };
            after = Some(last.link.key.clone());
            links.iter().for_each(|moved| moved.digest(&mut digest));
        }
    }

    /// Writes rows of a table.
    pub async fn put_rows(&self, table: &Table, rows: &[Vec<Cell>]) -> Result<(), TransferError> {
        let columns: Vec<Column> = table
            .columns
            .iter()
            .enumerate()
            .map(|(n, (_, kind))| Column::of(*kind, rows.iter().map(|row| row.get(n))))
            .collect::<Result<_, _>>()?;
        let params: Vec<Param<'_>> = columns.iter().map(Column::param).collect();
        let names: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
        let names = names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        let arrays: Vec<String> = (1..=columns.len()).map(|n| format!("${n}")).collect();
        let overriding = if table.numbered { "OVERRIDING SYSTEM VALUE" } else { "" };
        // Rows of the outbox have no key; they are written in one step.
        let sql = format!(
            "INSERT INTO {} ({names}) {overriding} SELECT * FROM unnest({}) ON CONFLICT DO NOTHING",
            name_of(table),
            arrays.join(", ")
        );
        write(&self.pool, &sql, &params).await
    }

    /// Deletes the rows of a table, before they are written again.
    pub async fn clear(&self, table: &Table) -> Result<(), TransferError> {
        write(&self.pool, &format!("DELETE FROM {}", name_of(table)), &[]).await
    }

    /// The database never assigns numbers up to this one again.
    pub async fn set_last_number(&self, table: &Table, last: i64) -> Result<(), TransferError> {
        let (name, (column, _)) = (name_of(table), table.columns[0]);
        let sql = format!(
            "SELECT setval(pg_get_serial_sequence('{name}', '{column}'), greatest($1, \
             (SELECT coalesce(max(\"{column}\"), 1) FROM {name})))"
        );
        write(&self.pool, &sql, params![last.max(1)]).await
    }

    /// The digest of a table's rows, read back.
    pub async fn digest(&self, table: &Table) -> Result<Digest, TransferError> {
        let (columns, name) = (columns_of(table), name_of(table));
        // Small tables have no number to continue from.
        let after = match table.numbered {
            true => format!("WHERE \"{0}\" > $1 ORDER BY \"{0}\"", table.columns[0].0),
            false => "ORDER BY ctid OFFSET $1".to_owned(),
        };
        let sql = format!("SELECT {columns} FROM {name} {after} LIMIT 5000");
        let (mut digest, mut from) = (Digest::default(), 0_i64);
        loop {
            let rows = self.read(&sql, params![from]).await?;
            let Some(last) = rows.last() else { return Ok(digest) };
            from = if table.numbered { last.get(0) } else { from + rows.len() as i64 };
            for row in &rows {
                digest.add_row(&cells(row, table)?);
            }
        }
    }

    /// Begins to write the sums of a subject, and its single clicks. `None` if the database has the
    /// subject already.
    pub async fn put_sums(
        &self,
        sums: &MovedSums,
    ) -> Result<Option<SumsWriter<'_>>, TransferError> {
        let begun = SumsWriter::begin(&self.pool, sums).await;
        begun.map_err(|failure| StoreError::from(failure).into())
    }

    /// How many single clicks there are.
    pub async fn single_clicks(&self) -> Result<u64, TransferError> {
        // Day by day: one count of all may take longer than a statement may.
        let mut all = 0;
        for day in self.read("SELECT day FROM click_raw_days", &[]).await? {
            let from = day.get::<_, i64>(0) * DAY_MS;
            let sql = "SELECT count(*) FROM click_raw WHERE at >= $1 AND at < $2";
            let rows = self.read(sql, params![from, from + DAY_MS]).await?;
            all += rows.first().map_or(0, |row| row.get::<_, i64>(0).cast_unsigned());
        }
        Ok(all)
    }

    /// The clicks as nodes will read them.
    pub async fn clicks(&self, options: &PostgresOptions) -> Result<PostgresClicks, TransferError> {
        Ok(PostgresClicks::open_on(Arc::clone(&self.pool), options, true).await?)
    }

    /// Nodes may start on the database from now on.
    pub async fn finish(&self) -> Result<(), TransferError> {
        write(&self.pool, "UPDATE terse_migration SET finished = true", &[]).await
    }

    /// Whether [`Self::finish`] has been committed.
    pub async fn is_finished(&self) -> Result<bool, TransferError> {
        let rows = self.read("SELECT finished FROM terse_migration", &[]).await?;
        Ok(rows.iter().any(|row| row.get(0)))
    }

    async fn read(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, TransferError> {
        read(&self.pool, sql, params).await
    }
}

/// Creates the table that records moves.
async fn create_state(connector: &Connector) -> Result<(), TransferError> {
    let connection = connector.connect().await.map_err(|error| connector.failed(error))?;
    let created = connection.client.batch_execute(STATE).await;
    Ok(created.map_err(|error| connector.failed(error))?)
}

async fn read(pool: &Pool, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, TransferError> {
    pool.list(sql, params).await.map_err(|failure| StoreError::from(failure).into())
}

/// Up to `limit` links after one, with their history.
async fn moved_links(
    pool: &Pool,
    after: Option<&LinkKey>,
    limit: usize,
) -> Result<Vec<MovedLink>, TransferError> {
    let (domain, code) = after.map_or(("", ""), |key| (key.domain.as_str(), key.code.as_str()));
    let sql = format!(
        "SELECT {}, l.marked FROM links l WHERE $3 OR (l.domain, l.code) > ($1, $2) \
         ORDER BY l.domain, l.code LIMIT $4",
        row::COLUMNS
    );
    let rows = read(pool, &sql, params![domain, code, after.is_none(), limit as i64]).await?;
    moved(pool, &rows).await
}

/// The links of rows that end with `marked`, with their history.
async fn moved(pool: &Pool, rows: &[Row]) -> Result<Vec<MovedLink>, TransferError> {
    let mut links = Vec::with_capacity(rows.len());
    for row in rows {
        let marked = row.get::<_, Option<SqlTimestamp>>(29).map(|at| at.0);
        let link = row::read(row, 0)?;
        links.push(MovedLink { position: 0, link, marked, history: Vec::new() });
    }
    add_history(pool, &mut links).await?;
    Ok(links)
}

async fn add_history(pool: &Pool, links: &mut [MovedLink]) -> Result<(), TransferError> {
    let of = |part: fn(&MovedLink) -> &str| -> Vec<String> {
        links.iter().map(|moved| part(moved).to_owned()).collect()
    };
    let domains = of(|moved| moved.link.key.domain.as_str());
    let codes = of(|moved| moved.link.key.code.as_str());
    let sql = "SELECT k.place, r.until, r.link FROM unnest($1, $2) WITH ORDINALITY \
         AS k (domain, code, place) JOIN link_revisions r \
         ON r.domain = k.domain COLLATE \"C\" AND r.code = k.code COLLATE \"C\" \
         ORDER BY r.n DESC";
    for row in &read(pool, sql, params![domains, codes]).await? {
        let place = usize::try_from(row.get::<_, i64>(0) - 1).unwrap_or(usize::MAX);
        let link = link_codec::decode(row.get(2))
            .ok_or_else(|| corrupt("an earlier version that cannot be read"))?;
        let until = row.get::<_, SqlTimestamp>(1).0;
        if let Some(moved) = links.get_mut(place) {
            moved.history.push(LinkVersion { link, until });
        }
    }
    Ok(())
}

async fn write(pool: &Pool, sql: &str, params: &[Param<'_>]) -> Result<(), TransferError> {
    pool.write_unrepeatable(sql, params).await?;
    Ok(())
}

/// The name of a table in the database.
fn name_of(table: &Table) -> String {
    match (table.part, table.name) {
        (StoreFile::Links, name) => format!("link_{name}"),
        (StoreFile::Clicks, name) => format!("click_{name}"),
        (StoreFile::Registry, "facts") => "registry_facts".to_owned(),
        (StoreFile::Registry, name) => name.to_owned(),
    }
}

/// The columns of a table, for a query.
fn columns_of(table: &Table) -> String {
    let column = |(name, kind): &(&str, ColumnKind)| match kind {
        ColumnKind::Int => format!("\"{name}\"::bigint"),
        _ => format!("\"{name}\""),
    };
    table.columns.iter().map(column).collect::<Vec<_>>().join(", ")
}

/// The values of a column.
enum Column {
    Int(Vec<Option<i64>>),
    Time(Vec<Option<SqlTimestamp>>),
    Text(Vec<Option<String>>),
    Bytes(Vec<Option<Vec<u8>>>),
}

impl Column {
    fn of<'a>(
        kind: ColumnKind,
        cells: impl Iterator<Item = Option<&'a Cell>>,
    ) -> Result<Self, TransferError> {
        macro_rules! all {
            ($column:ident, $cell:ident, $convert:expr) => {{
                let mut values = Vec::new();
                for cell in cells {
                    values.push(match cell {
                        Some(Cell::Null) => None,
                        Some(Cell::$cell(value)) => Some($convert(value)),
                        _ => return Err(corrupt("a row has a value of another kind").into()),
                    });
                }
                Self::$column(values)
            }};
        }
        Ok(match kind {
            ColumnKind::Int => all!(Int, Int, |value: &i64| *value),
            ColumnKind::Time => {
                all!(Time, Int, |value: &i64| SqlTimestamp(Timestamp::from_ms(*value)))
            }
            ColumnKind::Text => all!(Text, Text, Clone::clone),
            ColumnKind::Bytes => all!(Bytes, Bytes, Clone::clone),
        })
    }

    fn param(&self) -> Param<'_> {
        match self {
            Self::Int(values) => params![*values][0].clone(),
            Self::Time(values) => params![*values][0].clone(),
            Self::Text(values) => params![*values][0].clone(),
            Self::Bytes(values) => params![*values][0].clone(),
        }
    }
}

/// The cells of a row.
fn cells(row: &Row, table: &Table) -> Result<Vec<Cell>, StoreError> {
    let cell = |n: usize, kind: ColumnKind| -> Result<Cell, tokio_postgres::Error> {
        Ok(match kind {
            ColumnKind::Int => row.try_get::<_, Option<i64>>(n)?.map(Cell::Int),
            ColumnKind::Time => {
                row.try_get::<_, Option<SqlTimestamp>>(n)?.map(|at| Cell::Int(at.0.as_ms()))
            }
            ColumnKind::Text => row.try_get::<_, Option<String>>(n)?.map(Cell::Text),
            ColumnKind::Bytes => row.try_get::<_, Option<Vec<u8>>>(n)?.map(Cell::Bytes),
        }
        .unwrap_or(Cell::Null))
    };
    let columns = table.columns.iter().enumerate();
    columns
        .map(|(n, (_, kind))| cell(n, *kind).map_err(|error| StoreError::Corrupt(error.into())))
        .collect()
}

/// Refuses a database into which data is moving, and one whose data has moved away.
pub(crate) async fn check_finished(pool: &Pool) -> Result<(), PostgresOpenError> {
    match check_arrived(pool).await? {
        None => Ok(()),
        Some(to) => Err(PostgresOpenError::Foreign(format!(
            "the data of this database has moved to {to}. To use the database again, without what \
             has changed since, run in it: UPDATE terse_migration SET moved_to = NULL"
        ))),
    }
}

/// Refuses a database into which data is moving. Returns where its data has moved to.
async fn check_arrived(pool: &Pool) -> Result<Option<String>, PostgresOpenError> {
    let foreign = |error: StoreError| PostgresOpenError::Foreign(error.to_string());
    let there = "SELECT to_regclass('terse_migration') IS NOT NULL";
    let rows = pool.lookup(there, &[]).await.map_err(|failure| foreign(failure.into()))?;
    if !rows.iter().any(|row| row.get(0)) {
        return Ok(None);
    }
    // An earlier version created the table without the column.
    let state = "SELECT finished, to_jsonb(m) ->> 'moved_to' FROM terse_migration m";
    let rows = pool.lookup(state, &[]).await.map_err(|failure| foreign(failure.into()))?;
    let Some(row) = rows.first() else { return Ok(None) };
    match row.get(0) {
        true => Ok(row.get(1)),
        false => Err(PostgresOpenError::Foreign(
            "a move into this database has not finished: run `terse migrate` again".into(),
        )),
    }
}
