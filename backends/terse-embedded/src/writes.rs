//! All writes. Each runs inside a transaction that the writer thread begins and ends.

use std::cell::Cell;
use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension, params};
use terse_core::{
    ClickSpend, CodeLease, Domain, FoldedAlias, IdempotencyKey, Insert, InsertCondition, Inserted,
    Link, LinkKey, MAX_CODE_LENGTH, MIN_CODE_LENGTH, OutboxEvent, OwnerId, ReuseKey, Revision,
    StoreError, Timestamp, Updated,
};

use crate::failure::Failure;
use crate::leases::{self, Leases};
use crate::list::ListPosition;
use crate::mark::MarkFile;
use crate::quarantined_aliases::{QUARANTINED_ALIAS, QUARANTINED_CODE};
use crate::queries::LinkQueries;
use crate::row::{COLUMNS, FIRST_NAMED, NewRow, Texts, reuse_hash};
use crate::search_reset::drop_damaged_tables;

/// How many links of an owner to the same target are compared with a new one, the newest first.
const MAX_CANDIDATES: usize = 256;

/// Aliases with the folded form ?2, except those of owner ?3.
pub(crate) const ALIAS_ALIKE: &str = "SELECT EXISTS (SELECT 1 FROM aliases INDEXED BY \
    aliases_folded \
     WHERE domain = ?1 AND lower(code) = ?2 AND owner IS NOT NULL AND owner IS NOT ?3)";

/// The writer's side of a connection. Its caches hold what the file says, including what the
/// current transaction has written.
pub(crate) struct LinkWrites {
    queries: LinkQueries,
    leased: Leases,
    next_named: i64,
    stored_next_named: i64,
    /// Whether this transaction has written change rows.
    pub(crate) recorded_changes: bool,
    /// Whether this transaction made links wait for the indexer.
    pub(crate) links_to_index: bool,
    /// Whether this transaction has changed the search index, and whether damage was found there.
    pub(crate) index_written: bool,
    pub(crate) index_damaged: bool,
    /// Links before this one are not in the search index.
    pub(crate) floor: Option<ListPosition>,
    /// Whether any alias is in quarantine; `None` if that is not known.
    pub(crate) quarantines_any: Cell<Option<bool>>,
    /// How FTS5 deletes; `None` if that is not known.
    pub(crate) erases_trigrams: Option<bool>,
    insert_row: String,
    reusable_rows: String,
    mark: Option<Arc<Mutex<MarkFile>>>,
}

impl Deref for LinkWrites {
    type Target = LinkQueries;

    fn deref(&self) -> &LinkQueries {
        &self.queries
    }
}

/// What the store does with a new link.
pub(crate) enum Decision {
    /// It is written.
    Write,
    /// The link with this id answers the request instead.
    Reuse(i64, Box<Link>),
    /// The request was answered before.
    Answer(Inserted),
}

impl crate::database::Writes for LinkWrites {
    fn conn(&self) -> &Connection {
        &self.queries.conn
    }

    fn reload(&mut self) -> rusqlite::Result<()> {
        self.recall()
    }

    fn repair(&mut self, error: &rusqlite::Error) -> rusqlite::Result<bool> {
        let damaged = std::mem::take(&mut self.index_damaged);
        if damaged {
            let replaced = self.replace_damaged_index(error);
            self.recall()?;
            replaced?;
        }
        Ok(damaged)
    }

    fn finish(&mut self) -> rusqlite::Result<()> {
        self.prune_changes()?;
        self.keep_next_named()?;
        self.flush_index().map_err(Failure::into_engine)
    }

    fn committed(&mut self, frames: u32) {
        if std::mem::take(&mut self.links_to_index) {
            self.index_signal.notify();
        }
        let leases = self.leased;
        self.mark(|mark| mark.committed(&leases, frames.into()));
    }

    fn log_ends(&mut self) {
        self.mark(MarkFile::log_ends);
    }
}

