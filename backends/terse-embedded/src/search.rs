//! The search index: which links contain three given characters in a row.
//!
//! A write puts the link into the table `unindexed`, in its own transaction; the indexer thread
//! moves such links into the index later, many at a time, which costs half of what it would cost
//! within each write. A search reads the index and the waiting links, so it misses none. A link is
//! either waiting, or in the index with the texts that it has now: before they change, it is taken
//! out.
//!
//! A row of the index has the number `created_at << 21 | id % 2^21`, so that reading it in order
//! gives the links by age. Two links may share a number; a search compares the links themselves.

use rusqlite::{OptionalExtension, params};
use terse_core::{Domain, Link, OwnerId, Sort};
use xxhash_rust::xxh3::xxh3_64;

use crate::failure::Failure;
use crate::list::ListPosition;
use crate::queries::LinkQueries;
use crate::writes::LinkWrites;

const TIE_BITS: u32 = 21;
const TIES: i64 = 1 << TIE_BITS;
/// More trigrams of a long text make a search slower and hardly ever leave out more links.
const MAX_TRIGRAMS: usize = 12;

/// The number of a link's row in the index.
pub(crate) fn position(at: ListPosition) -> i64 {
    (first_position(at.created_at)) | (at.id & (TIES - 1))
}

/// The first and the last number of links that were created in this millisecond.
fn first_position(created_at: i64) -> i64 {
    const MAX_TIME: i64 = i64::MAX >> TIE_BITS;
    created_at.clamp(-MAX_TIME, MAX_TIME) << TIE_BITS
}

pub(crate) fn positions_at(created_at: i64) -> (i64, i64) {
    let first = first_position(created_at);
    (first, first | (TIES - 1))
}

pub(crate) fn created_at(position: i64) -> i64 {
    position >> TIE_BITS
}

/// Three characters from a private-use plane of Unicode, which form one trigram that no text of a
/// link contains.
fn mark(kind: u8, value: &[u8]) -> String {
    let hash = xxh3_64(&[&[kind], value].concat());
    [hash, hash >> 15, hash >> 30]
        .iter()
        .filter_map(|bits| char::from_u32(0xF0000 + (*bits as u32 & 0x7FFF)))
        .collect()
}

fn owner_mark(owner: OwnerId) -> Option<String> {
    (owner != OwnerId::ANONYMOUS).then(|| mark(b'o', &owner.0.to_le_bytes()))
}

fn domain_mark(domain: &Domain) -> Option<String> {
    (*domain != Domain::primary()).then(|| mark(b'd', domain.as_str().as_bytes()))
}

fn tag_mark(tag: &str) -> String {
    mark(b't', tag.as_bytes())
}

/// A target without its scheme, whose trigrams nearly all links have.
fn without_scheme(target: &str) -> &str {
    target.strip_prefix("https:").or_else(|| target.strip_prefix("http:")).unwrap_or(target)
}

/// All targets of a link, also those of its redirect rules.
fn targets(link: &Link) -> String {
    let targets: Vec<_> = link.targets().map(|target| without_scheme(target.as_str())).collect();
    targets.join("\n")
}

/// The part of a searched text that is not in the scheme of a target, if the text begins there.
fn beyond_scheme(text: &str) -> &str {
    for scheme in ["https:", "http:"] {
        if scheme.contains(text) {
            return "";
        }
        for start in 0..scheme.len() {
            if let Some(rest) = text.strip_prefix(&scheme[start..])
                && (rest.starts_with("//") || rest == "/")
            {
                return rest;
            }
        }
    }
    text
}

/// An FTS5 MATCH expression.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Match(String);

