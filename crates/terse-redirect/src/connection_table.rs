//! The open connections of a thread and since when each has been idle. A periodic sweep closes idle
//! connections, so that no read needs a timer of its own.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

use tokio::task::AbortHandle;

use crate::settings::RedirectSettings;

/// Longer than the request timeout of the web plane.
const MAX_REQUEST_TIME: std::time::Duration = std::time::Duration::from_secs(35);
/// While stopping, a new connection has this long to send its first request, because a client
/// connects in order to send one. Longer than a client on a busy machine needs.
const FIRST_REQUEST_MS: i64 = 2_000;
/// While stopping, a connection that was answered has this long to send another.
const NEXT_REQUEST_MS: i64 = 100;
/// How many idle connections are closed at once to make room. Finding them takes a walk over all
/// connections of the thread, which this many new connections share.
const MAKE_ROOM: usize = 32;

/// What a connection is waiting for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Waiting {
    /// The client's part of a TLS handshake, or the header of the PROXY protocol.
    Handshake,
    /// The first byte of the first request.
    First,
    /// The first byte of the next request.
    Request,
    /// The rest of a request.
    Rest,
    /// The client, to read an answer.
    Write,
    /// A lookup in the store, which has a timeout of its own.
    LookUp,
    /// hyper, since its last request began or since it last sent a part of an answer.
    Hyper,
}

/// What one connection waits for, and since when, by the steady clock.
#[derive(Debug)]
pub(crate) struct IdleTracker {
    since_ms: Cell<i64>,
    waiting: Cell<Waiting>,
    /// Requests that hyper has not answered to the end.
    in_progress: Cell<u32>,
    /// Whether to close the connection as soon as it has nothing to read.
    closing: Cell<bool>,
    /// Whether the connection is being closed to make room for another.
    making_room: Cell<bool>,
    waker: OnceCell<Waker>,
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

    /// Keeps the waker of the connection's task.
    pub(crate) fn set_waker(&self, waker: &Waker) {
        let _ = self.waker.set(waker.clone());
    }

    /// Whether the connection is being closed to make room for another.
    pub(crate) fn is_making_room(&self) -> bool {
        self.making_room.get()
    }

    /// Whether to close the connection if there is nothing to read.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// Waits for a step before the first request; `None` if the connection is to be closed first.
    pub(crate) async fn set_up<T>(&self, now_ms: i64, step: impl Future<Output = T>) -> Option<T> {
        self.wait(Waiting::Handshake, now_ms);
        self.until_closing(step).await
    }

    /// Waits for a step, or until the connection is to be closed: then `None`.
    pub(crate) async fn until_closing<T>(&self, step: impl Future<Output = T>) -> Option<T> {
        let mut step = std::pin::pin!(step);
        std::future::poll_fn(|cx| {
            self.set_waker(cx.waker());
            match step.as_mut().poll(cx) {
                Poll::Pending if self.is_closing() => Poll::Ready(None),
                polled => polled.map(Some),
            }
        })
        .await
    }

    /// Wakes the connection, so that it reads what has arrived, and closes if nothing has: a
    /// request that is already here is answered.
    fn close_if_quiet(&self) {
        self.closing.set(true);
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    /// Whether the connection has no request in progress.
    fn is_idle(&self) -> bool {
        if self.making_room.get() {
            return false;
        }
        match self.waiting.get() {
            Waiting::Handshake | Waiting::First | Waiting::Request => true,
            Waiting::Hyper => self.in_progress.get() == 0,
            Waiting::Rest | Waiting::Write | Waiting::LookUp => false,
        }
    }
}

/// A request that hyper serves; dropped when its answer is sent.
pub(crate) struct InProgress(Rc<IdleTracker>);

impl InProgress {
    pub(crate) fn new(tracker: Rc<IdleTracker>) -> Self {
        tracker.in_progress.set(tracker.in_progress.get() + 1);
        Self(tracker)
    }

