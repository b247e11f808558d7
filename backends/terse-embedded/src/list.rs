//! Lists and searches.

use terse_core::{Cursor, Link, ListQuery, OwnerId, Page, Sort, Status};

use crate::failure::{Failure, corrupt};
use crate::queries::LinkQueries;
use crate::row::COLUMNS;

/// A search examines this many links, then returns what it has found and where to continue.
const MAX_EXAMINED: usize = 20_000;
/// The largest page, whatever the caller asks for.
const MAX_PAGE: usize = 1000;

impl LinkQueries {
    /// Lists links by creation time, then by id. Neither ever changes, so paging misses no link.
    pub(crate) fn list(&self, query: &ListQuery) -> Result<Page, Failure> {
        let domain = match &query.domain {
            None => None,
            Some(domain) => match self.domain_id(domain)? {
                Some(id) => Some(id),
                None => return Ok(Page { links: Vec::new(), next: None }),
            },
        };
        let after = query.after.as_ref().map(ListPosition::read).transpose()?;
        let wanted = Wanted::new(query);
        let limit = query.limit.clamp(1, MAX_PAGE);
        let mut links = Vec::new();
        let mut last = None;
        let mut examined = 0;
        for (sql, values) in steps(query.owner, query.sort, after) {
            let mut statement = self.conn.prepare_cached(&sql)?;
            let mut rows = statement.query(rusqlite::params_from_iter(values))?;
            while let Some(row) = rows.next()? {
                // There is a row beyond the page, so there is a next page.
                if links.len() == limit || examined == MAX_EXAMINED {
                    return Ok(Page { links, next: last.as_ref().map(ListPosition::write) });
                }
                examined += 1;
                last = Some(ListPosition { created_at: row.get(5)?, id: row.get(0)? });
                if domain.is_some_and(|domain| row.get(1) != Ok(domain))
                    || query.owner.is_some_and(|owner| row.get(3) != Ok(owner.0 as i64))
                {
                    continue;
                }
                match self.read(row, None) {
                    Ok(link) if wanted.matches(&link) => links.push(link),
                    Ok(_) => {}
                    // One damaged row must not hide all rows after it.
                    Err(Failure::Refused(error)) => {
                        tracing::error!(%error, "left a damaged link out of a list");
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(Page { links, next: None })
    }
}

/// The queries that together list everything after a position. The first one lists the links with
/// the same creation time, by id: in one query, SQLite would find that time through the index and
/// step over all of its links.
pub(crate) fn steps(
    owner: Option<OwnerId>,
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
        let (owned, owner) = match owner {
            Some(owner) if owner != OwnerId::ANONYMOUS => {
                (" AND owner = ? AND owner <> 0", Some(owner.0 as i64))
            }
            _ => ("", None),
        };
        let sql = format!(
            "SELECT {COLUMNS} FROM links WHERE 1{owned}{condition} ORDER BY created_at {order}, \
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

/// The conditions that need the decoded link.
struct Wanted<'a> {
    query: &'a ListQuery,
    text: Option<String>,
}

impl<'a> Wanted<'a> {
    fn new(query: &'a ListQuery) -> Self {
        Self { query, text: query.text.as_ref().map(|text| text.to_ascii_lowercase()) }
    }

    fn matches(&self, link: &Link) -> bool {
        let status = link.status(self.query.now);
        let wanted_status = match self.query.status {
            None => status != Status::Deleted,
            Some(wanted) => status == wanted,
        };
        let contains = |haystack: &str, text: &str| haystack.to_ascii_lowercase().contains(text);
        wanted_status
            && self.query.archived.is_none_or(|archived| link.archived_at.is_some() == archived)
            && self.query.tag.as_ref().is_none_or(|tag| link.tags.iter().any(|have| have == tag))
            && self.text.as_ref().is_none_or(|text| {
                contains(link.key.code.as_str(), text)
                    || contains(link.target.as_str(), text)
                    || link.title.as_ref().is_some_and(|title| contains(title.as_str(), text))
            })
    }
}

/// A position in a list.
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
