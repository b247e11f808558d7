//! Formats times and durations for display on pages.

use std::time::Duration;

use jiff::tz::TimeZone;
use terse_core::Timestamp;

/// Formats a date and time in a zone, with the zone's abbreviation.
pub(super) fn date_time_in(at: Timestamp, zone: &TimeZone) -> String {
    match jiff::Timestamp::from_millisecond(at.as_ms()) {
        Ok(at) => at.to_zoned(zone.clone()).strftime("%-d %B %Y, %H:%M %Z").to_string(),
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

/// A number with separated thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A text of at most `most` characters: its beginning and its end, which distinguish URLs.
pub(super) fn middle_cut(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let end = most / 3;
    let begin: String = text.chars().take(most - end - 1).collect();
    let end: String = text.chars().skip(count - end).collect();
    format!("{begin}…{end}")
}

/// A text in two parts, the second of which always stays visible: the end of a URL distinguishes
/// it.
pub(super) fn parted(text: &str) -> (String, String) {
    /// The length of the second part; a text of twice this length is not parted.
    const END: usize = 14;
    let count = text.chars().count();
    let start = if count > 2 * END { count - END } else { count };
    (text.chars().take(start).collect(), text.chars().skip(start).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_long_texts_are_easy_to_read() {
        for (number, want) in
            [(0, "0"), (999, "999"), (1000, "1,000"), (54_103, "54,103"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), want);
        }
        assert_eq!(middle_cut("https://e.com/", 14), "https://e.com/");
        assert_eq!(middle_cut("https://e.com/päth/to/page", 13), "https://…page");
        assert_eq!(parted("https://e.com/"), ("https://e.com/".into(), String::new()));
        assert_eq!(
            parted("https://e.com/päth/to/another/page"),
            ("https://e.com/päth/t".into(), "o/another/page".into())
        );
    }

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
        assert_eq!(
            date_time_in(Timestamp::from_ms(0), &TimeZone::UTC),
            "1 January 1970, 00:00 UTC"
        );
    }
}
