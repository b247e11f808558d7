//! Queries for clicks.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};
use terse_core::clicks::{ClickSubject, Count, LinkId, Salt};
use terse_core::{Code, Domain, LinkKey, OwnerId, Timestamp};

use crate::clicks::blocks::LastBlock;
use crate::clicks::bucket::{hour_id, of_hour_id};
use crate::clicks::runs::{ChunkIds, RunVersion, Runs};
use crate::clicks::sum::count;
use crate::failure::{Failure, corrupt};

pub(crate) const OTHER: &str =
    "SELECT id FROM subjects WHERE kind = ?1 AND kind <> 0 AND owner = ?2";
pub(crate) const COUNT: &str = "SELECT people, machines FROM subjects WHERE id = ?1";
pub(crate) const NEXT_DAY: &str = "SELECT id FROM hours WHERE id >= ?1 ORDER BY id LIMIT 1";

/// A connection for reading clicks. Belongs to one thread.
pub(crate) struct ClickQueries {
    pub(crate) conn: Connection,
    /// What reports have read so far.
    pub(crate) cost: Cell<Cost>,
    pub(crate) last_block: RefCell<LastBlock>,
    /// The lists of chunks of the runs.
    pub(crate) chunk_lists: RefCell<HashMap<RunVersion, Arc<Vec<ChunkIds>>>>,
    /// The same of the keys of links.
    pub(crate) key_lists: RefCell<HashMap<i64, Arc<Vec<ChunkIds>>>>,
    pub(crate) names_seed: Cell<Option<i64>>,
}

/// How much was read.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Cost {
    pub(crate) rows: u64,
    /// Sums of hours, of days, and of all time.
    pub(crate) sums: u64,
    /// Bytes of sums, which are nearly everything that a report reads.
    pub(crate) bytes: u64,
    /// Chunks of sums that are not in rows yet.
    pub(crate) chunks: u64,
}

impl AsRef<Connection> for ClickQueries {
    fn as_ref(&self) -> &Connection {
        &self.conn
    }
}

/// Kind and owner in the row of a subject that is not a link.
pub(crate) fn filed(subject: &ClickSubject) -> Option<(i64, i64)> {
    match subject {
        ClickSubject::Link(_) => None,
        ClickSubject::Owner(OwnerId(owner)) => Some((1, owner.cast_signed())),
        ClickSubject::Everything => Some((2, 0)),
        ClickSubject::Orphans => Some((3, 0)),
    }
}

impl ClickQueries {
    pub(crate) fn new(conn: Connection) -> Self {
        Self {
            conn,
            cost: Cell::default(),
            last_block: RefCell::default(),
            chunk_lists: RefCell::default(),
            key_lists: RefCell::default(),
            names_seed: Cell::default(),
        }
    }

    /// The salts that earlier versions kept in this file, by day.
    pub(crate) fn old_salts(&self) -> Result<Vec<(i64, Salt)>, Failure> {
        let mut statement = self.conn.prepare_cached("SELECT day, salt FROM salts ORDER BY day")?;
        let salts = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(salts.collect::<rusqlite::Result<_>>()?)
    }

    /// The row id of a subject.
    pub(crate) fn id(&self, subject: &ClickSubject) -> Result<Option<i64>, Failure> {
        match (subject, filed(subject)) {
            (ClickSubject::Link(link), _) => Ok(self.link(link)?.map(|(id, _)| id)),
            (_, Some(place)) => Ok(self
                .conn
                .prepare_cached(OTHER)?
                .query_row(place, |row| row.get(0))
                .optional()?),
            (_, None) => Ok(None),
        }
    }

    /// The row id of a link, and its owner.
    pub(crate) fn link(&self, link: &LinkId) -> Result<Option<(i64, OwnerId)>, Failure> {
        let found = match self.find_links(&[&link.key]) {
            // The writer makes the keys again when it finds the damage.
            Err(Failure::Refused(error)) => {
                tracing::error!(%error, "keys that find links are damaged; reading all links");
                return self.search_link(link);
            }
            found => found?,
        };
        let same = found.into_iter().find(|(_, _, of, _)| of == link);
        Ok(same.map(|(_, id, _, owner)| (id, owner)))
    }

