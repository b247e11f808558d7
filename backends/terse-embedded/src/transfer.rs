//! Reads all data, for `terse migrate` into another store. The caller holds the lock of the data
//! folder, so that nothing changes meanwhile; or a server runs, and the caller reads again what has
//! changed, the last time with a [`WriteLock`] on each file.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};
use terse_core::clicks::{ClickSubject, LinkId};
use terse_core::transfer::{Cell, MovedLink, StoreFile, Table};
use terse_core::{
    Code, Domain, LinkKey, MAX_CODE_LENGTH, MIN_CODE_LENGTH, Numbering, OwnerId, StoreIdentity,
    Timestamp,
};

use crate::clicks::CLICKS;
use crate::engine::{DbLocation, connect_bare, connect_reader};
use crate::failure::Failure;
use crate::fence;
use crate::issued_codes::IssuedCodes;
use crate::leases;
use crate::options::EmbeddedOpenError;
use crate::queries::LinkQueries;
use crate::registry::REGISTRY;
use crate::row::COLUMNS;
use crate::schema::{self, FileSchema};

/// The links of a file.
pub struct LinksFile {
    queries: LinkQueries,
    identity: StoreIdentity,
}

impl LinksFile {
    /// Opens a links file of the version that this terse writes.
    pub fn open(file: &Path) -> Result<Self, EmbeddedOpenError> {
        let conn = open(file, &schema::LINKS)?;
        let identity = schema::stored_identity(&conn)?
            .ok_or_else(|| EmbeddedOpenError::NotTerse(file.to_owned()))?;
        let numbering = Numbering::new(&identity);
        let issued = Arc::new(IssuedCodes::load(&conn, &numbering)?);
        Ok(Self { queries: LinkQueries::new(conn, numbering, issued, Arc::default()), identity })
    }

    /// The secret of the store.
    pub fn identity(&self) -> &StoreIdentity {
        &self.identity
    }

    /// By code length, the first number that was not leased.
    pub fn leases(&self) -> Result<Vec<(u8, u64)>, EmbeddedOpenError> {
        let leases = leases::beyond_links(&self.queries.conn, &Numbering::new(&self.identity))?;
        let lengths = MIN_CODE_LENGTH..=MAX_CODE_LENGTH;
        Ok(lengths.map(|length| (length, leases[usize::from(length)])).collect())
    }

    /// Up to `limit` links after a position, deleted ones included. An error if one is damaged.
    pub fn links(&self, after: i64, limit: usize) -> Result<Vec<MovedLink>, EmbeddedOpenError> {
        self.links_to(after, i64::MAX, limit)
    }

    /// The same, up to a position.
    pub fn links_to(
        &self,
        after: i64,
        to: i64,
        limit: usize,
    ) -> Result<Vec<MovedLink>, EmbeddedOpenError> {
        let read = || -> Result<Vec<MovedLink>, Failure> {
            let conn = &self.queries.conn;
            let sql = format!(
                "SELECT {COLUMNS}, marked FROM links WHERE id > ?1 AND id <= ?2 \
                 ORDER BY id LIMIT ?3"
            );
            let mut statement = conn.prepare_cached(&sql)?;
            let mut rows = statement.query(rusqlite::params![after, to, limit as i64])?;
            let mut links = Vec::new();
            while let Some(row) = rows.next()? {
                links.push(self.queries.moved_of_row(row)?);
            }
            Ok(links)
        };
        read().map_err(|failure| EmbeddedOpenError::Damaged(failure.to_string()))
    }

    /// Later reads see what was written until now.
    pub fn refresh(&self) -> Result<(), EmbeddedOpenError> {
        Ok(self.queries.conn.execute_batch("COMMIT; BEGIN")?)
    }

    /// Whether there is a link, deleted ones included.
    pub fn contains(&self, key: &LinkKey) -> Result<bool, EmbeddedOpenError> {
        let found = self.queries.locate(key);
        found
            .map(|id| id.is_some())
            .map_err(|failure| EmbeddedOpenError::Damaged(failure.to_string()))
    }
}

/// Keeps all other connections, also those of a server, from writing to a file. They can read. Ends
/// with this value, or with the process.
pub struct WriteLock {
    conn: Connection,
}

impl WriteLock {
    /// Waits for writes that are under way, but not for longer than `timeout`.
    pub fn take(file: &Path, timeout: Duration) -> Result<Self, EmbeddedOpenError> {
        let conn = connect_bare(&DbLocation::at(file))?;
        conn.busy_timeout(timeout)?;
        conn.execute_batch("BEGIN IMMEDIATE")?;
        Ok(Self { conn })
    }

    /// Ends the lock, and keeps the file from being written for good: also after this process has
    /// ended. [`remove_fence`](crate::remove_fence) reverts it.
    pub fn fence(self) -> Result<(), EmbeddedOpenError> {
        fence::put_up(&self.conn)?;
        Ok(self.conn.execute_batch("COMMIT")?)
    }
}

