//! Lists and searches.

use rusqlite::params;
use terse_core::{Cursor, Link, LinkPage, LinkStatus, ListQuery, OwnerId, Sort};

use crate::failure::{Failure, corrupt};
use crate::queries::LinkQueries;
use crate::search::{Match, created_at, positions_at};

/// A list examines this many links, then returns what it has found and where to continue.
const MAX_EXAMINED: usize = 10_000;
/// How many links it examines as long as it has found none.
const MAX_FRUITLESS: usize = 100_000;
/// The largest page, whatever the caller asks for.
const MAX_PAGE: usize = 1000;

/// How many positions a search reads at first, and the most it reads at once.
const FIRST_CHUNK: usize = 64;
const MAX_CHUNK: usize = 4096;

impl LinkQueries {
    /// Lists links by creation time, then by id. Neither ever changes, so paging misses no link.
    pub(crate) fn list(&self, query: &ListQuery) -> Result<LinkPage, Failure> {
        if let Some(domain) = &query.domain
            && self.domain_id(domain)?.is_none()
        {
            return Ok(LinkPage { links: Vec::new(), next: None });
        }
        let after = query.after.as_ref().map(ListPosition::read).transpose()?;
        let text = query.text.as_deref();
        match Match::of(text, query.owner, query.domain.as_ref(), query.tag.as_deref()) {
            Some(condition) => match self.search(query, &condition, after) {
                // Every link is compared, until there is a new index.
                Err(_) if self.index_damaged.take() => self.walk(query, after),
                page => page,
            },
            None => self.walk(query, after),
        }
    }

    /// Reads the links that can be in the list, in their order.
    fn walk(&self, query: &ListQuery, after: Option<ListPosition>) -> Result<LinkPage, Failure> {
        let mut page = PageBuilder::new(query);
        let sources = sources(query);
        let mut candidates = self.merged(&sources, query.sort, after);
        while candidates.peek()?.is_some() {
            // There is a candidate beyond the page, so there is a next page.
            if page.is_full() {
                return Ok(page.with_next());
            }
            if let Some(at) = candidates.take()? {
                page.examine(at, self.link(at.id, None))?;
            }
        }
        Ok(page.last())
    }

