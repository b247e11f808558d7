//! Rows of another store's tables, written into a new file.

use std::path::Path;

use rusqlite::{Connection, params};
use terse_core::transfer::{Cell, StoreFile, Table};

use super::end;
use crate::engine::DbLocation;
use crate::failure::{Failure, corrupt};
use crate::options::EmbeddedOpenError;
use crate::transfer::{counter, schema_of};

/// The facts of the registry that move; the others are the file's own.
const FACTS: &str = "'setup', 'had_admin', 'admin_key', 'removal_alarm', 'branding'";

/// A file that table rows move into.
pub struct TablesImport {
    conn: Connection,
    part: StoreFile,
}

impl TablesImport {
    /// Creates the file, or opens it.
    pub fn open(file: &Path, part: StoreFile) -> Result<Self, EmbeddedOpenError> {
        Ok(Self { conn: schema_of(part).open(&DbLocation::at(file))?, part })
    }

    /// Removes what an earlier attempt has written.
    pub fn clear(&self, table: &Table) -> Result<(), EmbeddedOpenError> {
        let (name, _) = self.place(table)?;
        let sql = match table.name {
            "facts" => format!("DELETE FROM meta WHERE name IN ({FACTS})"),
            _ => format!("DELETE FROM {name}"),
        };
        Ok(self.conn.execute_batch(&sql)?)
    }

    /// Writes rows.
    pub fn put_rows(&self, table: &Table, rows: &[Vec<Cell>]) -> Result<(), EmbeddedOpenError> {
        let (name, columns) = self.place(table)?;
        let marks: Vec<String> = (1..=columns.len()).map(|n| format!("?{n}")).collect();
        let (columns, marks) = (columns.join(", "), marks.join(", "));
        let sql = match table.name {
            "quarantine" => {
                "INSERT INTO held SELECT id, ?2, ?3, ?4 FROM domains WHERE name = ?1".to_owned()
            }
            _ => format!("INSERT INTO {name} ({columns}) VALUES ({marks})"),
        };
        self.conn.execute_batch("BEGIN IMMEDIATE")?;
        let write = || -> Result<(), Failure> {
            let mut statement = self.conn.prepare_cached(&sql)?;
            for row in rows {
                if let ("quarantine", Some(Cell::Text(domain))) = (table.name, row.first()) {
                    self.conn
                        .prepare_cached(
                            "INSERT INTO domains (name) VALUES (?1) ON CONFLICT DO NOTHING",
                        )?
                        .execute([domain])?;
                }
                let row = if table.name == "facts" { &fact(row)? } else { row };
                statement.execute(rusqlite::params_from_iter(row.iter().map(value)))?;
            }
            Ok(())
        };
        let written = write();
        end(&self.conn, written)
    }

    /// The table assigns numbers after this one.
    pub fn set_last_number(&self, table: &Table, last: i64) -> Result<(), EmbeddedOpenError> {
        let known = self.conn.execute(
            "UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1",
            params![counter(table), last],
        )?;
        if known == 0 {
            self.conn.execute(
                "INSERT INTO sqlite_sequence VALUES (?1, ?2)",
                params![counter(table), last],
            )?;
        }
        Ok(())
    }

    /// The name of a table in the file, and its columns in the order of the rows.
    fn place(&self, table: &Table) -> Result<(&'static str, Vec<&'static str>), EmbeddedOpenError> {
        if table.part != self.part {
            let why = format!("the table {} belongs into another file", table.name);
            return Err(EmbeddedOpenError::Damaged(why));
        }
        let name = match (table.part, table.name) {
            (StoreFile::Links, "quarantine") => "held",
            (StoreFile::Registry, "facts") => "meta",
            (StoreFile::Registry, "accounts") => "users",
            (StoreFile::Registry, "api_keys") => "keys",
            (StoreFile::Registry, "domains") => "places",
            (_, name) => name,
        };
        let column = |column: &'static str| match (name, column) {
            ("invitations", "author") => "writer",
            ("reports", "link_created_at") => "born",
            ("positions", "counted") => "place",
            (_, column) => column,
        };
        Ok((name, table.columns.iter().map(|(name, _)| column(name)).collect()))
    }
}

/// A fact in the type that the file has it in.
fn fact(row: &[Cell]) -> Result<Vec<Cell>, Failure> {
    let [Cell::Text(name), Cell::Bytes(value)] = row else {
        return Err(corrupt("a fact of the registry cannot be read").into());
    };
    let value = match name.as_str() {
        "had_admin" => Cell::Int(1),
        "setup" | "admin_key" => Cell::Bytes(value.clone()),
        _ => Cell::Text(
            String::from_utf8(value.clone())
                .map_err(|_| corrupt(format!("the fact {name} is no text")))?,
        ),
    };
    Ok(vec![Cell::Text(name.clone()), value])
}

fn value(cell: &Cell) -> rusqlite::types::ToSqlOutput<'_> {
    use rusqlite::types::{ToSqlOutput, ValueRef};
    ToSqlOutput::Borrowed(match cell {
        Cell::Null => ValueRef::Null,
        Cell::Int(number) => ValueRef::Integer(*number),
        Cell::Text(text) => ValueRef::Text(text.as_bytes()),
        Cell::Bytes(octets) => ValueRef::Blob(octets),
    })
}
