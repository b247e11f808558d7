//! Writes that are done completely or not at all.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use terse_core::registry::{Actor, Attribution, AuditRecord, RegistryError};
use tokio_postgres::Row;

use super::first;
use super::rows::id;
use crate::exclusive::Transaction;
use crate::failure::{Failure, corrupt};
use crate::pool::{Pool, pause};
use crate::sql::{Param, SqlTimestamp, params};

/// How often a step that conflicts with another one is tried.
const ATTEMPTS: u32 = 4;

/// What a step excludes.
#[derive(Clone, Copy)]
pub(super) enum Lock {
    /// All other steps with this lock, on every node. They read what they change, and there are few
    /// of them.
    Registry,
    /// Nothing: its statements lock the rows that they need.
    Rows,
}

/// Why a step was not done.
pub(super) enum StepError {
    /// It affects only this caller.
    Refused(RegistryError),
    /// The database could not be read or written.
    Failed(Failure),
}

impl From<RegistryError> for StepError {
    fn from(error: RegistryError) -> Self {
        Self::Refused(error)
    }
}

impl From<Failure> for StepError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(error) => Self::Refused(error.into()),
            failure => Self::Failed(failure),
        }
    }
}

/// One transaction.
pub(super) struct Step<'a> {
    transaction: Transaction<'a>,
    lock: Lock,
    version_changed: AtomicBool,
}

impl<'a> Step<'a> {
    pub(super) async fn begin(pool: &'a Pool, lock: Lock) -> Result<Self, Failure> {
        let transaction = pool.begin().await?;
        if matches!(lock, Lock::Registry) {
            transaction.execute("SELECT FROM registry_store FOR UPDATE", &[]).await?;
        }
        Ok(Self { transaction, lock, version_changed: AtomicBool::new(false) })
    }

    /// Commits, or rolls back what was refused.
    pub(super) async fn end<A>(
        self,
        outcome: Result<A, StepError>,
    ) -> Result<Result<A, RegistryError>, Failure> {
        match outcome {
            Ok(answer) => {
                if self.version_changed.load(Ordering::Relaxed) {
                    let sql = "UPDATE registry_store SET version = version + 1";
                    self.transaction.execute(sql, &[]).await?;
                }
                match self.lock {
                    // The lock itself is a write, so the commit waits for the standby.
                    Lock::Registry => self.transaction.commit().await?,
                    // It may have found its result there, as a repeated request does.
                    Lock::Rows => self.transaction.confirm().await?,
                }
                Ok(Ok(answer))
            }
            Err(StepError::Refused(error)) => {
                // If that fails, the connection is closed, which rolls back as well.
                let _closed = self.transaction.rollback().await;
                Ok(Err(error))
            }
            Err(StepError::Failed(failure)) => Err(failure),
        }
    }

    /// The last statement raises the version: this step changes data that the redirect plane
    /// caches.
    pub(super) fn change_version(&self) {
        self.version_changed.store(true, Ordering::Relaxed);
    }

    pub(super) async fn query(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
        self.transaction.query(sql, params).await
    }

    /// The first row, converted.
    pub(super) async fn one<T>(
        &self,
        sql: &str,
        params: &[Param<'_>],
        read: impl FnOnce(&Row) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        first(&self.query(sql, params).await?, read)
    }

    /// Whether the query returns any row.
    pub(super) async fn any(&self, sql: &str, params: &[Param<'_>]) -> Result<bool, Failure> {
        Ok(!self.query(sql, params).await?.is_empty())
    }

    /// Runs a statement and returns how many rows it changed.
    pub(super) async fn run(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, Failure> {
        self.transaction.execute(sql, params).await
    }

    /// Runs a statement that returns the id of a new row.
    pub(super) async fn insert(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, Failure> {
        let inserted = self.one(sql, params, |row| id(row, 0)).await?;
        inserted.ok_or_else(|| corrupt("a row without an id").into())
    }

    /// Writes a record of the audit log.
    pub(super) async fn write(&self, line: &AuditRecord, by: &Attribution) -> Result<(), Failure> {
        let actor = match by.actor {
            Actor::Owner(id) => Some(id.0.cast_signed()),
            Actor::Terse => None,
        };
        let AuditRecord { act, subject, about, before, after } = line;
        let about = about.map(|id| id.0.cast_signed());
        self.run(
            "INSERT INTO audit (at, actor, act, subject, about, why, before, after) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            params![
                SqlTimestamp(by.at),
                actor,
                act.as_str(),
                *subject,
                about,
                by.why,
                *before,
                *after
            ],
        )
        .await?;
        Ok(())
    }
}

/// Decides whether a step is tried again, after a pause; else gives its answer.
pub(super) async fn settled<A>(
    attempt: Result<Result<A, RegistryError>, Failure>,
    tries: &mut u32,
) -> Option<Result<A, RegistryError>> {
    match attempt {
        Ok(answer) => Some(answer),
        Err(Failure::Again(error)) if *tries < ATTEMPTS => {
            tracing::debug!(%error, tries, "a step of the registry is tried again");
            tokio::time::sleep(pause(*tries, Duration::from_millis(5))).await;
            *tries += 1;
            None
        }
        Err(failure) => Some(Err(failure.into())),
    }
}

/// Runs a block in a transaction, again if it conflicted with another one. The block must not move
/// what it uses.
macro_rules! step {
    ($registry:expr, $lock:ident, |$step:ident| $body:block) => {{
        let mut tries = 1;
        loop {
            let attempt = async {
                let $step = $crate::registry::step::Step::begin(
                    &$registry.pool,
                    $crate::registry::step::Lock::$lock,
                )
                .await?;
                let outcome: Result<_, $crate::registry::step::StepError> = async { $body }.await;
                $step.end(outcome).await
            }
            .await;
            if let Some(answer) = $crate::registry::step::settled(attempt, &mut tries).await {
                break answer;
            }
        }
    }};
}
pub(super) use step;
