//! Lists and searches.

use rusqlite::params;
use terse_core::{Cursor, Link, LinkPage, LinkStatus, ListQuery, OwnerId, Sort};

use crate::failure::{Failure, corrupt};
use crate::queries::LinkQueries;
use crate::row::COLUMNS;
use crate::search::{Match, created_at, positions_at};

/// A list examines this many links, then returns what it has found and where to continue.
const MAX_EXAMINED: usize = 10_000;
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

    /// Reads the links in their order.
    fn walk(&self, query: &ListQuery, after: Option<ListPosition>) -> Result<LinkPage, Failure> {
        let mut page = PageBuilder::new(query);
        for (sql, values) in steps(COLUMNS, query.owner, query.status, query.sort, after) {
            let mut statement = self.conn.prepare_cached(&sql)?;
            let mut rows = statement.query(rusqlite::params_from_iter(values))?;
            while let Some(row) = rows.next()? {
                // There is a row beyond the page, so there is a next page.
                if page.is_full() {
                    return Ok(page.with_next());
                }
                let at = ListPosition { created_at: row.get(5)?, id: row.get(0)? };
                if query.owner.is_some_and(|owner| row.get(3) != Ok(owner.0 as i64)) {
                    page.pass(at);
                } else {
                    page.examine(at, self.read(row, None).map(Some))?;
                }
            }
        }
        Ok(page.last())
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
        let mut found = Vec::new();
        for (sql, values) in steps("created_at, id", owner, None, sort, after) {
            let mut statement = self.conn.prepare_cached(&sql)?;
            let mut rows = statement.query(rusqlite::params_from_iter(values))?;
            while found.len() < limit
                && let Some(row) = rows.next()?
            {
                found.push(ListPosition { created_at: row.get(0)?, id: row.get(1)? });
            }
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
        self.links.len() == self.limit || self.examined == MAX_EXAMINED
    }

    fn pass(&mut self, at: ListPosition) {
        self.examined += 1;
        self.last = Some(at);
    }

    fn examine(
        &mut self,
        at: ListPosition,
        read: Result<Option<Link>, Failure>,
    ) -> Result<(), Failure> {
        self.pass(at);
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

/// The queries that together list everything after a position. The first one lists the links with
/// the same creation time, by id: in one query, SQLite would find that time through the index and
/// step over all of its links.
pub(crate) fn steps(
    columns: &str,
    owner: Option<OwnerId>,
    status: Option<LinkStatus>,
    sort: Sort,
    after: Option<ListPosition>,
) -> Vec<(String, Vec<i64>)> {
    let (compare, order) = match sort {
        Sort::Newest => ("<", "DESC"),
        Sort::Oldest => (">", "ASC"),
    };
    let step = |condition: &str, values: &[i64]| {
        // The owners' index leaves out anonymous links. `owner <> 0` lets SQLite see that it can
        // use the index.
        let (index, owned, owner) = match owner {
            Some(owner) if owner != OwnerId::ANONYMOUS => {
                ("links_by_owner", "owner = ? AND owner <> 0", Some(owner.0 as i64))
            }
            _ => {
                let (index, condition) = narrowed(status);
                (index, condition, None)
            }
        };
        let sql = format!(
            "SELECT {columns} FROM links INDEXED BY {index} WHERE {owned}{condition} ORDER BY created_at {order}, \
             id {order}"
        );
        (sql, owner.into_iter().chain(values.iter().copied()).collect())
    };
    match after {
        None => vec![step("", &[])],
        Some(ListPosition { created_at, id }) => vec![
            step(&format!(" AND created_at = ? AND id {compare} ?"), &[created_at, id]),
            step(&format!(" AND created_at {compare} ?"), &[created_at]),
        ],
    }
}

/// The index of the links that can have this status, and its condition.
fn narrowed(status: Option<LinkStatus>) -> (&'static str, &'static str) {
    match status {
        None | Some(LinkStatus::Active) => ("links_by_age", "1"),
        Some(LinkStatus::Expired) => ("links_with_expiry", "expires_at IS NOT NULL"),
        Some(LinkStatus::UsedUp | LinkStatus::Scheduled) => {
            ("links_with_limits", "(max_clicks IS NOT NULL OR valid_from IS NOT NULL)")
        }
        Some(LinkStatus::Suspicious | LinkStatus::Blocked) => {
            ("links_moderated", "(flags & 48) <> 0")
        }
        Some(LinkStatus::Deleted) => ("links_deleted_by_age", "deleted_at IS NOT NULL"),
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
