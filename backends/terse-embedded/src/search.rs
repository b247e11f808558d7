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
    const MOST: i64 = i64::MAX >> TIE_BITS;
    created_at.clamp(-MOST, MOST) << TIE_BITS
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
    a.target == b.target && a.title == b.title && a.tags == b.tags
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
                without_scheme(link.target.as_str()),
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
mod tests {
    use std::path::Path;

    use terse_core::{Insert, LinkStatus, LinkStore, ListQuery, Tags, Title};
    use terse_testkit::{alias, generated, timestamp};

    use super::*;
    use crate::{Embedded, EmbeddedOptions};

    #[test]
    fn a_text_has_the_trigrams_that_every_link_with_it_has() {
        for (text, want) in [
            ("", &[][..]),
            ("ab", &[]),
            ("abc", &["abc"]),
            ("abcd", &["abc", "bcd"]),
            ("aaaa", &["aaa"]),
            ("größe", &["grö", "röß", "öße"]),
            ("http", &[]),
            ("ttps:", &[]),
            ("https://ab", &["//a", "/ab"]),
            ("s://ab", &["//a", "/ab"]),
            ("s:/", &[]),
            (":80", &[":80"]),
            ("shop", &["sho", "hop"]),
            ("a\0b", &[]),
        ] {
            assert_eq!(trigrams(text), want, "{text}");
        }
        let long: String = ('a'..='z').chain('0'..='9').collect();
        assert!((6..=MAX_TRIGRAMS).contains(&trigrams(&long).len()));
    }

    #[test]
    fn the_numbers_of_the_index_have_the_order_of_the_times() {
        let at = |created_at, id| position(ListPosition { created_at, id });
        assert!(at(5, 9) < at(6, 0) && at(-5, 0) < at(0, 0) && at(5, 1) < at(5, 2));
        assert_eq!(at(5, 7), at(5, (1 << 61) + 7));
        for time in [-70_000, 0, 1, 1_794_000_000_000] {
            assert_eq!(created_at(at(time, (1 << 61) + 12345)), time);
        }
    }

    fn open(folder: &Path) -> Embedded {
        Embedded::open(EmbeddedOptions::new(folder.join("terse.db"))).unwrap()
    }

    async fn put(store: &Embedded, links: Vec<Link>) {
        let write = move |writes: &mut LinkWrites| {
            for link in &links {
                writes.insert(&Insert::new(link.clone(), None))?;
            }
            Ok(())
        };
        store.threads().write(write).await.unwrap();
    }

    async fn index(store: &Embedded) {
        while store.threads().write(|writes| writes.index_waiting(500)).await.unwrap() {}
    }

    /// Empties the index, as it is after the upgrade of a file from before there was one.
    async fn forget_index(store: &Embedded) {
        let forget = |writes: &mut LinkWrites| {
            writes.conn.execute_batch(
                "INSERT INTO search(search) VALUES ('delete-all'); DELETE FROM unindexed; \
                 INSERT OR REPLACE INTO meta VALUES \
                 ('search_floor', '9223372036854775807 9223372036854775807')",
            )?;
            writes.floor = writes.search_floor()?;
            Ok(())
        };
        store.threads().write(forget).await.unwrap();
    }

    fn all(sort: Sort) -> ListQuery {
        ListQuery::all(sort, 7, timestamp(1))
    }

    async fn found(store: &Embedded, query: &ListQuery) -> Vec<String> {
        let (mut query, mut codes) = (query.clone(), Vec::new());
        loop {
            let page = store.list(&query).await.unwrap();
            codes.extend(page.links.iter().map(|link| link.key.code.to_string()));
            query.after = page.next;
            if query.after.is_none() {
                return codes;
            }
        }
    }

    /// Links with few different times, owners, tags and words, so that they share many trigrams.
    async fn mixed(store: &Embedded) -> Vec<Link> {
        let numbering = terse_core::Numbering::new(store.identity());
        let range = store.lease(7, 300, numbering.capacity(7), 0).await.unwrap();
        let words = ["spring", "summer", "Sale", "über-uns", "news"];
        let links: Vec<Link> = (0..300u64)
            .map(|n| {
                let (a, b) = (words[(n % 5) as usize], words[(n / 5 % 5) as usize]);
                let target = format!("https://{a}.example/{b}?{n}");
                let mut link = if n.is_multiple_of(2) {
                    generated(numbering.code(7, range.start + n / 2).as_str(), &target)
                } else {
                    alias(&format!("named-{n}-news"), &target)
                };
                link.owner = OwnerId(n % 4);
                link.created_at = timestamp((n * 7919 % 20) as i64);
                link.updated_at = link.created_at;
                link.title = n.is_multiple_of(3).then(|| Title::from_stored(format!("{b} {a}")));
                link.tags = Tags::from_stored(["", "x", "x,y", "y"][(n / 3 % 4) as usize]);
                link
            })
            .collect();
        put(store, links.clone()).await;
        links
    }