    /// The positions of several sources after this one, in order.
    fn merged<'a>(
        &'a self,
        sources: &'a [IndexScan],
        sort: Sort,
        after: Option<ListPosition>,
    ) -> Merged<impl FnMut(Option<ListPosition>, usize) -> Result<Vec<ListPosition>, Failure> + 'a>
    {
        let of = |source: &'a IndexScan| {
            Positions::new(after, move |after, limit| self.positions(source, sort, after, limit))
        };
        Merged { sources: sources.iter().map(of).collect(), sort }
    }

    /// The positions of one source after this one.
    fn positions(
        &self,
        source: &IndexScan,
        sort: Sort,
        after: Option<ListPosition>,
        limit: usize,
    ) -> Result<Vec<ListPosition>, Failure> {
        let mut found = Vec::new();
        for (sql, mut values) in source.steps(sort, after) {
            values.push((limit - found.len()) as i64);
            let mut statement = self.conn.prepare_cached(&sql)?;
            let mut rows = statement.query(rusqlite::params_from_iter(values))?;
            while let Some(row) = rows.next()? {
                found.push(ListPosition { created_at: row.get(0)?, id: row.get(1)? });
            }
        }
        Ok(found)
    }

    /// Reads the links that the index names, and those that are not in the index yet.
    fn search(
        &self,
        query: &ListQuery,
        condition: &Match,
        after: Option<ListPosition>,
    ) -> Result<LinkPage, Failure> {
        let mut page = PageBuilder::new(query);
        let floor = self.search_floor()?;
        let mut indexed =
            Positions::new(after, |after, limit| self.indexed(condition, query.sort, after, limit));
        let mut waiting = Positions::new(after, |after, limit| {
            self.unindexed(query.owner, query.sort, floor, after, limit)
        });
        loop {
            let (a, b) = (indexed.peek()?, waiting.peek()?);
            if a.is_some() && a == b {
                // It waits, and another link with its number is in the index.
                waiting.take();
                continue;
            }
            let from_index = match (a, b) {
                (None, None) => return Ok(page.last()),
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some(a), Some(b)) => (a < b) == (query.sort == Sort::Oldest),
            };
            if page.is_full() {
                return Ok(page.with_next());
            }
            let next = if from_index { indexed.take() } else { waiting.take() };
            if let Some(at) = next {
                page.examine(at, self.link(at.id, None))?;
            }
        }
    }

    /// Positions that the index names after this one, in order. Ends with all of one time.
    fn indexed(
        &self,
        condition: &Match,
        sort: Sort,
        after: Option<ListPosition>,
        limit: usize,
    ) -> Result<Vec<ListPosition>, Failure> {
        let (sql, mut from) = match (sort, after) {
            (Sort::Newest, None) => (NEWEST_INDEXED, i64::MAX),
            (Sort::Newest, Some(after)) => (NEWEST_INDEXED, positions_at(after.created_at).1),
            (Sort::Oldest, None) => (OLDEST_INDEXED, i64::MIN),
            (Sort::Oldest, Some(after)) => (OLDEST_INDEXED, positions_at(after.created_at).0),
        };
        let is_after = |at: &ListPosition| match (sort, after) {
            (_, None) => true,
            (Sort::Newest, Some(after)) => *at < after,
            (Sort::Oldest, Some(after)) => *at > after,
        };
        let mut found: Vec<ListPosition> = Vec::new();
        loop {
            let numbers =
                self.indexed_numbers(sql, params![condition.as_str(), from, limit as i64])?;
            let is_last = numbers.len() < limit;
            // Numbers of one time are not in the order of ids: either all of them, or none.
            let cut = numbers.last().copied().filter(|_| !is_last).map(created_at);
            let whole = numbers.iter().take_while(|number| Some(created_at(**number)) != cut);
            let mut whole: Vec<i64> = whole.copied().collect();
            if let (true, Some(time)) = (whole.is_empty(), cut) {
                let (first, last) = positions_at(time);
                whole =
                    self.indexed_numbers(INDEXED_WITHIN, params![condition.as_str(), first, last])?;
            }
            for number in &whole {
                found.extend(self.links_at(*number)?.iter().filter(|at| is_after(at)));
            }
            if is_last || !found.is_empty() {
                break;
            }
            let Some(number) = whole.last() else { break };
            let (first, last) = positions_at(created_at(*number));
            from =
                if sort == Sort::Newest { first.saturating_sub(1) } else { last.saturating_add(1) };
        }
        found.sort_unstable();
        if sort == Sort::Newest {
            found.reverse();
        }
        Ok(found)
    }

    /// Links after this position that are not in the index, in order.
    fn unindexed(
        &self,
        owner: Option<OwnerId>,
        sort: Sort,
        floor: Option<ListPosition>,
        after: Option<ListPosition>,
        limit: usize,
    ) -> Result<Vec<ListPosition>, Failure> {
        let below_floor = |after: Option<ListPosition>| {
            let Some(floor) = floor else { return Ok(Vec::new()) };
            let after = match sort {
                Sort::Newest => Some(after.map_or(floor, |after| after.min(floor))),
                Sort::Oldest => after,
            };
            let mut keys = self.keys(owner, sort, after, limit)?;
            keys.retain(|at| *at < floor);
            Ok::<_, Failure>(keys)
        };
        if sort == Sort::Oldest {
            let found = below_floor(after)?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        let (sql, start) = match sort {
            Sort::Newest => (NEWEST_UNINDEXED, i64::MAX),
            Sort::Oldest => (OLDEST_UNINDEXED, i64::MIN),
        };
        let ListPosition { created_at, id } =
            after.unwrap_or(ListPosition { created_at: start, id: start });
        let mut statement = self.conn.prepare_cached(sql)?;
        let found: Vec<ListPosition> = statement
            .query_map(params![created_at, id, limit as i64], |row| {
                Ok(ListPosition { created_at: row.get(0)?, id: row.get(1)? })
            })?
            .collect::<Result<_, _>>()?;
        if found.is_empty() && sort == Sort::Newest { below_floor(after) } else { Ok(found) }
    }

    /// The positions of the links after this one.
    pub(crate) fn keys(
        &self,
        owner: Option<OwnerId>,
        sort: Sort,
        after: Option<ListPosition>,
        limit: usize,
    ) -> Result<Vec<ListPosition>, Failure> {
        let sources = match owner.filter(|owner| *owner != OwnerId::ANONYMOUS) {
            Some(owner) => ALL_STATES.map(|state| IndexScan::of_owner(owner, state)).collect(),
            None => vec![IndexScan::by_age()],
        };
        let mut merged = self.merged(&sources, sort, after);
        let mut found = Vec::new();
        while found.len() < limit
            && let Some(at) = merged.take()?
        {
            found.push(at);
        }
        Ok(found)
    }
}

