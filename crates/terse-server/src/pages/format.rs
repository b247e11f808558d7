//! Formats times and durations for display on pages.

use std::time::Duration;

use terse_core::Timestamp;

/// Formats a date and time in UTC.
pub(super) fn moment(at: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(at.as_ms()) {
        Ok(at) => at.to_zoned(jiff::tz::TimeZone::UTC).strftime("%-d %B %Y, %H:%M UTC").to_string(),
        Err(_) => at.to_string(),
    }
}

/// How long ago a time was, in its largest unit.
pub(super) fn ago(at: Timestamp, now: Timestamp) -> String {
    let seconds = u64::try_from((now.as_ms() - at.as_ms()) / 1000).unwrap_or_default();
    match seconds {
        0..60 => "just now".to_owned(),
        _ => format!("{} ago", span(Duration::from_secs(seconds))),
    }
}

/// A duration in its largest unit.
pub(super) fn span(of: Duration) -> String {
    const UNITS: [(u64, &str); 5] = [
        (365 * 86_400, "year"),
        (30 * 86_400, "month"),
        (86_400, "day"),
        (3600, "hour"),
        (60, "minute"),
    ];
    let seconds = of.as_secs();
    let (length, name) =
        UNITS.into_iter().find(|(length, _)| seconds >= *length).unwrap_or((1, "second"));
    let count = seconds / length;
    if count == 1 { format!("1 {name}") } else { format!("{count} {name}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_in_their_largest_unit() {
        for (seconds, want) in [
            (1, "1 second"),
            (59, "59 seconds"),
            (3600, "1 hour"),
            (28_800, "8 hours"),
            (86_400 * 59, "1 month"),
        ] {
            assert_eq!(span(Duration::from_secs(seconds)), want);
        }
        assert_eq!(ago(Timestamp::from_ms(0), Timestamp::from_ms(59_999)), "just now");
        assert_eq!(ago(Timestamp::from_ms(0), Timestamp::from_ms(7_200_000)), "2 hours ago");
        assert_eq!(moment(Timestamp::from_ms(0)), "1 January 1970, 00:00 UTC");
    }
}
