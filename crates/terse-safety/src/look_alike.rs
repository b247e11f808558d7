//! Detects hosts that imitate a brand name.

use std::borrow::Cow;

use unicode_security::confusable_detection::skeleton;

use crate::host_name::DomainParts;
use crate::known_hosts::BRANDS;

/// How similar two labels must look.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Similarity {
    /// Visually the same: `paypa1`, `rnicrosoft`, a Cyrillic `а`.
    Skeleton,
    /// The same at a glance: ignores accents, reads digits as letters and `i` as `l`.
    Loose,
}

/// The comparison form of a label: two labels look alike if their folds are equal. Folds are not
/// readable, because `m` becomes `rn`.
pub(crate) fn fold(label: &str, how: Similarity) -> String {
    let mut folded = String::with_capacity(label.len() + 8);
    let mut add = |char| match (how, char) {
        (Similarity::Loose, '\u{300}'..='\u{36f}') => {}
        (Similarity::Loose, '3') => folded.push('e'),
        (Similarity::Loose, '4') => folded.push('a'),
        (Similarity::Loose, '5') => folded.push('s'),
        (Similarity::Loose, '7') => folded.push('t'),
        (Similarity::Loose, 'i') => folded.push('l'),
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

/// The skeleton of an ASCII host character, if it differs from the character. Nearly all labels are
/// ASCII.
fn plain_skeleton(char: char) -> &'static str {
    match char {
        '0' => "o",
        '1' => "l",
        'm' => "rn",
        _ => "",
    }
}

/// Whether a canonical host name imitates_brand a brand.
pub(crate) fn imitates_brand(host: &str) -> bool {
    let Some(domain) = DomainParts::of(host) else { return false };
    if BRANDS.contains(domain.label) {
        return false; // the brand itself, or a customer subdomain of it
    }
    let label = unicode(domain.label);
    // Under a suffix in the same script, `аха` is a word and not the insurance company.
    let native_suffix =
        domain.suffix.contains("xn--") && !label.chars().any(|char| char.is_ascii_alphabetic());
    (!native_suffix && BRANDS.imitated(&label).is_some()) || has_brand_subdomain(&domain)
}

/// Whether a brand is a subdomain of another domain: `paypal.com.evil.example`,
/// `paypal.com-login.example`, `paypal.evil.example`.
fn has_brand_subdomain(domain: &DomainParts<'_>) -> bool {
    let labels =
        || domain.subdomains.split('.').filter(|label| !label.is_empty()).chain([domain.label]);
    labels().zip(labels().skip(1)).any(|(label, next)| {
        let readable = unicode(label);
        let name = if BRANDS.contains(label) { Some(label) } else { BRANDS.imitated(&readable) };
        name.is_some_and(|name| {
            BRANDS.is_sensitive(name) || SUFFIXES.contains(&next) || next.starts_with("com-")
        })
    })
}

/// Suffixes that make a preceding brand look like a complete domain. Suffixes that are also words
/// are left out: `github.it.company.example` is an IT department.
const SUFFIXES: &[&str] = &[
    "at", "au", "br", "ca", "ch", "cn", "co", "com", "de", "es", "eu", "fr", "info", "jp", "kr",
    "net", "nl", "org", "pl", "ru", "se", "uk",
];

/// A label in Unicode.
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
    fn the_ascii_fast_path_agrees_with_unicode() {
        for char in ('a'..='z').chain('0'..='9').chain(['-', '_']) {
            let whole: String = skeleton(&char.to_string()).flat_map(char::to_lowercase).collect();
            assert_eq!(fold(&char.to_string(), Similarity::Skeleton), whole, "{char}");
        }
    }

    fn is_imitation(host: &str) -> bool {
        imitates_brand(&crate::host_name::canonical(host).unwrap())
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
            assert!(is_imitation(host), "{host}");
        }
    }

    #[test]
    fn brands_and_unrelated_words_are_not_flagged() {
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
            assert!(!is_imitation(host), "{host}");
        }
    }
}
