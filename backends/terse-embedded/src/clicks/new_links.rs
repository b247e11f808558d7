//! The rows of links that are clicked for the first time, if all their clicks are in a run.

use std::sync::LazyLock;

use rusqlite::{CachedStatement, Connection};
use terse_core::OwnerId;
use terse_core::clicks::LinkId;

/// How many rows one statement inserts: beginning and ending a statement costs about as much as a
/// row.
const LINKS_A_STATEMENT: usize = 32;

const ONE: &str = "INSERT INTO subjects VALUES (?, 0, ?, ?, ?, ?, 0, 0, x'')";
static SEVERAL: LazyLock<String> = LazyLock::new(|| {
    ONE.to_owned() + &", (?, 0, ?, ?, ?, ?, 0, 0, x'')".repeat(LINKS_A_STATEMENT - 1)
});

/// The row of a link.
struct NewLink<'b> {
    subject: i64,
    link: &'b LinkId,
    owner: OwnerId,
}

/// Writes rows some at a time. Rows that are not flushed are lost.
#[must_use]
pub(crate) struct NewLinks<'c, 'b> {
    waiting: Vec<NewLink<'b>>,
    one: CachedStatement<'c>,
    several: CachedStatement<'c>,
}

impl<'c, 'b> NewLinks<'c, 'b> {
    pub(crate) fn new(conn: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            waiting: Vec::with_capacity(LINKS_A_STATEMENT),
            one: conn.prepare_cached(ONE)?,
            several: conn.prepare_cached(&SEVERAL)?,
        })
    }

    /// Adds a row without clicks.
    pub(crate) fn add(
        &mut self,
        subject: i64,
        link: &'b LinkId,
        owner: OwnerId,
    ) -> rusqlite::Result<()> {
        self.waiting.push(NewLink { subject, link, owner });
        if self.waiting.len() == LINKS_A_STATEMENT {
            insert(&mut self.several, &self.waiting)?;
            self.waiting.clear();
        }
        Ok(())
    }

    /// Writes the rows that wait.
    pub(crate) fn flush(mut self) -> rusqlite::Result<()> {
        self.waiting.chunks(1).try_for_each(|link| insert(&mut self.one, link))
    }
}

fn insert(statement: &mut CachedStatement<'_>, links: &[NewLink<'_>]) -> rusqlite::Result<()> {
    let mut at = 0;
    for NewLink { subject, link: LinkId { key, created_at }, owner } in links {
        statement.raw_bind_parameter(at + 1, subject)?;
        statement.raw_bind_parameter(at + 2, key.domain.as_str())?;
        statement.raw_bind_parameter(at + 3, key.code.as_str())?;
        statement.raw_bind_parameter(at + 4, created_at.as_ms())?;
        statement.raw_bind_parameter(at + 5, owner.0.cast_signed())?;
        at += 5;
    }
    statement.raw_execute()?;
    Ok(())
}
