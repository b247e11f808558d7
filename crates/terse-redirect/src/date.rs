//! The end of every head: the `Date` line, formatted once a second, and a fixed line.

use std::time::{Duration, UNIX_EPOCH};

/// The `date: …\r\n` line of the current second, and a line that is the same for all answers.
#[derive(Debug)]
pub(crate) struct DateLine {
    second: i64,
    line: Vec<u8>,
    fixed: Vec<u8>,
}

impl DateLine {
    /// An empty line; the first call of [`DateLine::at`] formats it. `fixed` follows the date.
    pub(crate) fn new(fixed: Vec<u8>) -> Self {
        Self { second: i64::MIN, line: Vec::with_capacity(40 + fixed.len()), fixed }
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
            self.line.extend_from_slice(&self.fixed);
        }
        &self.line
    }
}
