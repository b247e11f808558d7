//! Counting a batch. Every write runs inside a transaction that the writer thread begins and ends.

use std::ops::Deref;
use std::sync::Arc;

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};
use terse_core::clicks::{
    Added, Batch, ClickSubject, Count, Delta, LinkId, MAX_VALUES_PER_HOUR, MAX_VALUES_TOTAL,
    SumSubject,
};
use terse_core::{OwnerId, Timestamp};

use crate::clicks::bucket::hour_id;
use crate::clicks::erase;
use crate::clicks::fold::Progress;
use crate::clicks::groups::{Group, raw_rows};
use crate::clicks::key_merge::NewKeys;
use crate::clicks::known_links::KnownLinks;
use crate::clicks::new_links::NewLinks;
use crate::clicks::queries::{ClickQueries, filed};
use crate::clicks::run_erase::CleanedRun;
use crate::clicks::runs::RunLimits;
use crate::clicks::sum::{Slot, Sum};
use crate::disk_reserve::DiskReserve;
use crate::failure::Failure;

pub(crate) const HOUR: &str = "SELECT people, machines, sum FROM hours WHERE id = ?1";
/// Blocks may still hold clicks of erased subjects, so new subjects must not get their ids.
const NEXT_SUBJECT: &str = "SELECT 1 + max((SELECT coalesce(max(id), 0) FROM subjects), \
    (SELECT coalesce(max(subject), 0) FROM erased_subjects))";
pub(crate) const NEW_SUBJECT: &str =
    "INSERT INTO subjects VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
pub(crate) const MORE_OF_SUBJECT: &str =
    "UPDATE subjects SET people = people + ?2, machines = machines + ?3 WHERE id = ?1";
pub(crate) const PUT_HOUR: &str =
    "INSERT OR REPLACE INTO hours (id, people, machines, sum) VALUES (?1, ?2, ?3, ?4)";

/// The largest number of values of a dimension in the sum of a batch. The rarest of more would
/// become "other" anyway; this bounds the cost of a flood of values.
const MAX_VALUES_PER_BATCH: usize = 5 * MAX_VALUES_TOTAL;

/// The writer's side of a connection. Its caches hold what the file says, including what the
/// present transaction has written.
pub(crate) struct ClickWrites {
    pub(super) queries: ClickQueries,
    /// Whether there is room for single clicks; `None` if only sums are kept.
    raw: Option<Arc<DiskReserve>>,
    pub(super) next_subject: i64,
    pub(crate) next_number: u64,
    pub(crate) next_block: i64,
    stored_next_number: u64,
    pub(crate) limits: RunLimits,
    pub(super) known: KnownLinks,
    /// How far the last step of an erasure came.
    pub(crate) cleaned: Option<CleanedRun>,
    /// The links that are left of an owner who is being erased.
    pub(crate) erasing: Option<(OwnerId, Vec<i64>)>,
    /// Whether there may be tombstones of links, and of owners.
    has_erased_links: bool,
    has_erased_owners: bool,
}

impl Deref for ClickWrites {
    type Target = ClickQueries;

    fn deref(&self) -> &ClickQueries {
        &self.queries
    }
}

impl crate::database::Writes for ClickWrites {
    fn conn(&self) -> &Connection {
        &self.queries.conn
    }

    fn reload(&mut self) -> rusqlite::Result<()> {
        self.clear_link_cache();
        self.cleaned = None;
        self.erasing = None;
        self.queries.chunk_lists.borrow_mut().clear();
        self.queries.key_lists.borrow_mut().clear();
        let conn = &self.queries.conn;
        self.next_subject = conn.query_row(NEXT_SUBJECT, [], |row| row.get(0))?;
        self.next_block =
            conn.query_row("SELECT coalesce(max(id), 0) + 1 FROM blocks", [], |row| row.get(0))?;
        let stored =
            conn.query_row("SELECT value FROM meta WHERE name = 'next_number'", [], |row| {
                row.get::<_, i64>(0)
            });
        self.next_number = stored.optional()?.map_or(1, i64::cast_unsigned);
        self.stored_next_number = self.next_number;
        self.has_erased_links =
            self.queries.conn.prepare_cached("SELECT 1 FROM erased_links")?.exists([])?;
        self.has_erased_owners =
            self.queries.conn.prepare_cached("SELECT 1 FROM erased_owners")?.exists([])?;
        Ok(())
    }

    fn finish(&mut self) -> rusqlite::Result<()> {
        if self.next_number != self.stored_next_number {
            let mut statement = self
                .conn
                .prepare_cached("INSERT OR REPLACE INTO meta VALUES ('next_number', ?1)")?;
            statement.execute([self.next_number.cast_signed()])?;
            drop(statement);
            self.stored_next_number = self.next_number;
        }
        Ok(())
    }
}

