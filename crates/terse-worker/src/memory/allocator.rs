//! Settings of the allocator, and memory that it gives back: glibc's allocator, or mimalloc, which
//! the static binaries have.
#![allow(unsafe_code, reason = "the allocators offer these calls only in C")]

use std::time::Duration;

use async_trait::async_trait;
use terse_core::BoxError;
use terse_core::job::{Job, JobContext, NextRun};

/// By default glibc gives threads up to eight heaps per core and returns little of what one of them
/// once used. Redirects allocate nothing, and everything else allocates far less than it waits, so
/// two heaps are enough. Large blocks, such as batches of clicks, are mapped each on its own and go
/// back to the system at once; without the setting, glibc stops doing so after the first one.
/// docs/reliability.md has the figures. mimalloc needs no setting: it has heaps per thread, and
/// maps large blocks each on its own. Call this before other threads start.
pub fn configure_allocator() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const SETTINGS: [(libc::c_int, libc::c_int); 3] = [
            (libc::M_ARENA_MAX, 2),
            (libc::M_MMAP_THRESHOLD, 128 << 10),
            (libc::M_TRIM_THRESHOLD, 1 << 20),
        ];
        for (name, value) in SETTINGS {
            // SAFETY: the call takes two numbers and stores one; it is made before other threads
            // start.
            if unsafe { libc::mallopt(name, value) } != 1 {
                tracing::debug!(name, value, "the allocator refuses a setting");
            }
        }
    }
}

/// How often free memory goes back to the system.
const INTERVAL: Duration = Duration::from_mins(1);

/// Gives free memory between used blocks back to the system. By itself, glibc gives back only what
/// is free at the end of a heap, and mimalloc only when its threads allocate again.
pub struct FreeMemory;

#[async_trait]
impl Job for FreeMemory {
    fn name(&self) -> &'static str {
        "free memory"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        tokio::task::spawn_blocking(|| {
            // SAFETY: the call takes a number, and works under the allocator's own locks.
            unsafe { libc::malloc_trim(0) };
        })
        .await?;
        #[cfg(target_env = "musl")]
        tokio::task::spawn_blocking(|| {
            // SAFETY: the call takes a boolean. It reads the heap of the thread that calls it, and
            // memory that no thread uses, which mimalloc guards itself.
            unsafe { libmimalloc_sys::mi_collect(true) };
        })
        .await?;
        Ok(NextRun::Interval)
    }
}
