//! A damaged search index, or one of an earlier version, is replaced by a new one, which is built
//! again from the links.
//!
//! The index holds nothing that the links do not, and every change and deletion of a link changes
//! it: without this, one damaged page of the index would stop purges and erasures for good.
//!
//! FTS5 keeps changes in memory that it can neither write to a damaged index nor forget within the
//! transaction. So the writer rolls the transaction back, replaces the index, and runs the jobs
//! again.

use rusqlite::{Connection, ErrorCode, Params};

use crate::failure::{Failure, is_damage};
use crate::list::ListPosition;
use crate::queries::LinkQueries;
use crate::writes::LinkWrites;

/// The tables of FTS5.
const TABLES: [&str; 3] = ["search_data", "search_idx", "search_config"];

const CREATE: &str = "CREATE VIRTUAL TABLE search USING fts5(code, target, title, owner, domain, \
     tags, content = '', columnsize = 0, detail = none, tokenize = 'trigram')";

/// With this floor, every link waits for the indexer.
const ABOVE_ALL: ListPosition = ListPosition { created_at: i64::MAX, id: i64::MAX };

/// Whether a statement that reads or writes nothing but the index failed because of damage. FTS5
/// does not always name the cause.
fn is_index_damage(error: &rusqlite::Error) -> bool {
    is_damage(error) || error.sqlite_error_code() == Some(ErrorCode::Unknown)
}

impl LinkQueries {
    /// Row numbers that the index names. If it is damaged, the indexer replaces it.
    pub(crate) fn indexed_numbers(
        &self,
        sql: &str,
        parameters: impl Params,
    ) -> Result<Vec<i64>, Failure> {
        let read = || {
            let mut statement = self.conn.prepare_cached(sql)?;
            let numbers = statement.query_map(parameters, |row| row.get(0))?;
            numbers.collect::<rusqlite::Result<_>>()
        };
        read().map_err(|error| {
            if is_index_damage(&error) {
                self.index_damaged.set(true);
                self.index_signal.damaged();
            }
            error.into()
        })
    }
}

impl LinkWrites {
    /// Runs a statement that writes nothing but the index.
    pub(crate) fn write_index(&mut self, sql: &str, values: impl Params) -> Result<(), Failure> {
        self.index_written = true;
        let written = self.conn.prepare_cached(sql).and_then(|mut it| it.execute(values));
        written.map(|_| ()).map_err(|error| {
            self.index_damaged |= is_index_damage(&error);
            error.into()
        })
    }

    /// Makes FTS5 write what it has collected, so that damage is not an error of the commit.
    pub(crate) fn flush_index(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.index_written) {
            self.write_index("INSERT INTO search(search) VALUES ('flush')", [])?;
            self.index_written = false;
        }
        Ok(())
    }

    /// Makes the writer replace an index that a search found to be damaged, unless it was replaced
    /// since.
    pub(crate) fn report_damaged_index(&mut self) -> Result<(), Failure> {
        if self.floor == Some(ABOVE_ALL) {
            return Ok(());
        }
        self.index_damaged = true;
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
        let text = "a search could not read the index".to_owned();
        Err(Failure::Engine(rusqlite::Error::SqliteFailure(code, Some(text))))
    }

    /// Replaces a damaged index, outside of a transaction.
    pub(crate) fn replace_damaged_index(
        &mut self,
        error: &rusqlite::Error,
    ) -> rusqlite::Result<()> {
        tracing::error!(%error, "the search index is damaged; it is built again from the links");
        self.replace_index()
    }

    /// Replaces an index that an earlier version wrote, if this version writes other texts. It may
    /// be damaged, too.
    pub(crate) fn replace_outdated_index(&mut self) -> rusqlite::Result<()> {
        let sql = "SELECT EXISTS (SELECT 1 FROM meta WHERE name = 'search_outdated')";
        if self.conn.query_row(sql, [], |row| row.get(0))? {
            tracing::info!("the search index is of an earlier version; it is built again");
            self.replace_index()?;
        }
        Ok(())
    }

    fn replace_index(&mut self) -> rusqlite::Result<()> {
        let aside = self.conn.query_row(
            "SELECT 'damaged_' || (count(*) + 1) FROM sqlite_schema WHERE name GLOB 'damaged_*'",
            [],
            |row| row.get::<_, String>(0),
        )?;
        // SQLite cannot delete a table with a damaged page, and cannot even open an index whose
        // settings are damaged. So the tables get other names, and the index leaves the schema.
        let renames = TABLES.map(|table| format!("ALTER TABLE {table} RENAME TO {aside}_{table};"));
        let replaced = self.conn.execute_batch(&format!(
            "BEGIN IMMEDIATE; PRAGMA writable_schema = ON; \
             DELETE FROM sqlite_schema WHERE type = 'table' AND name = 'search'; \
             PRAGMA writable_schema = RESET; \
             {} {CREATE}; DELETE FROM unindexed; DELETE FROM meta WHERE name = 'search_outdated'; \
             INSERT OR REPLACE INTO meta VALUES ('search_floor', '{} {}'); COMMIT",
            renames.concat(),
            ABOVE_ALL.created_at,
            ABOVE_ALL.id
        ));
        if replaced.is_err() {
            self.conn.execute_batch("PRAGMA writable_schema = RESET")?;
            if !self.conn.is_autocommit() {
                self.conn.execute_batch("ROLLBACK")?;
            }
        }
        replaced?;
        drop_damaged_tables(&self.conn)?;
        self.index_signal.notify();
        Ok(())
    }
}

