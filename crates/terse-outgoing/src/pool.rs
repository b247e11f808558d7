//! A few threads, and a short queue before them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

type Job = Box<dyn FnOnce() + Send>;

/// Threads that do one job after the other. Dropped, it takes no more; jobs under way end at their
/// own deadline, and hold nothing that would have to be saved.
pub(crate) struct Pool(SyncSender<Job>);

impl Pool {
    pub(crate) fn start(threads: usize, waiting: usize) -> Self {
        let (sender, receiver) = sync_channel(waiting.max(1));
        let receiver = Arc::new(Mutex::new(receiver));
        for at in 0..threads.max(1) {
            let receiver = Arc::clone(&receiver);
            // If no thread can be had at all, the receiver is gone and every call is told `Busy`.
            let _ = std::thread::Builder::new()
                .name(format!("outgoing-{at}"))
                .spawn(move || work(&receiver));
        }
        Self(sender)
    }

    /// Whether there was room.
    pub(crate) fn offer(&self, job: Job) -> bool {
        self.0.try_send(job).is_ok()
    }
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        // A job that breaks loses its own answer, not the thread.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_refuses_and_a_broken_job_harms_nobody() {
        let pool = Pool::start(1, 1);
        let (hold, held) = sync_channel::<()>(0);
        let (began, begun) = sync_channel::<()>(0);
        assert!(pool.offer(Box::new(move || {
            began.send(()).unwrap();
            let _ = held.recv();
            std::panic::resume_unwind(Box::new("broken"));
        })));
        begun.recv().unwrap();
        let (done, end) = sync_channel::<()>(1);
        assert!(pool.offer(Box::new(move || done.send(()).unwrap())));
        assert!(!pool.offer(Box::new(|| ())));
        drop(hold);
        end.recv().unwrap();
    }
}
