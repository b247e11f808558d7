//! Every write, each to be run inside a transaction that somebody else begins and ends.

use std::collections::HashMap;
use std::ops::Deref;

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};
use terse_core::clicks::{
    Batch, ClickSubject, Count, LinkId, MAX_VALUES_PER_HOUR, MAX_VALUES_TOTAL, Position, Recorded,
    Salt,
};
use terse_core::{LinkKey, OwnerId, Timestamp};

use crate::clicks::bucket::{day_id, hour_id};
use crate::clicks::group::{self, Group, SumKey};
use crate::clicks::queries::{ClickQueries, filed};
use crate::clicks::raw;
use crate::clicks::report::{EVER, Stretch};
use crate::clicks::sum::{Slot, Sum};
use crate::failure::{Failure, unavailable};

pub(crate) const HOUR: &str = "SELECT people, machines, sum FROM hours WHERE id = ?1";
pub(crate) const LINKS_NAMED: &str =
    "SELECT id FROM subjects WHERE kind = 0 AND domain = ?1 AND code = ?2 AND born <= ?3";
pub(crate) const LINKS_OF: &str = "SELECT id FROM subjects WHERE kind = 0 AND owner = ?1 LIMIT ?2";
const NEW_SUBJECT: &str = "INSERT INTO subjects VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
const MORE_OF_SUBJECT: &str =
    "UPDATE subjects SET people = ?2, machines = ?3, sum = ?4 WHERE id = ?1";
const PUT_HOUR: &str =
    "INSERT OR REPLACE INTO hours (id, people, machines, sum) VALUES (?1, ?2, ?3, ?4)";

/// How many links are remembered by where they are filed, twice.
const REMEMBERED: usize = 32_768;

/// The one who counts. What it remembers is what the file says, as of the last commit or of its own
/// unfinished work.
pub(crate) struct ClickWrites {
    queries: ClickQueries,
    keep_raw: bool,
    next_subject: i64,
    next_number: u64,
    stored_next_number: u64,
    /// Where links are filed and whose they are: those met lately, and those met before them.
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

/// The statements of a batch, fetched once for all of its rows.
struct Pens<'c> {
    ever: CachedStatement<'c>,
    new_subject: CachedStatement<'c>,
    more_of_subject: CachedStatement<'c>,
    hour: CachedStatement<'c>,
    put_hour: CachedStatement<'c>,
    click: CachedStatement<'c>,
}

impl<'c> Pens<'c> {
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
        // What was forgotten, a salt above all, is overwritten and not only given up.
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