/// Drops the tables of replaced indexes, also those that a killed process left: they reveal which
/// link contains which text.
pub(crate) fn drop_damaged_tables(conn: &Connection) -> rusqlite::Result<()> {
    let mut statement = conn
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'damaged_*'")?;
    let tables = statement.query_map([], |row| row.get(0))?;
    let tables = tables.collect::<rusqlite::Result<Vec<String>>>()?;
    drop(statement);
    for table in tables {
        match conn.execute_batch(&format!("DROP TABLE {table}")) {
            Err(error) if is_damage(&error) => {
                tracing::error!(%error, table, "the pages of a damaged table of the old index are lost");
                if table.ends_with("data") {
                    overwrite(conn, &table)?;
                }
                // Its pages are lost, and a backup, which copies the tables, leaves them out.
                conn.execute_batch(&format!(
                    "PRAGMA writable_schema = ON; \
                     DELETE FROM sqlite_schema WHERE tbl_name = '{table}'; \
                     PRAGMA writable_schema = RESET"
                ))?;
            }
            other => other?,
        }
    }
    Ok(())
}

/// Overwrites the rows of a damaged table that can be reached from its ends: they reveal which link
/// contains which text.
fn overwrite(conn: &Connection, table: &str) -> rusqlite::Result<()> {
    let mut rows: Vec<i64> = Vec::new();
    for order in ["ASC", "DESC"] {
        let Ok(mut statement) =
            conn.prepare(&format!("SELECT id FROM {table} ORDER BY id {order}"))
        else {
            continue;
        };
        let found = statement.query_map([], |row| row.get::<_, i64>(0))?;
        rows.extend(found.map_while(Result::ok));
    }
    let transaction = conn.unchecked_transaction()?;
    let sql = format!("UPDATE {table} SET block = zeroblob(length(block)) WHERE id = ?1");
    let mut statement = conn.prepare(&sql)?;
    for row in rows {
        match statement.execute([row]) {
            Err(error) if is_damage(&error) => {}
            other => drop(other?),
        }
    }
    drop(statement);
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rusqlite::Connection;
    use terse_core::{Insert, Link, LinkStore, ListQuery, OwnerId, Sort};
    use terse_testkit::{alias, timestamp};

    use crate::{EmbeddedLinks, EmbeddedOptions};

    /// Enough links for an index with leaves and inner pages.
    const LINKS: usize = 250;
    const DELETED: usize = 100;

    fn open(db: &Path) -> EmbeddedLinks {
        EmbeddedLinks::open(EmbeddedOptions::new(db.to_owned())).unwrap()
    }

    /// Links with an owner, some of them deleted, all in the index.
    async fn fill(db: &Path) {
        let store = open(db);
        store.stop_indexing();
        let links: Vec<Link> = (0..LINKS)
            .map(|n| {
                let target = format!("https://example-{n}.com/{:x}/needle", n * 7919 * 104_729);
                let mut link = alias(&format!("code-{n}"), &target);
                link.owner = OwnerId(7);
                link.created_at = timestamp(n as i64);
                link.deleted_at = (n < DELETED).then(|| timestamp(0));
                link
            })
            .collect();
        let write = move |writes: &mut crate::writes::LinkWrites| {
            for link in &links {
                writes.insert(&Insert::new(link.clone(), None))?;
            }
            while writes.index_waiting(100)? {}
            Ok(())
        };
        store.threads().write(write).await.unwrap();
        store.close();
    }

    /// The pages of the index, by table.
    fn pages(db: &Path) -> Vec<(String, usize)> {
        let conn = Connection::open(db).unwrap();
        let mut statement =
            conn.prepare("SELECT name, pageno FROM dbstat WHERE name GLOB 'search_*'").unwrap();
        let pages =
            statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as usize)));
        pages.unwrap().collect::<Result<_, _>>().unwrap()
    }

    async fn purge(store: &EmbeddedLinks) -> usize {
        let mut purged = 0;
        loop {
            let some = store.purge(timestamp(1).into(), 1000, None).await.unwrap().len();
            purged += some;
            if some == 0 {
                return purged;
            }
        }
    }

    async fn found(store: &EmbeddedLinks, text: &str) -> usize {
        let mut query = ListQuery::all(Sort::Newest, 1000, timestamp(1));
        query.text = Some(text.into());
        let mut found = 0;
        loop {
            let page = store.list(&query).await.unwrap();
            found += page.links.len();
            query.after = page.next;
            if query.after.is_none() {
                return found;
            }
        }
    }

    async fn index(store: &EmbeddedLinks) {
        while store.threads().write(|writes| writes.index_waiting(500)).await.unwrap() {}
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_damaged_index_stops_no_purge_and_is_built_again() {
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path().join("whole.db");
        fill(&whole).await;
        let pages = pages(&whole);
        assert!(pages.len() > 10, "{pages:?}");
        for fill in [0, 0xa5] {
            for (table, page) in &pages {
                let what = format!("page {page} of {table}, {fill}");
                let db = folder.path().join(format!("damaged-{page}-{fill}.db"));
                let mut bytes = std::fs::read(&whole).unwrap();
                bytes[(page - 1) * 4096..page * 4096].fill(fill);
                std::fs::write(&db, bytes).unwrap();
                let store = open(&db);
                store.stop_indexing();
                assert_eq!(purge(&store).await, DELETED, "{what}");
                let new = Link { owner: OwnerId(7), ..alias("new", "https://example.com/needle") };
                store.insert(Insert::new(new, None)).await.unwrap();
                index(&store).await;
                assert_eq!(found(&store, "needle").await, LINKS - DELETED + 1, "{what}");
                assert_eq!(found(&store, "example-249.").await, 1, "{what}");
                store.close();
                let copy = db.with_extension("copy");
                crate::backup(&db, &copy).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(crate::verify(&copy).unwrap().is_clean(), "{what}");
            }
        }
    }

    /// A process that is killed after it has replaced the index leaves the old tables.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_next_start_deletes_what_a_killed_process_left_of_a_damaged_index() {
        let folder = tempfile::tempdir().unwrap();
        let db = folder.path().join("terse.db");
        fill(&db).await;
        let conn = Connection::open(&db).unwrap();
        conn.execute_batch(
            "CREATE TABLE damaged_1_search_data (id INTEGER PRIMARY KEY, block BLOB);
             CREATE TABLE damaged_1_search_idx (segid, term, pgno, PRIMARY KEY (segid, term))
                 WITHOUT ROWID;
             CREATE TABLE damaged_2_search_data (id INTEGER PRIMARY KEY, block BLOB);
             INSERT INTO damaged_1_search_data VALUES (1, 'the words of a link');
             INSERT INTO damaged_2_search_data VALUES (1, 'the words of a link');",
        )
        .unwrap();
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'damaged_2_search_data'";
        let page: usize = conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() as usize;
        conn.close().unwrap();
        // The second table cannot be read.
        let mut bytes = std::fs::read(&db).unwrap();
        bytes[(page - 1) * 4096..(page - 1) * 4096 + 100].fill(0xa5);
        std::fs::write(&db, bytes).unwrap();
        let store = open(&db);
        assert_eq!(found(&store, "needle").await, LINKS - DELETED);
        store.close();
        let conn = Connection::open(&db).unwrap();
        let sql = "SELECT count(*) FROM sqlite_schema WHERE name GLOB 'damaged_*'";
        assert_eq!(conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
        conn.close().unwrap();
        let bytes = std::fs::read(&db).unwrap();
        let words = b"the words of a link";
        let left = bytes.windows(words.len()).filter(|found| found == words).count();
        assert_eq!(left, 1, "only what is on a page that cannot be read");
    }

    /// Before version 15 the index had no targets of redirect rules.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_index_of_an_earlier_version_is_built_again_if_there_are_rules() {
        for (rules, damaged) in [(true, false), (true, true), (false, false)] {
            let what = format!("rules: {rules}, damaged: {damaged}");
            let folder = tempfile::tempdir().unwrap();
            let db = folder.path().join("terse.db");
            fill(&db).await;
            let store = open(&db);
            if rules {
                let to = r#"[{"country": "AT", "to": "https://elsewhere.example/"}]"#;
                let rules = terse_core::rules::Rules::from_stored(to);
                let link = Link { rules, ..alias("ruled", "https://example.com/needle") };
                store.insert(Insert::new(link, None)).await.unwrap();
            }
            index(&store).await;
            store.close();
            let conn = Connection::open(&db).unwrap();
            // As version 14 left it: here, an index without anything.
            conn.execute_batch(
                "INSERT INTO search(search) VALUES ('delete-all');
                 DROP INDEX links_of_owner; DROP INDEX links_in_state; DROP INDEX links_scheduled;
                 ALTER TABLE links DROP COLUMN state;
                 PRAGMA user_version = 14",
            )
            .unwrap();
            if damaged {
                conn.execute_batch("UPDATE search_data SET block = x'a5a5a5a5a5'").unwrap();
            }
            conn.close().unwrap();
            let store = open(&db);
            index(&store).await;
            assert_eq!(found(&store, "elsewhere").await, usize::from(rules), "{what}");
            let all = if rules { LINKS - DELETED + 1 } else { 0 };
            assert_eq!(found(&store, "needle").await, all, "{what}: it is built again or kept");
            store.close();
            assert!(crate::verify(&db).unwrap().is_clean(), "{what}");
        }
    }

    /// Damage that no write finds, because it is in another part of the index.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_search_in_a_damaged_index_finds_the_links_and_has_it_built_again() {
        let folder = tempfile::tempdir().unwrap();
        let db = folder.path().join("terse.db");
        fill(&db).await;
        let conn = Connection::open(&db).unwrap();
        conn.execute_batch("UPDATE search_data SET block = x'a5a5a5a5a5' WHERE id > 100").unwrap();
        conn.close().unwrap();
        let store = open(&db);
        assert_eq!(found(&store, "needle").await, LINKS - DELETED);
        assert_eq!(found(&store, "example-249.").await, 1);
        let begun = std::time::Instant::now();
        loop {
            // Only an index without damage passes.
            let check = |writes: &mut crate::writes::LinkWrites| {
                let sql = "SELECT count(*) FROM search WHERE search MATCH '\"nee\"'";
                Ok(writes.conn.query_row(sql, [], |row| row.get::<_, i64>(0))?)
            };
            if store.threads().write(check).await.ok() == Some(LINKS as i64) {
                break;
            }
            assert!(begun.elapsed() < std::time::Duration::from_secs(30), "still damaged");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert_eq!(found(&store, "needle").await, LINKS - DELETED);
        store.close();
        assert!(crate::verify(&db).unwrap().is_clean());
    }
}