    async fn check(store: &Embedded, when: &str) {
        for sort in [Sort::Newest, Sort::Oldest] {
            let everything = {
                let mut query = ListQuery { limit: 1000, ..all(sort) };
                query.text = None;
                store.list(&query).await.unwrap().links
            };
            assert_eq!(everything.len(), 300, "{when}");
            for text in
                [None, Some("SPRING"), Some("//sale"), Some("uns?1"), Some("-NEWS"), Some("absent")]
            {
                for owner in [None, Some(OwnerId(1)), Some(OwnerId(0))] {
                    for tag in [None, Some("x")] {
                        let query = ListQuery {
                            text: text.map(str::to_owned),
                            owner,
                            tag: tag.map(str::to_owned),
                            ..all(sort)
                        };
                        let want: Vec<String> = everything
                            .iter()
                            .filter(|link| {
                                let text = text.unwrap_or_default().to_ascii_lowercase();
                                let has = |part: &str| part.to_ascii_lowercase().contains(&text);
                                (has(link.target.as_str())
                                    || has(link.key.code.as_str())
                                    || link.title.as_ref().is_some_and(|it| has(it.as_str())))
                                    && owner.is_none_or(|owner| link.owner == owner)
                                    && tag.is_none_or(|tag| link.tags.iter().any(|it| it == tag))
                            })
                            .map(|link| link.key.code.to_string())
                            .collect();
                        assert_eq!(found(store, &query).await, want, "{when}: {query:?}");
                    }
                }
            }
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_search_finds_links_before_while_and_after_they_are_indexed() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        // This test indexes by itself.
        store.stop_indexing();
        mixed(&store).await;
        check(&store, "just written").await;
        index(&store).await;
        check(&store, "indexed").await;
        forget_index(&store).await;
        check(&store, "upgraded").await;
        for limit in [1, 100, 100] {
            assert!(
                store.threads().write(move |writes| writes.index_waiting(limit)).await.unwrap()
            );
            check(&store, "in part").await;
        }
        index(&store).await;
        check(&store, "indexed again").await;
        store.close();
    }

    /// The number of a row in the index is too short for all ids.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_link_that_waits_is_found_once_beside_an_indexed_one_with_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        store.stop_indexing();
        let links = ["first", "second", "third"];
        put(&store, links.iter().map(|code| alias(code, "https://example.com/needle")).collect())
            .await;
        index(&store).await;
        // The next id that has the number of the first link.
        let skip = |writes: &mut LinkWrites| {
            writes.skip_named(TIES - 3);
            Ok(())
        };
        store.threads().write(skip).await.unwrap();
        put(&store, vec![alias("twin", "https://example.com/needle")]).await;
        for sort in [Sort::Newest, Sort::Oldest] {
            let query = ListQuery { text: Some("needle".into()), ..all(sort) };
            let mut codes = found(&store, &query).await;
            codes.sort_unstable();
            assert_eq!(codes, ["first", "second", "third", "twin"], "{sort:?}");
        }
        store.close();
    }

    /// Without the index, a page would end after 20,000 compared links.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_first_page_has_what_the_oldest_of_many_links_contains() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let link = |n: i64| {
            let mut link = alias(&format!("code-{n}"), "https://example.com/hay");
            link.created_at = timestamp(n);
            if n == 0 {
                link.title = Some(Title::from_stored("the needle".into()));
                link.tags = Tags::from_stored("rare");
                link.moderation = terse_core::ModerationStatus::Blocked;
            }
            link
        };
        put(&store, (0..21_000).map(link).collect()).await;
        index(&store).await;
        let needle = ListQuery { text: Some("NEEDLE".into()), ..all(Sort::Newest) };
        let rare = ListQuery { tag: Some("rare".into()), ..all(Sort::Newest) };
        let absent = ListQuery { text: Some("no such".into()), ..all(Sort::Newest) };
        let blocked = ListQuery { status: Some(LinkStatus::Blocked), ..all(Sort::Newest) };
        for (query, want) in [(needle, 1), (rare, 1), (blocked, 1), (absent, 0)] {
            let page = store.list(&query).await.unwrap();
            assert_eq!((page.links.len(), page.next), (want, None), "{query:?}");
        }
        store.close();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nothing_of_a_changed_or_deleted_link_stays_in_the_index() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let mut links: Vec<Link> = (0..50)
            .map(|n| {
                let target = format!("https://example.com/qzx{n}");
                Link { owner: OwnerId(7), ..alias(&format!("qzc-{n}"), &target) }
            })
            .collect();
        links.push(alias("stays", "https://example.com/"));
        put(&store, links.clone()).await;
        index(&store).await;
        for old in &links[..50] {
            let target = terse_core::Target::from_stored("https://example.com/qzy".into());
            let mut new = Link { target, ..old.clone() };
            new.revision.0 += 1;
            store.update(&new, old.revision, &[]).await.unwrap();
        }
        let text = |text: &str| ListQuery { text: Some(text.into()), ..all(Sort::Newest) };
        assert_eq!(found(&store, &text("qzx1")).await, [""; 0]);
        assert_eq!(found(&store, &text("m/qzy")).await.len(), 50);
        index(&store).await;
        assert_eq!(found(&store, &text("m/qzy")).await.len(), 50);
        for old in &links[..50] {
            let deleted_at = Some(timestamp(0));
            let mut new = Link { deleted_at, ..store_link(&store, old).await };
            let expected = new.revision;
            new.revision.0 += 1;
            store.update(&new, expected, &[]).await.unwrap();
        }
        let purged = store.purge(timestamp(1).into(), 100, None).await.unwrap();
        assert_eq!(purged.len(), 50);
        assert_eq!(found(&store, &text("example")).await, ["stays"]);
        store.close();
        let conn = rusqlite::Connection::open(folder.path().join("terse.db")).unwrap();
        conn.execute_batch("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, search, row)")
            .unwrap();
        let terms: Vec<String> = conn
            .prepare("SELECT term FROM terms")
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        assert!(terms.iter().any(|term| term == "tay"), "{terms:?}");
        let left: Vec<_> = terms.iter().filter(|term| term.contains("qz")).collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(crate::verify(&folder.path().join("terse.db")).unwrap().is_clean());
    }

    async fn store_link(store: &Embedded, link: &Link) -> Link {
        terse_core::LinkReader::get(store, &link.key).await.unwrap().unwrap()
    }
}
