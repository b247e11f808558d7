//! The links with the most clicks.
//!
//! The ranking of all time is an index. For a period, the store counts the clicks of an owner with
//! few links link by link, and reads the sums of the days of all links of an owner with many. For
//! all owners, the busiest links of each day are candidates: finished days have rankings, of rows
//! and of what is in runs, and the store reads the hours of other days.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use rusqlite::{OptionalExtension, Row, params};
use terse_core::OwnerId;
use terse_core::clicks::{
    BotFilter, ClickSubject, Count, LinkId, Period, RankedLink, TopQuery, Unit,
};

use crate::clicks::bucket::{day_id, hour_id, of_hour_id, subject_of_day_id};
use crate::clicks::fold::Progress;
use crate::clicks::queries::{ClickQueries, link_of_row};
use crate::clicks::report::{DAYS, HOURS, TimeRange};
use crate::clicks::runs::Runs;
use crate::clicks::sum::count;
use crate::failure::Failure;

pub(crate) const FIRST: &str = "SELECT domain, code, born, people, machines, owner FROM subjects \
     WHERE kind = 0 AND rank < 0 ORDER BY rank, domain, code, born";
pub(crate) const NEXT: &str = "SELECT domain, code, born, people, machines, owner FROM subjects \
     WHERE kind = 0 AND rank < 0 AND (rank, domain, code, born) > (?1, ?2, ?3, ?4) \
     ORDER BY rank, domain, code, born";
pub(crate) const LINK_OF_ROW: &str =
    "SELECT domain, code, born, people, machines, owner FROM subjects WHERE id = ?1 AND kind = 0";
pub(crate) const NEXT_RANKED_DAY: &str =
    "SELECT day FROM days WHERE day >= ?1 ORDER BY day LIMIT 1";
pub(crate) const LAST_RANKED_DAY: &str = "SELECT day FROM days ORDER BY day DESC LIMIT 1";
pub(crate) const BUSIEST_OF_DAY: &str =
    "SELECT id, people, machines FROM days WHERE day = ?1 ORDER BY rank LIMIT ?2";
pub(crate) const ALL_HOURS: &str =
    "SELECT id, people, machines FROM hours WHERE id >= ?1 AND id < ?2 ORDER BY id";

/// The links of an owner with up to this many are counted one by one.
const FEW_LINKS: usize = 2000;
/// All links of an owner with up to this many are candidates.
const MANY_LINKS: usize = 100_000;
/// How many links of each day are candidates at least, and of all days together about.
const CANDIDATES_A_DAY: i64 = 1000;
const CANDIDATES: i64 = 50_000;
/// Rankings of all time by humans or by bots consider this many links, those with the most clicks.
pub(crate) const RANKED_AGAIN: usize = 10_000;

const HOUR: i64 = Unit::Hour.ms();
const DAY: i64 = Unit::Day.ms();

/// Clicks of all subjects in a period that are not in rows.
#[derive(Default)]
struct Waiting {
    /// In blocks, and in runs of days that are not finished; `None` if they were not read.
    unfinished: Option<HashMap<i64, Count>>,
    /// In runs of finished days; `None` if they were not read.
    finished: Option<HashMap<i64, Count>>,
}

/// Which rows hold the clicks of a period.
struct PeriodRows<'r> {
    runs: &'r Runs,
    range: TimeRange,
    /// The first and the last day that counts whole, by the sum of the day.
    whole: (i64, i64),
    /// Days of which some hours count.
    edges: Vec<i64>,
    /// Days that count whole and have hours that are not in the sum of the day.
    unfolded: Vec<i64>,
    folded_to: i64,
}

impl PeriodRows<'_> {
    /// The ids of the rows of a subject's hours, or of all subjects' hours.
    fn hours(&self, of: Option<i64>) -> impl Iterator<Item = (i64, i64, bool)> {
        let range = move |day: i64, least: i64| match of {
            Some(subject) => (hour_id(day, subject, 0).max(least), hour_id(day, subject, 24)),
            None => (hour_id(day, 0, 0).max(least), hour_id(day + 1, 0, 0)),
        };
        let edges = self.edges.iter().map(move |day| (range(*day, i64::MIN), true));
        let unfolded = self.unfolded.iter().map(move |day| (range(*day, self.folded_to), false));
        edges.chain(unfolded).map(|((from, to), edge)| (from, to, edge))
    }

    /// Whether an hour of a finished day counts.
    fn has_finished(&self, day: i64, hour: i64) -> bool {
        let (first, last) = self.whole;
        (first..=last).contains(&day)
            || self.edges.contains(&day) && self.has_hour(hour_id(day, 0, hour))
    }

    /// Whether an hour of a day at the edge counts.
    fn has_hour(&self, id: i64) -> bool {
        let (day, _, hour) = of_hour_id(id);
        let start = (day * 24 + hour) * HOUR;
        start < self.range.to && start + HOUR > self.range.from
    }
}