impl Match {
    /// The links with all of these. `None` if the index cannot narrow the links down.
    pub(crate) fn of(
        text: Option<&str>,
        owner: Option<OwnerId>,
        domain: Option<&Domain>,
        tag: Option<&str>,
    ) -> Option<Self> {
        let mut trigrams = trigrams(&text.unwrap_or_default().to_ascii_lowercase());
        trigrams.extend(tag.map(tag_mark));
        trigrams.extend(domain.and_then(domain_mark));
        if trigrams.is_empty() {
            return None;
        }
        trigrams.extend(owner.and_then(owner_mark));
        let quoted: Vec<_> =
            trigrams.iter().map(|part| format!("\"{}\"", part.replace('"', "\"\""))).collect();
        Some(Self(quoted.join(" AND ")))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The different trigrams of a text, or some that are spread over it if there are many.
fn trigrams(text: &str) -> Vec<String> {
    let characters: Vec<char> = beyond_scheme(text).chars().collect();
    let mut all: Vec<String> = Vec::new();
    for window in characters.windows(3).filter(|window| !window.contains(&'\0')) {
        let trigram = window.iter().collect();
        if !all.contains(&trigram) {
            all.push(trigram);
        }
    }
    let step = all.len().div_ceil(MAX_TRIGRAMS).max(1);
    all.into_iter().step_by(step).collect()
}

/// Whether two links have the same entry in the index.
fn is_indexed_alike(a: &Link, b: &Link) -> bool {
    a.targets().eq(b.targets()) && a.title == b.title && a.tags == b.tags
}

fn position_of(id: i64, link: &Link) -> ListPosition {
    ListPosition { created_at: link.created_at.as_ms(), id }
}

impl LinkQueries {
    /// Links before this one are not in the index.
    pub(crate) fn search_floor(&self) -> rusqlite::Result<Option<ListPosition>> {
        let mut statement =
            self.conn.prepare_cached("SELECT value FROM meta WHERE name = 'search_floor'")?;
        let text: Option<String> = statement.query_row([], |row| row.get(0)).optional()?;
        Ok(text.map(|text| {
            let parsed = text.split_once(' ').and_then(|(created_at, id)| {
                Some(ListPosition { created_at: created_at.parse().ok()?, id: id.parse().ok()? })
            });
            // All links are read, and indexed again.
            parsed.unwrap_or(ListPosition { created_at: i64::MAX, id: i64::MAX })
        }))
    }

    /// Whether links wait for the indexer.
    pub(crate) fn has_unindexed(&self) -> Result<bool, Failure> {
        let sql = "SELECT EXISTS (SELECT 1 FROM unindexed) \
             OR EXISTS (SELECT 1 FROM meta WHERE name = 'search_floor')";
        Ok(self.conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
    }

    /// The links that have this number in the index.
    pub(crate) fn links_at(&self, position: i64) -> Result<Vec<ListPosition>, Failure> {
        let (created_at, tie) = (created_at(position), position & (TIES - 1));
        let mut statement = self.conn.prepare_cached(NEXT_OF_THE_SAME_TIME)?;
        let mut found = Vec::new();
        // From one possible id to the next: many links may have been imported with one time.
        let mut from = Some(tie);
        while let Some(possible) = from {
            let next: Option<i64> =
                statement.query_row([created_at, possible], |row| row.get(0)).optional()?;
            let Some(id) = next else { break };
            if id & (TIES - 1) == tie {
                found.push(ListPosition { created_at, id });
                from = id.checked_add(TIES);
            } else {
                let possible = (id & !(TIES - 1)) | tie;
                from = if possible > id { Some(possible) } else { possible.checked_add(TIES) };
            }
        }
        Ok(found)
    }
}

pub(crate) const NEXT_OF_THE_SAME_TIME: &str = "SELECT id FROM links INDEXED BY links_by_age \
     WHERE created_at = ?1 AND id >= ?2 ORDER BY id LIMIT 1";

impl LinkWrites {
    /// Makes the link wait for the indexer. Links before the floor wait anyway.
    pub(crate) fn index_later(&mut self, id: i64, link: &Link) -> Result<(), Failure> {
        let at = position_of(id, link);
        self.links_to_index = true;
        if self.floor.is_some_and(|floor| at < floor) {
            return Ok(());
        }
        let sql = "INSERT OR IGNORE INTO unindexed VALUES (?1, ?2)";
        self.conn.prepare_cached(sql)?.execute([at.created_at, at.id])?;
        Ok(())
    }

    /// Takes a link out of the index if its texts change, and makes it wait for the indexer again.
    pub(crate) fn index_again(&mut self, id: i64, old: &Link, new: &Link) -> Result<(), Failure> {
        if is_indexed_alike(old, new) {
            return Ok(());
        }
        self.take_out(id, old)?;
        self.index_later(id, new)
    }

    /// Removes a link that is deleted from the index, and from the links that wait. Returns whether
    /// its trigrams were erased.
    pub(crate) fn unindex(&mut self, id: i64, link: &Link) -> Result<bool, Failure> {
        let erased = self.take_out(id, link)? && link.owner != OwnerId::ANONYMOUS;
        let sql = "DELETE FROM unindexed WHERE created_at = ?1 AND id = ?2";
        self.conn.prepare_cached(sql)?.execute([link.created_at.as_ms(), id])?;
        Ok(erased)
    }

    fn is_indexed(&self, at: ListPosition) -> Result<bool, Failure> {
        if self.floor.is_some_and(|floor| at < floor) {
            return Ok(false);
        }
        let sql = "SELECT EXISTS (SELECT 1 FROM unindexed WHERE created_at = ?1 AND id = ?2)";
        let waits: bool =
            self.conn.prepare_cached(sql)?.query_row([at.created_at, at.id], |row| row.get(0))?;
        Ok(!waits)
    }

    /// Takes a link out of the index, if it is in there. Links with the same number would lose
    /// trigrams, so they are indexed again.
    fn take_out(&mut self, id: i64, link: &Link) -> Result<bool, Failure> {
        let at = position_of(id, link);
        if !self.is_indexed(at)? {
            return Ok(false);
        }
        // Erases the trigrams of an owner's link, which takes a millisecond. Anonymous links are
        // many and short-lived: their trigrams stay until FTS5 merges its segments.
        self.erase_trigrams(link.owner != OwnerId::ANONYMOUS)?;
        self.change_index("'delete', ?1", at, link)?;
        for twin in self.links_at(position(at))? {
            if twin != at
                && self.is_indexed(twin)?
                && let Some(other) = self.link(twin.id, None)?
            {
                self.change_index("'delete', ?1", twin, &other)?;
                self.index_later(twin.id, &other)?;
            }
        }
        Ok(true)
    }

    /// Sets whether FTS5 erases the trigrams of links that it deletes, instead of marking them. The
    /// setting at the time of the flush applies to all deletions that FTS5 has collected.
    fn erase_trigrams(&mut self, erase: bool) -> Result<(), Failure> {
        if self.erases_trigrams != Some(erase) {
            self.write_index("INSERT INTO search(search) VALUES ('flush')", [])?;
            self.write_index(
                "INSERT INTO search(search, rank) VALUES ('secure-delete', ?1)",
                [erase],
            )?;
            self.erases_trigrams = Some(erase);
        }
        Ok(())
    }

    fn change_index(&mut self, row: &str, at: ListPosition, link: &Link) -> Result<(), Failure> {
        let command = if row.starts_with('\'') { "search, " } else { "" };
        let sql = format!(
            "INSERT INTO search({command}rowid, code, target, title, owner, domain, tags) \
             VALUES ({row}, ?2, ?3, ?4, ?5, ?6, ?7)"
        );
        let tags: String = link.tags.iter().map(tag_mark).collect();
        self.write_index(
            &sql,
            params![
                position(at),
                link.key.code.as_str(),
                targets(link),
                link.title.as_ref().map(terse_core::Title::as_str),
                owner_mark(link.owner),
                domain_mark(&link.key.domain),
                Some(tags).filter(|tags| !tags.is_empty()),
            ],
        )
    }

    /// Puts up to `limit` links that wait into the index. Returns whether more are waiting.
    pub(crate) fn index_waiting(&mut self, limit: usize) -> Result<bool, Failure> {
        let mut waiting = self.waiting(limit)?;
        let mut floor = None;
        if waiting.is_empty() {
            // From the newest to the oldest: these are searched for most.
            floor = self.floor;
            let Some(floor) = floor else { return Ok(false) };
            waiting = self.keys(None, Sort::Newest, Some(floor), limit)?;
        }
        // FTS5 takes rows in order much faster.
        waiting.sort_unstable_by_key(|at| position(*at));
        for at in &waiting {
            match self.link(at.id, None) {
                Ok(Some(link)) => self.change_index("?1", *at, &link)?,
                Ok(None) => {}
                Err(Failure::Refused(error)) => {
                    tracing::error!(%error, "left a damaged link out of the search index");
                }
                Err(error) => return Err(error),
            }
            if floor.is_none() {
                let sql = "DELETE FROM unindexed WHERE created_at = ?1 AND id = ?2";
                self.conn.prepare_cached(sql)?.execute([at.created_at, at.id])?;
            }
        }
        if floor.is_some() {
            self.lower_floor(&waiting)?;
        }
        self.has_unindexed()
    }

    /// All but the links below the lowest of these are in the index now.
    fn lower_floor(&mut self, indexed: &[ListPosition]) -> Result<(), Failure> {
        self.floor = indexed.iter().min().copied();
        match self.floor {
            None => {
                self.conn.execute("DELETE FROM meta WHERE name = 'search_floor'", [])?;
            }
            Some(lowest) => {
                let text = format!("{} {}", lowest.created_at, lowest.id);
                self.conn
                    .prepare_cached("UPDATE meta SET value = ?1 WHERE name = 'search_floor'")?
                    .execute([text])?;
            }
        }
        Ok(())
    }

    fn waiting(&self, limit: usize) -> Result<Vec<ListPosition>, Failure> {
        let mut statement =
            self.conn.prepare_cached("SELECT created_at, id FROM unindexed LIMIT ?1")?;
        let found = statement.query_map([limit as i64], |row| {
            Ok(ListPosition { created_at: row.get(0)?, id: row.get(1)? })
        })?;
        Ok(found.collect::<Result<_, _>>()?)
    }
}

#[cfg(test)]
mod tests;
