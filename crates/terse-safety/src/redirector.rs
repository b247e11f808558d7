//! Pages of well-known sites that send visitors on to any URL.

use std::sync::LazyLock;

use percent_encoding::percent_decode_str;
use terse_core::Target;
use url::{Url, form_urlencoded};

use crate::known::lines;
use crate::name::{Cut, is_at_or_below};
use crate::parts::Parts;

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    lines(include_str!("../data/redirectors.txt")).filter_map(Rule::read).collect()
});

/// One line of the data file.
struct Rule {
    host: &'static str,
    path: &'static str,
    /// The URL is the rest of the path.
    in_path: bool,
    fields: Vec<&'static str>,
}

impl Rule {
    fn read(line: &'static str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (host, path) = (words.next()?, words.next()?);
        let in_path = path.ends_with('*');
        let fields = words.next().map(|fields| fields.split(',').collect()).unwrap_or_default();
        Some(Self { host, path: path.trim_end_matches('*'), in_path, fields })
    }

    fn is_at(&self, host: &str, cut: Option<&Cut<'_>>) -> bool {
        match (self.host.strip_suffix(".*"), self.host.strip_prefix("*.")) {
            (Some(label), _) => {
                cut.is_some_and(|cut| cut.label == label && matches!(cut.below, "" | "www"))
            }
            (_, Some(above)) => host != above && is_at_or_below(host, above),
            _ => host.strip_prefix("www.").unwrap_or(host) == self.host,
        }
    }

    /// Where it sends a visitor, as it is told to.
    fn destination(&self, parts: &Parts<'_>) -> Option<String> {
        let rest = parts.path.strip_prefix(self.path)?;
        if self.in_path {
            let rest = percent_decode_str(rest).decode_utf8_lossy().into_owned();
            return (!rest.is_empty()).then_some(rest);
        }
        let query = parts.query?;
        self.fields.iter().find_map(|field| match *field {
            "*" => Some(percent_decode_str(query).decode_utf8_lossy().into_owned())
                .filter(|text| text.starts_with("http")),
            field => form_urlencoded::parse(query.as_bytes())
                .find(|(name, value)| name == field && !value.is_empty())
                .map(|(_, value)| value.into_owned()),
        })
    }
}

/// What a known redirector was told, if this is one.
fn told(parts: &Parts<'_>) -> Option<String> {
    let cut = Cut::of(parts.host);
    RULES
        .iter()
        .filter(|rule| rule.is_at(parts.host, cut.as_ref()))
        .find_map(|rule| rule.destination(parts))
}

/// Whether this is a known redirector that was told where to go.
pub(crate) fn redirects(parts: &Parts<'_>) -> bool {
    told(parts).is_some()
}

/// Where a known redirector leads, if that can be read from its URL.
pub(crate) fn destination(target: &Target) -> Option<Target> {
    let told = told(&Parts::of(target)?)?;
    let begin = told.find("http://").or_else(|| told.find("https://"))?;
    let url = Url::parse(&told[begin..]).ok()?;
    Some(Target::from_stored(url.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_data_is_a_rule() {
        let text = include_str!("../data/redirectors.txt");
        assert_eq!(RULES.len(), lines(text).count());
        assert!(
            RULES
                .iter()
                .all(|rule| rule.path.starts_with('/') && rule.in_path == rule.fields.is_empty())
        );
    }

    #[test]
    fn known_redirectors_are_looked_through() {
        for (text, end) in [
            (
                "https://www.google.com/url?q=https://attacker.example.net/",
                Some("https://attacker.example.net/"),
            ),
            (
                "https://google.co.jp/url?sa=t&url=https%3A%2F%2Fx.example%2F%3Fa%3D1",
                Some("https://x.example/?a=1"),
            ),
            (
                "https://l.facebook.com/l.php?u=http%3A%2F%2Fx.example&h=1",
                Some("http://x.example/"),
            ),
            ("https://href.li/?https://x.example/", Some("https://x.example/")),
            (
                "https://eur01.safelinks.protection.outlook.com/?url=https%3A%2F%2Fx.example&data=1",
                Some("https://x.example/"),
            ),
            (
                "https://r.search.yahoo.com/_ylt=A/RU=https%3a%2f%2fx.example%2fa/RK=2",
                Some("https://x.example/a/RK=2"),
            ),
            ("https://www.bing.com/ck/a?u=a1aHR0cHM6", None),
        ] {
            let target = Target::from_stored(text.into());
            assert!(redirects(&Parts::of(&target).unwrap()), "{text}");
            assert_eq!(destination(&target).as_ref().map(Target::as_str), end, "{text}");
        }
    }

    #[test]
    fn other_pages_of_the_same_sites_are_no_redirectors() {
        for text in [
            "https://www.google.com/search?q=https://example.com/",
            "https://www.google.com/url",
            "https://www.google.com/",
            "https://sites.google.com/url?q=https://example.com/",
            "https://google.evil.example/url?q=https://example.com/",
            "https://example.com/url?q=https://example.org/",
            "https://www.youtube.com/watch?v=x&q=1",
            "https://vk.com/somebody?to=1",
            "https://web.archive.org/web/2020/https://example.com/",
        ] {
            assert!(!redirects(&Parts::of_text(text).unwrap()), "{text}");
        }
    }
}
