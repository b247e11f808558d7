//! The background jobs of this node: when each ran last, and requests to run one now.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::principal::{AccessError, Principal};
use crate::registry::Role;
use crate::time::Timestamp;

/// The longest error that is kept, in characters.
const MAX_ERROR: usize = 300;

/// What is known of a job.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JobStatus {
    /// Its name, as in logs and metrics.
    pub name: &'static str,
    /// The time from the end of a run to the next.
    pub interval: Duration,
    /// Whether one node runs it for the whole fleet.
    pub needs_lease: bool,
    /// Since when a run is under way.
    pub running_since: Option<Timestamp>,
    /// The last run on this node that ended.
    pub last: Option<JobRun>,
    /// How many runs have failed on this node since it started.
    pub failures: u64,
}

/// A run that ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JobRun {
    /// When it ended.
    pub ended_at: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// Why it failed.
    pub error: Option<String>,
}

/// The jobs of a node. The scheduler writes to it, admins read it.
#[derive(Debug, Default)]
pub struct JobBoard(Mutex<BTreeMap<&'static str, Entry>>);

#[derive(Debug)]
struct Entry {
    status: JobStatus,
    wanted: Arc<Notify>,
}

/// Why a job cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum RunJobError {
    /// The caller's role does not permit it.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// No job has this name.
    #[error("this node has no such job")]
    NoJob,
}

impl JobBoard {
    /// Adds a job. Jobs of one kind share an entry. The result wakes the job when an admin wants it
    /// to run.
    pub fn add(&self, name: &'static str, interval: Duration, needs_lease: bool) -> Arc<Notify> {
        let mut jobs = self.lock();
        let entry = jobs.entry(name).or_insert_with(|| Entry {
            status: JobStatus {
                name,
                interval,
                needs_lease,
                running_since: None,
                last: None,
                failures: 0,
            },
            wanted: Arc::default(),
        });
        Arc::clone(&entry.wanted)
    }

    /// A run begins.
    pub fn begin(&self, name: &'static str, now: Timestamp) {
        if let Some(entry) = self.lock().get_mut(name) {
            entry.status.running_since = Some(now);
        }
    }

    /// A run ended; `None` if it was interrupted and says nothing about the job.
    pub fn end(&self, name: &'static str, now: Timestamp, outcome: Option<Result<(), String>>) {
        let mut jobs = self.lock();
        let Some(entry) = jobs.get_mut(name) else { return };
        let began = entry.status.running_since.take().unwrap_or(now);
        let Some(outcome) = outcome else { return };
        let took = u64::try_from(now.as_ms() - began.as_ms()).unwrap_or_default();
        let error = outcome.err().map(|error| error.chars().take(MAX_ERROR).collect());
        entry.status.failures += u64::from(error.is_some());
        entry.status.last =
            Some(JobRun { ended_at: now, took: Duration::from_millis(took), error });
    }

    /// All jobs, by name. Only for admins.
    pub fn list(&self, principal: &Principal) -> Result<Vec<JobStatus>, AccessError> {
        principal.require(Role::Admin)?;
        Ok(self.lock().values().map(|entry| entry.status.clone()).collect())
    }

    /// Lets a job run before its interval is over. One that runs already is left alone; one that
    /// another node runs waits for the lease. Only for admins.
    pub fn run_now(&self, principal: &Principal, name: &str) -> Result<(), RunJobError> {
        principal.require(Role::Admin)?;
        let jobs = self.lock();
        let entry = jobs.get(name).ok_or(RunJobError::NoJob)?;
        entry.wanted.notify_waiters();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_admins_read_the_last_run_of_a_job() {
        let board = JobBoard::default();
        board.add("sweep", Duration::from_secs(60), true);
        let at = Timestamp::from_ms;
        let admin = Principal::OPERATOR;
        let first_job = |board: &JobBoard| board.list(&admin).unwrap().remove(0);
        assert_eq!((first_job(&board).last, first_job(&board).running_since), (None, None));
        board.begin("sweep", at(1000));
        assert_eq!(first_job(&board).running_since, Some(at(1000)));
        board.end("sweep", at(1250), Some(Ok(())));
        let took = Duration::from_millis(250);
        let run = JobRun { ended_at: at(1250), took, error: None };
        assert_eq!(
            (first_job(&board).last, first_job(&board).running_since),
            (Some(run.clone()), None)
        );
        board.begin("sweep", at(2000));
        board.end("sweep", at(2001), None);
        assert_eq!(first_job(&board).last, Some(run), "an interrupted run says nothing");
        board.begin("sweep", at(3000));
        board.end("sweep", at(3000), Some(Err("x".repeat(1000))));
        let status = first_job(&board);
        assert_eq!(status.last.unwrap().error.unwrap().len(), MAX_ERROR);
        assert_eq!(status.failures, 1);
        assert!(matches!(board.run_now(&admin, "none"), Err(RunJobError::NoJob)));
        assert!(board.run_now(&admin, "sweep").is_ok());
        for anyone in [Principal::ANONYMOUS, Principal { role: Role::Moderator, ..admin.clone() }] {
            assert!(board.list(&anyone).is_err() && board.run_now(&anyone, "sweep").is_err());
        }
    }
}
