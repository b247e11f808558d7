//! Detects labels that mix scripts.

use unicode_security::{RestrictionLevel, RestrictionLevelDetection};

use crate::look_alike::unicode;

/// Whether a label of a canonical name exceeds Unicode's "moderately restrictive" level: it mixes
/// scripts as no language does, or has characters that names do not use. Latin with Chinese,
/// Japanese or Korean is common; Latin with Thai or Arabic cannot be confused.
pub(crate) fn is_mixed(host: &str) -> bool {
    host.split('.').filter(|label| label.starts_with("xn--")).any(|label| {
        let readable: String = unicode(label).chars().filter(|char| !is_harmless(*char)).collect();
        readable.as_str().detect_restriction_level() > RestrictionLevel::ModeratelyRestrictive
    })
}

/// Emoji do not look like letters. Joiners are part of Persian and Indian spelling, and IDNA allows
/// them only there.
fn is_harmless(char: char) -> bool {
    matches!(
        char,
        '\u{200c}'
            | '\u{200d}'
            | '\u{2600}'..='\u{2757}'
            | '\u{2763}'..='\u{2767}'
            | '\u{1f300}'..='\u{1faff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_suspicious_mixtures_are_mixed() {
        for host in [
            "pаypal.com",
            "gооgle.com",
            "ɢoogle.com",
            "αpple.com",
            "x.bаnk.example",
            "google.com∕login.evil.example",
        ] {
            assert!(is_mixed(&crate::host_name::canonical(host).unwrap()), "{host}");
        }
        for host in [
            "日本語テキスト.jp",
            "東京タワーtower.jp",
            "한국google.kr",
            "ไทยthai.th",
            "правительство.рф",
            "i❤.ws",
            "🍕.ws",
            "نامه‌ای.com",
        ] {
            assert!(
                !is_mixed(&crate::host_name::canonical(host).unwrap_or_else(|| panic!("{host}"))),
                "{host}"
            );
        }
    }
}