/// The statements of a batch, prepared once for all of its rows.
struct Statements<'c> {
    new_subject: CachedStatement<'c>,
    more_of_subject: CachedStatement<'c>,
    hour: CachedStatement<'c>,
    put_hour: CachedStatement<'c>,
}

impl<'c> Statements<'c> {
    fn new(conn: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            new_subject: conn.prepare_cached(NEW_SUBJECT)?,
            more_of_subject: conn.prepare_cached(MORE_OF_SUBJECT)?,
            hour: conn.prepare_cached(HOUR)?,
            put_hour: conn.prepare_cached(PUT_HOUR)?,
        })
    }
}

impl ClickWrites {
    pub(crate) fn new(
        queries: ClickQueries,
        raw: Option<Arc<DiskReserve>>,
    ) -> rusqlite::Result<Self> {
        // SQLite overwrites deleted data, above all salts, on disk.
        queries.conn.query_row("PRAGMA secure_delete = ON", [], |_| Ok(()))?;
        let mut writes = Self {
            queries,
            raw,
            next_subject: 1,
            next_number: 1,
            next_block: 1,
            stored_next_number: 1,
            limits: RunLimits::default(),
            known: KnownLinks::new(),
            cleaned: None,
            erasing: None,
            has_erased_links: true,
            has_erased_owners: true,
        };
        crate::database::Writes::reload(&mut writes)?;
        Ok(writes)
    }

    pub(crate) fn add(&mut self, batch: &Batch) -> Result<Added, Failure> {
        if let Some(refusal) = self.refusal(&batch.spans)? {
            return Ok(refusal);
        }
        self.known.make_room();
        let mut keys = NewKeys::default();
        let mut groups = self.groups(batch, &mut keys)?;
        // Sorted in the order of the file.
        groups.sort_unstable_by_key(|group| group.subject);
        let progress = self.progress()?;
        let is_on = groups.len() >= self.limits.from;
        let settled_to = if is_on { self.run_state()?.1 } else { i64::MAX };
        let seed = self.names_seed()?;
        let (sums, keys) = {
            let mut statements = Statements::new(&self.queries.conn)?;
            let new_links = NewLinks::new(&self.queries.conn)?;
            let mut deferred = Deferred { settled_to, seed, sums: Vec::new(), keys, new_links };
            for group in &groups {
                self.write_group(&mut statements, progress, batch, group, &mut deferred)?;
            }
            deferred.new_links.flush()?;
            (deferred.sums, deferred.keys)
        };
        // Rolls back: a refusal would commit the counts that are written already.
        self.put_new_keys(keys).map_err(Failure::after_writes)?;
        self.put_sums(sums, &batch.clicks).map_err(Failure::after_writes)?;
        if let Some(reserve) = &self.raw {
            let rows = raw_rows(batch, &groups);
            if reserve.admits(rows.len()) {
                self.add_block(&batch.clicks, rows)?;
            }
        }
        self.move_positions(&batch.spans)?;
        Ok(Added::Done)
    }

    /// Empties the cache of links, and looks for tombstones from now on.
    pub(crate) fn clear_link_cache(&mut self) {
        self.known.clear();
        (self.has_erased_links, self.has_erased_owners) = (true, true);
    }

    /// When a link was erased, if it was.
    pub(super) fn tombstone(&self, link: &LinkId) -> Result<Option<Timestamp>, Failure> {
        if self.has_erased_links { self.link_erased_at(link) } else { Ok(None) }
    }

    pub(super) fn is_owner_erased(&self, owner: OwnerId) -> Result<bool, Failure> {
        if !self.has_erased_owners {
            return Ok(false);
        }
        Ok(self.conn.prepare_cached(erase::OWNER_ERASED)?.exists([owner.0.cast_signed()])?)
    }

    /// Deletes the salts that earlier versions kept in this file. The registry has them now.
    pub(crate) fn delete_old_salts(&self) -> Result<(), Failure> {
        self.conn.prepare_cached("DELETE FROM salts")?.execute([])?;
        Ok(())
    }
}