pub(crate) const NEWEST_INDEXED: &str = "SELECT rowid FROM search WHERE search MATCH ?1 AND rowid \
     <= ?2 ORDER BY rowid DESC LIMIT ?3";
pub(crate) const OLDEST_INDEXED: &str = "SELECT rowid FROM search WHERE search MATCH ?1 AND rowid \
     >= ?2 ORDER BY rowid LIMIT ?3";
const INDEXED_WITHIN: &str =
    "SELECT rowid FROM search WHERE search MATCH ?1 AND rowid BETWEEN ?2 AND ?3";
pub(crate) const NEWEST_UNINDEXED: &str = "SELECT created_at, id FROM unindexed \
     WHERE (created_at, id) < (?1, ?2) ORDER BY created_at DESC, id DESC LIMIT ?3";
pub(crate) const OLDEST_UNINDEXED: &str = "SELECT created_at, id FROM unindexed \
     WHERE (created_at, id) > (?1, ?2) ORDER BY created_at, id LIMIT ?3";

/// Positions in order, read a chunk at a time.
struct Positions<F> {
    read: F,
    chunk: std::collections::VecDeque<ListPosition>,
    last: Option<ListPosition>,
    limit: usize,
    ended: bool,
}

impl<F: FnMut(Option<ListPosition>, usize) -> Result<Vec<ListPosition>, Failure>> Positions<F> {
    fn new(after: Option<ListPosition>, read: F) -> Self {
        Self { read, chunk: Default::default(), last: after, limit: FIRST_CHUNK, ended: false }
    }

    fn peek(&mut self) -> Result<Option<ListPosition>, Failure> {
        if self.chunk.is_empty() && !self.ended {
            self.chunk = (self.read)(self.last, self.limit)?.into();
            self.limit = (self.limit * 4).min(MAX_CHUNK);
            self.ended = self.chunk.is_empty();
        }
        Ok(self.chunk.front().copied())
    }

    fn take(&mut self) -> Option<ListPosition> {
        self.last = self.chunk.pop_front();
        self.last
    }
}

/// Positions of several sources, in order.
struct Merged<F> {
    sources: Vec<Positions<F>>,
    sort: Sort,
}

impl<F: FnMut(Option<ListPosition>, usize) -> Result<Vec<ListPosition>, Failure>> Merged<F> {
    /// The source with the next position.
    fn peek(&mut self) -> Result<Option<usize>, Failure> {
        let mut first: Option<(ListPosition, usize)> = None;
        for (n, source) in self.sources.iter_mut().enumerate() {
            let Some(at) = source.peek()? else { continue };
            let is_first = match (first, self.sort) {
                (None, _) => true,
                (Some((first, _)), Sort::Newest) => at > first,
                (Some((first, _)), Sort::Oldest) => at < first,
            };
            if is_first {
                first = Some((at, n));
            }
        }
        Ok(first.map(|(_, n)| n))
    }

    fn take(&mut self) -> Result<Option<ListPosition>, Failure> {
        Ok(self.peek()?.and_then(|n| self.sources[n].take()))
    }
}

/// Collects the links of a page.
struct PageBuilder<'a> {
    wanted: LinkFilter<'a>,
    limit: usize,
    links: Vec<Link>,
    examined: usize,
    last: Option<ListPosition>,
}

impl<'a> PageBuilder<'a> {
    fn new(query: &'a ListQuery) -> Self {
        let limit = query.limit.clamp(1, MAX_PAGE);
        Self { wanted: LinkFilter::new(query), limit, links: Vec::new(), examined: 0, last: None }
    }

    fn is_full(&self) -> bool {
        let most = if self.links.is_empty() { MAX_FRUITLESS } else { MAX_EXAMINED };
        self.links.len() == self.limit || self.examined >= most
    }