    /// Notes that the request makes progress.
    pub(crate) fn mark(&self, now_ms: i64) {
        self.0.wait(Waiting::Hyper, now_ms);
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.in_progress.set(self.0.in_progress.get().saturating_sub(1));
    }
}

/// The connections of one thread, in the order of their arrival.
#[derive(Default)]
pub(crate) struct ConnectionTable {
    connections: RefCell<Vec<(Weak<IdleTracker>, AbortHandle)>>,
    /// Connections that are being closed and still count as open.
    making_room: Cell<usize>,
}

impl ConnectionTable {
    /// Connections that are being closed to make room, and still count as open.
    pub(crate) fn making_room(&self) -> usize {
        self.making_room.get()
    }

    /// Notes that a connection has closed to make room.
    pub(crate) fn made_room(&self) {
        self.making_room.set(self.making_room.get().saturating_sub(1));
    }

    /// The tracker of a new connection.
    pub(crate) fn idle_tracker(now_ms: i64) -> Rc<IdleTracker> {
        Rc::new(IdleTracker {
            since_ms: Cell::new(now_ms),
            waiting: Cell::new(Waiting::First),
            in_progress: Cell::new(0),
            closing: Cell::new(false),
            making_room: Cell::new(false),
            waker: OnceCell::new(),
        })
    }

    /// Adds a connection and its task.
    pub(crate) fn add(&self, idle_tracker: &Rc<IdleTracker>, task: AbortHandle) {
        self.connections.borrow_mut().push((Rc::downgrade(idle_tracker), task));
    }

    /// Closes the connections that have waited too long for their client, and while stopping also
    /// the idle ones. Returns the number of the former.
    pub(crate) fn sweep(&self, now_ms: i64, settings: &RedirectSettings, stopping: bool) -> u64 {
        let ms =
            |duration: std::time::Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        let mut closed = 0;
        self.connections.borrow_mut().retain(|(idle_tracker, task)| {
            let Some(idle_tracker) = idle_tracker.upgrade() else { return false };
            let waited = now_ms - idle_tracker.since_ms.get();
            let waiting = idle_tracker.waiting.get();
            let limit = match waiting {
                Waiting::Handshake => ms(settings.handshake_timeout),
                Waiting::First | Waiting::Request => ms(settings.idle_timeout),
                Waiting::Rest | Waiting::Write => ms(settings.header_timeout),
                Waiting::LookUp => i64::MAX,
                Waiting::Hyper => ms(settings.idle_timeout.saturating_add(MAX_REQUEST_TIME)),
            };
            if waited > limit {
                task.abort();
                closed += 1;
            } else if stopping
                && ((matches!(waiting, Waiting::Handshake | Waiting::First)
                    && waited > FIRST_REQUEST_MS)
                    || (waiting == Waiting::Request && waited > NEXT_REQUEST_MS))
            {
                idle_tracker.close_if_quiet();
            }
            true
        });
        closed
    }

    /// Closes some of the connections that have been idle longest, and returns their number.
    pub(crate) fn make_room(&self) -> usize {
        let connections = self.connections.borrow();
        let mut idle: Vec<(i64, usize)> = connections
            .iter()
            .enumerate()
            .filter_map(|(at, (tracker, _))| {
                let tracker = tracker.upgrade().filter(|tracker| tracker.is_idle())?;
                Some((tracker.since_ms.get(), at))
            })
            .collect();
        if idle.len() > MAKE_ROOM {
            idle.select_nth_unstable(MAKE_ROOM);
            idle.truncate(MAKE_ROOM);
        }
        for (_, at) in &idle {
            let (tracker, task) = &connections[*at];
            if let Some(tracker) = tracker.upgrade() {
                tracker.making_room.set(true);
            }
            task.abort();
        }
        self.making_room.set(self.making_room.get() + idle.len());
        idle.len()
    }

    /// Whether no connection is open.
    pub(crate) fn is_empty(&self) -> bool {
        self.connections.borrow().iter().all(|(idle_tracker, _)| idle_tracker.strong_count() == 0)
    }
}
