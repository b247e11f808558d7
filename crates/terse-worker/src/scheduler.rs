//! Runs jobs: at their interval, under the lease, until shutdown.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt as _;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::registry::{FencingToken, JobLease, RegistryError};
use terse_core::{BoxError, JobBoard, TRACE_TARGET, Timestamp};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::lease::LeaseKeeper;

/// How long a job may take to save what it must at shutdown.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);
/// The scheduler lengthens each interval at random by up to a tenth, so that nodes do not run jobs
/// at the same time.
const JITTER: u32 = 10;

/// Counts the runs of a job.
#[derive(Debug, Default)]
pub struct JobCounts {
    /// Runs that ended, with or without success.
    pub runs: AtomicU64,
    /// Runs that failed, panicked or took too long.
    pub failures: AtomicU64,
}

/// Counts by the name of the job.
pub type CountsByJob = BTreeMap<&'static str, Arc<JobCounts>>;

/// Collects jobs, then starts them.
pub struct Scheduler {
    jobs: Vec<Box<dyn Job>>,
    counts: CountsByJob,
    board: Arc<JobBoard>,
    keeper: LeaseKeeper,
    jitter: bool,
}

/// Started jobs. Dropping it aborts them; [`RunningJobs::stop`] ends them in order.
pub struct RunningJobs {
    jobs: JoinSet<()>,
    keeper: Option<JoinHandle<()>>,
    stop_jobs: watch::Sender<bool>,
    stop_keeper: watch::Sender<bool>,
}

impl Scheduler {
    /// Without jobs yet. Jobs that need the lease run while `keeper` holds it.
    pub fn new(keeper: LeaseKeeper) -> Self {
        let (jobs, counts, board) = (Vec::new(), BTreeMap::new(), Arc::default());
        Self { jobs, counts, board, keeper, jitter: true }
    }

    /// Runs jobs exactly at their interval, for tests that count runs.
    #[cfg(test)]
    pub(crate) fn without_jitter(mut self) -> Self {
        self.jitter = false;
        self
    }

    /// Adds a job.
    pub fn add(&mut self, job: impl Job) {
        self.add_all([Box::new(job) as Box<dyn Job>]);
    }

    /// Adds jobs.
    pub fn add_all(&mut self, jobs: impl IntoIterator<Item = Box<dyn Job>>) {
        for job in jobs {
            self.counts.entry(job.name()).or_default();
            self.jobs.push(job);
        }
    }

    /// The counts of each job.
    pub fn counts(&self) -> CountsByJob {
        self.counts.clone()
    }

    /// When each job ran last, and requests to run one now.
    pub fn job_board(&self) -> Arc<JobBoard> {
        Arc::clone(&self.board)
    }

    /// Starts every job in a task of its own.
    pub fn start(self, runtime: &Handle) -> RunningJobs {
        let (stop_jobs, stop) = watch::channel(false);
        let (stop_keeper, stop_keeping) = watch::channel(false);
        let needs_lease = self.jobs.iter().any(|job| job.needs_lease());
        let mut jobs = JoinSet::new();
        for job in self.jobs {
            let counts = self.counts.get(job.name()).cloned().unwrap_or_default();
            let (stop, lease, jitter) = (stop.clone(), self.keeper.token(), self.jitter);
            let leases = self.keeper.leases();
            let wanted = self.board.add(job.name(), job.interval(), job.needs_lease());
            let board = Arc::clone(&self.board);
            let task = JobTask { job, counts, board, wanted, stop, lease, leases, jitter };
            jobs.spawn_on(task.run(), runtime);
        }
        let keeper = needs_lease.then(|| runtime.spawn(self.keeper.run(stop_keeping)));
        RunningJobs { jobs, keeper, stop_jobs, stop_keeper }
    }
}

impl RunningJobs {
    /// Ends all runs, lets each job finish, waits for their tasks and then releases the lease.
    /// Tasks that are not done within `limit` are aborted; the result says whether all were.
    pub async fn stop(mut self, limit: Duration) -> bool {
        self.stop_jobs.send_replace(true);
        let joined = timeout(limit, async { while self.jobs.join_next().await.is_some() {} });
        let all_ended = joined.await.is_ok();
        self.jobs.shutdown().await;
        self.stop_keeper.send_replace(true);
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.await;
        }
        all_ended
    }
}

/// One job and what its task needs.
struct JobTask {
    job: Box<dyn Job>,
    counts: Arc<JobCounts>,
    board: Arc<JobBoard>,
    /// Notified when an admin wants the job to run.
    wanted: Arc<Notify>,
    stop: watch::Receiver<bool>,
    lease: watch::Receiver<Option<FencingToken>>,
    leases: Arc<dyn JobLease>,
    jitter: bool,
}

/// Why a run ended before its time.
enum Interrupted {
    Shutdown,
    LeaseLost,
    /// The registry says that the token is not current; the keeper has not noticed yet.
    Fenced,
}

