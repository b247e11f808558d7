//! The `Date` line, formatted once a second.

use std::time::{Duration, UNIX_EPOCH};

/// The `date: …\r\n` line of the current second.
#[derive(Debug)]
pub(crate) struct DateLine {
    second: i64,
    line: Vec<u8>,
}

impl DateLine {
    /// An empty line; the first call of [`DateLine::at`] formats it.
    pub(crate) fn new() -> Self {
        Self { second: i64::MIN, line: Vec::with_capacity(40) }
    }

    /// The line for a time.
    pub(crate) fn at(&mut self, now_ms: i64) -> &[u8] {
        let second = now_ms.div_euclid(1000);
        if second != self.second {
            self.second = second;
            let since = Duration::from_secs(u64::try_from(second).unwrap_or(0));
            let date = httpdate::HttpDate::from(UNIX_EPOCH + since);
            self.line.clear();
            self.line.extend_from_slice(format!("date: {date}\r\n").as_bytes());
        }
        &self.line
    }
}

impl Default for DateLine {
    fn default() -> Self {
        Self::new()
    }
}
