//! The preferred language of a visitor, and language ranges.

/// The maximum number of languages read from one header.
const MAX_LANGUAGES: usize = 64;
/// The maximum length of a language tag.
const MAX_TAG_LEN: usize = 35;

/// The language with the highest weight in an `Accept-Language` header; the first of equals. `*`
/// and invalid tags are ignored.
pub fn preferred_language(languages: &str) -> Option<&str> {
    let mut best: Option<(&str, u16)> = None;
    for (tag, weight) in weighted_ranges(languages) {
        if weight > 0 && tag != "*" && best.is_none_or(|(_, highest)| weight > highest) {
            best = Some((tag, weight));
        }
    }
    best.map(|(tag, _)| tag)
}

/// The language ranges of an `Accept-Language` header, with their weights in thousandths. Leaves
/// out invalid ones.
pub(crate) fn weighted_ranges(languages: &str) -> impl Iterator<Item = (&str, u16)> {
    languages.split(',').take(MAX_LANGUAGES).filter_map(|item| {
        let mut parts = item.split(';');
        let range = parts.next().unwrap_or_default().trim();
        let weight = match parts.next() {
            None => 1000,
            Some(weight) => thousandths(weight.trim())?,
        };
        (range == "*" || is_tag(range)).then_some((range, weight))
    })
}

/// `q=0.85` in thousandths.
fn thousandths(text: &str) -> Option<u16> {
    let (name, number) = text.split_once('=')?;
    if !name.trim().eq_ignore_ascii_case("q") {
        return None;
    }
    let (whole, rest) = number.trim().split_once('.').unwrap_or((number.trim(), ""));
    if rest.len() > 3 || !rest.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digit = |place: usize| rest.as_bytes().get(place).map_or(0, |byte| u16::from(byte - b'0'));
    let rest = digit(0) * 100 + digit(1) * 10 + digit(2);
    match whole {
        "0" => Some(rest),
        "1" if rest == 0 => Some(1000),
        _ => None,
    }
}

/// Whether a text is a language tag: `de`, `pt-BR`, `zh-Hant-TW`.
pub(super) fn is_tag(text: &str) -> bool {
    let mut parts = text.split('-');
    let language = parts.next().is_some_and(|part| {
        (2..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphabetic())
    });
    let mut rest = parts.map(|part| {
        (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric())
    });
    language && text.len() <= MAX_TAG_LEN && rest.all(|fine| fine)
}

/// The usual spelling of a tag: language in lower case, region in upper case.
pub(super) fn canonical_tag(tag: &str) -> String {
    let parts = tag.split('-').enumerate().map(|(index, part)| match part.len() {
        2 if index > 0 => part.to_ascii_uppercase(),
        4 if index > 0 => part[..1].to_ascii_uppercase() + &part[1..].to_ascii_lowercase(),
        _ => part.to_ascii_lowercase(),
    });
    parts.collect::<Vec<_>>().join("-")
}

/// Whether a range covers a tag (RFC 4647, extended filtering): `de` covers `de-AT`, `zh-TW` covers
/// `zh-Hant-TW`, but `de-AT` does not cover `de`.
pub(super) fn covers(range: &str, tag: &str) -> bool {
    let (mut wanted, mut have) = (range.split('-'), tag.split('-'));
    let same =
        |a: Option<&str>, b: Option<&str>| a.zip(b).is_some_and(|(a, b)| a.eq_ignore_ascii_case(b));
    if !same(wanted.next(), have.next()) {
        return false;
    }
    for part in wanted {
        // A single letter starts an extension or private-use part.
        let mut rest =
            have.by_ref().take_while(|have| have.len() > 1 || have.eq_ignore_ascii_case(part));
        if !rest.any(|have| have.eq_ignore_ascii_case(part)) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_with_the_highest_weight_counts() {
        for (languages, want) in [
            ("de-AT,de;q=0.9,en;q=0.8", Some("de-AT")),
            ("en;q=0.5, de", Some("de")),
            ("en;q=0.5,fr;q=0.55,de;q=0.549", Some("fr")),
            ("de;q=1.0,en", Some("de")),
            ("*,fr;q=0.3", Some("fr")),
            ("de;q=0,en;q=0.001", Some("en")),
            ("de;q=2,en;q=x,fr;q=0.1234,it;v=1,es ; Q=0.2", Some("es")),
            ("<script>,a,*", None),
            ("", None),
        ] {
            assert_eq!(preferred_language(languages), want, "{languages}");
        }
        assert_eq!(
            preferred_language(&format!("{}de", "*,".repeat(MAX_LANGUAGES))),
            None,
            "languages beyond the limit are ignored"
        );
    }

    #[test]
    fn a_range_covers_more_specific_tags() {
        for (range, tag, want) in [
            ("de", "de", true),
            ("de", "DE-at", true),
            ("de", "den", false),
            ("de-AT", "de-AT", true),
            ("de-AT", "de", false),
            ("de-AT", "de-CH", false),
            ("zh-TW", "zh-Hant-TW", true),
            ("zh-Hant", "zh-Hant-TW", true),
            ("zh-TW", "zh-Hans-CN", false),
            ("de-DE", "de-x-DE", false),
        ] {
            assert_eq!(covers(range, tag), want, "{range} {tag}");
        }
        assert_eq!(canonical_tag("ZH-hANT-tw"), "zh-Hant-TW");
    }
}