impl ClickQueries {
    pub(crate) fn top(
        &self,
        query: &TopQuery,
        also: &[LinkId],
    ) -> Result<Vec<RankedLink>, Failure> {
        let runs = self.runs()?;
        let period_rows = match query.period == Period::default() {
            true => None,
            false => {
                Some(self.period_rows(TimeRange::of(query.period), self.progress()?, &runs)?)
            }
        };
        let few = match query.owner {
            Some(owner) => self.few_links(owner)?,
            None => None,
        };
        // Looking for a link reads about one chunk of every run; one pass reads all chunks.
        let is_many = few
            .as_ref()
            .is_none_or(|links| (links.len() + also.len()) * runs.runs.len() > runs.chunks());
        let mut waiting = Waiting::default();
        if let Some(period_rows) = &period_rows {
            if is_many {
                waiting.unfinished = Some(self.waiting_in(period_rows)?);
            }
            let links = few.as_ref().map(|links| links.len() + also.len());
            let chunks: usize = runs.finished.iter().map(|run| run.chunks.len()).sum();
            let is_many = links.is_some_and(|links| links * runs.finished.len() > chunks);
            // Those of an owner with very many links are not read one by one either.
            if is_many || links.is_none() && query.owner.is_some() {
                let is_wanted = |day: i64, hour: i64| period_rows.has_finished(day, hour);
                waiting.finished =
                    Some(self.all_finished(&runs, period_rows.range.days(), is_wanted)?);
            }
        }
        let waiting = &waiting;
        let mut answer = match (few, &period_rows) {
            (Some(mut links), None) => {
                self.add_runs_to_links(&mut links, &runs, is_many)?;
                query.rank(links.into_iter().map(|(link, ..)| link))
            }
            (Some(links), Some(period_rows)) => {
                let mut counted = Vec::with_capacity(links.len());
                for (RankedLink { link, .. }, subject) in links {
                    let clicks = self.clicks_in(subject, period_rows, waiting)?;
                    counted.push(RankedLink { link, clicks });
                }
                query.rank(counted)
            }
            (None, None) if runs.is_empty() => self.top_ever(query)?,
            (None, None) => self.top_ever_with_runs(query, &runs)?,
            (None, Some(period_rows)) => self.top_of_all(query, period_rows, waiting)?,
        };
        let known: HashSet<LinkId> = answer.iter().map(|found| found.link.clone()).collect();
        let others: Vec<LinkId> =
            also.iter().filter(|link| !known.contains(*link)).cloned().collect();
        let counts = match &period_rows {
            None => self.counts(&others)?,
            Some(period_rows) => {
                let clicks = |link: &LinkId| match self.id(&ClickSubject::Link(link.clone()))? {
                    Some(subject) => self.clicks_in(subject, period_rows, waiting),
                    None => Ok(Count::default()),
                };
                others.iter().map(clicks).collect::<Result<_, Failure>>()?
            }
        };
        let others = others.into_iter().zip(counts);
        let others = others.filter(|(_, clicks)| *clicks != Count::default());
        answer.extend(others.map(|(link, clicks)| RankedLink { link, clicks }));
        Ok(answer)
    }

