//! Finds links through a connection.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, Statement, params};
use terse_core::{Code, Domain, Link, LinkKey, Numbering};

use crate::failure::{Failure, corrupt, is_damage};
use crate::indexer::IndexSignal;
use crate::issued_codes::IssuedCodes;
use crate::row::{COLUMNS, FIRST_NAMED, RawRow};

/// A connection with everything it takes to find links. Belongs to one thread.
pub(crate) struct LinkQueries {
    pub(crate) conn: Connection,
    pub(crate) numbering: Numbering,
    pub(crate) issued: Arc<IssuedCodes>,
    pub(crate) index_signal: Arc<IndexSignal>,
    /// Whether the last search found the index damaged.
    pub(crate) index_damaged: Cell<bool>,
    /// Domains never change their number, so cached entries stay valid.
    domains: RefCell<Domains>,
    by_id: String,
}

#[derive(Default)]
struct Domains {
    ids: HashMap<Domain, i64>,
    names: HashMap<i64, Domain>,
}

impl AsRef<Connection> for LinkQueries {
    fn as_ref(&self) -> &Connection {
        &self.conn
    }
}

impl LinkQueries {
    pub(crate) fn new(
        conn: Connection,
        numbering: Numbering,
        issued: Arc<IssuedCodes>,
        index_signal: Arc<IndexSignal>,
    ) -> Self {
        let by_id = format!("SELECT {COLUMNS} FROM links WHERE id = ?1");
        Self {
            conn,
            numbering,
            issued,
            index_signal,
            index_damaged: Cell::default(),
            domains: RefCell::default(),
            by_id,
        }
    }

    pub(crate) fn get(&self, key: &LinkKey) -> Result<Option<Link>, Failure> {
        self.get_through(&mut *self.conn.prepare_cached(&self.by_id)?, key)
    }

    /// Looks up each key like `get`. Prepares the statement once for all of them.
    pub(crate) fn get_many(
        &self,
        keys: &[LinkKey],
    ) -> Result<Vec<Result<Option<Link>, Failure>>, Failure> {
        let mut by_id = self.conn.prepare_cached(&self.by_id)?;
        Ok(keys.iter().map(|key| self.get_through(&mut by_id, key)).collect())
    }

    /// A miss is trusted only while no page of the file was found to be damaged: the link may be in
    /// such a page.
    fn get_through(
        &self,
        by_id: &mut Statement<'_>,
        key: &LinkKey,
    ) -> Result<Option<Link>, Failure> {
        let found = self.find(by_id, key);
        match &found {
            Err(Failure::Engine(error)) if is_damage(error) => self.issued.note_damage(),
            Ok(None) if self.issued.is_damaged() => {
                return Err(corrupt("pages of the file are damaged; the link may exist").into());
            }
            _ => {}
        }
        found
    }

    fn find(&self, by_id: &mut Statement<'_>, key: &LinkKey) -> Result<Option<Link>, Failure> {
        let Some(domain) = self.domain_id(&key.domain)? else {
            return Ok(None);
        };
        let mut other = None;
        if let Some(id) = self.number_id(&key.code, |length| self.issued.leased(length)) {
            // Most lookups need one query: the row itself names its domain.
            let mut rows = by_id.query([id])?;
            if let Some(row) = rows.next()? {
                if row.get::<_, i64>(1)? == domain {
                    return self.read(row, Some(&key.code)).map(Some);
                }
                other = Some(self.read(row, None));
            }
        }
        let Some(id) = self.alias_id(domain, &key.code)? else {
            // The number is on another domain, unless its row is damaged.
            return other.transpose().map(|_| None);
        };
        match by_id.query([id])?.next()? {
            Some(row) => self.read(row, Some(&key.code)).map(Some),
            // Both were written in one transaction.
            None => Err(corrupt(format!("the alias of row {id} has no row")).into()),
        }
    }

    /// The row id of a link.
    pub(crate) fn locate(&self, key: &LinkKey) -> Result<Option<i64>, Failure> {
        let Some(domain) = self.domain_id(&key.domain)? else {
            return Ok(None);
        };
        if let Some(id) = self.number_id(&key.code, |length| self.issued.leased(length))
            && self.domain_at(id)? == Some(domain)
        {
            return Ok(Some(id));
        }
        self.alias_id(domain, &key.code)
    }

    fn alias_id(&self, domain: i64, code: &Code) -> Result<Option<i64>, Failure> {
        let mut statement =
            self.conn.prepare_cached("SELECT id FROM aliases WHERE domain = ?1 AND code = ?2")?;
        Ok(statement.query_row(params![domain, code.as_str()], |row| row.get(0)).optional()?)
    }

    /// The row id of a generated link with this code, if its number was leased.
    pub(crate) fn number_id(&self, code: &Code, leased: impl Fn(u8) -> u64) -> Option<i64> {
        let (length, n) = self.numbering.number(code.as_str().as_bytes())?;
        (n < leased(length)).then(|| self.numbering.id(length, n) as i64)
    }

