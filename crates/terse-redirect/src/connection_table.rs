//! Who is connected and since when they have been waiting: a coarse sweep instead of a timer per
//! read.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use tokio::task::AbortHandle;

use crate::settings::Settings;

/// Longer than the web side lets a request take.
const MAX_REQUEST_TIME: std::time::Duration = std::time::Duration::from_secs(35);

/// What a connection is waiting for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Waiting {
    /// The next request, of which nothing has come yet.
    Request,
    /// The rest of a request.
    Rest,
    /// The client to take an answer.
    Taking,
    /// Us: a look-up, which has a timeout of its own.
    Us,
    /// Whatever hyper is doing with it, since its last request began or a part of an answer was
    /// taken.
    Hyper,
}

/// One connection's seat.
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

    /// Notes that the rest of a request is awaited. Going on waiting for the same one does not
    /// reset the time.
    pub(crate) fn wait_for_rest(&self, of_another: bool, now_ms: i64) {
        if of_another || self.waiting.get() != Waiting::Rest {
            self.wait(Waiting::Rest, now_ms);
        }
    }
}

/// All seats of one thread.
#[derive(Default)]
pub(crate) struct ConnectionTable {
    taken: RefCell<Vec<(Weak<IdleTracker>, AbortHandle)>>,
}

impl ConnectionTable {
    /// A seat for a new connection.
    pub(crate) fn idle_tracker(now_ms: i64) -> Rc<IdleTracker> {
        Rc::new(IdleTracker { since_ms: Cell::new(now_ms), waiting: Cell::new(Waiting::Request) })
    }

    /// Remembers whose task sits there.
    pub(crate) fn take(&self, idle_tracker: &Rc<IdleTracker>, task: AbortHandle) {
        self.taken.borrow_mut().push((Rc::downgrade(idle_tracker), task));
    }

    /// Ends the connections that have waited too long for their client, and says how many. While
    /// stopping, idle ones too.
    pub(crate) fn sweep(&self, now_ms: i64, settings: &Settings, stopping: bool) -> u64 {
        let ms =
            |duration: std::time::Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        let mut ended = 0;
        self.taken.borrow_mut().retain(|(idle_tracker, task)| {
            let Some(idle_tracker) = idle_tracker.upgrade() else { return false };
            let waited = now_ms - idle_tracker.since_ms.get();
            let limit = match idle_tracker.waiting.get() {
                Waiting::Request if stopping => -1,
                Waiting::Request => ms(settings.idle_timeout),
                Waiting::Rest | Waiting::Taking => ms(settings.header_timeout),
                Waiting::Us => i64::MAX,
                Waiting::Hyper => ms(settings.idle_timeout.saturating_add(MAX_REQUEST_TIME)),
            };
            if waited > limit {
                task.abort();
                ended += 1;
            }
            true
        });
        ended
    }

    /// Whether anybody sits.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken.borrow().iter().all(|(idle_tracker, _)| idle_tracker.strong_count() == 0)
    }
}
