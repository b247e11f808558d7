//! SQLite's count of its own memory, switched off.
#![allow(unsafe_code, reason = "SQLite offers this switch only in C")]

use std::sync::Once;

use rusqlite::ffi;

/// SQLite counts every allocation under one lock shared by all threads; nobody reads the count, and
/// without it reads are 5–10 % faster. Only the first connection of a process can be preceded by
/// this; later it changes nothing.
pub(crate) fn stop_counting() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the call takes an int and only stores it. Once SQLite is initialised it refuses
        // with SQLITE_MISUSE and touches nothing, so being late is harmless, and `Once` keeps our
        // own threads from calling it side by side.
        let code = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0) };
        if code != ffi::SQLITE_OK {
            tracing::debug!(code, "SQLite was in use before and goes on counting its memory");
        }
    });
}
