//! A fence around a file whose data has moved to another store: nothing is written to it any more,
//! also by a server that has it open.
//!
//! The fence is a trigger for every kind of write to every table. It is part of the file, so it
//! stays when the process that put it up ends.

use std::path::Path;

use rusqlite::{Connection, ffi};

use crate::engine::{DbLocation, connect_bare};
use crate::options::EmbeddedOpenError;

const PREFIX: &str = "moved_";
/// The name of a trigger begins with the prefix.
const TRIGGERS: &str =
    "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND substr(name, 1, 6) = ?1";
/// The index for searches has tables of its own, which cannot have triggers: it is written only
/// together with other tables.
const TABLES: &str = "SELECT name FROM sqlite_schema WHERE type = 'table' \
     AND substr(name, 1, 7) NOT IN ('sqlite_', 'search_') AND sql NOT LIKE 'CREATE VIRTUAL%'";

/// What the triggers say.
const MOVED: &str = "the data has moved to another store";

/// Puts the fence up, within the transaction of the connection.
pub(crate) fn put_up(conn: &Connection) -> rusqlite::Result<()> {
    for table in names(conn, TABLES, [])? {
        for write in ["INSERT", "UPDATE", "DELETE"] {
            conn.execute_batch(&format!(
                "CREATE TRIGGER IF NOT EXISTS \"{PREFIX}{table}_{write}\" \
                 BEFORE {write} ON \"{table}\" \
                 BEGIN SELECT RAISE(ABORT, '{MOVED}'); END"
            ))?;
        }
    }
    Ok(())
}

/// Takes the fence down: the file can be written again.
pub fn remove_fence(file: &Path) -> Result<(), EmbeddedOpenError> {
    let conn = connect_bare(&DbLocation::at(file))?;
    conn.busy_timeout(std::time::Duration::from_secs(5))?;
    conn.execute_batch("BEGIN IMMEDIATE")?;
    for trigger in names(&conn, TRIGGERS, [PREFIX])? {
        conn.execute_batch(&format!("DROP TRIGGER \"{trigger}\""))?;
    }
    Ok(conn.execute_batch("COMMIT")?)
}

/// Whether there is a fence.
pub(crate) fn is_up(conn: &Connection) -> rusqlite::Result<bool> {
    Ok(!names(conn, TRIGGERS, [PREFIX])?.is_empty())
}

/// Whether a write failed because of the fence.
pub(crate) fn refused(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(code, Some(text))
        if code.extended_code == ffi::SQLITE_CONSTRAINT_TRIGGER && text == MOVED)
}

fn names(
    conn: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
) -> rusqlite::Result<Vec<String>> {
    let mut statement = conn.prepare(sql)?;
    let names = statement.query_map(params, |row| row.get(0))?;
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clicks::CLICKS;
    use crate::registry::REGISTRY;
    use crate::schema::LINKS;

    #[test]
    fn behind_a_fence_no_table_can_be_written() {
        for schema in [&LINKS, &REGISTRY, &CLICKS] {
            let mut conn = Connection::open_in_memory().unwrap();
            schema.migrate(&mut conn, 0).unwrap();
            assert!(!is_up(&conn).unwrap());
            put_up(&conn).unwrap();
            assert!(is_up(&conn).unwrap());
            let tables = names(&conn, TABLES, []).unwrap();
            assert!(tables.len() > 5, "{tables:?}");
            for table in tables {
                // Every table of a new file takes a row of NULLs, or refuses it for another reason.
                let insert = format!("INSERT INTO \"{table}\" DEFAULT VALUES");
                let error = conn.execute_batch(&insert).unwrap_err();
                assert!(refused(&error), "{table}: {error}");
            }
        }
    }
}
