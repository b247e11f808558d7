//! The validity of a certificate, read from its DER: rustls checks the certificates of others, but
//! does not expose the dates of our own.

/// When the certificate starts and stops being valid, in seconds since 1970; `None` if it cannot be
/// read.
pub(crate) fn validity(certificate: &[u8]) -> Option<(i64, i64)> {
    let (certificate, _) = value(certificate, SEQUENCE)?;
    let (tbs, _) = value(certificate, SEQUENCE)?;
    // The version is optional; then come serial number, signature algorithm and issuer.
    let rest = value(tbs, VERSION).map_or(tbs, |(_, rest)| rest);
    let (_, rest) = value(rest, INTEGER)?;
    let (_, rest) = value(rest, SEQUENCE)?;
    let (_, rest) = value(rest, SEQUENCE)?;
    let (validity, _) = value(rest, SEQUENCE)?;
    let (not_before, rest) = time(validity)?;
    let (not_after, _) = time(rest)?;
    Some((not_before, not_after))
}

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// The value of the first element, which has this tag, and what follows it.
fn value(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (len, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (bytes.iter().fold(0, |len, &byte| len << 8 | usize::from(byte)), rest)
        }
        _ => return None,
    };
    if found != tag {
        return None;
    }
    rest.split_at_checked(len)
}

/// A time in either of its forms, in seconds since 1970, and what follows it.
fn time(der: &[u8]) -> Option<(i64, &[u8])> {
    let (century_digits, text, rest) = match value(der, UTC_TIME) {
        Some((text, rest)) => (false, text, rest),
        None => value(der, GENERALIZED_TIME).map(|(text, rest)| (true, text, rest))?,
    };
    let digits = text.strip_suffix(b"Z")?;
    let two = |at: usize| -> Option<i64> {
        let pair = digits.get(at..at + 2)?;
        pair.iter().try_fold(0, |sum, byte| {
            byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0'))
        })
    };
    let (year, at) = match century_digits {
        true => (two(0)? * 100 + two(2)?, 4),
        false => match two(0)? {
            year @ 0..50 => (2000 + year, 2),
            year => (1900 + year, 2),
        },
    };
    let (month, day) = (two(at)?, two(at + 2)?);
    let (hour, minute, second) = (two(at + 4)?, two(at + 6)?, two(at + 8)?);
    if digits.len() != at + 10 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    Some((seconds, rest))
}

/// The days from 1970-01-01 to a date of the Gregorian calendar.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that a leap day is the last day of its year.
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let days_before_month = (153 * month + 2) / 5;
    365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + days_before_month
        + day
        - 1
        - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_count_from_1970() {
        for (date, days) in [
            ((1970, 1, 1), 0),
            ((1970, 3, 1), 59),
            ((2000, 2, 29), 11_016),
            ((2026, 11, 16), 20_773),
            ((2100, 3, 1), 47_541),
        ] {
            assert_eq!(days_since_1970(date.0, date.1, date.2), days, "{date:?}");
        }
    }

    #[test]
    fn both_forms_of_a_time_are_read() {
        let utc = [&[UTC_TIME, 13][..], b"261116235414Z"].concat();
        let generalized = [&[GENERALIZED_TIME, 15][..], b"20261116235414Z"].concat();
        let expected = 20_773 * 86_400 + 23 * 3600 + 54 * 60 + 14;
        assert_eq!(time(&utc), Some((expected, &[][..])));
        assert_eq!(time(&generalized), Some((expected, &[][..])));
        for wrong in ["2611162354Z", "261116235414", "26111623541AZ", "261316235414Z", ""] {
            let der = [&[UTC_TIME, wrong.len() as u8][..], wrong.as_bytes()].concat();
            assert_eq!(time(&der), None, "{wrong}");
        }
    }

    #[test]
    fn no_prefix_of_a_certificate_has_a_validity_or_panics() {
        let mut params = rcgen::CertificateParams::new(vec!["go.example".into()]).expect("a name");
        params.not_after = rcgen::date_time_ymd(2050, 1, 2);
        let key = rcgen::KeyPair::generate().expect("a key");
        let der = params.self_signed(&key).expect("a certificate").der().to_vec();
        let ends = validity(&der).expect("dates").1;
        assert_eq!(ends, days_since_1970(2050, 1, 2) * 86_400);
        for len in 0..80 {
            assert_eq!(validity(&der[..len]), None);
        }
    }
}
