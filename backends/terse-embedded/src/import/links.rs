//! Links of another store, written into a new file.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, params};
use terse_core::transfer::{Digest, MovedLink};
use terse_core::{FoldedAlias, Link, LinkKey, LinkVersion, Numbering, StoreIdentity, Timestamp};

use super::{end, failed};
use crate::database::Writes as _;
use crate::engine::DbLocation;
use crate::failure::Failure;
use crate::issued_codes::IssuedCodes;
use crate::leases;
use crate::options::EmbeddedOpenError;
use crate::queries::LinkQueries;
use crate::row::{COLUMNS, NewRow, Texts};
use crate::schema;
use crate::writes::LinkWrites;

const VALUES: &str = "(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,\
     ?20,?21,?22,?23,?24,?25";

/// A links file that links move into.
pub struct LinksImport {
    writes: LinkWrites,
}

impl LinksImport {
    /// Creates the file with this secret and these leases, or opens one that an earlier attempt has
    /// begun. An error if that one is of another store.
    pub fn open(
        file: &Path,
        identity: &StoreIdentity,
        incarnation: u64,
        leased: &[(u8, u64)],
    ) -> Result<Self, EmbeddedOpenError> {
        let conn = schema::LINKS.open(&DbLocation::at(file))?;
        conn.execute_batch("BEGIN IMMEDIATE")?;
        let begun = begin(&conn, identity, incarnation, leased);
        end(&conn, begun.map_err(Failure::from))?;
        let stored = schema::stored_identity(&conn)?;
        if stored.is_none_or(|stored| stored.secret() != identity.secret()) {
            let why = "it belongs to another store: remove it, and begin again";
            return Err(EmbeddedOpenError::Damaged(why.to_owned()));
        }
        let numbering = Numbering::new(identity);
        let issued = Arc::new(IssuedCodes::load(&conn, &numbering)?);
        let queries = LinkQueries::new(conn, numbering, issued, Arc::default());
        Ok(Self { writes: LinkWrites::new(queries, None)? })
    }

    /// Makes the file have these links exactly as they are here. Returns how many were written.
    pub fn sync(&mut self, links: &[MovedLink]) -> Result<u64, EmbeddedOpenError> {
        self.writes.conn.execute_batch("BEGIN IMMEDIATE")?;
        let mut sync = || -> Result<u64, Failure> {
            let mut written = 0;
            for moved in links {
                if let Some(id) = self.writes.locate(&moved.link.key)? {
                    match self.writes.moved(id)? {
                        Some(there) if digest(&there) == digest(moved) => continue,
                        there => self.writes.remove(id, there.as_ref().map(|moved| &moved.link))?,
                    }
                }
                self.writes.import(moved)?;
                written += 1;
            }
            self.writes.finish()?;
            Ok(written)
        };
        let synced = sync();
        let done = end(&self.writes.conn, synced);
        if done.is_err() {
            self.writes.reload()?;
        }
        done
    }

    /// Removes links that the other store no longer has.
    pub fn remove(&mut self, keys: &[LinkKey]) -> Result<(), EmbeddedOpenError> {
        self.writes.conn.execute_batch("BEGIN IMMEDIATE")?;
        let remove = || -> Result<(), Failure> {
            for key in keys {
                if let Some(id) = self.writes.locate(key)? {
                    let moved = self.writes.moved(id)?;
                    self.writes.remove(id, moved.as_ref().map(|moved| &moved.link))?;
                }
            }
            Ok(())
        };
        let removed = remove();
        end(&self.writes.conn, removed)
    }

    /// How many links there are.
    pub fn count(&self) -> Result<u64, EmbeddedOpenError> {
        let count: i64 =
            self.writes.conn.query_row("SELECT count(*) FROM links", [], |row| row.get(0))?;
        Ok(count.cast_unsigned())
    }

    /// The keys of up to `limit` links after a position, each with its position.
    pub fn keys(&self, after: i64, limit: usize) -> Result<Vec<(i64, LinkKey)>, EmbeddedOpenError> {
        let read = || -> Result<Vec<(i64, LinkKey)>, Failure> {
            let sql = format!("SELECT {COLUMNS} FROM links WHERE id > ?1 ORDER BY id LIMIT ?2");
            let mut statement = self.writes.conn.prepare_cached(&sql)?;
            let mut rows = statement.query(params![after, limit as i64])?;
            let mut keys = Vec::new();
            while let Some(row) = rows.next()? {
                keys.push((row.get(0)?, self.writes.read(row, None)?.key));
            }
            Ok(keys)
        };
        read().map_err(failed)
    }
}