impl LinkWrites {
    pub(crate) fn new(
        queries: LinkQueries,
        mark: Option<Arc<Mutex<MarkFile>>>,
    ) -> rusqlite::Result<Self> {
        let mut writes = Self {
            queries,
            leased: Default::default(),
            next_named: FIRST_NAMED,
            stored_next_named: FIRST_NAMED,
            recorded_changes: false,
            links_to_index: false,
            index_written: false,
            index_damaged: false,
            floor: None,
            quarantines_any: Cell::default(),
            erases_trigrams: None,
            insert_row: format!(
                "INSERT INTO links ({COLUMNS}) VALUES \
                 (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,\
                 ?20,?21,?22,?23,?24,?25)"
            ),
            reusable_rows: format!(
                "SELECT {COLUMNS} FROM links WHERE reuse = +?1 ORDER BY id DESC \
                 LIMIT {MAX_CANDIDATES}"
            ),
            mark,
        };
        // Erased targets and texts must not stay in freed parts of pages.
        writes.conn.query_row("PRAGMA secure_delete = ON", [], |_| Ok(()))?;
        if let Err(error) = drop_damaged_tables(&writes.conn) {
            tracing::warn!(%error, "a replaced search index cannot be deleted");
        }
        writes.replace_outdated_index()?;
        writes.recall()?;
        Ok(writes)
    }

    /// Changes the mark. If that fails, the store continues without it: the next open may not
    /// notice a loss, but continues at a random distance as always.
    fn mark(&self, change: impl FnOnce(&mut MarkFile) -> std::io::Result<()>) {
        let Some(mark) = &self.mark else { return };
        if let Err(error) = change(&mut mark.lock().unwrap_or_else(PoisonError::into_inner)) {
            tracing::warn!(%error, "the mark beside the links file cannot be written");
        }
    }

    fn recall(&mut self) -> rusqlite::Result<()> {
        self.queries.forget_domains();
        let leased = leases::beyond_links(&self.queries.conn, &self.queries.numbering)?;
        (self.stored_next_named, self.next_named) = leases::next_named(&self.queries.conn)?;
        self.leased = leased;
        self.recorded_changes = false;
        self.links_to_index = false;
        self.index_written = false;
        self.floor = self.queries.search_floor()?;
        self.quarantines_any.set(None);
        self.erases_trigrams = None;
        Ok(())
    }

    /// Ids of named links are never reused, even after a purge, because stored requests refer to
    /// links by id.
    fn keep_next_named(&mut self) -> rusqlite::Result<()> {
        if self.next_named != self.stored_next_named {
            let mut statement = self
                .conn
                .prepare_cached("INSERT OR REPLACE INTO meta VALUES ('next_named', ?1)")?;
            statement.execute([self.next_named])?;
            drop(statement);
            self.stored_next_named = self.next_named;
        }
        Ok(())
    }

    /// Checks the conditions of an insert, in the order of the contract, and writes nothing.
    pub(crate) fn decide(&self, insert: &Insert) -> Result<Decision, Failure> {
        let Insert { link, absent, reuse, request, .. } = insert;
        if let Some(request) = request
            && let Some(answer) = self.answered(request)?
        {
            return Ok(Decision::Answer(answer));
        }
        let id = self.locate(&link.key)?;
        if let Some(reuse) = reuse
            && let Some((id, existing)) = match reuse.alias() {
                // Most aliases are new.
                Some(key) if *key == link.key && id.is_none() => None,
                _ => self.existing(reuse)?,
            }
        {
            return Ok(Decision::Reuse(id, Box::new(existing)));
        }
        if id.is_some() {
            return Err(StoreError::CodeTaken.into());
        }
        for what in absent {
            if self.exists(&link.key.domain, what)? {
                return Err(StoreError::CodeTaken.into());
            }
        }
        Ok(Decision::Write)
    }

    /// Inserts each of them, after those before it. An error of SQLite fails all of them.
    pub(crate) fn insert_many(
        &mut self,
        inserts: &[Insert],
    ) -> Result<Vec<Result<Inserted, StoreError>>, Failure> {
        let mut outcomes = Vec::with_capacity(inserts.len());
        for insert in inserts {
            outcomes.push(match self.insert(insert) {
                Ok(inserted) => Ok(inserted),
                Err(Failure::Refused(error)) => Err(error),
                Err(error) => return Err(error),
            });
        }
        Ok(outcomes)
    }

