//! Normalises the texts of a record for display: referrer, language, campaign.

use percent_encoding::percent_decode;
use terse_core::clicks::Interned;

/// Campaign values are cut to this many characters.
const MAX_VALUE_LEN: usize = 100;
const CAMPAIGN: [&[u8]; 5] =
    [b"utm_source", b"utm_medium", b"utm_campaign", b"utm_term", b"utm_content"];

/// The referrer's host: lower case, without port, trailing dot and `www.`. Names in other scripts
/// stay as they were sent.
pub(crate) fn referrer(bytes: &[u8]) -> Option<Interned> {
    let text = std::str::from_utf8(bytes).ok()?;
    if let Some(rest) = text.strip_prefix('[') {
        let address = rest.split(']').next()?;
        return address
            .parse::<std::net::Ipv6Addr>()
            .ok()
            .map(|address| format!("[{address}]").into());
    }
    let host = match text.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => text,
    };
    let host = host.trim_end_matches('.').to_lowercase();
    let host = host.strip_prefix("www.").filter(|rest| rest.contains('.')).unwrap_or(&host);
    let shaped = host.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_'))
        && !host.starts_with('.');
    (shaped && !host.is_empty()).then(|| host.into())
}

/// A language with its script and region, if the tag names them: `de`, `pt-BR`, `zh-Hant-TW`. Other
/// parts of the tag are dropped.
pub(crate) fn language(bytes: &[u8]) -> Option<Interned> {
    let text = std::str::from_utf8(bytes).ok()?;
    let tag = text.split([';', ',']).next().unwrap_or_default().trim();
    let mut parts = tag.split(['-', '_']);
    let language = parts.next().filter(|part| (2..=3).contains(&part.len()) && is_letters(part))?;
    let mut name = language.to_ascii_lowercase();
    let mut part = parts.next();
    if let Some(script) = part.filter(|part| part.len() == 4 && is_letters(part)) {
        name.push('-');
        name.push_str(&script[..1].to_ascii_uppercase());
        name.push_str(&script[1..].to_ascii_lowercase());
        part = parts.next();
    }
    let digits = |part: &&str| part.len() == 3 && part.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(region) = part.filter(|part| (part.len() == 2 && is_letters(part)) || digits(part))
    {
        name.push('-');
        name.push_str(&region.to_ascii_uppercase());
    }
    Some(name.into())
}

fn is_letters(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// The five `utm_…` values of a query, the first of each.
pub(crate) fn campaign(bytes: &[u8]) -> [Option<Interned>; 5] {
    let mut values = [const { None }; 5];
    for pair in bytes.split(|&byte| byte == b'&') {
        let Some(at) = pair.iter().position(|&byte| byte == b'=') else { continue };
        let Some(which) = CAMPAIGN.iter().position(|name| name.eq_ignore_ascii_case(&pair[..at]))
        else {
            continue;
        };
        if values[which].is_none() {
            values[which] = value(&pair[at + 1..]);
        }
    }
    values
}

fn value(escaped: &[u8]) -> Option<Interned> {
    let spaced: Vec<u8> =
        escaped.iter().map(|&byte| if byte == b'+' { b' ' } else { byte }).collect();
    let decoded: Vec<u8> = percent_decode(&spaced).collect();
    printable(&String::from_utf8_lossy(&decoded), MAX_VALUE_LEN)
}

/// Removes control characters and marks that change the direction of text, trims, and cuts to
/// `max_len` characters. `None` if nothing is left.
pub(crate) fn printable(text: &str, max_len: usize) -> Option<Interned> {
    let invisible = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}')
            || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let visible: String = text.chars().filter(|&c| !invisible(c)).collect();
    let short: String = visible.trim().chars().take(max_len).collect();
    let short = short.trim_end();
    (!short.is_empty()).then(|| short.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_referrer_is_a_host() {
        for (sent, want) in [
            ("News.Example", Some("news.example")),
            ("www.example.com", Some("example.com")),
            ("www.com", Some("www.com")),
            ("example.com:8443", Some("example.com")),
            ("example.com.", Some("example.com")),
            ("xn--bcher-kva.example", Some("xn--bcher-kva.example")),
            ("BÜCHER.example", Some("bücher.example")),
            ("com.google.android.gm", Some("com.google.android.gm")),
            ("203.0.113.9:80", Some("203.0.113.9")),
            ("[2001:DB8::1]:80", Some("[2001:db8::1]")),
            ("a_b.example", Some("a_b.example")),
            ("", None),
            (".", None),
            (":80", None),
            ("[::1", Some("[::1]")),
            ("[x]", None),
            ("<script>", None),
            ("a b", None),
            ("=cmd()", None),
            ("user@host", None),
        ] {
            assert_eq!(referrer(sent.as_bytes()).as_deref(), want, "{sent}");
        }
        assert_eq!(referrer(b"\xff\xfe"), None);
    }

    #[test]
    fn a_language_has_one_spelling() {
        for (sent, want) in [
            ("de", Some("de")),
            ("PT-br", Some("pt-BR")),
            ("zh-hant-tw", Some("zh-Hant-TW")),
            ("zh-Hans", Some("zh-Hans")),
            ("es-419", Some("es-419")),
            ("de_DE", Some("de-DE")),
            ("en-US;q=0.9", Some("en-US")),
            ("en-US,en;q=0.5", Some("en-US")),
            ("de-DE-1996", Some("de-DE")),
            ("fil-PH", Some("fil-PH")),
            ("en-", Some("en")),
            ("*", None),
            ("", None),
            ("C", None),
            ("english", None),
            ("日本", None),
            ("e1", None),
        ] {
            assert_eq!(language(sent.as_bytes()).as_deref(), want, "{sent}");
        }
        assert_eq!(language(&[0xff; 35]), None);
    }

    #[test]
    fn campaigns_are_unescaped_and_cleaned() {
        let found = campaign(
            b"utm_source=mail&utm_medium=a%20b+c&UTM_Campaign=%e2%98%83%00&\
                utm_source=second&utm_term=&utm_content=%ff",
        );
        let found: Vec<_> = found.iter().map(Option::as_deref).collect();
        assert_eq!(found, [Some("mail"), Some("a b c"), Some("☃"), None, Some("\u{fffd}")]);
        assert_eq!(campaign(b"utm_source&x=1&utm_sourceful=1&=&&"), [const { None }; 5]);
        let long = format!("utm_term= {} ", "é".repeat(300));
        assert_eq!(campaign(long.as_bytes())[3].as_deref(), Some(&*"é".repeat(100)));
        assert_eq!(
            campaign(b"utm_term=%0d%0aSet-Cookie%e2%80%ae")[3].as_deref(),
            Some("Set-Cookie")
        );
        assert_eq!(campaign(b"utm_term=%2&utm_source=%zz")[3].as_deref(), Some("%2"));
    }
}
