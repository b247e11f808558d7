//! The open connections of a thread and since when each has been idle. A periodic sweep closes idle
//! connections, so that no read needs a timer of its own.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use tokio::task::AbortHandle;

use crate::settings::Settings;

/// Longer than the request timeout of the web side.
const MAX_REQUEST_TIME: std::time::Duration = std::time::Duration::from_secs(35);

/// What a connection is waiting for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Waiting {
    /// The first byte of the next request.
    Request,
    /// The rest of a request.
    Rest,
    /// The client, to read an answer.
    Write,
    /// A look-up in the store, which has a timeout of its own.
    LookUp,
    /// hyper, since its last request began or since it last sent a part of an answer.
    Hyper,
}

/// What one connection waits for, and since when.
#[derive(Debug)]
pub(crate) struct IdleTracker {
    since_ms: Cell<i64>,
    waiting: Cell<Waiting>,
}

impl IdleTracker {
    /// Notes what the connection waits for from now on.
    pub(crate) fn wait(&self, waiting: Waiting, now_ms: i64) {
        self.since_ms.set(now_ms);
        self.waiting.set(waiting);
    }

    /// Notes that the connection waits for the rest of a request. The time starts anew only for
    /// another request.
    pub(crate) fn wait_for_rest(&self, another_request: bool, now_ms: i64) {
        if another_request || self.waiting.get() != Waiting::Rest {
            self.wait(Waiting::Rest, now_ms);
        }
    }
}

/// The connections of one thread.
#[derive(Default)]
pub(crate) struct ConnectionTable {
    connections: RefCell<Vec<(Weak<IdleTracker>, AbortHandle)>>,
}

impl ConnectionTable {
    /// The tracker of a new connection.
    pub(crate) fn idle_tracker(now_ms: i64) -> Rc<IdleTracker> {
        Rc::new(IdleTracker { since_ms: Cell::new(now_ms), waiting: Cell::new(Waiting::Request) })
    }

    /// Adds a connection and its task.
    pub(crate) fn add(&self, idle_tracker: &Rc<IdleTracker>, task: AbortHandle) {
        self.connections.borrow_mut().push((Rc::downgrade(idle_tracker), task));
    }

    /// Closes the connections that have waited too long for their client, and while stopping also
    /// the idle ones. Returns their number.
    pub(crate) fn sweep(&self, now_ms: i64, settings: &Settings, stopping: bool) -> u64 {
        let ms =
            |duration: std::time::Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        let mut closed = 0;
        self.connections.borrow_mut().retain(|(idle_tracker, task)| {
            let Some(idle_tracker) = idle_tracker.upgrade() else { return false };
            let waited = now_ms - idle_tracker.since_ms.get();
            let limit = match idle_tracker.waiting.get() {
                Waiting::Request if stopping => -1,
                Waiting::Request => ms(settings.idle_timeout),
                Waiting::Rest | Waiting::Write => ms(settings.header_timeout),
                Waiting::LookUp => i64::MAX,
                Waiting::Hyper => ms(settings.idle_timeout.saturating_add(MAX_REQUEST_TIME)),
            };
            if waited > limit {
                task.abort();
                closed += 1;
            }
            true
        });
        closed
    }

    /// Whether no connection is open.
    pub(crate) fn is_empty(&self) -> bool {
        self.connections.borrow().iter().all(|(idle_tracker, _)| idle_tracker.strong_count() == 0)
    }
}