    pub(crate) fn insert(&mut self, insert: &Insert) -> Result<Inserted, Failure> {
        let Insert { link, alias, request, events, .. } = insert;
        match self.decide(insert)? {
            Decision::Answer(answer) => return Ok(answer),
            Decision::Reuse(id, existing) => {
                // Later than the link, so that the answer to this request is not taken for the one
                // that created it.
                let at = link.created_at.max(Timestamp::from_ms(existing.created_at.as_ms() + 1));
                self.remember(request.as_ref(), id, &existing, at)?;
                return Ok(Inserted::Existing(existing));
            }
            Decision::Write => {}
        }
        // Nothing is written so far, and nothing is refused from here on.
        let domain = self.domain_id_or_new(&link.key.domain)?;
        if alias.is_some() {
            self.take_back(domain, link)?;
            self.record_change(&link.key, link.revision)?;
        }
        let id = self.new_id(link, domain, alias.as_ref())?;
        let texts = Texts::of(link);
        let spent = Some(link.spent_clicks as i64).filter(|spent| *spent != 0);
        let row = NewRow::new(id, domain, link, &texts);
        self.conn.prepare_cached(&self.insert_row)?.execute(&row.values(&spent)[..])?;
        self.index_later(id, link)?;
        self.remember(request.as_ref(), id, link, link.created_at)?;
        for event in events {
            self.post(*event, link)?;
        }
        Ok(Inserted::Created)
    }

    /// Stores that this request was answered with this link.
    fn remember(
        &self,
        request: Option<&IdempotencyKey>,
        id: i64,
        link: &Link,
        at: Timestamp,
    ) -> Result<(), Failure> {
        if let Some(request) = request {
            let mut statement =
                self.conn.prepare_cached("INSERT INTO requests VALUES (?1, ?2, ?3, ?4, ?5)")?;
            statement.execute(params![
                request.id,
                request.fingerprint,
                id,
                link.created_at.as_ms(),
                at.as_ms()
            ])?;
        }
        Ok(())
    }

