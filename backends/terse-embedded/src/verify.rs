//! Full checks of a links file.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use terse_core::Numbering;

use crate::engine::{DbLocation, connect_reader};
use crate::failure::Failure;
use crate::issued_codes::IssuedCodes;
use crate::options::EmbeddedOpenError;
use crate::queries::LinkQueries;
use crate::row::{COLUMNS, FIRST_NAMED};
use crate::schema;

/// Problems beyond this number are only counted.
const MAX_SHOWN: usize = 100;

/// What is wrong with a file.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Problems {
    /// The number of problems.
    pub count: u64,
    /// The first hundred problems.
    pub shown: Vec<String>,
}

impl Problems {
    pub(crate) fn add(&mut self, problem: String) {
        self.count += 1;
        if self.shown.len() < MAX_SHOWN {
            self.shown.push(problem);
        }
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LinkFileCheck {
    /// The number of readable links.
    pub links: u64,
    /// The problems found.
    pub problems: Problems,
}

impl LinkFileCheck {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.problems.count == 0
    }
}

/// A quick check: whether this is a links file of terse, of a known version, with a readable
/// identity. Works while the store is in use.
pub fn inspect(db: &Path) -> Result<(), EmbeddedOpenError> {
    let conn = connect_reader(&DbLocation::at(db))?;
    schema::LINKS.inspect(&conn, db)?;
    schema::stored_identity(&conn)?
        .map(|_| ())
        .ok_or_else(|| EmbeddedOpenError::NotTerse(db.to_owned()))
}

/// Checks every page, every index, every link's checksum, every revision and every alias. Works
/// while the store is in use.
pub fn verify(db: &Path) -> Result<LinkFileCheck, EmbeddedOpenError> {
    let conn = connect_reader(&DbLocation::at(db))?;
    // One transaction, so that all queries read the same state.
    conn.execute_batch("BEGIN")?;
    let identity = schema::stored_identity(&conn)?
        .ok_or_else(|| EmbeddedOpenError::NotTerse(db.to_owned()))?;
    let numbering = Numbering::new(&identity);
    let issued = Arc::new(IssuedCodes::load(&conn, &numbering)?);
    let queries = LinkQueries::new(conn, numbering, issued, Arc::default());
    let mut report = LinkFileCheck::default();
    check_pages(&queries.conn, &mut |problem| report.problems.add(problem))?;
    check_links(&queries, &mut report)?;
    check_aliases(&queries, &mut report)?;
    check_history(&queries, &mut report)?;
    Ok(report)
}

pub(crate) fn check_pages(conn: &Connection, tell: &mut dyn FnMut(String)) -> rusqlite::Result<()> {
    let mut statement = conn.prepare("PRAGMA integrity_check(1000)")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let word: String = row.get(0)?;
        if word != "ok" {
            tell(word);
        }
    }
    Ok(())
}

fn check_links(queries: &LinkQueries, report: &mut LinkFileCheck) -> rusqlite::Result<()> {
    let mut statement =
        queries.conn.prepare(&format!("SELECT {COLUMNS} FROM links ORDER BY id"))?;
    let mut rows = statement.query([])?;
    loop {
        match rows.next() {
            Ok(None) => return Ok(()),
            Ok(Some(row)) => match queries.read(row, None) {
                Ok(link) => {
                    report.links += 1;
                    let id: i64 = row.get(0)?;
                    if id < FIRST_NAMED
                        && queries.number_id(&link.key.code, |length| queries.issued.leased(length))
                            != Some(id)
                    {
                        report.problems.add(format!("row {id}: its number was never given out"));
                    }
                }
                Err(Failure::Refused(error)) => {
                    let cause = std::error::Error::source(&error)
                        .map_or_else(String::new, ToString::to_string);
                    report.problems.add(cause);
                }
                Err(Failure::Engine(error)) => return Err(error),
            },
            Err(error) => {
                // The rest of the table cannot be reached.
                report.problems.add(error.to_string());
                return Ok(());
            }
        }
    }
}

/// Checks the revisions. A damaged one affects only requests that read or restore it.
fn check_history(queries: &LinkQueries, report: &mut LinkFileCheck) -> rusqlite::Result<()> {
    let mut statement =
        queries.conn.prepare(&format!("SELECT {COLUMNS} FROM revisions ORDER BY n"))?;
    let mut rows = statement.query([])?;
    loop {
        match rows.next() {
            Ok(None) => return Ok(()),
            Ok(Some(row)) => match queries.read(row, None) {
                Ok(_) => {}
                Err(Failure::Refused(error)) => {
                    let cause = std::error::Error::source(&error)
                        .map_or_else(String::new, ToString::to_string);
                    report.problems.add(format!("an earlier revision: {cause}"));
                }
                Err(Failure::Engine(error)) => return Err(error),
            },
            Err(error) => {
                report.problems.add(error.to_string());
                return Ok(());
            }
        }
    }
}

fn check_aliases(queries: &LinkQueries, report: &mut LinkFileCheck) -> rusqlite::Result<()> {
    for (what, sql) in [
        (
            "named links that no alias leads to",
            "SELECT count(*) FROM links l WHERE l.id >= ?1 AND NOT EXISTS \
             (SELECT 1 FROM aliases a WHERE a.domain = l.domain AND a.code = l.code AND a.id = \
             l.id)",
        ),
        (
            "revisions of links that are not there",
            "SELECT count(*) FROM revisions r WHERE r.id >= ?1 - ?1 AND NOT EXISTS (SELECT 1 FROM \
             links l WHERE l.id = r.id)",
        ),
        (
            "aliases that lead nowhere",
            "SELECT count(*) FROM aliases a WHERE a.id < ?1 OR NOT EXISTS (SELECT 1 FROM links l \
             WHERE l.id = a.id)",
        ),
    ] {
        match queries.conn.query_row(sql, [FIRST_NAMED], |row| row.get::<_, i64>(0)) {
            Ok(0) => {}
            Ok(count) => report.problems.add(format!("{count} {what}")),
            Err(error) => report.problems.add(error.to_string()),
        }
    }
    Ok(())
}
