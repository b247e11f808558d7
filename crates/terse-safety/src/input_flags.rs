//! Warning flags of the entered text that the parsed target no longer shows.

use terse_core::Target;

use crate::flag::{Flag, FlagSet};
use crate::url_parts::UrlParts;

/// The warning flags of the text that was parsed into `target`. Computed once, when a link is
/// created, and stored with it.
pub fn input_flags(text: &str, target: &Target) -> FlagSet {
    let mut flags = FlagSet::NONE;
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    let (Some(parts), Some((_, rest))) = (UrlParts::of(target), text.split_once(':')) else {
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
    // An IPv6 address has many usual spellings, an IPv4 address one.
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

/// Whether a host was entered with percent escapes, with characters that IDNA removes, or with
/// decorative variants of ASCII letters.
fn is_disguised(host: &str) -> bool {
    host.contains('%')
        || host.chars().any(|char| !char.is_ascii() && !is_wide(char) && becomes_ascii(char))
        || host.split(['.', '。', '．', '｡']).any(is_partly_wide)
}

/// Whether IDNA removes a character or maps it to ASCII.
fn becomes_ascii(char: char) -> bool {
    let (mapped, result) = idna::domain_to_unicode(&format!("a{char}a"));
    result.is_ok() && mapped.is_ascii()
}

/// Full-width letters and full stops, as Japanese and Chinese input methods produce them.
fn is_wide(char: char) -> bool {
    matches!(char, '\u{ff01}'..='\u{ff5e}' | '。' | '｡')
}

/// An input method makes a whole word full-width; a mixture is deliberate.
fn is_partly_wide(label: &str) -> bool {
    label.chars().any(is_wide) && label.chars().any(|char| char.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flags_of(text: &str) -> String {
        input_flags(text, &Target::parse(text, &Default::default()).unwrap()).to_string()
    }

    #[test]
    fn odd_spellings_are_flagged() {
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
            assert_eq!(flags_of(text), want, "{text}");
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
            assert_eq!(flags_of(text), "", "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_handled(
            text in "(https?:)?[/\\\\]{0,3}\\PC{0,40}",
            stored in "(https?://)?\\PC{0,40}",
        ) {
            let _ = input_flags(&text, &Target::from_stored(stored.clone()));
            let _ = crate::flags(&Target::from_stored(stored));
        }
    }
}
