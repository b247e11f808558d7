//! The writer thread.
//!
//! It takes all waiting jobs, writes them in one transaction, and answers after the sync: many
//! callers share one fsync, and none waits for a timer. If the disk fails, every caller in the
//! batch gets an error that the outcome is unknown; the connection is closed, and no job is
//! accepted before there is a new one.
//!
//! After a failed sync, a later success proves nothing, because the kernel may have dropped the
//! pages. After a disk error every connection is therefore closed, so that SQLite discards its
//! cached state, and the whole log is checkpointed again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use terse_core::StoreError;
use tokio::sync::oneshot;

use crate::connection_gate::{ConnectionGate, Permit};
use crate::database::{Database, Writes};
use crate::engine::{LogLength, backfilled, checkpoint, connect_writer, keep_log_on_close};
use crate::failure::{Failure, corrupt, drops_pages, is_single_job_error, unavailable};
use crate::fence;
use crate::health::Health;
use crate::queue::{Dequeued, Queue, QueueReceiver};
use crate::reader::ReadJob;

/// When the log is this many times too long because readers prevented its reset, the writer waits
/// briefly for them.
const TOO_LONG: u32 = 16;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// A queued write.
pub(crate) trait WriteJob<S>: Send {
    /// Does the work inside a transaction and stores the answer. Runs again after a rollback.
    fn run(&mut self, writes: &mut S) -> Result<(), rusqlite::Error>;
    /// Sends the answer, once the work is on the disk.
    fn answer(self: Box<Self>);
    /// Sends an error: the write failed, or its outcome is unknown.
    fn refuse(self: Box<Self>, error: StoreError);
    /// Whether the caller no longer waits.
    fn is_abandoned(&self) -> bool;
}

/// Work of any kind, its answer, and the channel to its caller.
pub(crate) struct QueuedWrite<W, T> {
    work: W,
    outcome: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<W, T> QueuedWrite<W, T> {
    pub(crate) fn new(work: W, reply: oneshot::Sender<Result<T, StoreError>>) -> Self {
        Self { work, outcome: None, reply }
    }
}

impl<S, W, T> WriteJob<S> for QueuedWrite<W, T>
where
    W: FnMut(&mut S) -> Result<T, Failure> + Send,
    T: Send,
{
    fn run(&mut self, writes: &mut S) -> Result<(), rusqlite::Error> {
        self.outcome = Some(match (self.work)(writes) {
            Ok(answer) => Ok(answer),
            Err(Failure::Refused(error)) => Err(error),
            Err(Failure::Engine(error)) => return Err(error),
        });
        Ok(())
    }

    fn answer(self: Box<Self>) {
        let outcome = self.outcome.unwrap_or_else(|| Err(unavailable("the write was never tried")));
        let _gone = self.reply.send(outcome);
    }

    fn refuse(self: Box<Self>, error: StoreError) {
        let _gone = self.reply.send(Err(error));
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }
}

type Jobs<S> = Vec<Box<dyn WriteJob<S>>>;

pub(crate) struct Writer<T: Database> {
    pub(crate) database: T,
    pub(crate) health: Arc<Health>,
    pub(crate) queue: Arc<Queue<Box<dyn WriteJob<T::Writes>>>>,
    pub(crate) connection_gate: Arc<ConnectionGate>,
    /// The queues of the readers.
    pub(crate) readers: Vec<Arc<Queue<ReadJob<T::Queries>>>>,
}

/// An open connection. The last field, the permit, is released after it is closed.
struct WriterState<S> {
    writes: S,
    log: LogLength,
    checkpoint_at: u32,
    restart_at: u32,
    _seat: Permit,
}

/// Why a transaction was not committed.
struct TransactionError {
    error: rusqlite::Error,
    /// The index of the job that failed, if one did.
    over: Option<usize>,
}

impl From<rusqlite::Error> for TransactionError {
    fn from(error: rusqlite::Error) -> Self {
        Self { error, over: None }
    }
}

/// The disk failed: the connection can no longer be trusted.
struct WriterFailed(rusqlite::Error);

impl<T: Database> Writer<T> {
    /// Writes until the queue is closed and empty.
    pub(crate) fn run(self) {
        let _attendant = QueueReceiver(self.queue.clone());
        let mut next = match self.open() {
            Ok(next) => Some(next),
            Err(error) => self.recover(error),
        };
        while let Some(mut state) = next.take() {
            let Dequeued::Items(mut jobs) = self.queue.take(T::MAX_WRITES_PER_COMMIT) else {
                // No error, and all other connections are closed: SQLite may delete the log.
                state.writes.log_ends();
                if let Err(error) = keep_log_on_close(state.writes.conn(), false) {
                    tracing::warn!(%error, "the log stays beside the {} file", T::NAME);
                }
                return;
            };
            jobs.retain(|job| !job.is_abandoned());
            if jobs.is_empty() {
                next = Some(state);
                continue;
            }
            self.health.writing(true);
            let outcome = state.write(jobs);
            self.health.writing(false);
            next = match outcome {
                Ok(()) => Some(state),
                Err((WriterFailed(error), jobs)) => {
                    drop(state);
                    // Recorded before the callers get their error, so that their retries fail fast.
                    self.health.set_failed(&error.to_string());
                    refuse(jobs, &error.to_string());
                    self.recover(error.into())
                }
            };
        }
    }

