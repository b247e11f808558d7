//! Writing, in steps that are done whole or not at all.

use std::ops::Deref;

use rusqlite::{Connection, Params, params};
use terse_core::registry::{Actor, By, Line, RegistryError};

use crate::failure::Failure;
use crate::registry::rows::filed;
use crate::registry::shelf::Shelf;

const WRITE_LINE: &str = "INSERT INTO audit (at, actor, act, subject, about, why, before, after) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
const MOVE_WATERMARK: &str = "INSERT INTO meta VALUES ('watermark', 1) ON CONFLICT DO UPDATE SET value = value + 1";

/// The one who writes. It remembers nothing: what the file says counts.
pub(crate) struct Scribe {
    shelf: Shelf,
}

/// Why a step was not done.
pub(crate) enum Trouble {
    /// Only this caller is concerned.
    Refused(RegistryError),
    /// The file could not be read or written.
    Failed(Failure),
}

impl From<RegistryError> for Trouble {
    fn from(error: RegistryError) -> Self {
        Self::Refused(error)
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(error) => Self::Refused(error.into()),
            Failure::Engine(_) => Self::Failed(failure),
        }
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Failure::from(error).into()
    }
}

impl Deref for Scribe {
    type Target = Shelf;

    fn deref(&self) -> &Shelf {
        &self.shelf
    }
}

impl crate::trade::Scribe for Scribe {
    fn conn(&self) -> &Connection {
        &self.shelf.conn
    }

    fn reload(&mut self) -> rusqlite::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> rusqlite::Result<()> {
        Ok(())
    }
}

impl Scribe {
    pub(crate) fn new(shelf: Shelf) -> rusqlite::Result<Self> {
        // What was erased is overwritten and not only given up.
        shelf.conn.query_row("PRAGMA secure_delete = FAST", [], |_| Ok(()))?;
        Ok(Self { shelf })
    }

    /// Does one caller's work among that of others. Work that is refused half-way leaves nothing behind.
    pub(crate) fn step<A>(
        &mut self,
        work: impl FnOnce(&Self) -> Result<A, Trouble>,
    ) -> Result<Result<A, RegistryError>, Failure> {
        self.run("SAVEPOINT step", [])?;
        match work(self) {
            Ok(answer) => {
                self.run("RELEASE step", [])?;
                Ok(Ok(answer))
            }
            Err(Trouble::Refused(error)) => {
                self.run("ROLLBACK TO step", [])?;
                self.run("RELEASE step", [])?;
                Ok(Err(error))
            }
            // All of the transaction is undone, with every step in it.
            Err(Trouble::Failed(failure)) => Err(failure),
        }
    }

    /// Runs a statement and says how many rows it changed.
    pub(crate) fn run(&self, sql: &str, params: impl Params) -> Result<usize, Failure> {
        Ok(self.conn.prepare_cached(sql)?.execute(params)?)
    }

    /// Puts a row into a table that numbers its rows, and says which number it got.
    pub(crate) fn insert(&self, sql: &str, params: impl Params) -> Result<u64, Failure> {
        Ok(self.conn.prepare_cached(sql)?.insert(params)?.cast_unsigned())
    }

    pub(crate) fn write(&self, line: &Line, by: &By) -> Result<(), Failure> {
        let actor = match by.actor {
            Actor::Owner(id) => Some(filed(id.0)),
            Actor::Terse => None,
        };
        let Line { act, subject, about, before, after } = line;
        let about = about.map(|id| filed(id.0));
        self.insert(WRITE_LINE, params![by.at.as_ms(), actor, act.as_str(), subject, about, by.why, before, after])?;
        Ok(())
    }

    pub(crate) fn move_watermark(&self) -> Result<(), Failure> {
        self.run(MOVE_WATERMARK, []).map(|_| ())
    }
}