/// What is written after the rows: sums as a run, and the keys of new links.
struct Deferred<'c, 'g> {
    /// Only sums of rows from this one on may be.
    settled_to: i64,
    sums: Vec<(i64, &'g Delta)>,
    /// Of the names in keys.
    seed: i64,
    keys: NewKeys,
    new_links: NewLinks<'c, 'g>,
}

impl ClickWrites {
    /// Adds a group to the rows of its subject: its count, and the sums of its hours. Late clicks
    /// are also added to the sums that their hour was added to.
    fn write_group<'g>(
        &self,
        statements: &mut Statements<'_>,
        progress: Progress,
        batch: &'g Batch,
        group: &'g Group<'_>,
        deferred: &mut Deferred<'_, 'g>,
    ) -> Result<(), Failure> {
        let (subject, new) = (group.subject, group.new);
        let mut clicks = Count::default();
        let mut late = Sum::default();
        let mut is_deferred = true;
        for delta in group.deltas() {
            let (day, hour) = (delta.hour.div_euclid(24), delta.hour.rem_euclid(24));
            let id = hour_id(day, subject, hour);
            let is_late = progress.is_in_total(day, id) || progress.is_in_day(day, id);
            // There are few large sums, and a report would read them again from every run.
            if id >= deferred.settled_to && !is_late && delta.is_packable() {
                deferred.sums.push((id, delta));
                continue;
            }
            is_deferred = false;
            clicks.add(delta.clicks);
            if is_late {
                let mut sum = Sum::default();
                sum.add_delta(delta, &batch.clicks);
                sum.tally.trim(MAX_VALUES_PER_BATCH);
                if progress.is_in_total(day, id) {
                    late.merge(&sum);
                }
                if progress.is_in_day(day, id) {
                    self.add_to_day(subject, day, sum)?;
                }
            }
            if day < progress.hours_from {
                continue;
            }
            let slot = Slot::Hour { subject, hour: delta.hour };
            let mut sum = Sum::default();
            // A new subject has no rows yet, but two targets of one link may share an hour.
            if !new || !group.more.is_empty() {
                let read = |row: &Row<'_>| Ok(Sum::read_or_mend(row, 0, slot));
                if let Some(stored) = statements.hour.query_row([id], read).optional()? {
                    sum = stored?;
                }
            }
            sum.add_delta(delta, &batch.clicks);
            sum.tally.trim(MAX_VALUES_PER_HOUR);
            let Count { humans, bots } = sum.tally.clicks;
            let row = params![id, humans.cast_signed(), bots.cast_signed(), sum.encode(slot)];
            statements.put_hour.execute(row)?;
        }
        if is_deferred
            && new
            && let Some(link) = link_of(batch, group)
        {
            deferred.keys.add(deferred.seed, &link.key, group.owner, subject);
            return Ok(deferred.new_links.add(subject, link, group.owner)?);
        }
        // The row of the subject has no sum yet if it is new, and none is added to it but here.
        self.write_subject(statements, batch, group, clicks, deferred)?;
        self.add_to_ever(subject, late)
    }

    /// Writes the row of a new subject, or adds clicks to its total.
    fn write_subject(
        &self,
        statements: &mut Statements<'_>,
        batch: &Batch,
        group: &Group<'_>,
        clicks: Count,
        deferred: &mut Deferred<'_, '_>,
    ) -> Result<(), Failure> {
        let (humans, bots) = (clicks.humans.cast_signed(), clicks.bots.cast_signed());
        let subject = group.subject;
        if !group.new {
            if clicks != Count::default() {
                statements.more_of_subject.execute([subject, humans, bots])?;
            }
            return Ok(());
        }
        let (kind, domain, code, created_at, owner) = match group.who {
            SumSubject::Link(target) => match batch.link(target) {
                Some(LinkId { key, created_at }) => {
                    deferred.keys.add(deferred.seed, key, group.owner, subject);
                    let (domain, code) = (key.domain.as_str(), key.code.as_str());
                    (0, domain, code, created_at.as_ms(), group.owner.0.cast_signed())
                }
                None => return Ok(()),
            },
            SumSubject::Owner(owner) => other(&ClickSubject::Owner(owner)),
            SumSubject::Everything => other(&ClickSubject::Everything),
            SumSubject::Orphans => other(&ClickSubject::Orphans),
        };
        statements.new_subject.execute(params![
            subject,
            kind,
            domain,
            code,
            created_at,
            owner,
            humans,
            bots,
            &b""[..]
        ])?;
        Ok(())
    }
}

fn link_of<'b>(batch: &'b Batch, group: &Group<'_>) -> Option<&'b LinkId> {
    match group.who {
        SumSubject::Link(target) => batch.link(target),
        _ => None,
    }
}

fn other(subject: &ClickSubject) -> (i64, &'static str, &'static str, i64, i64) {
    let (kind, owner) = filed(subject).unwrap_or_default();
    (kind, "", "", 0, owner)
}
