//! What a background job is.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::registry::{FencingToken, JobLease, RegistryError};
use crate::store::{BoxError, StoreError};
use async_trait::async_trait;

/// How long the registry may take to check a lease.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Work that the scheduler (`terse-worker`) repeats in the background.
///
/// The scheduler runs a job once at start and then at its interval. It never runs the same job
/// twice at a time, so a job keeps its state in `&mut self` without locks. The scheduler drops the
/// future of a run at shutdown, at the run's timeout and when the lease is lost: a job writes in
/// steps that are each complete, and its state must be sound at every `.await`. A job that needs
/// the lease calls [`JobContext::check_lease`] before each batch that it writes without the token
/// of the lease.
#[async_trait]
pub trait Job: Send + 'static {
    /// The job's name in logs and metrics. Jobs of one kind may share it.
    fn name(&self) -> &'static str;

    /// The time from the end of a run to the next.
    fn interval(&self) -> Duration;

    /// Whether one node runs this job for the whole fleet. Such a job runs only while this node
    /// holds the lease.
    fn needs_lease(&self) -> bool {
        false
    }

    /// The longest time that one run may take.
    fn timeout(&self) -> Duration {
        Duration::from_hours(1)
    }

    /// The time to the first retry of a failed run, if shorter than the interval. It doubles with
    /// every further failure until it reaches the interval.
    fn retry_delay(&self) -> Duration {
        Duration::from_secs(5)
    }

    /// Whether runs are spans of traces.
    fn is_traced(&self) -> bool {
        true
    }

    /// Resolves when the job should run before its interval is over. The scheduler drops this
    /// future when the interval ends first, so it must lose nothing then.
    async fn wake(&mut self) {
        std::future::pending::<()>().await;
    }

    /// Does the work once.
    async fn run(&mut self, context: &JobContext) -> Result<NextRun, BoxError>;

    /// Runs once at shutdown, after the last run, for what must not be lost with the process.
    async fn finish(&mut self) {}
}

/// When to run a job again after a run that succeeded.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum NextRun {
    /// After the job's interval.
    #[default]
    Interval,
    /// After this time instead.
    After(Duration),
}

/// What a run knows of its node.
#[derive(Clone)]
pub struct JobContext {
    lease: Option<(Arc<dyn JobLease>, FencingToken)>,
}

impl JobContext {
    /// For a job that runs on every node.
    pub fn without_lease() -> Self {
        Self { lease: None }
    }

    /// For a job that runs while this node holds the lease of `token`.
    pub fn leased(leases: Arc<dyn JobLease>, token: FencingToken) -> Self {
        Self { lease: Some((leases, token)) }
    }

    /// Proof of the lease, to be sent with writes that the store can refuse. A job that needs the
    /// lease always has one.
    pub fn token(&self) -> Option<FencingToken> {
        self.lease.as_ref().map(|(_, token)| *token)
    }

    /// Fails with `Fenced` if another node has taken over the lease. A job calls this before each
    /// batch that it writes without the token: a process that was paused in the middle of a run
    /// stops there, although its own clock has not noticed. One batch may still overlap with the
    /// new holder's; every batch is therefore safe to repeat. Always succeeds for a job that needs
    /// no lease.
    pub async fn check_lease(&self) -> Result<(), RegistryError> {
        match &self.lease {
            None => Ok(()),
            Some((leases, token)) => {
                let check = leases.check_lease(*token);
                let checked = tokio::time::timeout(CHECK_TIMEOUT, check).await;
                checked.map_err(|elapsed| StoreError::Unavailable(elapsed.into()))?
            }
        }
    }
}

impl fmt::Debug for JobContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobContext").field("token", &self.token()).finish()
    }
}