fn open(file: &Path, shape: &FileSchema) -> Result<Connection, EmbeddedOpenError> {
    let conn = connect_reader(&DbLocation::at(file))?;
    let version = shape.inspect(&conn, file)?;
    let known = shape.steps.len() as i64;
    if version != known {
        let why = format!("it has version {version} of its tables, not {known}: start terse on it");
        return Err(EmbeddedOpenError::Damaged(why));
    }
    // All reads see one state.
    conn.execute_batch("BEGIN")?;
    Ok(conn)
}

/// The query for the rows of a table, with the columns in the table's order.
fn query(table: &Table) -> Option<&'static str> {
    Some(match (table.part, table.name) {
        (StoreFile::Links, "quarantine") => {
            "SELECT d.name, h.code, h.owner, h.until FROM held h JOIN domains d ON d.id = h.domain"
        }
        (StoreFile::Links, "outbox") => "SELECT kind, at, event, link FROM outbox ORDER BY id",
        (StoreFile::Registry, "facts") => {
            "SELECT name, CASE name WHEN 'had_admin' THEN x'' ELSE CAST(value AS BLOB) END \
             FROM meta \
             WHERE name IN ('setup', 'had_admin', 'admin_key', 'removal_alarm', 'branding')"
        }
        (StoreFile::Registry, "accounts") => {
            "SELECT id, name, role, created_at, password, issuer, subject, suspended_at, \
             suspended_why, revision, plan, reset_token, reset_expires_at, totp_seed, \
             totp_step, recovery_codes, preferences FROM users ORDER BY id"
        }
        (StoreFile::Registry, "api_keys") => {
            "SELECT id, token, owner, name, prefix, scope, created_at, expires_at, plan, \
             last_used_at, requests FROM keys ORDER BY id"
        }
        (StoreFile::Registry, "sessions") => {
            "SELECT token, owner, created_at, expires_at, browser FROM sessions"
        }
        (StoreFile::Registry, "invitations") => {
            "SELECT token, role, writer, expires_at FROM invitations"
        }
        (StoreFile::Registry, "domains") => "SELECT domain, root, not_found, expired FROM places",
        (StoreFile::Registry, "blocked_hosts") => "SELECT host, at, why FROM blocked_hosts",
        (StoreFile::Registry, "reports") => {
            "SELECT id, domain, code, born, reporter, account, reason, text, at, state \
             FROM reports ORDER BY id"
        }
        (StoreFile::Registry, "audit") => {
            "SELECT number, at, actor, act, subject, about, why, before, after \
             FROM audit ORDER BY number"
        }
        (StoreFile::Registry, "webhooks") => {
            "SELECT id, owner, url, events, created_at, generation, rotated_at, disabled_at, \
             disabled_why, waiting, dropped, delivered_at, loan, lent_until, active_since \
             FROM webhooks ORDER BY id"
        }
        (StoreFile::Registry, "deliveries") => {
            "SELECT id, webhook, event, kind, body, created_at, state, attempts, next_at, \
             tried_at, status, problem FROM deliveries ORDER BY id"
        }
        (StoreFile::Registry, "job_progress") => "SELECT job, progress FROM job_progress",
        (StoreFile::Registry, "salts") => "SELECT day, salt FROM salts",
        (StoreFile::Registry, "acme_records") => {
            "SELECT kind, name, revision, value FROM acme_records"
        }
        (StoreFile::Clicks, "journals") => "SELECT id, epoch, generation FROM journals",
        (StoreFile::Clicks, "positions") => {
            "SELECT journal, segment, place FROM positions WHERE journal <> x''"
        }
        (StoreFile::Clicks, "erased_links") => {
            "SELECT domain, code, created_by, erased_at FROM erased_links"
        }
        (StoreFile::Clicks, "erased_owners") => "SELECT owner, erased_at FROM erased_owners",
        _ => return None,
    })
}

/// The table of a numbered one in the registry file.
pub(crate) fn counter(table: &Table) -> &'static str {
    match table.name {
        "accounts" => "users",
        "api_keys" => "keys",
        name => name,
    }
}

/// The schema of a file.
pub(crate) fn schema_of(part: StoreFile) -> &'static FileSchema {
    match part {
        StoreFile::Links => &schema::LINKS,
        StoreFile::Registry => &REGISTRY,
        StoreFile::Clicks => &CLICKS,
    }
}

/// A file with tables.
pub struct TablesFile {
    conn: Connection,
    part: StoreFile,
}

impl TablesFile {
    /// Opens a file of the version that this terse writes.
    pub fn open(file: &Path, part: StoreFile) -> Result<Self, EmbeddedOpenError> {
        Ok(Self { conn: open(file, schema_of(part))?, part })
    }

