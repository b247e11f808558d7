//! Whether a process still runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Ends what runs in a process when it is dropped. Unlike a `watch` channel, it wakes those who
/// wait in the order in which they began to wait, so that a seed replays.
#[derive(Debug, Default)]
pub(crate) struct Alive(Arc<State>);

#[derive(Debug, Default)]
struct State {
    has_ended: AtomicBool,
    end: Notify,
}

impl Alive {
    pub(crate) fn subscribe(&self) -> End {
        End(Arc::clone(&self.0))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.has_ended.store(true, Ordering::Relaxed);
        self.0.end.notify_waiters();
    }
}

/// The end of a process.
#[derive(Clone, Debug)]
pub(crate) struct End(Arc<State>);

impl End {
    /// Waits until the process has ended.
    pub(crate) async fn wait(&self) {
        let end = self.0.end.notified();
        if !self.0.has_ended.load(Ordering::Relaxed) {
            end.await;
        }
    }
}
