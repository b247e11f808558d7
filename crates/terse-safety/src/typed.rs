//! The warning signs that only the typed text shows: a target's serialisation has already lost
//! them.

use terse_core::Target;

use crate::flag::{Flag, FlagSet};
use crate::parts::Parts;

/// The warning signs in the text that became `target`. To be asked once, when a link is made, and
/// kept with it.
pub fn typed_flags(text: &str, target: &Target) -> FlagSet {
    let mut flags = FlagSet::NONE;
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    let (Some(parts), Some((_, rest))) = (Parts::of(target), text.split_once(':')) else {
        return flags;
    };
    let authority_and_more = rest.trim_start_matches(['/', '\\']);
    let slashes = &rest[..rest.len() - authority_and_more.len()];
    let authority = authority_and_more.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    if slashes != "//" || authority_and_more[authority.len()..].starts_with('\\') {
        flags.insert(Flag::OddSlashes);
    }
    let host = authority.rsplit('@').next().unwrap_or_default();
    if is_disguised(host) {
        flags.insert(Flag::DisguisedText);
    }
    // An IPv6 address has many honest spellings, an IPv4 address one.
    if parts.is_address() && !parts.host.starts_with('[') && without_port(host) != parts.host {
        flags.insert(Flag::OddAddress);
    }
    flags
}

fn without_port(host: &str) -> &str {
    let host = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    host.strip_suffix('.').unwrap_or(host)
}

/// Whether a host was typed with escapes, with characters that vanish, or with ornaments that stand
/// for plain letters.
fn is_disguised(host: &str) -> bool {
    host.contains('%')
        || host.chars().any(|char| !char.is_ascii() && !is_wide(char) && becomes_ascii(char))
        || host.split(['.', '。', '．', '｡']).any(is_partly_wide)
}

/// Whether a character is removed from names, or replaced by plain letters.
fn becomes_ascii(char: char) -> bool {
    let (mapped, result) = idna::domain_to_unicode(&format!("a{char}a"));
    result.is_ok() && mapped.is_ascii()
}

/// What a Japanese or Chinese keyboard gives if left in that state: wide letters, and full stops of
/// their own.
fn is_wide(char: char) -> bool {
    matches!(char, '\u{ff01}'..='\u{ff5e}' | '。' | '｡')
}

/// A keyboard makes a whole word wide; only a person makes half of it so.
fn is_partly_wide(label: &str) -> bool {
    label.chars().any(is_wide) && label.chars().any(|char| char.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn judged(text: &str) -> String {
        typed_flags(text, &Target::parse(text, &Default::default()).unwrap()).to_string()
    }

    #[test]
    fn odd_spellings_are_seen_in_the_typed_text() {
        for (text, want) in [
            ("https:////example.com/path", "odd_slashes"),
            ("https:/example.com/", "odd_slashes"),
            ("https:example.com", "odd_slashes"),
            ("https:\\\\example.com\\", "odd_slashes"),
            ("https://example.com\\@other.example/", "odd_slashes"),
            ("https://ⓔⓧⓐⓜⓟⓛⓔ.com/", "disguised_text"),
            ("https://exam\u{2060}ple.com/", "disguised_text"),
            ("https://exam\u{ad}ple.com/", "disguised_text"),
            ("https://exam\u{200b}ple.com/", "disguised_text"),
            ("https://𝐞xample.com/", "disguised_text"),
            ("https://ｅxample.com/", "disguised_text"),
            ("https://%65xample.com/", "disguised_text"),
            ("http://134744072/", "odd_address"),
            ("http://0x08080808/", "odd_address"),
            ("http://010.010.010.010/", "odd_address"),
            ("http://8.8.2056:80/", "odd_address"),
            ("http://⑧.8.8.8/", "odd_address,disguised_text"),
        ] {
            assert_eq!(judged(text), want, "{text}");
        }
    }

    #[test]
    fn ordinary_spellings_raise_nothing() {
        for text in [
            " https://example.com ",
            "HTTPS://EXAMPLE.com:0443/a\\b",
            "https://münchen.de/straße",
            "https://MÜNCHEN.de/%41",
            "https://faß.de/",
            "https://ｅｘａｍｐｌｅ.com/",
            "https://日本語。jp/",
            "https://user:p%40ss@example.com/",
            "http://8.8.8.8:8080/",
            "http://8.8.8.8./",
            "http://[2620:FE::FE]:8080/x",
            "https://مثال.السعودية/",
        ] {
            assert_eq!(judged(text), "", "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(https?:)?[/\\\\]{0,3}\\PC{0,40}", stored in "(https?://)?\\PC{0,40}") {
            let _ = typed_flags(&text, &Target::from_stored(stored.clone()));
            let _ = crate::flags(&Target::from_stored(stored));
        }
    }
}