    fn period_rows<'r>(
        &self,
        range: TimeRange,
        progress: Progress,
        runs: &'r Runs,
    ) -> Result<PeriodRows<'r>, Failure> {
        let (first, last) = range.days();
        let is_whole = |day: i64| {
            day < progress.hours_from || (day * DAY >= range.from && (day + 1) * DAY <= range.to)
        };
        let mut edges = vec![first, last];
        edges.dedup();
        edges.retain(|day| range.from < range.to && !is_whole(*day));
        let (folded_day, ..) = of_hour_id(progress.folded_to);
        let from = folded_day.max(first).max(progress.hours_from);
        let mut unfolded = self.days_with_hours(runs, from, last)?;
        unfolded.retain(|day| is_whole(*day));
        Ok(PeriodRows {
            runs,
            range,
            whole: (first + i64::from(!is_whole(first)), last - i64::from(!is_whole(last))),
            edges,
            unfolded,
            folded_to: progress.folded_to,
        })
    }

    /// The links of an owner with their rows, unless there are many.
    fn few_links(&self, owner: OwnerId) -> Result<Option<Vec<(RankedLink, i64)>>, Failure> {
        let ids = self.links_of(owner, FEW_LINKS + 1)?;
        if ids.len() > FEW_LINKS {
            return Ok(None);
        }
        let mut links = Vec::with_capacity(ids.len());
        for subject in ids {
            if let Some((link, of)) = self.link_of_row(subject)?
                && of == owner
            {
                links.push((link, subject));
            }
        }
        Ok(Some(links))
    }

    /// The clicks of all subjects in a period whose sums are in blocks, in one pass.
    fn waiting_in(&self, period_rows: &PeriodRows<'_>) -> Result<HashMap<i64, Count>, Failure> {
        let mut sums: HashMap<i64, Count> = HashMap::new();
        for (from, to, edge) in period_rows.hours(None) {
            self.each_waiting(period_rows.runs, from, to, |id, clicks| {
                if !edge || period_rows.has_hour(id) {
                    let (_, subject, _) = of_hour_id(id);
                    sums.entry(subject).or_default().add(clicks);
                }
            })?;
        }
        Ok(sums)
    }

    /// A subject's clicks in a period.
    fn clicks_in(
        &self,
        subject: i64,
        period_rows: &PeriodRows<'_>,
        waiting: &Waiting,
    ) -> Result<Count, Failure> {
        let mut clicks = Count::default();
        let (first, last) = period_rows.whole;
        let mut statement = self.conn.prepare_cached(DAYS[0])?;
        let mut rows = statement.query([day_id(subject, first), day_id(subject, last)])?;
        while let Some(row) = rows.next()? {
            clicks.add(count(row, 1)?);
        }
        let mut statement = self.conn.prepare_cached(HOURS[0])?;
        for (from, to, edge) in period_rows.hours(Some(subject)) {
            let mut rows = statement.query([from, to])?;
            while let Some(row) = rows.next()? {
                if !edge || period_rows.has_hour(row.get(0)?) {
                    clicks.add(count(row, 1)?);
                }
            }
            if waiting.unfinished.is_some() {
                continue;
            }
            self.each_waiting(period_rows.runs, from, to, |id, count| {
                if !edge || period_rows.has_hour(id) {
                    clicks.add(count);
                }
            })?;
        }
        for known in [&waiting.unfinished, &waiting.finished].into_iter().flatten() {
            clicks.add(known.get(&subject).copied().unwrap_or_default());
        }
        if waiting.finished.is_none() {
            let found = self.finished_sums(period_rows.runs, subject, period_rows.range.days())?;
            let found =
                found.iter().filter(|found| period_rows.has_finished(found.day, found.hour));
            found.for_each(|found| clicks.add(found.clicks));
        }
        Ok(clicks)
    }

    /// The ranking of all time, from its index.
    fn top_ever(&self, query: &TopQuery) -> Result<Vec<RankedLink>, Failure> {
        let by_all = query.bots == BotFilter::Include;
        let limit = if by_all { query.limit } else { RANKED_AGAIN };
        let after = query.after.as_ref().filter(|_| by_all);
        let mut statement = self.conn.prepare_cached(if after.is_some() { NEXT } else { FIRST })?;
        let mut rows = match after {
            Some(after) => {
                let LinkId { key, created_at } = &after.link;
                let rank = -i64::try_from(after.clicks).unwrap_or(i64::MAX);
                let (domain, code) = (key.domain.as_str(), key.code.as_str());
                statement.query(params![rank, domain, code, created_at.as_ms()])?
            }
            None => statement.query([])?,
        };
        let mut found = Vec::new();
        while found.len() < limit
            && let Some(row) = rows.next()?
        {
            self.count_row();
            let link = ranked(row)?;
            if link.clicks == Count::default() {
                break;
            }
            if query.owner.is_none_or(|owner| row.get(5) == Ok(owner.0.cast_signed())) {
                found.push(link);
            }
        }
        Ok(query.rank(found))
    }

    /// The rows of the links of an owner, unless there are too many to read them all. Some may be
    /// of other owners.
    fn rows_of(&self, owner: OwnerId) -> Result<Option<HashSet<i64>>, Failure> {
        let found = self.links_of(owner, MANY_LINKS + 1)?;
        Ok((found.len() <= MANY_LINKS).then(|| found.into_iter().collect()))
    }

    /// The ranking of a period: of the links of an owner, or of the busiest links of each day.
    fn top_of_all(
        &self,
        query: &TopQuery,
        period_rows: &PeriodRows<'_>,
        waiting: &Waiting,
    ) -> Result<Vec<RankedLink>, Failure> {
        let mut sums: HashMap<i64, Count> = HashMap::new();
        let own = match query.owner {
            Some(owner) => self.rows_of(owner)?,
            None => None,
        };
        let cut = match &own {
            Some(own) => {
                self.days_of(own, period_rows, &mut sums)?;
                false
            }
            None => {
                let cut = self.busiest_of_days(period_rows, &mut sums)?;
                waiting.finished.is_none()
                    && self.busiest_in_runs(period_rows.range.days(), &mut sums)?
                    || cut
            }
        };
        let is_candidate = |subject: i64| own.as_ref().is_none_or(|own| own.contains(&subject));
        let mut statement = self.conn.prepare_cached(ALL_HOURS)?;
        for (from, to, edge) in period_rows.hours(None) {
            let mut rows = statement.query([from, to])?;
            while let Some(row) = rows.next()? {
                self.count_row();
                let id = row.get(0)?;
                let (_, subject, _) = of_hour_id(id);
                if is_candidate(subject) && (!edge || period_rows.has_hour(id)) {
                    sums.entry(subject).or_default().add(count(row, 1)?);
                }
            }
        }
        let waiting_clicks = [&waiting.unfinished, &waiting.finished].into_iter().flatten();
        for (subject, clicks) in waiting_clicks.flatten() {
            if is_candidate(*subject) {
                sums.entry(*subject).or_default().add(*clicks);
            }
        }
        let mut sums: Vec<(i64, Count)> = sums.into_iter().collect();
        sums.sort_unstable_by(|(a, one), (b, other)| {
            query.bots.of(*other).cmp(&query.bots.of(*one)).then(a.cmp(b))
        });
        let mut statement = self.conn.prepare_cached(LINK_OF_ROW)?;
        let mut found: Vec<RankedLink> = Vec::new();
        // The clicks of the best links so far, the fewest first.
        let mut best: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
        let limit = query.limit.min(RANKED_AGAIN);
        for (subject, clicks) in sums {
            // Links with as many clicks as the last one of the answer may come before it.
            let is_enough = best.len() >= limit
                && best.peek().is_none_or(|Reverse(fewest)| query.bots.of(clicks) < *fewest);
            if is_enough {
                break;
            }
            let read = |row: &Row<'_>| Ok((ranked(row), row.get::<_, i64>(5)?));
            let Some((link, owner)) = statement.query_row([subject], read).optional()? else {
                // Sums of an owner, or of everything.
                continue;
            };
            if query.owner.is_some_and(|of| of.0.cast_signed() != owner) {
                continue;
            }
            let clicks = if cut { self.clicks_in(subject, period_rows, waiting)? } else { clicks };
            let link = RankedLink { clicks, ..link? };
            if query.after.as_ref().is_none_or(|after| link.rank(query.bots) > *after) {
                best.push(Reverse(query.bots.of(clicks)));
                if best.len() > limit {
                    best.pop();
                }
                found.push(link);
            }
        }
        Ok(query.rank(found))
    }

    /// Adds the days that count whole of some subjects.
    fn days_of(
        &self,
        subjects: &HashSet<i64>,
        period_rows: &PeriodRows<'_>,
        sums: &mut HashMap<i64, Count>,
    ) -> Result<(), Failure> {
        let (first, last) = period_rows.whole;
        let mut statement = self.conn.prepare_cached(DAYS[0])?;
        for &subject in subjects {
            let mut rows = statement.query([day_id(subject, first), day_id(subject, last)])?;
            while let Some(row) = rows.next()? {
                self.count_row();
                sums.entry(subject).or_default().add(count(row, 1)?);
            }
        }
        Ok(())
    }

    /// Adds the busiest subjects of the days that count whole. Returns whether a day has more.
    fn busiest_of_days(
        &self,
        period_rows: &PeriodRows<'_>,
        sums: &mut HashMap<i64, Count>,
    ) -> Result<bool, Failure> {
        let (first, last) = period_rows.whole;
        let mut next = self.conn.prepare_cached(NEXT_RANKED_DAY)?;
        let mut busiest = self.conn.prepare_cached(BUSIEST_OF_DAY)?;
        let first = next.query_row([first], |row| row.get::<_, i64>(0)).optional()?;
        let latest = self.conn.prepare_cached(LAST_RANKED_DAY)?;
        let latest = { latest }.query_row([], |row| row.get::<_, i64>(0)).optional()?;
        let (Some(mut day), Some(latest)) = (first, latest) else { return Ok(false) };
        let last = last.min(latest);
        let limit = (CANDIDATES / (last - day + 1).max(1)).max(CANDIDATES_A_DAY);
        let mut cut = false;
        while day <= last {
            let mut rows = busiest.query([day, limit])?;
            let mut read = 0;
            while let Some(row) = rows.next()? {
                self.count_row();
                sums.entry(subject_of_day_id(row.get(0)?)).or_default().add(count(row, 1)?);
                read += 1;
            }
            cut |= read == limit;
            match next.query_row([day + 1], |row| row.get(0)).optional()? {
                Some(following) => day = following,
                None => break,
            }
        }
        Ok(cut)
    }
}

