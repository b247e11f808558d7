//! Clicks of another store, written into a new file, for `terse migrate`.

use std::path::Path;

use rusqlite::params;
use terse_core::OwnerId;
use terse_core::clicks::{
    Batch, Click, ClickSubject, ClickTarget, Count, LinkId, MAX_VALUES_PER_HOUR, Unit,
};
use terse_core::transfer::MovedSums;

use crate::clicks::bucket::hour_id;
use crate::clicks::fold::Progress;
use crate::clicks::key_merge::NewKeys;
use crate::clicks::queries::{ClickQueries, filed};
use crate::clicks::schema::CLICKS;
use crate::clicks::sum::{Slot, Sum};
use crate::clicks::writes::{ClickWrites, NEW_SUBJECT, PUT_HOUR};
use crate::database::Writes as _;
use crate::engine::DbLocation;
use crate::failure::{Failure, corrupt};
use crate::import::end;
use crate::options::EmbeddedOpenError;

const DAY: i64 = Unit::Day.ms();

/// A clicks file that clicks move into.
pub struct ClicksImport {
    writes: ClickWrites,
    /// Of days before this one only the sums of days are kept.
    hours_from: i64,
}

impl ClicksImport {
    /// Creates the file. `hours_from` is the first day since 1970 without a sum of the whole day;
    /// `None` if no day has one. All hours are of days before `hours_to`.
    pub fn create(
        file: &Path,
        hours_from: Option<i64>,
        hours_to: i64,
    ) -> Result<Self, EmbeddedOpenError> {
        let queries = ClickQueries::new(CLICKS.open(&DbLocation::at(file))?);
        queries.conn.execute_batch("BEGIN IMMEDIATE")?;
        let mut writes = ClickWrites::new(queries, None)?;
        let begin = || -> Result<i64, Failure> {
            let first = hours_from.unwrap_or(writes.progress()?.hours_from);
            // The sums of all time have all hours; no hour is in the sum of its day yet.
            writes.set_progress(Progress {
                folded_to: hours_from.map_or(0, |day| hour_id(day, 0, 0)),
                totals_to: hour_id(hours_to.max(first), 0, 0),
                hours_from: first,
            })?;
            Ok(first)
        };
        let begun = begin();
        let hours_from = end(&writes.conn, begun)?;
        writes.reload()?;
        Ok(Self { writes, hours_from })
    }

    /// Writes the sums of subjects that the file does not have.
    pub fn put_sums(&mut self, sums: &[MovedSums]) -> Result<(), EmbeddedOpenError> {
        self.writes.conn.execute_batch("BEGIN IMMEDIATE")?;
        let hours_from = self.hours_from;
        let writes = &mut self.writes;
        let mut write = || -> Result<(), Failure> {
            let (mut keys, seed) = (NewKeys::default(), writes.names_seed()?);
            for sums in sums {
                let subject = writes.next_id();
                if let ClickSubject::Link(link) = &sums.subject {
                    keys.add(seed, &link.key, sums.owner, subject);
                }
                writes.import_subject(subject, sums)?;
                writes.import_buckets(subject, sums, hours_from)?;
            }
            writes.put_new_keys(keys)?;
            writes.finish()?;
            Ok(())
        };
        let written = write();
        end(&self.writes.conn, written)
    }

    /// Writes single clicks of links whose sums the file has.
    pub fn put_clicks(&mut self, clicks: Vec<Click>) -> Result<(), EmbeddedOpenError> {
        let batch = Batch::of(Vec::new(), clicks);
        self.writes.conn.execute_batch("BEGIN IMMEDIATE")?;
        let written = self.writes.import_clicks(&batch);
        end(&self.writes.conn, written)
    }
}

impl ClickWrites {
    fn import_subject(&self, subject: i64, sums: &MovedSums) -> Result<(), Failure> {
        let (kind, domain, code, created_at, owner) = match &sums.subject {
            ClickSubject::Link(LinkId { key, created_at }) => {
                let OwnerId(owner) = sums.owner;
                let (domain, code) = (key.domain.as_str(), key.code.as_str());
                (0, domain, code, created_at.as_ms(), owner.cast_signed())
            }
            other => {
                let (kind, owner) = filed(other).unwrap_or_default();
                (kind, "", "", 0, owner)
            }
        };
        let sum = Sum::of(&sums.total.0, &sums.total.1);
        let Count { humans, bots } = sum.tally.clicks;
        let (humans, bots) = (humans.cast_signed(), bots.cast_signed());
        let ever = sum.encode(Slot::Ever { subject });
        self.conn
            .prepare_cached(NEW_SUBJECT)?
            .execute(params![subject, kind, domain, code, created_at, owner, humans, bots, ever])?;
        Ok(())
    }

    fn import_buckets(
        &self,
        subject: i64,
        sums: &MovedSums,
        hours_from: i64,
    ) -> Result<(), Failure> {
        for (unit, start, tally, visitors) in &sums.buckets {
            let mut sum = Sum::of(tally, visitors);
            let day = start.as_ms().div_euclid(DAY);
            // Hours of a day that other subjects have no hours of any more.
            if *unit == Unit::Day || day < hours_from {
                self.add_to_day(subject, day, sum)?;
                continue;
            }
            let hour = start.as_ms().div_euclid(Unit::Hour.ms());
            let id = hour_id(day, subject, hour.rem_euclid(24));
            sum.tally.trim(MAX_VALUES_PER_HOUR);
            let Count { humans, bots } = sum.tally.clicks;
            let (humans, bots) = (humans.cast_signed(), bots.cast_signed());
            let row = params![id, humans, bots, sum.encode(Slot::Hour { subject, hour })];
            self.conn.prepare_cached(PUT_HOUR)?.execute(row)?;
        }
        Ok(())
    }

    fn import_clicks(&mut self, batch: &Batch) -> Result<(), Failure> {
        let columns = &batch.clicks;
        let mut subjects = vec![None; columns.targets.len()];
        let links: Vec<(usize, &LinkId)> = columns
            .targets
            .iter()
            .enumerate()
            .filter_map(|(at, target)| match target {
                ClickTarget::Link(link, _) => Some((at, link)),
                ClickTarget::Orphan(..) => None,
            })
            .collect();
        let names: Vec<_> = links.iter().map(|(_, link)| &link.key).collect();
        for (at, id, link, _) in self.find_links_or_rebuild(&names)? {
            let (target, wanted) = links[at];
            if link == *wanted {
                subjects[target] = Some(id);
            }
        }
        let mut rows = Vec::with_capacity(columns.len());
        for (at, target) in (0..).zip(&columns.target) {
            let subject = subjects.get(*target as usize).copied().flatten();
            let subject = subject.ok_or_else(|| corrupt("a click of a link without sums"))?;
            rows.push((subject, at));
        }
        self.add_block(columns, rows)?;
        Ok(self.finish()?)
    }
}
