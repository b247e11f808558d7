//! Waiting for what another thread or process does.

use std::time::{Duration, Instant};

/// Longer than any successful wait takes, also on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Waits until `holds`; panics with `what` if it never does. Returns how long it took.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < TIMEOUT, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
    begun.elapsed()
}