fn begin(
    conn: &Connection,
    identity: &StoreIdentity,
    incarnation: u64,
    leased: &[(u8, u64)],
) -> rusqlite::Result<()> {
    let new = "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    conn.execute(new, params!["secret", identity.secret()])?;
    conn.execute(new, params!["alphabet", identity.alphabet.as_str()])?;
    conn.execute(new, params!["code_hash", identity.code_hash.as_str()])?;
    let before = leases::stored(conn)?;
    for (length, next) in leased {
        let known = before.get(usize::from(*length)).copied().unwrap_or(0);
        leases::write(conn, *length, known.max(*next))?;
    }
    leases::write_incarnation(conn, leases::incarnation(conn)?.max(incarnation))
}

fn digest(moved: &MovedLink) -> Digest {
    let mut digest = Digest::default();
    moved.digest(&mut digest);
    digest
}

impl LinkQueries {
    /// A link with its history.
    pub(crate) fn moved(&self, id: i64) -> Result<Option<MovedLink>, Failure> {
        let sql = format!("SELECT {COLUMNS}, marked FROM links WHERE id = ?1");
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query([id])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        self.moved_of_row(row).map(Some)
    }

    /// The link of a row that ends with `marked`, with its history.
    pub(crate) fn moved_of_row(&self, row: &rusqlite::Row<'_>) -> Result<MovedLink, Failure> {
        let (position, marked): (i64, Option<i64>) = (row.get(0)?, row.get("marked")?);
        let link = self.read(row, None)?;
        let sql = format!("SELECT {COLUMNS}, until FROM revisions WHERE id = ?1 ORDER BY n DESC");
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query([position])?;
        let mut history = Vec::new();
        while let Some(row) = rows.next()? {
            let until = Timestamp::from_ms(row.get("until")?);
            history.push(LinkVersion { link: self.read(row, None)?, until });
        }
        Ok(MovedLink { position, link, marked: marked.map(Timestamp::from_ms), history })
    }
}

impl LinkWrites {
    /// Writes a link that the file does not have, with its history.
    fn import(&mut self, moved: &MovedLink) -> Result<(), Failure> {
        let MovedLink { link, marked, history, .. } = moved;
        let domain = self.domain_id_or_new(&link.key.domain)?;
        let folded = link.key.code.folded();
        let alias = (!link.generated).then_some(FoldedAlias { folded, owner: link.owner });
        let id = self.new_id(link, domain, alias.as_ref())?;
        self.import_row("links", "marked", marked.map(Timestamp::as_ms), id, domain, link)?;
        // The oldest first: the table numbers them.
        for LinkVersion { link, until } in history.iter().rev() {
            self.import_row("revisions", "until", Some(until.as_ms()), id, domain, link)?;
        }
        self.index_later(id, link)
    }

    /// Writes a row with one more column.
    fn import_row(
        &self,
        table: &str,
        column: &str,
        value: Option<i64>,
        id: i64,
        domain: i64,
        link: &Link,
    ) -> Result<(), Failure> {
        let texts = Texts::of(link);
        let spent = Some(link.spent_clicks as i64).filter(|spent| *spent != 0);
        let row = NewRow::new(id, domain, link, &texts);
        let sql = format!("INSERT INTO {table} ({COLUMNS}, {column}) VALUES {VALUES},?26)");
        let values = row.values(&spent);
        let mut all: Vec<&dyn rusqlite::ToSql> = values.to_vec();
        all.push(&value);
        self.conn.prepare_cached(&sql)?.execute(&all[..])?;
        Ok(())
    }

    /// Removes a link that was imported.
    fn remove(&self, id: i64, link: Option<&Link>) -> Result<(), Failure> {
        for sql in ["DELETE FROM links WHERE id = ?1", "DELETE FROM revisions WHERE id = ?1"] {
            self.conn.prepare_cached(sql)?.execute([id])?;
        }
        let Some(link) = link else { return Ok(()) };
        // The search index is empty until a server opens the file.
        self.conn
            .prepare_cached("DELETE FROM unindexed WHERE created_at = ?1 AND id = ?2")?
            .execute([link.created_at.as_ms(), id])?;
        if let Some(domain) = self.domain_id(&link.key.domain)? {
            self.conn
                .prepare_cached("DELETE FROM aliases WHERE domain = ?1 AND code = ?2")?
                .execute(params![domain, link.key.code.as_str()])?;
        }
        Ok(())
    }
}