/// A link and its clicks of all time: domain, code, creation, humans and bots.
pub(crate) fn ranked(row: &Row<'_>) -> Result<RankedLink, Failure> {
    let link = link_of_row(row)?;
    Ok(RankedLink { link, clicks: count(row, 3)? })
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;
    use terse_core::Timestamp;
    use terse_core::clicks::{Batch, Click, ClickTarget};
    use terse_testkit::key;

    use super::*;
    use crate::clicks::queries::Cost;
    use crate::clicks::runs::RunLimits;
    use crate::clicks::schema::CLICKS;
    use crate::clicks::writes::ClickWrites;

    #[test]
    fn a_ranking_reads_each_chunk_of_a_run_once() {
        const LINKS: i64 = 240;
        let mut conn = Connection::open_in_memory().unwrap();
        CLICKS.migrate(&mut conn, 0).unwrap();
        let mut writes = ClickWrites::new(ClickQueries::new(conn), None).unwrap();
        writes.limits = RunLimits { from: 0, runs: 100, step: 1 };
        for day in 0..4 {
            let clicks = (0..LINKS).flat_map(|n| {
                let created_at = Timestamp::from_ms(0);
                let link = LinkId { key: key(&format!("link-{n}")), created_at };
                let at = Timestamp::from_ms(day * DAY + n % 24 * HOUR);
                let click = Click::bare(at, ClickTarget::Link(link, OwnerId(1)));
                std::iter::repeat_n(click, if n == 13 { 2 } else { 1 })
            });
            writes.add(&Batch::of(Vec::new(), clicks)).unwrap();
        }
        let count = "SELECT count(*) FROM run_heads";
        let chunks: i64 = writes.conn.query_row(count, [], |row| row.get(0)).unwrap();
        for owner in [Some(OwnerId(1)), None] {
            let period = Period { from: Some(Timestamp::from_ms(DAY / 2)), to: None };
            let query =
                TopQuery { owner, period, bots: BotFilter::Include, after: None, limit: 1000 };
            writes.cost.set(Cost::default());
            let found = writes.top(&query, &[]).unwrap();
            assert_eq!(found.len() as i64, LINKS);
            let of = |link: &RankedLink| link.clicks.all();
            assert_eq!((found[0].link.key.code.as_str(), of(&found[0])), ("link-13", 8));
            // The first day counts from noon on.
            let all: u64 = found.iter().map(of).sum();
            assert_eq!(all.cast_signed(), 3 * (LINKS + 1) + LINKS / 2 + 1);
            assert!(writes.cost.get().chunks <= chunks.cast_unsigned(), "{:?}", writes.cost.get());
        }
    }
}