    pub(crate) fn record(&mut self, batch: &Batch) -> Result<Recorded, Failure> {
        if !self.in_step(&batch.moves)? {
            return Ok(Recorded::OutOfStep);
        }
        let mut groups: Vec<(i64, bool, Group<'_>)> = Vec::new();
        for group in group::groups(&batch.clicks) {
            let (subject, new) = self.place(&group)?;
            groups.push((subject, new, group));
        }
        // In the order of the file.
        groups.sort_unstable_by_key(|(subject, ..)| *subject);
        let mut next_number = self.next_number;
        let mut pens = Pens::new(&self.queries.conn)?;
        for (subject, new, group) in &mut groups {
            write_group(&mut pens, *subject, *new, group)?;
        }
        if self.keep_raw {
            for (subject, _, group) in &groups {
                for click in &group.clicks {
                    raw::write(&mut pens.click, *subject, next_number, click)?;
                    next_number += 1;
                }
            }
        }
        drop(pens);
        self.next_number = next_number;
        self.step(&batch.moves)?;
        Ok(Recorded::Done)
    }

    /// Whether every position is where the batch begins.
    fn in_step(&self, moves: &[Position]) -> Result<bool, Failure> {
        let mut statement =
            self.conn.prepare_cached("SELECT place FROM positions WHERE segment = ?1")?;
        for Position { segment, from, .. } in moves {
            let place: Option<i64> =
                statement.query_row([segment.cast_signed()], |row| row.get(0)).optional()?;
            if place.map_or(0, i64::cast_unsigned) != *from {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn step(&self, moves: &[Position]) -> Result<(), Failure> {
        let mut statement =
            self.conn.prepare_cached("INSERT OR REPLACE INTO positions VALUES (?1, ?2)")?;
        for Position { segment, to, .. } in moves {
            statement.execute([segment.cast_signed(), to.cast_signed()])?;
        }
        Ok(())
    }

    pub(crate) fn forget_segments(&self, segments: &[u64]) -> Result<(), Failure> {
        let mut statement = self.conn.prepare_cached("DELETE FROM positions WHERE segment = ?1")?;
        for segment in segments {
            statement.execute([segment.cast_signed()])?;
        }
        Ok(())
    }

    /// Where a group's subject is filed, or will be: then it is new.
    fn place(&mut self, group: &Group<'_>) -> Result<(i64, bool), Failure> {
        let owner = group.owner.0.cast_signed();
        let link = match group.who {
            SumKey::Link(link) => link,
            SumKey::Owner(owner) => return self.place_of(&ClickSubject::Owner(owner)),
            SumKey::Everything => return self.place_of(&ClickSubject::Everything),
            SumKey::Orphans => return self.place_of(&ClickSubject::Orphans),
        };
        let known = match self.lately.get(link) {
            Some(known) => Some(*known),
            None => match self.before.get(link) {
                Some(known) => Some(*known),
                None => self.queries.link(link)?,
            },
        };
        let (id, new) = match known {
            Some((id, before)) => {
                if before != owner {
                    let mut statement =
                        self.conn.prepare_cached("UPDATE subjects SET owner = ?2 WHERE id = ?1")?;
                    statement.execute([id, owner])?;
                }
                (id, false)
            }
            None => (self.next_id(), true),
        };
        if known.is_none_or(|(_, before)| before != owner) || !self.lately.contains_key(link) {
            if self.lately.len() >= REMEMBERED {
                self.before = std::mem::take(&mut self.lately);
            }
            self.lately.insert(link.clone(), (id, owner));
        }
        Ok((id, new))
    }

    fn place_of(&mut self, subject: &ClickSubject) -> Result<(i64, bool), Failure> {
        Ok(match self.queries.id(subject)? {
            Some(id) => (id, false),
            None => (self.next_id(), true),
        })
    }

    fn next_id(&mut self) -> i64 {
        self.next_subject += 1;
        self.next_subject - 1
    }

    fn forget_places(&mut self) {
        self.lately.clear();
        self.before.clear();
    }

    pub(crate) fn forget_links(
        &mut self,
        links: &[LinkKey],
        born_by: Timestamp,
    ) -> Result<(), Failure> {
        for key in links {
            let mut statement = self.conn.prepare_cached(LINKS_NAMED)?;
            let place = params![key.domain.as_str(), key.code.as_str(), born_by.as_ms()];
            let ids: Vec<i64> =
                statement.query_map(place, |row| row.get(0))?.collect::<Result<_, _>>()?;
            drop(statement);
            for id in ids {
                self.delete(id)?;
            }
        }
        self.forget_places();
        Ok(())
    }

    /// Up to `limit` links of an owner, and once there are none, the owner. Says whether that is
    /// done.
    pub(crate) fn forget_owner(&mut self, owner: OwnerId, limit: usize) -> Result<bool, Failure> {
        let mut statement = self.conn.prepare_cached(LINKS_OF)?;
        let place = [owner.0.cast_signed(), limit as i64];
        let ids: Vec<i64> =
            statement.query_map(place, |row| row.get(0))?.collect::<Result<_, _>>()?;
        drop(statement);
        let done = ids.len() < limit;
        for id in ids {
            self.delete(id)?;
        }
        if done && let Some(id) = self.queries.id(&ClickSubject::Owner(owner))? {
            self.delete(id)?;
        }
        self.forget_places();
        Ok(done)
    }

    /// All that is kept of a subject.
    fn delete(&self, subject: i64) -> Result<(), Failure> {
        let ever = Stretch::of(terse_core::clicks::Period::default());
        let mut clicks =
            self.conn.prepare_cached("DELETE FROM clicks WHERE hour = ?1 AND subject = ?2")?;
        for hour in self.queries.hours_with_clicks(subject, ever)? {
            clicks.execute([hour, subject])?;
        }
        let mut hours = self.conn.prepare_cached("DELETE FROM hours WHERE id >= ?1 AND id < ?2")?;
        let (first, last) = ever.days();
        for day in self.queries.days_with_hours(first, last)? {
            hours.execute([hour_id(day, subject, 0), hour_id(day, subject, 24)])?;
        }
        let mut days = self.conn.prepare_cached("DELETE FROM days WHERE id >= ?1 AND id <= ?2")?;
        days.execute([day_id(subject, first), day_id(subject, last)])?;
        self.conn.prepare_cached("DELETE FROM subjects WHERE id = ?1")?.execute([subject])?;
        Ok(())
    }

    /// The salt of a day, and whether another was forgotten meanwhile.
    pub(crate) fn salt(&self, day: i64) -> Result<(Salt, bool), Failure> {
        let mut statement = self.conn.prepare_cached("SELECT salt FROM salts WHERE day = ?1")?;
        if let Some(salt) = statement.query_row([day], |row| row.get(0)).optional()? {
            return Ok((salt, false));
        }
        let mut salt = Salt::default();
        getrandom::fill(&mut salt).map_err(|error| unavailable(error.to_string()))?;
        let forgotten = self
            .conn
            .prepare_cached("DELETE FROM salts WHERE day <= ?1")?
            .execute([day.saturating_sub(2)])?
            > 0;
        self.conn
            .prepare_cached("INSERT INTO salts VALUES (?1, ?2)")?
            .execute(params![day, salt])?;
        Ok((salt, forgotten))
    }
}

/// Adds a group to the rows of its subject.
fn write_group(
    pens: &mut Pens<'_>,
    subject: i64,
    new: bool,
    group: &mut Group<'_>,
) -> Result<(), Failure> {
    let slot = Slot::Ever { subject };
    let mut total = Sum::default();
    if !new {
        let found = pens
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
        let (kind, domain, code, born, owner) = match group.who {
            SumKey::Link(LinkId { key, born }) => {
                (0, key.domain.as_str(), key.code.as_str(), born.as_ms(), group.owner.0 as i64)
            }
            SumKey::Owner(owner) => other(&ClickSubject::Owner(owner)),
            SumKey::Everything => other(&ClickSubject::Everything),
            SumKey::Orphans => other(&ClickSubject::Orphans),
        };
        pens.new_subject
            .execute(params![subject, kind, domain, code, born, owner, humans, bots, sum])?;
    } else {
        pens.more_of_subject.execute(params![subject, humans, bots, sum])?;
    }
    for (hour, sum) in &mut group.hours {
        let slot = Slot::Hour { subject, hour: *hour };
        let id = hour_id(hour.div_euclid(24), subject, hour.rem_euclid(24));
        if !new {
            let read = |row: &Row<'_>| Ok(sum.merge_or_mend(row, 0, slot));
            pens.hour.query_row([id], read).optional()?.unwrap_or(Ok(()))?;
        }
        sum.tally.trim(MAX_VALUES_PER_HOUR);
        let Count { humans, bots } = sum.tally.clicks;
        let row = params![id, humans.cast_signed(), bots.cast_signed(), sum.encode(slot)];
        pens.put_hour.execute(row)?;
    }
    Ok(())
}

fn other(subject: &ClickSubject) -> (i64, &'static str, &'static str, i64, i64) {
    let (kind, owner) = filed(subject).unwrap_or_default();
    (kind, "", "", 0, owner)
}
