//! Who is connected and since when they have been waiting: a coarse sweep instead of a timer per read.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use tokio::task::AbortHandle;

use crate::settings::Settings;

/// What a connection is waiting for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Waiting {
    /// The next request, of which nothing has come yet.
    Request,
    /// The rest of a request.
    Rest,
    /// The client to take an answer.
    Taking,
    /// Us, or hyper with timers of its own.
    Us,
}

/// One connection's seat.
#[derive(Debug)]
pub(crate) struct Seat {
    since_ms: Cell<i64>,
    waiting: Cell<Waiting>,
}

impl Seat {
    /// Notes what the connection waits for from now on. Going on waiting for the rest of the same request does not reset
    /// the time.
    pub(crate) fn wait(&self, waiting: Waiting, now_ms: i64) {
        if waiting != Waiting::Rest || self.waiting.get() != Waiting::Rest {
            self.since_ms.set(now_ms);
        }
        self.waiting.set(waiting);
    }
}

/// All seats of one thread.
#[derive(Default)]
pub(crate) struct Seats {
    taken: RefCell<Vec<(Weak<Seat>, AbortHandle)>>,
}

impl Seats {
    /// A seat for a new connection.
    pub(crate) fn seat(now_ms: i64) -> Rc<Seat> {
        Rc::new(Seat { since_ms: Cell::new(now_ms), waiting: Cell::new(Waiting::Request) })
    }

    /// Remembers whose task sits there.
    pub(crate) fn take(&self, seat: &Rc<Seat>, task: AbortHandle) {
        self.taken.borrow_mut().push((Rc::downgrade(seat), task));
    }

    /// Ends the connections that have waited too long for their client, and says how many. While stopping, idle ones too.
    pub(crate) fn sweep(&self, now_ms: i64, settings: &Settings, stopping: bool) -> u64 {
        let ms = |duration: std::time::Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        let mut ended = 0;
        self.taken.borrow_mut().retain(|(seat, task)| {
            let Some(seat) = seat.upgrade() else { return false };
            let waited = now_ms - seat.since_ms.get();
            let limit = match seat.waiting.get() {
                Waiting::Request if stopping => -1,
                Waiting::Request => ms(settings.idle_timeout),
                Waiting::Rest | Waiting::Taking => ms(settings.header_timeout),
                Waiting::Us => i64::MAX,
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
        self.taken.borrow().iter().all(|(seat, _)| seat.strong_count() == 0)
    }
}
