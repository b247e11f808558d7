//! Rankings of all time while some clicks are in runs: the index of links has the others.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use rusqlite::{OptionalExtension, Row};
use terse_core::OwnerId;
use terse_core::clicks::{BotFilter, RankedLink, TopQuery};

use crate::clicks::queries::ClickQueries;
use crate::clicks::runs::Runs;
use crate::clicks::sum::count;
use crate::clicks::top::{LINK_OF_ROW, RANKED_AGAIN, ranked};
use crate::failure::Failure;

pub(crate) const RANKED_FROM: &str = "SELECT id, people, machines FROM subjects \
     WHERE kind = 0 AND rank < 0 AND rank >= ?1 ORDER BY rank";

/// How many links a ranking gathers beyond those it needs, before it drops the last ones.
const SPARE: usize = 10_000;

impl ClickQueries {
    /// Adds what is in runs to the clicks of links of all time.
    pub(crate) fn add_runs_to_links(
        &self,
        links: &mut [(RankedLink, i64)],
        runs: &Runs,
        is_many: bool,
    ) -> Result<(), Failure> {
        let all = match is_many && !runs.is_empty() {
            true => Some(self.all_clicks_in_runs(runs)?),
            false => None,
        };
        for (link, subject) in links {
            link.clicks.add(match &all {
                Some(all) => all.get(subject).copied().unwrap_or_default(),
                None => self.clicks_in_runs(runs, *subject)?,
            });
        }
        Ok(())
    }

    /// The ranking of all time, if some clicks are in runs. It goes down the index of what is not
    /// in runs and a ranking of what is, side by side, until no link further down can have as many
    /// clicks as those that were found.
    pub(crate) fn top_ever_with_runs(
        &self,
        query: &TopQuery,
        runs: &Runs,
    ) -> Result<Vec<RankedLink>, Failure> {
        let by_all = query.bots == BotFilter::Include;
        let limit = if by_all { query.limit } else { RANKED_AGAIN };
        let after = query.after.as_ref().filter(|_| by_all);
        let by_clicks =
            TopQuery { bots: BotFilter::Include, after: after.cloned(), limit, ..query.clone() };
        let waiting = self.all_clicks_in_runs(runs)?;
        let mut in_runs: Vec<(u64, i64)> =
            waiting.iter().map(|(subject, clicks)| (clicks.all(), *subject)).collect();
        in_runs.sort_unstable_by(|one, other| other.cmp(one));
        let mut in_runs = in_runs.into_iter().peekable();
        // A link after the cursor has no more clicks than it.
        let most = after.map_or(i64::MAX, |after| i64::try_from(after.clicks).unwrap_or(i64::MAX));
        let mut statement = self.conn.prepare_cached(RANKED_FROM)?;
        let mut rows = statement.query([-most])?;
        let mut in_rows = None;
        let mut seen: HashSet<i64> = HashSet::new();
        let mut found: Vec<RankedLink> = Vec::new();
        // The clicks of the best links so far, the fewest first.
        let mut best: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
        loop {
            if in_rows.is_none() {
                in_rows = match rows.next()? {
                    Some(row) => Some((count(row, 1)?.all(), row.get::<_, i64>(0)?)),
                    None => None,
                };
            }
            let next = [in_rows, in_runs.peek().copied()].map(|next| next.unwrap_or_default().0);
            let possible = next[0] + next[1];
            let is_enough = best.len() >= limit
                && best.peek().is_some_and(|Reverse(fewest)| possible < *fewest);
            if possible == 0 || is_enough {
                break;
            }
            self.count_row();
            let taken = if next[0] >= next[1] { in_rows.take() } else { in_runs.next() };
            let Some((_, subject)) = taken.filter(|(_, subject)| seen.insert(*subject)) else {
                continue;
            };
            let Some((mut link, owner)) = self.link_of_row(subject)? else { continue };
            link.clicks.add(waiting.get(&subject).copied().unwrap_or_default());
            let is_wanted = query.owner.is_none_or(|of| of == owner)
                && after.is_none_or(|after| link.rank(query.bots) > *after);
            if is_wanted {
                best.push(Reverse(link.clicks.all()));
                if best.len() > limit {
                    best.pop();
                }
                found.push(link);
                // Very many links may have as many clicks as the last one in the ranking.
                if found.len() > 2 * limit + SPARE {
                    found = by_clicks.rank(found);
                }
            }
        }
        if !by_all {
            found = by_clicks.rank(found);
        }
        Ok(query.rank(found))
    }

    /// The link of a row with its clicks outside of runs, and its owner.
    pub(crate) fn link_of_row(
        &self,
        subject: i64,
    ) -> Result<Option<(RankedLink, OwnerId)>, Failure> {
        let mut statement = self.conn.prepare_cached(LINK_OF_ROW)?;
        let read =
            |row: &Row<'_>| Ok((ranked(row), OwnerId(row.get::<_, i64>(5)?.cast_unsigned())));
        let found = statement.query_row([subject], read).optional()?;
        found.map(|(link, owner)| Ok((link?, owner))).transpose()
    }
}
