//! Writes in steps that are done completely or not at all.

use std::cell::Cell;
use std::ops::Deref;

use rusqlite::{Connection, Params, params};
use terse_core::registry::{Actor, Attribution, AuditRecord, RegistryError};

use crate::failure::Failure;
use crate::registry::queries::RegistryQueries;
use crate::registry::rows::filed;

const WRITE_LINE: &str = "INSERT INTO audit (at, actor, act, subject, about, why, before, after) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

/// The writer's connection. It caches nothing: only the file counts.
pub(crate) struct RegistryWrites {
    queries: RegistryQueries,
    /// Whether a step of this transaction changed data that the redirect plane caches.
    version_changed: Cell<bool>,
}

/// Why a step was not done.
pub(crate) enum RegistryWriteError {
    /// It affects only this caller.
    Refused(RegistryError),
    /// The file could not be read or written.
    Failed(Failure),
}

impl From<RegistryError> for RegistryWriteError {
    fn from(error: RegistryError) -> Self {
        Self::Refused(error)
    }
}

impl From<Failure> for RegistryWriteError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(error) => Self::Refused(error.into()),
            Failure::Engine(_) => Self::Failed(failure),
        }
    }
}

impl From<rusqlite::Error> for RegistryWriteError {
    fn from(error: rusqlite::Error) -> Self {
        Failure::from(error).into()
    }
}

impl Deref for RegistryWrites {
    type Target = RegistryQueries;

    fn deref(&self) -> &RegistryQueries {
        &self.queries
    }
}

impl crate::database::Writes for RegistryWrites {
    fn conn(&self) -> &Connection {
        &self.queries.conn
    }

    fn reload(&mut self) -> rusqlite::Result<()> {
        self.version_changed.set(false);
        Ok(())
    }

    fn finish(&mut self) -> rusqlite::Result<()> {
        match self.version_changed.take() {
            true => self.raise_version(),
            false => Ok(()),
        }
    }
}

impl RegistryWrites {
    pub(crate) fn new(queries: RegistryQueries) -> rusqlite::Result<Self> {
        // SQLite overwrites erased data instead of only freeing its pages.
        queries.conn.query_row("PRAGMA secure_delete = ON", [], |_| Ok(()))?;
        Ok(Self { queries, version_changed: Cell::new(false) })
    }

    /// Runs one caller's work inside the shared transaction. Work that is refused half-way is
    /// undone.
    pub(crate) fn step<A>(
        &mut self,
        work: impl FnOnce(&Self) -> Result<A, RegistryWriteError>,
    ) -> Result<Result<A, RegistryError>, Failure> {
        self.run("SAVEPOINT step", [])?;
        let changed_before = self.version_changed.get();
        match work(self) {
            Ok(answer) => {
                self.run("RELEASE step", [])?;
                Ok(Ok(answer))
            }
            Err(RegistryWriteError::Refused(error)) => {
                self.run("ROLLBACK TO step", [])?;
                self.version_changed.set(changed_before);
                self.run("RELEASE step", [])?;
                Ok(Err(error))
            }
            // The whole transaction is rolled back, with every step in it.
            Err(RegistryWriteError::Failed(failure)) => Err(failure),
        }
    }

    /// Runs a statement and returns how many rows it changed.
    pub(crate) fn run(&self, sql: &str, params: impl Params) -> Result<usize, Failure> {
        Ok(self.conn.prepare_cached(sql)?.execute(params)?)
    }

    /// Inserts a row into a table that numbers its rows, and returns its number.
    pub(crate) fn insert(&self, sql: &str, params: impl Params) -> Result<u64, Failure> {
        Ok(self.conn.prepare_cached(sql)?.insert(params)?.cast_unsigned())
    }

    pub(crate) fn write(&self, line: &AuditRecord, by: &Attribution) -> Result<(), Failure> {
        let actor = match by.actor {
            Actor::Owner(id) => Some(filed(id.0)),
            Actor::Terse => None,
        };
        let AuditRecord { act, subject, about, before, after } = line;
        let about = about.map(|id| filed(id.0));
        self.insert(
            WRITE_LINE,
            params![by.at.as_ms(), actor, act.as_str(), subject, about, by.why, before, after],
        )?;
        Ok(())
    }

    /// Records that this step changes data that the redirect plane caches. The last statement of
    /// the transaction raises the version.
    pub(crate) fn change_version(&self) {
        self.version_changed.set(true);
    }
}