    /// The domain of the link with this id.
    pub(crate) fn domain_at(&self, id: i64) -> Result<Option<i64>, Failure> {
        let mut statement = self.conn.prepare_cached("SELECT domain FROM links WHERE id = ?1")?;
        Ok(statement.query_row([id], |row| row.get(0)).optional()?)
    }

    /// The link with this id; `code` if it is known already.
    pub(crate) fn link(&self, id: i64, code: Option<&Code>) -> Result<Option<Link>, Failure> {
        let mut statement = self.conn.prepare_cached(&self.by_id)?;
        let mut rows = statement.query([id])?;
        rows.next()?.map(|row| self.read(row, code)).transpose()
    }

    /// Converts a row with [`COLUMNS`] into a link.
    pub(crate) fn read(&self, row: &Row<'_>, code: Option<&Code>) -> Result<Link, Failure> {
        let raw = RawRow::read(row)?;
        let domain = self.domain_name(raw.domain)?;
        let code = match (raw.code, code) {
            (Some(stored), Some(code)) if stored == code.as_str() => code.clone(),
            (Some(_), Some(_)) => {
                return Err(
                    corrupt(format!("row {} has another code than its alias", raw.id)).into()
                );
            }
            (Some(stored), None) => {
                Code::parse(stored).ok_or_else(|| corrupt(format!("row {} has no code", raw.id)))?
            }
            (None, _) if raw.id >= FIRST_NAMED => {
                return Err(corrupt(format!("row {} has no code", raw.id)).into());
            }
            (None, Some(code)) => code.clone(),
            (None, None) => {
                let number = u64::try_from(raw.id).ok().and_then(|id| self.numbering.from_id(id));
                let (length, n) =
                    number.ok_or_else(|| corrupt(format!("row {} has no number", raw.id)))?;
                self.numbering.code(length, n)
            }
        };
        raw.into_link(domain, code)
    }

    /// The only chosen alias with the same folded form as this key's code.
    pub(crate) fn get_folded(&self, key: &LinkKey) -> Result<Option<Link>, Failure> {
        let Some(domain) = self.domain_id(&key.domain)? else {
            return Ok(None);
        };
        let mut statement = self.conn.prepare_cached(
            "SELECT id FROM aliases INDEXED BY aliases_folded \
             WHERE domain = ?1 AND lower(code) = ?2 AND owner IS NOT NULL LIMIT 2",
        )?;
        let ids: Vec<i64> = statement
            .query_map(params![domain, key.code.folded()], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        match ids[..] {
            [id] => self.link(id, None),
            _ => Ok(None),
        }
    }

    /// The domain's number, if a link was ever created there.
    pub(crate) fn domain_id(&self, domain: &Domain) -> Result<Option<i64>, Failure> {
        if let Some(id) = self.domains.borrow().ids.get(domain) {
            return Ok(Some(*id));
        }
        let mut statement = self.conn.prepare_cached("SELECT id FROM domains WHERE name = ?1")?;
        let id = statement.query_row([domain.as_str()], |row| row.get(0)).optional()?;
        if let Some(id) = id {
            self.remember(domain.clone(), id);
        }
        Ok(id)
    }

    /// The domain with this number.
    pub(crate) fn domain_name(&self, id: i64) -> Result<Domain, Failure> {
        if let Some(domain) = self.domains.borrow().names.get(&id) {
            return Ok(domain.clone());
        }
        let mut statement = self.conn.prepare_cached("SELECT name FROM domains WHERE id = ?1")?;
        let name: Option<String> = statement.query_row([id], |row| row.get(0)).optional()?;
        let domain =
            Domain::from_stored(&name.ok_or_else(|| corrupt(format!("there is no domain {id}")))?);
        self.remember(domain.clone(), id);
        Ok(domain)
    }

    fn remember(&self, domain: Domain, id: i64) {
        let mut domains = self.domains.borrow_mut();
        domains.names.insert(id, domain.clone());
        domains.ids.insert(domain, id);
    }

    /// After a rollback, domains read within the transaction are no longer valid.
    pub(crate) fn forget_domains(&self) {
        self.domains.take();
    }

    /// The highest id of an owner that a link refers to.
    pub(crate) fn highest_owner(&self) -> Result<u64, Failure> {
        let sql = "SELECT coalesce(max(owner), 0) FROM links WHERE owner <> 0";
        let highest: i64 = self.conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        Ok(highest.cast_unsigned())
    }

    pub(crate) fn admin_key(&self) -> Result<Option<[u8; 32]>, Failure> {
        let mut statement =
            self.conn.prepare_cached("SELECT value FROM meta WHERE name = 'admin_key'")?;
        Ok(statement.query_row([], |row| row.get(0)).optional()?)
    }
}
