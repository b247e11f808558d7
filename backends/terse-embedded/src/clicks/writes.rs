//! Counting a batch. Every write runs inside a transaction that the writer thread begins and ends.

use std::collections::HashMap;
use std::ops::Deref;

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};
use terse_core::clicks::{
    Added, Batch, ClickSubject, Count, LinkId, MAX_VALUES_PER_HOUR, MAX_VALUES_TOTAL,
};

use crate::clicks::bucket::hour_id;
use crate::clicks::group::{self, Group, SumKey};
use crate::clicks::queries::{ClickQueries, filed};
use crate::clicks::raw;
use crate::clicks::report::EVER;
use crate::clicks::sum::{Slot, Sum};
use crate::failure::Failure;

pub(crate) const HOUR: &str = "SELECT people, machines, sum FROM hours WHERE id = ?1";
const NEW_SUBJECT: &str = "INSERT INTO subjects VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
const MORE_OF_SUBJECT: &str =
    "UPDATE subjects SET people = ?2, machines = ?3, sum = ?4 WHERE id = ?1";
const PUT_HOUR: &str =
    "INSERT OR REPLACE INTO hours (id, people, machines, sum) VALUES (?1, ?2, ?3, ?4)";

/// The capacity of each of the two caches of links.
const REMEMBERED: usize = 32_768;

/// The writer's side of a connection. Its caches hold what the file says, including what the
/// present transaction has written.
pub(crate) struct ClickWrites {
    queries: ClickQueries,
    keep_raw: bool,
    next_subject: i64,
    next_number: u64,
    stored_next_number: u64,
    /// Row and owner of links: those of the last batches, and those of the batches before.
    lately: HashMap<LinkId, (i64, i64)>,
    before: HashMap<LinkId, (i64, i64)>,
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
        self.forget_places();
        let conn = &self.queries.conn;
        self.next_subject =
            conn.query_row("SELECT coalesce(max(id), 0) + 1 FROM subjects", [], |row| row.get(0))?;
        let stored =
            conn.query_row("SELECT value FROM meta WHERE name = 'next_number'", [], |row| {
                row.get::<_, i64>(0)
            });
        self.next_number = stored.optional()?.map_or(1, i64::cast_unsigned);
        self.stored_next_number = self.next_number;
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
    ever: CachedStatement<'c>,
    new_subject: CachedStatement<'c>,
    more_of_subject: CachedStatement<'c>,
    hour: CachedStatement<'c>,
    put_hour: CachedStatement<'c>,
    click: CachedStatement<'c>,
}

impl<'c> Statements<'c> {
    fn new(conn: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            ever: conn.prepare_cached(EVER)?,
            new_subject: conn.prepare_cached(NEW_SUBJECT)?,
            more_of_subject: conn.prepare_cached(MORE_OF_SUBJECT)?,
            hour: conn.prepare_cached(HOUR)?,
            put_hour: conn.prepare_cached(PUT_HOUR)?,
            click: conn.prepare_cached(raw::INSERT)?,
        })
    }
}

impl ClickWrites {
    pub(crate) fn new(queries: ClickQueries, keep_raw: bool) -> rusqlite::Result<Self> {
        // SQLite overwrites deleted data, above all salts, on disk.
        queries.conn.query_row("PRAGMA secure_delete = FAST", [], |_| Ok(()))?;
        let mut writes = Self {
            queries,
            keep_raw,
            next_subject: 1,
            next_number: 1,
            stored_next_number: 1,
            lately: HashMap::new(),
            before: HashMap::new(),
        };
        crate::database::Writes::reload(&mut writes)?;
        Ok(writes)
    }