    /// Passes all rows of a table on, some at a time. Ends with the first error of `take`.
    pub fn rows<E: From<EmbeddedOpenError>>(
        &self,
        table: &Table,
        some: usize,
        mut take: impl FnMut(Vec<Vec<Cell>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let unknown = || EmbeddedOpenError::Damaged(format!("there is no table {}", table.name));
        let sql = query(table).filter(|_| table.part == self.part).ok_or_else(unknown)?;
        let failed = |error: rusqlite::Error| EmbeddedOpenError::from(error);
        let mut statement = self.conn.prepare(sql).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        let mut read = Vec::with_capacity(some);
        while let Some(row) = rows.next().map_err(failed)? {
            read.push(cells(row, table.columns.len()).map_err(failed)?);
            if read.len() >= some {
                take(std::mem::take(&mut read))?;
            }
        }
        if read.is_empty() { Ok(()) } else { take(read) }
    }

    /// The subjects that have sums of clicks, links with their owner: up to `limit` after a
    /// position.
    pub fn subjects(
        &self,
        after: i64,
        limit: usize,
    ) -> Result<Vec<(i64, ClickSubject, OwnerId)>, EmbeddedOpenError> {
        let sql = "SELECT id, kind, domain, code, born, owner FROM subjects WHERE id > ?1 \
             ORDER BY id LIMIT ?2";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(rusqlite::params![after, limit as i64])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let (id, kind, owner): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(5)?);
            let owner = OwnerId(owner.cast_unsigned());
            let damaged = || EmbeddedOpenError::Damaged(format!("the subject {id} cannot be read"));
            found.push(match kind {
                0 => {
                    let (domain, code): (String, String) = (row.get(2)?, row.get(3)?);
                    let code = Code::parse(&code).ok_or_else(damaged)?;
                    let key = LinkKey { domain: Domain::from_stored(&domain), code };
                    let created_at = Timestamp::from_ms(row.get(4)?);
                    (id, ClickSubject::Link(LinkId { key, created_at }), owner)
                }
                1 => (id, ClickSubject::Owner(owner), OwnerId(0)),
                2 => (id, ClickSubject::Everything, OwnerId(0)),
                3 => (id, ClickSubject::Orphans, OwnerId(0)),
                _ => return Err(damaged()),
            });
        }
        Ok(found)
    }

    /// The highest number that a numbered table has assigned.
    pub fn last_number(&self, table: &Table) -> Result<i64, EmbeddedOpenError> {
        let sql = "SELECT seq FROM sqlite_sequence WHERE name = ?1";
        let last = self.conn.query_row(sql, [counter(table)], |row| row.get(0)).optional()?;
        Ok(last.unwrap_or(0))
    }
}

fn cells(row: &Row<'_>, count: usize) -> rusqlite::Result<Vec<Cell>> {
    (0..count)
        .map(|n| {
            Ok(match row.get_ref(n)? {
                ValueRef::Null => Cell::Null,
                ValueRef::Integer(number) => Cell::Int(number),
                ValueRef::Blob(octets) => Cell::Bytes(octets.to_vec()),
                text => Cell::Text(text.as_str()?.to_owned()),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use terse_core::transfer::TABLES;

    use super::*;

    /// A table that is added later must be moved, or named here.
    #[test]
    fn every_table_of_a_file_moves_or_is_left_out_on_purpose() {
        let left: [(StoreFile, &[&str]); 3] = [
            (
                StoreFile::Links,
                &[
                    "meta",
                    "domains",
                    "leases",
                    "links",
                    "aliases",
                    "revisions",
                    "requests",
                    "changes",
                    "search",
                    "unindexed",
                ],
            ),
            (StoreFile::Registry, &["meta", "leases", "nodes"]),
            (
                StoreFile::Clicks,
                &[
                    "meta",
                    "subjects",
                    "hours",
                    "days",
                    "clicks",
                    "blocks",
                    "erased_subjects",
                    "delta_blocks",
                    "delta_chunks",
                    "runs",
                    "run_heads",
                    "run_bodies",
                    "day_ranks",
                    "key_runs",
                    "key_chunks",
                    "salts",
                ],
            ),
        ];
        for (part, left) in left {
            let shape = schema_of(part);
            let mut conn = Connection::open_in_memory().unwrap();
            shape.migrate(&mut conn, 0).unwrap();
            let mut moved = BTreeSet::new();
            for table in TABLES.iter().filter(|table| table.part == part) {
                let sql = query(table).unwrap();
                let statement = conn.prepare(sql).unwrap();
                assert_eq!(statement.column_count(), table.columns.len(), "{}", table.name);
                let from =
                    sql.split_whitespace().skip_while(|word| *word != "FROM").nth(1).unwrap();
                moved.insert(from);
                // All columns of its table, too. Waiting events get new numbers.
                let count = format!("SELECT count(*) FROM pragma_table_info('{from}')");
                let columns: i64 = conn.query_row(&count, [], |row| row.get(0)).unwrap();
                if !matches!(table.name, "facts" | "outbox") {
                    assert_eq!(columns, table.columns.len() as i64, "the columns of {from}");
                }
            }
            let mut names =
                conn.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
            let names = names.query_map([], |row| row.get::<_, String>(0)).unwrap();
            for name in names.map(Result::unwrap) {
                let is_internal = name.starts_with("sqlite_") || name.starts_with("search_");
                assert!(
                    is_internal || left.contains(&&*name) || moved.contains(&*name),
                    "the table {name} is not moved"
                );
            }
        }
    }
}