    fn examine(
        &mut self,
        at: ListPosition,
        read: Result<Option<Link>, Failure>,
    ) -> Result<(), Failure> {
        self.examined += 1;
        self.last = Some(at);
        match read {
            Ok(Some(link)) if self.wanted.matches(&link) => self.links.push(link),
            Ok(_) => {}
            // One damaged row must not hide all rows after it.
            Err(Failure::Refused(error)) => {
                tracing::error!(%error, "left a damaged link out of a list");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn with_next(self) -> LinkPage {
        LinkPage { links: self.links, next: self.last.as_ref().map(ListPosition::write) }
    }

    fn last(self) -> LinkPage {
        LinkPage { links: self.links, next: None }
    }
}

// Values of the column `state`: the first reason for which a link does not simply redirect.
const ACTIVE: i64 = 0;
const SUSPICIOUS: i64 = 1;
/// With a time before which the link is scheduled, whether or not that time has come.
const WITH_START: i64 = 2;
const USED_UP: i64 = 3;
/// Expired, and marked as such.
const EXPIRED: i64 = 4;
const BLOCKED: i64 = 5;
const DELETED: i64 = 6;
const SUSPICIOUS_WITH_START: i64 = 7;
/// Those of links that are not deleted.
const SHOWN: [i64; 7] =
    [ACTIVE, SUSPICIOUS, WITH_START, USED_UP, EXPIRED, BLOCKED, SUSPICIOUS_WITH_START];
/// Added to each of them if the link is archived.
const ARCHIVED: i64 = 8;
/// All of them.
const ALL_STATES: std::ops::Range<i64> = 0..2 * ARCHIVED;

const NOT_DUE: &str = "(expires_at IS NULL OR expires_at > ?)";

/// Links that a list reads by one index.
#[derive(Clone, Debug)]
pub(crate) struct IndexScan {
    index: &'static str,
    condition: String,
    values: Vec<i64>,
    /// Whether the index has the order of the list. If not, SQLite sorts what it reads.
    in_order: bool,
}

impl IndexScan {
    fn new(index: &'static str, condition: &str, values: Vec<i64>) -> Self {
        Self { index, condition: condition.to_owned(), values, in_order: true }
    }

    /// All links.
    fn by_age() -> Self {
        Self::new("links_by_age", "1", Vec::new())
    }

    /// The links of an owner in a state. The index leaves out anonymous links. `owner <> 0` lets
    /// SQLite see that it can use the index.
    fn of_owner(owner: OwnerId, state: i64) -> Self {
        let values = vec![owner.0.cast_signed(), state];
        Self::new("links_of_owner", "owner = ? AND owner <> 0 AND state = ?", values)
    }

    /// The links of all owners in a state, except the most frequent one.
    fn in_state(state: i64) -> Self {
        Self::new("links_in_state", "state = ? AND state <> 0", vec![state])
    }

    fn and(mut self, condition: &str, values: &[i64]) -> Self {
        self.condition = format!("{} AND {condition}", self.condition);
        self.values.extend(values);
        self
    }

    fn sorted(self) -> Self {
        Self { in_order: false, ..self }
    }

    #[cfg(test)]
    pub(crate) fn is_in_order(&self) -> bool {
        self.in_order
    }

    /// The queries that together list everything after a position, up to a limit that follows the
    /// values. In an index, the first one lists the links with the same creation time, by id: in
    /// one query, SQLite would find that time through the index and step over all of its links.
    pub(crate) fn steps(&self, sort: Sort, after: Option<ListPosition>) -> Vec<(String, Vec<i64>)> {
        let Self { index, condition, values, in_order } = self;
        let (compare, order) = match sort {
            Sort::Newest => ("<", "DESC"),
            Sort::Oldest => (">", "ASC"),
        };
        let step = |beyond: &str, position: &[i64]| {
            let sql = format!(
                "SELECT created_at, id FROM links INDEXED BY {index} WHERE {condition}{beyond} \
                 ORDER BY created_at {order}, id {order} LIMIT ?"
            );
            (sql, values.iter().chain(position).copied().collect())
        };
        match after {
            None => vec![step("", &[])],
            Some(ListPosition { created_at, id }) if *in_order => vec![
                step(&format!(" AND created_at = ? AND id {compare} ?"), &[created_at, id]),
                step(&format!(" AND created_at {compare} ?"), &[created_at]),
            ],
            Some(ListPosition { created_at, id }) => {
                vec![step(&format!(" AND (created_at, id) {compare} (?, ?)"), &[created_at, id])]
            }
        }
    }
}

/// What a list reads: together every link that can be in it, and none twice. A state changes when
/// the link is written. What a status needs beyond it depends on the time.
pub(crate) fn sources(query: &ListQuery) -> Vec<IndexScan> {
    let now = query.now.as_ms();
    let owner = query.owner.filter(|owner| *owner != OwnerId::ANONYMOUS);
    let archived: &[i64] = match query.archived {
        None => &[0, ARCHIVED],
        Some(false) => &[0],
        Some(true) => &[ARCHIVED],
    };
    let in_states = |states: &[i64]| -> Vec<IndexScan> {
        let states = archived.iter().flat_map(|archived| states.iter().map(move |s| s + archived));
        let in_state = |state| match owner {
            Some(owner) => IndexScan::of_owner(owner, state),
            None => IndexScan::in_state(state),
        };
        states.map(in_state).collect()
    };
    // Read by time, and sorted: few links at once.
    let by_time = |source: IndexScan| {
        let source = match owner {
            Some(owner) => source.and("owner = ?", &[owner.0.cast_signed()]),
            None => source,
        };
        source.sorted()
    };
    let narrow = |sources: Vec<IndexScan>, condition: &str, values: &[i64]| -> Vec<IndexScan> {
        sources.into_iter().map(|source| source.and(condition, values)).collect()
    };
    let running = format!("{NOT_DUE} AND (valid_from IS NULL OR valid_from <= ?)");
    match query.status {
        // No index has the ordinary links of all owners alone.
        None | Some(LinkStatus::Active) if owner.is_none() && query.archived != Some(true) => {
            vec![IndexScan::by_age()]
        }
        None => in_states(&SHOWN),
        Some(LinkStatus::Active) => narrow(in_states(&[ACTIVE, WITH_START]), &running, &[now, now]),
        Some(LinkStatus::Suspicious) => {
            narrow(in_states(&[SUSPICIOUS, SUSPICIOUS_WITH_START]), &running, &[now, now])
        }
        Some(LinkStatus::Scheduled) => {
            let scheduled = "valid_from IS NOT NULL AND valid_from > ?";
            let scheduled = IndexScan::new("links_scheduled", scheduled, vec![now]);
            vec![by_time(scheduled.and(NOT_DUE, &[now]))]
        }
        Some(LinkStatus::UsedUp) => narrow(in_states(&[USED_UP]), NOT_DUE, &[now]),
        Some(LinkStatus::Expired) => {
            // Links are marked some time after they have expired.
            let due = "expires_at IS NOT NULL AND marked IS NULL AND expires_at <= ?";
            let mut sources = in_states(&[EXPIRED]);
            sources.push(by_time(IndexScan::new("links_to_mark", due, vec![now])));
            sources
        }
        Some(LinkStatus::Blocked) => in_states(&[BLOCKED]),
        Some(LinkStatus::Deleted) => in_states(&[DELETED]),
    }
}

/// The conditions that need the decoded link.
struct LinkFilter<'a> {
    query: &'a ListQuery,
    text: Option<String>,
}

impl<'a> LinkFilter<'a> {
    fn new(query: &'a ListQuery) -> Self {
        Self { query, text: query.text.as_ref().map(|text| text.to_ascii_lowercase()) }
    }

    fn matches(&self, link: &Link) -> bool {
        let status = link.status(self.query.now);
        let wanted_status = match self.query.status {
            None => status != LinkStatus::Deleted,
            Some(wanted) => status == wanted,
        };
        wanted_status
            && self.query.owner.is_none_or(|owner| link.owner == owner)
            && self.query.domain.as_ref().is_none_or(|domain| link.key.domain == *domain)
            && self.query.archived.is_none_or(|archived| link.archived_at.is_some() == archived)
            && self.query.tag.as_ref().is_none_or(|tag| link.tags.iter().any(|have| have == tag))
            && self.text.as_ref().is_none_or(|text| link.contains(text))
    }
}

/// A position in a list.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct ListPosition {
    pub(crate) created_at: i64,
    pub(crate) id: i64,
}

impl ListPosition {
    fn write(&self) -> Cursor {
        Cursor([self.created_at.to_be_bytes(), self.id.to_be_bytes()].concat())
    }

    fn read(cursor: &Cursor) -> Result<Self, Failure> {
        let bytes: &[u8; 16] =
            cursor.0.as_slice().try_into().map_err(|_| corrupt("not a place in this list"))?;
        let number = i128::from_be_bytes(*bytes);
        Ok(Self { created_at: (number >> 64) as i64, id: number as i64 })
    }
}

#[cfg(test)]
mod tests;
