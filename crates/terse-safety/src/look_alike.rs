//! Hosts that imitate a well-known name.

use std::borrow::Cow;

use unicode_security::confusable_detection::skeleton;

use crate::known::NAMES;
use crate::name::Cut;

/// How alike two labels must look.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Fold {
    /// To somebody who looks: `paypa1`, `rnicrosoft`, a Cyrillic `а`.
    Look,
    /// To somebody in a hurry, too: without accents, digits read as letters, `i` as `l`.
    Rough,
}

/// A label as the eye takes it. Two labels look alike if they fold to the same; a fold is not meant
/// to be read, since `m` becomes `rn`.
pub(crate) fn fold(label: &str, how: Fold) -> String {
    let mut folded = String::with_capacity(label.len() + 8);
    let mut add = |char| match (how, char) {
        (Fold::Rough, '\u{300}'..='\u{36f}') => {}
        (Fold::Rough, '3') => folded.push('e'),
        (Fold::Rough, '4') => folded.push('a'),
        (Fold::Rough, '5') => folded.push('s'),
        (Fold::Rough, '7') => folded.push('t'),
        (Fold::Rough, 'i') => folded.push('l'),
        (_, char) => folded.push(char),
    };
    if label.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_')) {
        label.chars().for_each(|char| match plain_skeleton(char) {
            "" => add(char),
            like => like.chars().for_each(&mut add),
        });
    } else {
        skeleton(label).flat_map(char::to_lowercase).for_each(add);
    }
    if folded.contains("vv") { folded.replace("vv", "w") } else { folded }
}

/// The skeleton of a character that plain host names have, if it is another: nearly all labels need
/// no more.
fn plain_skeleton(char: char) -> &'static str {
    match char {
        '0' => "o",
        '1' => "l",
        'm' => "rn",
        _ => "",
    }
}

/// Whether a canonical name imitates a well-known one.
pub(crate) fn imitates(host: &str) -> bool {
    let Some(cut) = Cut::of(host) else { return false };
    if NAMES.contains(cut.label) {
        return false; // the real one, or a name's customer below it
    }
    let label = unicode(cut.label);
    // Under a suffix of their own script, `аха` is a word and not an insurance company.
    let at_home =
        cut.suffix.contains("xn--") && !label.chars().any(|char| char.is_ascii_alphabetic());
    (!at_home && NAMES.imitated(&label).is_some()) || pretends_below(&cut)
}

/// A name put before a foreign domain: `paypal.com.evil.example`, `paypal.com-login.example`,
/// `paypal.evil.example`.
fn pretends_below(cut: &Cut<'_>) -> bool {
    let labels = || cut.below.split('.').filter(|label| !label.is_empty()).chain([cut.label]);
    labels().zip(labels().skip(1)).any(|(label, next)| {
        let readable = unicode(label);
        let name = if NAMES.contains(label) { Some(label) } else { NAMES.imitated(&readable) };
        name.is_some_and(|name| {
            NAMES.is_precious(name) || SUFFIXES.contains(&next) || next.starts_with("com-")
        })
    })
}

/// Suffixes that make a name before them look complete. Only such as are no words:
/// `github.it.company.example` belongs to the people who keep the computers running.
const SUFFIXES: &[&str] = &[
    "at", "au", "br", "ca", "ch", "cn", "co", "com", "de", "es", "eu", "fr", "info", "jp", "kr",
    "net", "nl", "org", "pl", "ru", "se", "uk",
];

/// A label as people read it.
pub(crate) fn unicode(label: &str) -> Cow<'_, str> {
    if label.starts_with("xn--") {
        Cow::from(idna::domain_to_unicode(label).0)
    } else {
        Cow::from(label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_cut_for_plain_names_agrees_with_unicode() {
        for char in ('a'..='z').chain('0'..='9').chain(['-', '_']) {
            let whole: String = skeleton(&char.to_string()).flat_map(char::to_lowercase).collect();
            assert_eq!(fold(&char.to_string(), Fold::Look), whole, "{char}");
        }
    }

    fn judged(host: &str) -> bool {
        imitates(&crate::name::canonical(host).unwrap())
    }

    #[test]
    fn imitations_are_recognised() {
        for host in [
            "pаypal.com", // Cyrillic а
            "gооgle.com", // Cyrillic о
            "аррӏе.com",  // all Cyrillic
            "paypa1.com",
            "rnicrosoft.com",
            "g00gle.de",
            "arnazon.co.uk",
            "vvikipedia.org",
            "faceb00k.com",
            "facebо0k.com",
            "n3tflix.com",
            "mlcrosoft.com",
            "göögle.com",
            "ínstagram.com",
            "lınkedın.com",
            "coіnbase.com", // Ukrainian і
            "www.paypa1.com",
            "paypa1.github.io",
            "paypal.com.evil.example",
            "www.paypal.com.secure.evil.example",
            "signin.amazon.co.uk.evil.example",
            "amazon.com-account.example",
            "g00gle.com.evil.example",
            "paypal.evil.example",
            "sparkasse.evil.example",
        ] {
            assert!(judged(host), "{host}");
        }
    }

    #[test]
    fn the_real_ones_and_honest_words_are_left_alone() {
        for host in [
            "google.de",
            "www.google.com.au",
            "paypal.me",
            "amazon.co.jp",
            "paypal.github.io",
            "apple.stackexchange.com",
            "paypal.zendesk.com",
            "google.github.io",
            "github.it.company.example",
            "slack.company.example",
            "über.de",
            "äpple.se",
            "аха.рф",
            "paypal-community.com",
            "mypaypal.example",
            "applepie.example",
            "pineapple.com",
            "amazonas.de",
            "box.company.example",
            "learn.example",
            "openal.org",
            "1cloud.example",
            "barn.example",
            "target-practice.example",
        ] {
            assert!(!judged(host), "{host}");
        }
    }
}
