//! The priority of the shipper's thread.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;

use rustix::process::Pid;
use tracing::debug;

/// Niceness of a thread that keeps up. One that has fallen behind has that of the process.
const LOW: i32 = 19;

/// While the shipper keeps up, its priority is low and redirects come first. When it falls behind,
/// its priority is normal: otherwise a busy server would never count, and would drop clicks in the
/// end.
///
/// On Linux each thread has a niceness of its own. Without a privilege (`CAP_SYS_NICE`, or a limit
/// such as systemd's `LimitNICE`) a thread can only lower its priority and never raise it again.
/// Without it, the priority stays normal.
#[derive(Debug)]
pub(crate) struct Priority {
    can_raise: bool,
    low: bool,
    /// The niceness that terse was started with.
    normal: i32,
}

impl Priority {
    /// For the present thread, whose priority is normal.
    pub(crate) fn new() -> Self {
        // On a thread of its own, which may remain low.
        let normal = rustix::process::getpriority_process(None).unwrap_or(0);
        let probe = thread::Builder::new().name("priority".into()).spawn(move || {
            let set = rustix::process::setpriority_process;
            normal < LOW && set(None, normal + 1).is_ok() && set(None, normal).is_ok()
        });
        let can_raise = probe.is_ok_and(|probe| probe.join().unwrap_or(false));
        Self { can_raise, low: false, normal }
    }

    /// One that never changes.
    pub(crate) fn fixed() -> Self {
        Self { can_raise: false, low: false, normal: 0 }
    }

    /// Lowers the priority of the present thread, or makes it normal.
    pub(crate) fn set(&mut self, low: bool) {
        if !self.can_raise || low == self.low {
            return;
        }
        let niceness = if low { LOW } else { self.normal };
        if rustix::process::setpriority_process(None, niceness).is_ok() {
            self.low = low;
            debug!(niceness, "the thread that counts clicks changes its priority");
        }
    }

    /// Lets other threads raise the priority of this one, see [`PriorityBoost`].
    pub(crate) fn share(&self, boost: &PriorityBoost) {
        let id = std::fs::read_link("/proc/thread-self").ok();
        let id = id.and_then(|path| path.file_name()?.to_str()?.parse().ok());
        boost.normal.store(self.normal, Ordering::Relaxed);
        boost.thread.store(id.filter(|_| self.can_raise).unwrap_or(0), Ordering::Release);
    }

    /// Notes whether another thread has raised the priority.
    pub(crate) fn note_boost(&mut self, boost: &PriorityBoost) {
        if boost.raised.swap(false, Ordering::Relaxed) {
            self.low = false;
        }
    }

    /// Whether it is low.
    #[cfg(test)]
    pub(crate) fn is_low(&self) -> bool {
        self.low
    }
}

/// Raises the shipper's priority for a thread that waits for a lock which the shipper holds: at low
/// priority the shipper would hold it for long. The shipper lowers its priority again.
#[derive(Debug, Default)]
pub(crate) struct PriorityBoost {
    /// The shipper's thread; 0 if its priority cannot be raised.
    thread: AtomicI32,
    normal: AtomicI32,
    raised: AtomicBool,
}

impl PriorityBoost {
    /// The shipper's thread ends: another thread may get its number.
    pub(crate) fn end(&self) {
        self.thread.store(0, Ordering::Relaxed);
    }

    /// Makes the shipper's priority normal.
    pub(crate) fn raise(&self) {
        if let Some(thread) = Pid::from_raw(self.thread.load(Ordering::Acquire))
            && !self.raised.swap(true, Ordering::Relaxed)
        {
            // If it fails, the caller waits longer.
            let normal = self.normal.load(Ordering::Relaxed);
            let _raised = rustix::process::setpriority_process(Some(thread), normal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_cannot_raise_its_priority_never_lowers_it() {
        thread::spawn(|| {
            let niceness = || rustix::process::getpriority_process(None).unwrap();
            let normal = niceness();
            let mut priority = Priority { can_raise: false, low: false, normal };
            priority.set(true);
            assert!(!priority.is_low());
            assert_eq!(niceness(), normal);
            let mut priority = Priority::new();
            priority.set(true);
            assert_eq!(priority.is_low(), priority.can_raise);
            priority.set(false);
            assert!(!priority.is_low());
            assert_eq!(niceness(), normal);
            // Another thread raises it, and it can be lowered again.
            let boost = PriorityBoost::default();
            boost.raise();
            priority.share(&boost);
            for _ in 0..2 {
                priority.set(true);
                thread::scope(|scope| scope.spawn(|| boost.raise()).join().unwrap());
                assert_eq!(niceness(), normal);
                priority.note_boost(&boost);
                assert!(!priority.is_low());
            }
            // Not after the shipper has ended.
            boost.end();
            priority.set(true);
            thread::scope(|scope| scope.spawn(|| boost.raise()).join().unwrap());
            assert_eq!(niceness(), if priority.can_raise { LOW } else { normal });
        })
        .join()
        .unwrap();
    }
}