impl JobTask {
    async fn run(mut self) {
        let (mut due, mut failures) = (Instant::now(), 0);
        while self.wait(due).await {
            let Some(context) = self.context().await else { break };
            self.board.begin(self.job.name(), now());
            let ended = self.run_once(&context).await;
            let outcome = ended.as_ref().ok().map(|ended| match ended {
                Ok(_) => Ok(()),
                Err(error) => Err(error.to_string()),
            });
            self.board.end(self.job.name(), now(), outcome);
            let ended = match ended {
                Ok(ended) => ended,
                Err(Interrupted::Shutdown) => break,
                Err(Interrupted::LeaseLost) => continue,
                Err(Interrupted::Fenced) => {
                    tracing::warn!(
                        job = self.job.name(),
                        "another node took over the background \
                        jobs; this run stopped before its next write"
                    );
                    if !self.token_ended(context.token()).await {
                        break;
                    }
                    continue;
                }
            };
            self.counts.runs.fetch_add(1, Ordering::Relaxed);
            let delay = match ended {
                Ok(NextRun::Interval) => self.with_jitter(self.job.interval()),
                Ok(NextRun::After(delay)) => delay,
                Err(_) => self.retry_in(failures),
            };
            failures = self.note(ended.err(), failures, delay);
            due = Instant::now() + delay;
        }
        if timeout(FINISH_TIMEOUT, self.job.finish()).await.is_err() {
            tracing::warn!(job = self.job.name(), "a background job did not finish at shutdown");
        }
    }

    /// Waits until the job is due or wants to run earlier. `false` at shutdown.
    async fn wait(&mut self, due: Instant) -> bool {
        tokio::select! {
            biased;
            _ = self.stop.wait_for(|stop| *stop) => false,
            () = sleep_until(due) => true,
            () = self.wanted.notified() => true,
            () = self.job.wake() => true,
        }
    }

    /// Waits for the lease if the job needs it. `None` at shutdown.
    async fn context(&mut self) -> Option<JobContext> {
        if !self.job.needs_lease() {
            return Some(JobContext::without_lease());
        }
        tokio::select! {
            biased;
            _ = self.stop.wait_for(|stop| *stop) => None,
            held = self.lease.wait_for(Option::is_some) => match held {
                Ok(held) => {
                    held.map(|token| JobContext::leased(Arc::clone(&self.leases), token))
                }
                Err(_) => {
                    tracing::error!(job = self.job.name(), "the lease is no longer renewed; this \
                        job runs again after a restart");
                    None
                }
            },
        }
    }

    /// Waits until the keeper has noticed that this token is lost. `false` at shutdown, and if
    /// there is no keeper any more.
    async fn token_ended(&mut self, token: Option<FencingToken>) -> bool {
        tokio::select! {
            biased;
            _ = self.stop.wait_for(|stop| *stop) => false,
            lost = self.lease.wait_for(|held| *held != token) => lost.is_ok(),
        }
    }

    async fn run_once(
        &mut self,
        context: &JobContext,
    ) -> Result<Result<NextRun, BoxError>, Interrupted> {
        let Self { job, lease, stop, .. } = self;
        let limit = job.timeout();
        let span = match job.is_traced() {
            true => tracing::info_span!(
                target: TRACE_TARGET,
                "job",
                span.name = %format_args!("job {}", job.name()),
                span.error = Empty,
            ),
            false => Span::none(),
        };
        let run = AssertUnwindSafe(job.run(context)).catch_unwind().instrument(span.clone());
        let run = timeout(limit, run);
        let lost = async {
            match context.token() {
                Some(token) => drop(lease.wait_for(|held| *held != Some(token)).await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => Err(Interrupted::Shutdown),
            () = lost => Err(Interrupted::LeaseLost),
            ended = run => {
                let ended = match ended {
                    Ok(Ok(Err(error))) if is_fenced(&*error) => return Err(Interrupted::Fenced),
                    Ok(Ok(result)) => result,
                    Ok(Err(_)) => Err("it panicked".into()),
                    Err(_) => Err(format!("it took longer than {limit:?}").into()),
                };
                if let Err(error) = &ended {
                    span.record("span.error", error.to_string());
                }
                Ok(ended)
            }
        }
    }

    /// Counts and logs a failure, and logs when the job works again. Returns the failures in a row.
    fn note(&self, error: Option<BoxError>, failures: u32, delay: Duration) -> u32 {
        let (job, retry_in) = (self.job.name(), delay);
        match error {
            None if failures > 0 => tracing::info!(job, "a background job works again"),
            None => {}
            Some(error) => {
                self.counts.failures.fetch_add(1, Ordering::Relaxed);
                // A job that polls every second must not fill the log.
                if (failures + 1).is_power_of_two() {
                    tracing::warn!(job, %error, ?retry_in, "a background job failed");
                }
                return failures.saturating_add(1);
            }
        }
        0
    }

    /// The time to the next attempt after this many failures before this one.
    fn retry_in(&self, failures: u32) -> Duration {
        let doubled = self.job.retry_delay().saturating_mul(1 << failures.min(16));
        self.with_jitter(doubled.min(self.job.interval()))
    }

    fn with_jitter(&self, delay: Duration) -> Duration {
        let share = match self.jitter {
            true => getrandom::u32().unwrap_or(0) % 1000,
            false => 0,
        };
        delay + delay * share / 1000 / JITTER
    }
}

/// The time of the wall clock, as the dashboard shows it.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Whether a run ended because its token is not current any more.
fn is_fenced(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if matches!(error.downcast_ref(), Some(RegistryError::Fenced)) {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
#[path = "scheduler_tests.rs"]
mod tests;
