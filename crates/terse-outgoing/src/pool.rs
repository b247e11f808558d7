//! A thread pool with a bounded queue.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

type Job = Box<dyn FnOnce() + Send>;

/// A pool of threads. After a drop it accepts no jobs; running jobs end at their own deadline.
pub(crate) struct Pool(SyncSender<Job>);

impl Pool {
    pub(crate) fn start(threads: usize, max_queued: usize) -> Self {
        let (sender, receiver) = sync_channel(max_queued.max(1));
        let receiver = Arc::new(Mutex::new(receiver));
        for at in 0..threads.max(1) {
            let receiver = Arc::clone(&receiver);
            // If no thread can be started, the receiver is dropped and every call fails with
            // `Busy`.
            let _ = std::thread::Builder::new()
                .name(format!("outgoing-{at}"))
                .spawn(move || work(&receiver));
        }
        Self(sender)
    }

    /// Queues a job. False if the queue is full.
    pub(crate) fn try_submit(&self, job: Job) -> bool {
        self.0.try_send(job).is_ok()
    }
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        // A job that panics loses its own result, not the thread.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_refuses_and_a_panic_keeps_the_thread() {
        let pool = Pool::start(1, 1);
        let (hold, held) = sync_channel::<()>(0);
        let (began, begun) = sync_channel::<()>(0);
        assert!(pool.try_submit(Box::new(move || {
            began.send(()).unwrap();
            let _ = held.recv();
            std::panic::resume_unwind(Box::new("broken"));
        })));
        begun.recv().unwrap();
        let (done, end) = sync_channel::<()>(1);
        assert!(pool.try_submit(Box::new(move || done.send(()).unwrap())));
        assert!(!pool.try_submit(Box::new(|| ())));
        drop(hold);
        end.recv().unwrap();
    }
}