    pub(crate) fn add(&mut self, batch: &Batch) -> Result<Added, Failure> {
        if let Some(refusal) = self.refusal(&batch.spans)? {
            return Ok(refusal);
        }
        let mut groups: Vec<(i64, bool, Group<'_>)> = Vec::new();
        for mut group in group::groups(&batch.clicks) {
            if let Some((subject, new)) = self.subject_of(&mut group)? {
                groups.push((subject, new, group));
            }
        }
        // Sorted in the order of the file.
        groups.sort_unstable_by_key(|(subject, ..)| *subject);
        let mut next_number = self.next_number;
        let mut statements = Statements::new(&self.queries.conn)?;
        for (subject, new, group) in &mut groups {
            write_group(&mut statements, *subject, *new, group)?;
        }
        if self.keep_raw {
            for (subject, _, group) in &groups {
                for click in &group.clicks {
                    raw::write(&mut statements.click, *subject, next_number, click)?;
                    next_number += 1;
                }
            }
        }
        drop(statements);
        self.next_number = next_number;
        self.move_positions(&batch.spans)?;
        Ok(Added::Done)
    }

    /// The row of a group's subject, and whether it is new. `None` if the subject was erased.
    /// Clicks from before the erasure are taken out of the group.
    fn subject_of(&mut self, group: &mut Group<'_>) -> Result<Option<(i64, bool)>, Failure> {
        let owner = group.owner.0.cast_signed();
        let link = match group.who {
            SumKey::Link(link) => link,
            SumKey::Owner(owner) => return self.other_subject(&ClickSubject::Owner(owner)),
            SumKey::Everything => return self.other_subject(&ClickSubject::Everything),
            SumKey::Orphans => return self.other_subject(&ClickSubject::Orphans),
        };
        let known = match self.lately.get(link) {
            Some(known) => Some(*known),
            None => match self.before.get(link) {
                Some(known) => Some(*known),
                None => self.queries.link(link)?,
            },
        };
        // An erasure deletes the rows, so a row of the same owner has no tombstone.
        if known.is_none_or(|(_, before)| before != owner) && self.is_owner_erased(group.owner)? {
            return Ok(None);
        }
        let (id, new) = match known {
            Some((id, before)) => {
                if before != owner {
                    let mut statement =
                        self.conn.prepare_cached("UPDATE subjects SET owner = ?2 WHERE id = ?1")?;
                    statement.execute([id, owner])?;
                }
                (id, false)
            }
            None => {
                if let Some(erased_at) = self.link_erased_at(link)? {
                    group.keep_after(erased_at);
                    if group.clicks.is_empty() {
                        return Ok(None);
                    }
                }
                (self.next_id(), true)
            }
        };
        if known.is_none_or(|(_, before)| before != owner) || !self.lately.contains_key(link) {
            if self.lately.len() >= REMEMBERED {
                self.before = std::mem::take(&mut self.lately);
            }
            self.lately.insert(link.clone(), (id, owner));
        }
        Ok(Some((id, new)))
    }

    fn other_subject(&mut self, subject: &ClickSubject) -> Result<Option<(i64, bool)>, Failure> {
        if let Some(id) = self.queries.id(subject)? {
            return Ok(Some((id, false)));
        }
        if let ClickSubject::Owner(owner) = subject
            && self.is_owner_erased(*owner)?
        {
            return Ok(None);
        }
        Ok(Some((self.next_id(), true)))
    }

    fn next_id(&mut self) -> i64 {
        self.next_subject += 1;
        self.next_subject - 1
    }

    /// Empties the cache of links.
    pub(crate) fn forget_places(&mut self) {
        self.lately.clear();
        self.before.clear();
    }

    /// Deletes the salts that earlier versions kept in this file. The registry has them now.
    pub(crate) fn delete_old_salts(&self) -> Result<(), Failure> {
        self.conn.prepare_cached("DELETE FROM salts")?.execute([])?;
        Ok(())
    }
}

/// Adds a group to the rows of its subject.
fn write_group(
    statements: &mut Statements<'_>,
    subject: i64,
    new: bool,
    group: &mut Group<'_>,
) -> Result<(), Failure> {
    let slot = Slot::Ever { subject };
    let mut total = Sum::default();
    if !new {
        let found = statements
            .ever
            .query_row([subject], |row| Ok(total.merge_or_mend(row, 0, slot)))
            .optional()?;
        found.unwrap_or(Ok(()))?;
    }
    group.hours.iter().for_each(|(_, sum)| total.merge(sum));
    total.tally.trim(MAX_VALUES_TOTAL);
    let Count { humans, bots } = total.tally.clicks;
    let (humans, bots, sum) = (humans.cast_signed(), bots.cast_signed(), total.encode(slot));
    if new {
        let (kind, domain, code, created_at, owner) = match group.who {
            SumKey::Link(LinkId { key, created_at }) => (
                0,
                key.domain.as_str(),
                key.code.as_str(),
                created_at.as_ms(),
                group.owner.0 as i64,
            ),
            SumKey::Owner(owner) => other(&ClickSubject::Owner(owner)),
            SumKey::Everything => other(&ClickSubject::Everything),
            SumKey::Orphans => other(&ClickSubject::Orphans),
        };
        statements
            .new_subject
            .execute(params![subject, kind, domain, code, created_at, owner, humans, bots, sum])?;
    } else {
        statements.more_of_subject.execute(params![subject, humans, bots, sum])?;
    }
    for (hour, sum) in &mut group.hours {
        let slot = Slot::Hour { subject, hour: *hour };
        let id = hour_id(hour.div_euclid(24), subject, hour.rem_euclid(24));
        if !new {
            let read = |row: &Row<'_>| Ok(sum.merge_or_mend(row, 0, slot));
            statements.hour.query_row([id], read).optional()?.unwrap_or(Ok(()))?;
        }
        sum.tally.trim(MAX_VALUES_PER_HOUR);
        let Count { humans, bots } = sum.tally.clicks;
        let row = params![id, humans.cast_signed(), bots.cast_signed(), sum.encode(slot)];
        statements.put_hour.execute(row)?;
    }
    Ok(())
}

fn other(subject: &ClickSubject) -> (i64, &'static str, &'static str, i64, i64) {
    let (kind, owner) = filed(subject).unwrap_or_default();
    (kind, "", "", 0, owner)
}
