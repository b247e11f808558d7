//! Which numbers of generated codes were leased.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use terse_core::{CodeLease, MAX_CODE_LENGTH, MIN_CODE_LENGTH, Numbering};

use crate::engine::{self, DbLocation};
use crate::options::EmbeddedOpenError;
use crate::row::FIRST_NAMED;
use crate::schema;

/// By code length, the first number that was not leased.
pub(crate) type Leases = [u64; MAX_CODE_LENGTH as usize + 1];

/// The leases that the file stores.
pub(crate) fn stored(conn: &Connection) -> rusqlite::Result<Leases> {
    let mut leases = Leases::default();
    let mut statement = conn.prepare_cached("SELECT length, next FROM leases")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(next) = leases.get_mut(usize::from(row.get::<_, u8>(0)?)) {
            *next = u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0);
        }
    }
    Ok(leases)
}

/// The stored leases, raised beyond every existing link: even with wrong counters, no number is
/// used twice.
pub(crate) fn beyond_links(conn: &Connection, numbering: &Numbering) -> rusqlite::Result<Leases> {
    let mut leases = stored(conn)?;
    for length in MIN_CODE_LENGTH..=MAX_CODE_LENGTH {
        let first = numbering.id(length, 0) as i64;
        if let Some(last) = last_between(conn, first, first + numbering.capacity(length) as i64)? {
            let next = &mut leases[usize::from(length)];
            *next = (*next).max((last - first) as u64 + 1);
        }
    }
    Ok(leases)
}

/// The same for named links: the stored next id, and the lowest correct one.
pub(crate) fn next_named(conn: &Connection) -> rusqlite::Result<(i64, i64)> {
    let mut statement = conn.prepare_cached("SELECT value FROM meta WHERE name = 'next_named'")?;
    let stored = statement.query_row([], |row| row.get(0)).optional()?.unwrap_or(FIRST_NAMED);
    let last = last_between(conn, FIRST_NAMED, i64::MAX)?;
    Ok((stored, last.map_or(stored, |last| stored.max(last + 1))))
}

fn last_between(conn: &Connection, from: i64, to: i64) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached("SELECT max(id) FROM links WHERE id >= ?1 AND id < ?2")?
        .query_row([from, to], |row| row.get(0))
}

/// Skips numbers of each length, as [`CodeLease::restore_distance`] says.
pub(crate) fn skipped(leases: &Leases, numbering: &Numbering) -> Leases {
    let mut skipped = *leases;
    for length in MIN_CODE_LENGTH..=MAX_CODE_LENGTH {
        let capacity = numbering.capacity(length);
        let next = &mut skipped[usize::from(length)];
        let distance = CodeLease::restore_distance(capacity);
        *next = next.saturating_add(distance).min(capacity);
    }
    skipped
}

pub(crate) fn write(conn: &Connection, length: u8, next: u64) -> rusqlite::Result<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO leases VALUES (?1, ?2)")?
        .execute(params![length, next as i64])
        .map(drop)
}

/// The incarnation of the store.
pub(crate) fn incarnation(conn: &Connection) -> rusqlite::Result<u64> {
    let mut statement = conn.prepare_cached("SELECT value FROM meta WHERE name = 'incarnation'")?;
    let stored: Option<i64> = statement.query_row([], |row| row.get(0)).optional()?;
    Ok(stored.map_or(1, |stored| stored as u64))
}

pub(crate) fn write_incarnation(conn: &Connection, incarnation: u64) -> rusqlite::Result<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO meta VALUES ('incarnation', ?1)")?
        .execute([incarnation as i64])
        .map(drop)
}

/// Compares a file with its mark. If the file is behind, it lost writes: raises the incarnation and
/// skips ahead past the marked leases. Returns a notice for the operator then.
pub(crate) fn recover(
    conn: &mut Connection,
    numbering: &Numbering,
    marked: &Leases,
    lost_frames: u64,
) -> Result<Option<String>, EmbeddedOpenError> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut leases = beyond_links(&transaction, numbering)?;
    let is_behind = leases.iter().zip(marked).any(|(next, marked)| next < marked);
    if !is_behind && lost_frames == 0 {
        return Ok(None);
    }
    leases.iter_mut().zip(marked).for_each(|(next, marked)| *next = (*next).max(*marked));
    let leases = skipped(&leases, numbering);
    for length in MIN_CODE_LENGTH..=MAX_CODE_LENGTH {
        write(&transaction, length, leases[usize::from(length)])?;
    }
    write_incarnation(&transaction, incarnation(&transaction)? + 1)?;
    transaction.commit()?;
    let what = match lost_frames {
        0 => "it is older than its mark, as after an older copy was put back".to_owned(),
        frames => format!("the end of its log ({frames} pages) is damaged or missing"),
    };
    Ok(Some(format!(
        "the links file lost writes: {what}. Links that were created last may be missing; no code \
         is issued twice. Restore a backup if one has them"
    )))
}

/// Makes an old copy safe to use again: codes issued since are in use elsewhere, but unknown to the
/// copy. Raises the incarnation and skips ahead in all ranges. No other process may have the file
/// open.
pub fn skip_ahead(db: &Path) -> Result<(), EmbeddedOpenError> {
    let mut conn = engine::connect_bare(&DbLocation::at(db))?;
    // One file before and after, without a log file beside it.
    conn.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))?;
    conn.execute_batch("PRAGMA synchronous = FULL; PRAGMA fullfsync = ON")?;
    let version = schema::LINKS.inspect(&conn, db)?;
    let identity = schema::stored_identity(&conn)?
        .ok_or_else(|| EmbeddedOpenError::NotTerse(db.to_owned()))?;
    schema::LINKS.migrate(&mut conn, version)?;
    let numbering = Numbering::new(&identity);
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let leases = skipped(&beyond_links(&transaction, &numbering)?, &numbering);
    for length in MIN_CODE_LENGTH..=MAX_CODE_LENGTH {
        write(&transaction, length, leases[usize::from(length)])?;
    }
    write_incarnation(&transaction, incarnation(&transaction)? + 1)?;
    Ok(transaction.commit()?)
}
