//! Switches off SQLite's memory statistics.
#![allow(unsafe_code, reason = "SQLite offers this switch only in C")]

use std::sync::Once;

use rusqlite::ffi;

/// SQLite counts every allocation under one lock shared by all threads. terse never reads the
/// count, and without it reads are 5–10 % faster. This must run before the first connection of the
/// process; later it changes nothing.
pub(crate) fn stop_counting() {
    // Static, because SQLite's setting is one per process.
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the call takes an int and only stores it. Once SQLite is initialised it refuses
        // with SQLITE_MISUSE and changes nothing, so a late call is harmless. `Once` keeps our own
        // threads from calling it concurrently.
        let code = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0) };
        if code != ffi::SQLITE_OK {
            tracing::debug!(code, "SQLite was in use before, so its memory statistics stay on");
        }
    });
}