    fn open(&self) -> Result<WriterState<T::Writes>, Failure> {
        let permit = self
            .connection_gate
            .enter()
            .ok_or_else(|| unavailable("a reader still has the file open"))?;
        let (conn, log) = connect_writer(self.database.site())?;
        Ok(WriterState {
            writes: self.database.writes(conn)?,
            log,
            checkpoint_at: T::CHECKPOINT_PAGES,
            restart_at: TOO_LONG * T::CHECKPOINT_PAGES,
            _seat: permit,
        })
    }

    /// Refuses all jobs until the disk works again. `None` if the store is closed meanwhile.
    fn recover(&self, error: Failure) -> Option<WriterState<T::Writes>> {
        let mut why = error.to_string();
        tracing::error!(error = why, "{} cannot be written; trying to recover", T::NAME);
        let mut pages_dropped = false;
        let mut begin_anew = drops_pages(&error);
        let mut pause = FIRST_PAUSE;
        loop {
            self.health.set_failed(&why);
            pages_dropped |= begin_anew;
            if begin_anew {
                self.connection_gate.dismiss();
                self.readers.iter().for_each(|queue| queue.wake());
            }
            match self.queue.take_within(T::MAX_WRITES_PER_COMMIT, pause) {
                Dequeued::End => return None,
                Dequeued::Items(jobs) => {
                    refuse(jobs, &why);
                    begin_anew = false;
                    continue;
                }
                Dequeued::Nothing => {}
            }
            // Wake again: a reader may have been about to fall asleep.
            self.readers.iter().for_each(|queue| queue.wake());
            let error = match self.reopen(pages_dropped) {
                Ok(Some(next)) => {
                    tracing::info!("{} can be written again", T::NAME);
                    self.health.set_recovered();
                    return Some(next);
                }
                Ok(None) => {
                    why = "another process keeps the file open, so its log cannot be checkpointed"
                        .into();
                    begin_anew = true;
                    pause = (pause * 2).min(MAX_PAUSE);
                    continue;
                }
                Err(error) => error,
            };
            why = error.to_string();
            begin_anew = drops_pages(&error);
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    /// Opens a new connection. If the kernel may have dropped pages, it checkpoints the whole log
    /// again and empties it; `None` if that fails because SQLite's old state still says that a part
    /// of the log is in the file.
    fn reopen(&self, pages_dropped: bool) -> Result<Option<WriterState<T::Writes>>, Failure> {
        let mut next = self.open()?;
        let conn = next.writes.conn();
        if !pages_dropped {
            // Checks whether the disk accepts writes. A blocking reader does not matter.
            checkpoint(conn, "PASSIVE")?;
            return Ok(Some(next));
        }
        if backfilled(conn)? > 0 {
            return Ok(None);
        }
        next.writes.log_ends();
        match checkpoint(next.writes.conn(), "TRUNCATE")? {
            true => Ok(Some(next)),
            false => Err(unavailable("a reader keeps the log from being cleared").into()),
        }
    }
}

fn refuse<S>(jobs: Jobs<S>, why: &str) {
    for job in jobs {
        job.refuse(unavailable(why));
    }
}

impl<S: Writes> WriterState<S> {
    /// Writes and answers all jobs, or returns those without an answer.
    fn write(&mut self, mut jobs: Jobs<S>) -> Result<(), (WriterFailed, Jobs<S>)> {
        let mut repaired = false;
        loop {
            match self.commit(&mut jobs) {
                Ok(()) => break,
                // Damage that was removed, once: all jobs are tried again.
                Err(TransactionError { error, .. })
                    if !repaired && self.writes.conn().is_autocommit() && {
                        repaired = self.writes.repair(&error).unwrap_or_else(|why| {
                            tracing::error!(error = %why, "the damage cannot be removed");
                            false
                        });
                        repaired
                    } => {}
                // Only this job fails: the others are tried again, together.
                Err(TransactionError { error, over: Some(one) }) if is_single_job_error(&error) => {
                    let job = jobs.remove(one);
                    if fence::refused(&error) {
                        job.refuse(unavailable(error.to_string()));
                        continue;
                    }
                    tracing::error!(%error, "SQLite refused one write; the others are tried again");
                    job.refuse(corrupt(error.to_string()));
                }
                Err(TransactionError { error, .. }) => return Err((WriterFailed(error), jobs)),
            }
        }
        self.writes.committed(self.log.load(Ordering::Relaxed));
        jobs.into_iter().for_each(WriteJob::answer);
        self.prune().map_err(|error| (WriterFailed(error), Vec::new()))
    }

    /// Runs one transaction. After an error nothing of it is stored, unless the commit itself
    /// failed.
    fn commit(&mut self, jobs: &mut Jobs<S>) -> Result<(), TransactionError> {
        let done = self.try_commit(jobs);
        if done.is_err() {
            if !self.writes.conn().is_autocommit() {
                self.writes.conn().execute_batch("ROLLBACK")?;
            }
            // Without the counters from the file, nothing more may be written.
            self.writes.reload()?;
        }
        done
    }

    fn try_commit(&mut self, jobs: &mut Jobs<S>) -> Result<(), TransactionError> {
        self.writes.conn().prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for (n, job) in jobs.iter_mut().enumerate() {
            job.run(&mut self.writes).map_err(|error| TransactionError { error, over: Some(n) })?;
        }
        self.writes.finish()?;
        self.writes.conn().prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    /// Keeps the log short. All callers have their answers by now.
    fn prune(&mut self) -> Result<(), rusqlite::Error> {
        let pages = self.log.load(Ordering::Relaxed);
        if pages < self.checkpoint_at {
            return Ok(());
        }
        checkpoint(self.writes.conn(), "PASSIVE")?;
        if pages >= self.restart_at {
            self.writes.log_ends();
            let conn = self.writes.conn();
            conn.busy_timeout(Duration::from_millis(100))?;
            let done = checkpoint(conn, "TRUNCATE");
            conn.busy_timeout(Duration::from_secs(5))?;
            // A backup reads for minutes; the writer does not wait for it after every batch.
            self.restart_at =
                if done? { TOO_LONG * self.checkpoint_at } else { pages.saturating_mul(2) };
        }
        self.log.store(0, Ordering::Relaxed);
        Ok(())
    }
}
