//! Whether the store accepts writes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use terse_core::StoreError;

use crate::failure::unavailable;

pub(crate) struct Health {
    started: Instant,
    broken: AtomicBool,
    why: Mutex<String>,
    /// When the writer began the current batch, in milliseconds after `started`, plus one; 0
    /// between batches.
    writing_since: AtomicU64,
}

impl Health {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            broken: AtomicBool::new(false),
            why: Mutex::new(String::new()),
            writing_since: AtomicU64::new(0),
        }
    }

    /// Call it before every write, so that no write waits for a disk that is known to be broken.
    pub(crate) fn refuse_if_broken(&self) -> Result<(), StoreError> {
        if !self.broken.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(unavailable(self.why.lock().unwrap_or_else(PoisonError::into_inner).clone()))
    }

    /// Like [`Self::refuse_if_broken`], and also fails if the disk has stopped answering.
    pub(crate) fn check(&self, timeout: Duration) -> Result<(), StoreError> {
        self.refuse_if_broken()?;
        let since = self.writing_since.load(Ordering::Relaxed);
        if since > 0 && self.now().saturating_sub(since) > timeout.as_millis() as u64 {
            return Err(unavailable("the disk does not answer"));
        }
        Ok(())
    }

    pub(crate) fn set_failed(&self, why: &str) {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = why.to_owned();
        self.broken.store(true, Ordering::Release);
    }

    pub(crate) fn set_recovered(&self) {
        self.broken.store(false, Ordering::Release);
    }

    pub(crate) fn writing(&self, writing: bool) {
        self.writing_since.store(if writing { self.now() } else { 0 }, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_millis() as u64 + 1
    }
}