    /// The same without keys. Reads the rows of all links.
    fn search_link(&self, link: &LinkId) -> Result<Option<(i64, OwnerId)>, Failure> {
        let LinkId { key, created_at } = link;
        let mut statement = self.conn.prepare_cached(
            "SELECT id, owner FROM subjects WHERE kind = 0 AND domain = ?1 AND code = ?2 AND born = ?3",
        )?;
        let place = params![key.domain.as_str(), key.code.as_str(), created_at.as_ms()];
        let read =
            |row: &Row<'_>| Ok((row.get(0)?, OwnerId(row.get::<_, i64>(1)?.cast_unsigned())));
        Ok(statement.query_row(place, read).optional()?)
    }

    pub(crate) fn counts(&self, links: &[LinkId]) -> Result<Vec<Count>, Failure> {
        let mut statement = self.conn.prepare_cached(COUNT)?;
        let runs = self.runs()?;
        let in_runs = self.clicks_in_runs_if_many(&runs, links.len())?;
        let mut counts = vec![Count::default(); links.len()];
        for (at, subject) in self.rows_of_links(links)? {
            let clicks = &mut counts[at];
            *clicks = statement.query_row([subject], |row| count(row, 0))?;
            clicks.add(match &in_runs {
                Some(all) => all.get(&subject).copied().unwrap_or_default(),
                None => self.clicks_in_runs(&runs, subject)?,
            });
        }
        Ok(counts)
    }

    /// The rows of links, each with the place of its link.
    fn rows_of_links(&self, links: &[LinkId]) -> Result<Vec<(usize, i64)>, Failure> {
        let names: Vec<&LinkKey> = links.iter().map(|link| &link.key).collect();
        let found = match self.find_links(&names) {
            Err(Failure::Refused(_)) => {
                let row =
                    |(at, link): (usize, &LinkId)| Ok(self.link(link)?.map(|(id, _)| (at, id)));
                return links.iter().enumerate().filter_map(|link| row(link).transpose()).collect();
            }
            found => found?,
        };
        let same = found.into_iter().filter(|(at, _, link, _)| links[*at] == *link);
        Ok(same.map(|(at, id, ..)| (at, id)).collect())
    }

    /// The days of which hours are stored, in rows, blocks or runs, of any subject.
    pub(crate) fn days_with_hours(
        &self,
        runs: &Runs,
        first: i64,
        last: i64,
    ) -> Result<Vec<i64>, Failure> {
        let mut days = self.days_with_rows(first, last)?;
        days.extend(self.days_with_deltas(first, last)?);
        days.extend(runs.days.iter().filter(|day| (first..=last).contains(*day)));
        days.sort_unstable();
        days.dedup();
        Ok(days)
    }

    /// The days of sums that have rows of their own, ascending.
    pub(crate) fn days_with_rows(&self, first: i64, last: i64) -> Result<Vec<i64>, Failure> {
        let mut statement = self.conn.prepare_cached(NEXT_DAY)?;
        let mut days = Vec::new();
        let mut from = first;
        // Jumps from day to day: there are few days, and many rows in each.
        while let Some(id) =
            statement.query_row([hour_id(from, 0, 0)], |row| row.get(0)).optional()?
            && let (day, ..) = of_hour_id(id)
            && day <= last
        {
            days.push(day);
            from = day + 1;
        }
        Ok(days)
    }
}

/// The link of a row with domain, code and creation.
pub(crate) fn link_of_row(row: &Row<'_>) -> Result<LinkId, Failure> {
    let domain = Domain::from_stored(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?);
    let code = Code::parse(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?);
    let code = code.ok_or_else(|| corrupt("the subject of a link has no valid code"))?;
    let created_at = Timestamp::from_ms(row.get(2)?);
    Ok(LinkId { key: LinkKey { domain, code }, created_at })
}
