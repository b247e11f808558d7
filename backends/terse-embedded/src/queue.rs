//! A bounded queue from async callers to threads, which take many items at once.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) struct Queue<T> {
    inner: Mutex<Inner<T>>,
    ready: Condvar,
    bound: usize,
}

struct Inner<T> {
    items: VecDeque<T>,
    /// Sleeping threads. Waking one is a system call, skipped when all are busy.
    waiting: usize,
    wake_ups: u64,
    closed: bool,
}

/// Why the queue refuses an item.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Refused {
    Full,
    Closed,
}

/// The result of a take.
pub(crate) enum Dequeued<T> {
    Items(Vec<T>),
    /// No item arrived in the given time.
    Nothing,
    /// The queue is closed and empty.
    End,
}

impl<T> Queue<T> {
    pub(crate) fn new(bound: usize) -> Self {
        let inner = Inner { items: VecDeque::new(), waiting: 0, wake_ups: 0, closed: false };
        Self { inner: Mutex::new(inner), ready: Condvar::new(), bound: bound.max(1) }
    }

    /// Adds an item. Never waits.
    pub(crate) fn push(&self, item: T) -> Result<(), Refused> {
        let mut inner = self.lock();
        if inner.closed {
            return Err(Refused::Closed);
        }
        if inner.items.len() >= self.bound {
            return Err(Refused::Full);
        }
        inner.items.push_back(item);
        let wake = inner.waiting > 0;
        drop(inner);
        if wake {
            self.ready.notify_one();
        }
        Ok(())
    }

    /// Waits for items and takes up to `most` of them.
    pub(crate) fn take(&self, most: usize) -> Dequeued<T> {
        loop {
            match self.take_within(most, Duration::from_secs(3600)) {
                Dequeued::Nothing => {}
                taken => return taken,
            }
        }
    }

    /// Like [`Self::take`], but returns after this time, or when [`Self::wake`] is called.
    pub(crate) fn take_within(&self, most: usize, timeout: Duration) -> Dequeued<T> {
        let until = Instant::now() + timeout;
        let mut inner = self.lock();
        let wake_ups = inner.wake_ups;
        loop {
            if !inner.items.is_empty() {
                let count = inner.items.len().min(most);
                return Dequeued::Items(inner.items.drain(..count).collect());
            }
            if inner.closed {
                return Dequeued::End;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || inner.wake_ups != wake_ups {
                return Dequeued::Nothing;
            }
            inner.waiting += 1;
            inner = self.ready.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
            inner.waiting -= 1;
        }
    }

    /// Wakes the idle threads, so that they check their connections.
    pub(crate) fn wake(&self) {
        self.lock().wake_ups += 1;
        self.ready.notify_all();
    }

    /// Refuses new items; threads can still take the waiting ones.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_all();
    }

    /// Refuses new items and drops the waiting ones.
    pub(crate) fn abandon(&self) {
        let items = {
            let mut inner = self.lock();
            inner.closed = true;
            std::mem::take(&mut inner.items)
        };
        self.ready.notify_all();
        drop(items);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().items.len()
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes a queue when its last thread ends, even by a panic, so that waiting callers get an
/// answer.
pub(crate) struct QueueReceiver<T>(pub(crate) std::sync::Arc<Queue<T>>);

impl<T> Drop for QueueReceiver<T> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_full_queue_refuses_and_a_closed_one_is_emptied_first() {
        let queue = Queue::new(2);
        assert_eq!(
            (queue.push(1), queue.push(2), queue.push(3)),
            (Ok(()), Ok(()), Err(Refused::Full))
        );
        queue.close();
        assert_eq!(queue.push(4), Err(Refused::Closed));
        assert!(matches!(queue.take(1), Dequeued::Items(items) if items == [1]));
        assert!(matches!(queue.take(9), Dequeued::Items(items) if items == [2]));
        assert!(matches!(queue.take(9), Dequeued::End));
    }

    #[test]
    fn everything_pushed_by_many_is_taken_once_by_many() {
        let queue = Arc::new(Queue::new(100_000));
        let takers: Vec<_> = (0..3)
            .map(|_| {
                let queue = queue.clone();
                std::thread::spawn(move || {
                    let mut sum = 0u64;
                    while let Dequeued::Items(items) = queue.take(7) {
                        sum += items.iter().sum::<u64>();
                    }
                    sum
                })
            })
            .collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (1..=10_000).for_each(|n| queue.push(n).unwrap()));
            }
        });
        queue.close();
        let sum: u64 = takers.into_iter().map(|taker| taker.join().unwrap()).sum();
        assert_eq!(sum, 4 * 10_000 * 10_001 / 2);
    }
}