    /// The stored answer to this request.
    pub(crate) fn answered(&self, request: &IdempotencyKey) -> Result<Option<Inserted>, Failure> {
        let mut statement = self.conn.prepare_cached(
            "SELECT fingerprint, link, link_created_at, at FROM requests WHERE id = ?1",
        )?;
        let before: Option<([u8; 32], i64, i64, i64)> = statement
            .query_row([&request.id], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })
            .optional()?;
        let Some((fingerprint, id, created_at, at)) = before else {
            return Ok(None);
        };
        if fingerprint != request.fingerprint {
            return Ok(Some(Inserted::RequestMismatch));
        }
        // A number can be used again after a purge if codes are derived from targets: that is
        // another link.
        let link = self.link(id, None)?.filter(|link| link.created_at.as_ms() == created_at);
        Ok(Some(Inserted::Replayed { link: link.map(Box::new), created: at == created_at }))
    }

    /// A link to return instead of creating a new one.
    fn existing(&self, reuse: &ReuseKey) -> Result<Option<(i64, Link)>, Failure> {
        if let Some(key) = reuse.alias() {
            let Some(id) = self.locate(key)? else { return Ok(None) };
            let have = match self.link(id, None) {
                Ok(have) => have.filter(|have| reuse.matches(have)),
                // A damaged row is not reused; its alias is taken.
                Err(Failure::Refused(_)) => None,
                Err(error) => return Err(error),
            };
            return Ok(have.map(|have| (id, have)));
        }
        let mut statement = self.conn.prepare_cached(&self.reusable_rows)?;
        let mut rows = statement.query([reuse_hash(&reuse.wanted)])?;
        while let Some(row) = rows.next()? {
            let have = match self.read(row, None) {
                Ok(have) => have,
                // A damaged row is not reused; the caller creates a new link.
                Err(Failure::Refused(error)) => {
                    tracing::error!(%error, "skipped a damaged link");
                    continue;
                }
                Err(error) => return Err(error),
            };
            if reuse.matches(&have) {
                return Ok(Some((row.get(0)?, have)));
            }
        }
        Ok(None)
    }

    /// Whether something exists that an insert on this domain requires to be absent.
    fn exists(&self, domain: &Domain, what: &InsertCondition) -> Result<bool, Failure> {
        if let InsertCondition::Issued(code) = what {
            return Ok(self.number_id(code, |length| self.issued.leased(length)).is_some());
        }
        let Some(domain) = self.domain_id(domain)? else {
            return Ok(false);
        };
        let alike = |sql: &str, folded: &str, except: Option<OwnerId>| {
            let except = except.map(|owner| owner.0 as i64);
            let mut statement = self.conn.prepare_cached(sql)?;
            Ok(statement.query_row(params![domain, folded, except], |row| row.get(0))?)
        };
        match what {
            InsertCondition::QuarantinedAlias { .. } | InsertCondition::QuarantinedCode(_)
                if !self.quarantines_any()? =>
            {
                Ok(false)
            }
            InsertCondition::Alias { folded, except } => alike(ALIAS_ALIKE, folded, *except),
            InsertCondition::QuarantinedAlias { folded, except } => {
                alike(QUARANTINED_ALIAS, folded, *except)
            }
            InsertCondition::QuarantinedCode(code) => {
                let mut statement = self.conn.prepare_cached(QUARANTINED_CODE)?;
                Ok(statement.query_row(params![domain, code.as_str()], |row| row.get(0))?)
            }
            InsertCondition::Issued(_) => Ok(false),
        }
    }

    pub(crate) fn domain_id_or_new(&self, domain: &Domain) -> Result<i64, Failure> {
        if let Some(id) = self.domain_id(domain)? {
            return Ok(id);
        }
        self.conn
            .prepare_cached("INSERT INTO domains (name) VALUES (?1)")?
            .execute([domain.as_str()])?;
        Ok(self.conn.last_insert_rowid())
    }

    #[cfg(test)]
    pub(crate) fn skip_named(&mut self, ids: i64) {
        self.next_named += ids;
    }

    /// The id of a new link: its number, or one under which it is stored by name.
    pub(crate) fn new_id(
        &mut self,
        link: &Link,
        domain: i64,
        alias: Option<&FoldedAlias>,
    ) -> Result<i64, Failure> {
        let number = match alias {
            None => self.number_id(&link.key.code, |length| self.leased[usize::from(length)]),
            Some(_) => None,
        };
        match number {
            // A number stands for the same code on every domain; a second link is stored by name.
            Some(id) if self.domain_at(id)?.is_none() => Ok(id),
            _ => self.name(link, domain, alias),
        }
    }

    /// Stores a link by its name and gives it an id.
    fn name(
        &mut self,
        link: &Link,
        domain: i64,
        alias: Option<&FoldedAlias>,
    ) -> Result<i64, Failure> {
        let id = self.next_named;
        self.next_named += 1;
        if self.numbering.number(link.key.code.as_str().as_bytes()).is_some() {
            self.issued.publish_alike(&link.key);
        }
        // The folded form needs no column: the index computes it from the code.
        let owner = alias.map(|alias| alias.owner.0 as i64);
        let mut statement = self.conn.prepare_cached(
            "INSERT INTO aliases (domain, code, id, owner) VALUES (?1, ?2, ?3, ?4)",
        )?;
        statement.execute(params![domain, link.key.code.as_str(), id, owner])?;
        Ok(id)
    }

    pub(crate) fn update(
        &mut self,
        link: &Link,
        expected: Revision,
        events: &[OutboxEvent],
    ) -> Result<Updated, Failure> {
        let Some(id) = self.locate(&link.key)? else {
            return Ok(Updated::Missing);
        };
        let Some(old) = self.link(id, Some(&link.key.code))? else {
            return Ok(Updated::Missing);
        };
        if old.revision != expected {
            return Err(StoreError::Conflict.into());
        }
        let renewed = old.expires_at != link.expires_at;
        let new = old.updated_to(link);
        if !old.owner_visible_eq(&new) {
            self.keep(id, new.updated_at)?;
        }
        self.index_again(id, &old, &new)?;
        self.rewrite(id, &new)?;
        self.record_change(&new.key, new.revision)?;
        for event in events {
            self.post(*event, &new)?;
        }
        if renewed {
            // With a new expiry, the link can expire once more.
            self.conn
                .prepare_cached("UPDATE links SET marked = NULL WHERE id = ?1")?
                .execute([id])?;
        }
        Ok(Updated::Done)
    }

    /// Writes every column of a link that can change.
    pub(crate) fn rewrite(&self, id: i64, link: &Link) -> Result<(), Failure> {
        let domain = self.domain_id_or_new(&link.key.domain)?;
        let texts = Texts::of(link);
        let row = NewRow::new(id, domain, link, &texts);
        let mut statement = self.conn.prepare_cached(
            "UPDATE links SET target = ?5, updated_at = ?7, flags = ?8, checksum = ?9, reuse = \
             ?10, revision = ?11, \
             expires_at = ?12, valid_from = ?13, max_clicks = ?14, title = ?16, tags = ?17, \
             deleted_at = ?18, signs = ?19, \
             password = ?20, notes = ?21, archived_at = ?22, rules = ?23, \
             preview = ?25 \
             WHERE id = ?1 AND domain = ?2 AND code IS ?3 AND owner = ?4 AND created_at = ?6 AND \
             imported_clicks IS ?24 AND ?15 IS NULL",
        )?;
        match statement.execute(&row.values(&None)[..])? {
            1 => Ok(()),
            _ => {
                Err(crate::failure::corrupt(format!("row {id} changed what cannot change")).into())
            }
        }
    }

    pub(crate) fn spend(&mut self, key: &LinkKey) -> Result<ClickSpend, Failure> {
        let Some(id) = self.locate(key)? else {
            return Ok(ClickSpend::Missing);
        };
        let Some(link) = self.link(id, Some(&key.code))? else {
            return Ok(ClickSpend::Missing);
        };
        match link.max_clicks {
            None => Ok(ClickSpend::Yes),
            Some(max) if link.spent_clicks >= max => Ok(ClickSpend::UsedUp),
            Some(_) => {
                let mut statement =
                    self.conn.prepare_cached("UPDATE links SET spent_clicks = ?2 WHERE id = ?1")?;
                statement.execute([id, link.spent_clicks as i64 + 1])?;
                Ok(ClickSpend::Yes)
            }
        }
    }

    pub(crate) fn lease(&mut self, lease: CodeLease) -> Result<Range<u64>, Failure> {
        let CodeLease { length, count, capacity, at_least, skip } = lease;
        if !(MIN_CODE_LENGTH..=MAX_CODE_LENGTH).contains(&length) {
            return Err(StoreError::Exhausted.into());
        }
        let all = self.numbering.capacity(length);
        let mut leases = self.leased;
        let next = &mut leases[usize::from(length)];
        // A caller that knows a higher number got it before this file was restored from a copy.
        let restored = at_least.min(all) > *next;
        if restored {
            *next = at_least.min(all);
            leases = leases::skipped(&leases, &self.numbering);
        }
        let start = leases[usize::from(length)].saturating_add(skip);
        if start >= capacity.min(all) {
            return Err(StoreError::Exhausted.into());
        }
        let end = start.saturating_add(count.max(1)).min(capacity.min(all));
        leases[usize::from(length)] = end;
        if restored {
            leases::write_incarnation(&self.conn, leases::incarnation(&self.conn)? + 1)?;
        }
        self.write_leases(leases)?;
        Ok(start..end)
    }

    pub(crate) fn raise_incarnation(&mut self, seen: u64) -> Result<u64, Failure> {
        let present = leases::incarnation(&self.conn)?;
        if present != seen {
            return Ok(present);
        }
        leases::write_incarnation(&self.conn, present + 1)?;
        self.write_leases(leases::skipped(&self.leased, &self.numbering))?;
        Ok(present + 1)
    }

    /// Writes the leases that have changed.
    fn write_leases(&mut self, leases: Leases) -> Result<(), Failure> {
        for (length, next) in (0u8..).zip(leases) {
            if next != self.leased[usize::from(length)] {
                leases::write(&self.conn, length, next)?;
            }
        }
        self.leased = leases;
        // Published before the commit: after it, links with these numbers may exist.
        self.issued.publish_leases(&leases);
        Ok(())
    }

    pub(crate) fn delete_admin_key(&mut self) -> Result<(), Failure> {
        self.conn.prepare_cached("DELETE FROM meta WHERE name = 'admin_key'")?.execute([])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;
    use terse_core::{Insert, LinkStore, ReuseKey};
    use terse_testkit::alias;

    use crate::{EmbeddedLinks, EmbeddedOptions};

    /// SQLite compiles a statement again for a new value if its plan may depend on the value.
    #[tokio::test]
    async fn the_search_for_a_link_to_reuse_is_compiled_once() {
        let folder = tempfile::tempdir().unwrap();
        let store =
            EmbeddedLinks::open(EmbeddedOptions::new(folder.path().join("links.db"))).unwrap();
        for n in 0..10 {
            let mut link = alias(&format!("code-{n}"), &format!("https://example.com/{n}"));
            link.generated = true;
            let reuse = ReuseKey { wanted: link.clone(), lifetime: None };
            let insert = Insert { reuse: Some(reuse), ..Insert::new(link, None) };
            store.insert(insert).await.unwrap();
        }
        let count = |writes: &mut super::LinkWrites| {
            let statement = writes.conn.prepare_cached(&writes.reusable_rows)?;
            let of = |what| statement.get_status(what);
            Ok((of(StatementStatus::Run), of(StatementStatus::RePrepare)))
        };
        assert_eq!(store.threads().write(count).await.unwrap(), (10, 0));
        store.close();
    }
}
