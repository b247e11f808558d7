//! One line of a plain-text list.

use std::net::IpAddr;

/// The content of one line.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Line<'a> {
    /// Names that a hosts file maps to a sinkhole address.
    Hosts(&'a str),
    /// One domain.
    Domain(&'a str),
    /// One URL, possibly without a scheme.
    Url(&'a str),
    /// None of these.
    Unknown,
}

impl<'a> Line<'a> {
    /// Parses a trimmed line without its comment.
    pub(super) fn read(line: &'a str) -> Self {
        if let Some(rule) = line.strip_prefix("||") {
            return Self::of_rule(rule);
        }
        if line.contains("://") {
            return Self::Url(line);
        }
        match line.split_once(char::is_whitespace) {
            Some((first, names)) if is_sinkhole(first) => Self::Hosts(names),
            Some(_) => Self::Unknown,
            None if line.contains('/') => Self::Url(line),
            None => Self::Domain(
                line.strip_prefix("*.").or_else(|| line.strip_prefix('.')).unwrap_or(line),
            ),
        }
    }

    /// An ad-blocker rule. Only rules that block a whole domain as a page are used.
    fn of_rule(rule: &'a str) -> Self {
        match rule.split_once('^') {
            Some((name, "" | "|" | "$all" | "$document" | "$doc" | "$important" | "$popup")) => {
                Self::Domain(name)
            }
            _ => Self::Unknown,
        }
    }
}

/// `None` if the whole line is a comment. A `#` inside a word is part of it, as in a URL.
pub(super) fn without_comment(line: &[u8]) -> Option<&[u8]> {
    if matches!(line.first(), Some(b'#' | b'!' | b';')) || line.starts_with(b"//") {
        return None;
    }
    let end = line
        .windows(2)
        .position(|pair| pair[0].is_ascii_whitespace() && pair[1] == b'#')
        .unwrap_or(line.len());
    Some(line[..end].trim_ascii_end())
}

/// Whether an address is unspecified or loopback, which hosts files use to block names. Other
/// addresses are real mappings.
fn is_sinkhole(text: &str) -> bool {
    let text = text.split('%').next().unwrap_or_default();
    text.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified() || address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_as_what_it_is() {
        for (line, want) in [
            ("0.0.0.0 bad.example", Line::Hosts("bad.example")),
            ("127.0.0.1\ta.example b.example", Line::Hosts("a.example b.example")),
            (":: bad.example", Line::Hosts("bad.example")),
            ("192.168.1.7 nas.example", Line::Unknown),
            ("bad.example", Line::Domain("bad.example")),
            ("*.bad.example", Line::Domain("bad.example")),
            (".bad.example", Line::Domain("bad.example")),
            ("||bad.example^", Line::Domain("bad.example")),
            ("||bad.example^$all", Line::Domain("bad.example")),
            ("||bad.example^$third-party", Line::Unknown),
            // Not a host, so it is skipped later.
            ("||bad.example/path^", Line::Domain("bad.example/path")),
            ("bad.example CNAME .", Line::Unknown),
            ("bad.example/path", Line::Url("bad.example/path")),
            ("http://bad.example/#a b", Line::Url("http://bad.example/#a b")),
        ] {
            assert_eq!(Line::read(line), want, "{line}");
        }
    }

    #[test]
    fn comments_are_no_entries() {
        for (line, want) in [
            ("# all", None),
            ("! all", None),
            ("; all", None),
            ("// all", None),
            ("bad.example # why", Some("bad.example")),
            ("http://bad.example/#part", Some("http://bad.example/#part")),
        ] {
            assert_eq!(without_comment(line.as_bytes()), want.map(str::as_bytes), "{line}");
        }
    }
}
