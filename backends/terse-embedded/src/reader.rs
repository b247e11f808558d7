//! The reader threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rusqlite::Connection;

use crate::connection_gate::{ConnectionGate, Permit};
use crate::database::Database;
use crate::engine::connect_reader;
use crate::failure::{Failure, unavailable};
use crate::queue::{Dequeued, Queue};

/// A queued read. It gets a connection, or the reason why there is none, and returns whether the
/// connection still works.
pub(crate) type ReadJob<S> = Box<dyn FnOnce(Result<&S, &str>) -> ConnectionHealth + Send>;

/// Whether a connection can be used again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ConnectionHealth {
    Yes,
    No,
}

pub(crate) struct Reader<T: Database> {
    pub(crate) database: T,
    pub(crate) queue: Arc<Queue<ReadJob<T::Queries>>>,
    pub(crate) connection_gate: Arc<ConnectionGate>,
    /// The largest number of jobs that share one read transaction.
    pub(crate) batch: usize,
    /// How many readers serve this queue: the last one to end closes it.
    pub(crate) threads: Arc<AtomicUsize>,
}

impl<T: Database> Drop for Reader<T> {
    fn drop(&mut self) {
        if self.threads.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.queue.abandon();
        }
    }
}

/// An open connection. The field order closes the connection before it releases the permit.
struct Open<S> {
    queries: S,
    permit: Permit,
}

impl<T: Database> Reader<T> {
    /// Reads until the queue is closed and empty.
    pub(crate) fn run(self) {
        let mut open: Option<Open<T::Queries>> = None;
        loop {
            let jobs = match self.queue.take_within(self.batch, Duration::from_secs(3600)) {
                Dequeued::Items(jobs) => jobs,
                Dequeued::Nothing => Vec::new(),
                Dequeued::End => return,
            };
            // Close a dismissed connection at once, even without a job.
            let kept = open.take_if(|open| !open.permit.is_over());
            drop(open.take());
            if jobs.is_empty() {
                open = kept;
                continue;
            }
            match kept
                .map_or_else(|| self.open(), Ok)
                .and_then(|open| Ok(begin(open.queries.as_ref()).map(|()| open)?))
            {
                Ok(opened) => {
                    let mut connected = ConnectionHealth::Yes;
                    for read_job in jobs {
                        if read_job(Ok(&opened.queries)) == ConnectionHealth::No {
                            connected = ConnectionHealth::No;
                        }
                    }
                    if connected == ConnectionHealth::Yes && end(opened.queries.as_ref()).is_ok() {
                        open = Some(opened);
                    }
                }
                Err(error) => {
                    let why = error.to_string();
                    for read_job in jobs {
                        read_job(Err(&why));
                    }
                }
            }
        }
    }

    fn open(&self) -> Result<Open<T::Queries>, Failure> {
        let permit = self
            .connection_gate
            .enter()
            .ok_or_else(|| unavailable("an earlier connection is still open"))?;
        let conn = connect_reader(self.database.site())?;
        Ok(Open { queries: self.database.queries(conn), permit })
    }
}

/// The first lookup takes the snapshot, so it contains every write that was answered before any of
/// these jobs was queued.
fn begin(conn: &Connection) -> rusqlite::Result<()> {
    conn.prepare_cached("BEGIN")?.execute([]).map(|_| ())
}

fn end(conn: &Connection) -> rusqlite::Result<()> {
    conn.prepare_cached("COMMIT")?.execute([]).map(|_| ())
}
