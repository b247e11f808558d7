//! Offensive words that generated codes must not contain.

/// Stems, in lower case, without digits. Short stems that occur in ordinary words are left out on
/// purpose: generated codes are random, and only obvious words matter.
const STEMS: &[&str] = &[
    "anal", "anus", "arse", "bitch", "bollock", "boob", "cock", "coon", "crap", "cunt", "dick",
    "dildo", "fag", "fotze", "fuck", "fuk", "hitler", "hure", "jizz", "kike", "merde", "nazi",
    "negro", "nigg", "nutte", "penis", "piss", "porn", "puta", "puto", "pussy", "rape", "scheis",
    "sex", "shit", "slut", "spic", "tits", "titten", "twat", "vagina", "wank", "whore",
];

/// Whether a code contains one of them, also with the usual digits for letters.
pub(super) fn is_offensive(code: &str) -> bool {
    let read: String = code
        .chars()
        .map(|c| match c {
            '0' => 'o',
            '1' | '!' => 'i',
            '3' => 'e',
            '4' => 'a',
            '5' => 's',
            '7' => 't',
            '8' => 'b',
            c => c.to_ascii_lowercase(),
        })
        .collect();
    STEMS.iter().any(|stem| read.contains(stem))
}

#[cfg(test)]
mod tests {
    use super::is_offensive;

    #[test]
    fn digits_do_not_hide_a_word() {
        for code in ["xFuCk12", "5h1tABC", "aN4z1xx", "p0rnabc"] {
            assert!(is_offensive(code), "{code}");
        }
        for code in ["x7Kq9aB", "2026abc"] {
            assert!(!is_offensive(code), "{code}");
        }
    }
}
