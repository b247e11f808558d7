//! Limits how often one cause is logged, whichever part of the program logs it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use terse_core::{Clock, LogLimit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Warnings and errors of one place in the source in a minute. A place may log several things, such
/// as each list that cannot be loaded.
const LINES: u32 = 10;

/// Writes the lines of another format, but only a few warnings and errors a minute of each place in
/// the source, because clients can cause some of them. The next line says how many were left out.
/// Lines of a sampled trace name it.
pub(super) struct LimitedFormat<F> {
    lines: F,
    clock: Clock,
    limits: Mutex<HashMap<&'static str, LogLimit>>,
}

impl<F> LimitedFormat<F> {
    pub(super) fn new(lines: F, clock: Clock) -> Self {
        Self { lines, clock, limits: Mutex::default() }
    }

    /// Whether to log an event: how many like it were left out since the last one.
    fn admit(&self, event: &Event<'_>) -> Option<u64> {
        if *event.metadata().level() > Level::WARN {
            return Some(0);
        }
        // The name of an event is its file and line.
        let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = limits.entry(event.metadata().name()).or_insert_with(|| LogLimit::new(LINES));
        limit.admit(self.clock.steady())
    }
}

impl<S, N, F> FormatEvent<S, N> for LimitedFormat<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(suppressed) = self.admit(event) else { return Ok(()) };
        let trace = terse_traces::current_trace_id();
        if suppressed == 0 && trace.is_none() {
            return self.lines.format_event(context, writer, event);
        }
        let mut line = String::new();
        self.lines.format_event(context, Writer::new(&mut line), event)?;
        let line = line.trim_end();
        let json = line.strip_suffix('}').filter(|_| line.starts_with('{'));
        writer.write_str(json.unwrap_or(line))?;
        if let Some(trace) = trace {
            match json {
                Some(_) => write!(writer, ",\"trace_id\":\"{trace}\"")?,
                None => write!(writer, " trace_id={trace}")?,
            }
        }
        if suppressed > 0 {
            match json {
                Some(_) => write!(writer, ",\"suppressed\":{suppressed}")?,
                None => write!(writer, " suppressed={suppressed}")?,
            }
        }
        writeln!(writer, "{}", if json.is_some() { "}" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Written {
        fn take(&self) -> Vec<String> {
            let bytes = std::mem::take(&mut *self.0.lock().unwrap());
            String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
        }
    }

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn fail(times: usize) {
        for number in 0..times {
            tracing::error!(number, "the store failed");
        }
    }

    /// A minute with a flood of one cause and one line of another, and a later line.
    fn flood(
        subscriber: impl Subscriber + Send + Sync,
        written: &Written,
        clock: &Clock,
    ) -> String {
        tracing::subscriber::with_default(subscriber, || {
            fail(500);
            tracing::warn!("another cause");
            (0..50).for_each(|number| tracing::info!(number, "of no cause"));
            let lines = written.take();
            let of = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
            assert_eq!([of("store"), of("another"), of("of no cause")], [10, 1, 50], "{lines:?}");
            clock.advance(Duration::from_secs(60));
            fail(1);
            let lines = written.take();
            assert_eq!(lines.len(), 1, "{lines:?}");
            lines[0].clone()
        })
    }

    #[test]
    fn a_cause_is_logged_a_few_times_a_minute_and_then_with_a_count() {
        let (written, clock) = (Written::default(), Clock::default());
        let writer = written.clone();
        let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
        let limited = |lines| LimitedFormat::new(lines, clock.clone());
        let line = flood(lines.map_event_format(limited).finish(), &written, &clock);
        assert!(line.ends_with("the store failed number=0 suppressed=490"), "{line}");
    }

    #[test]
    fn a_line_with_a_count_is_json_too() {
        let (written, clock) = (Written::default(), Clock::default());
        let writer = written.clone();
        let lines = tracing_subscriber::fmt().json().flatten_event(true);
        let lines = lines.with_writer(move || writer.clone());
        let limited = |lines| LimitedFormat::new(lines, clock.clone());
        let line = flood(lines.map_event_format(limited).finish(), &written, &clock);
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&line["message"], &line["number"]), (&"the store failed".into(), &0.into()));
        assert_eq!(line["suppressed"], 490);
    }
}
