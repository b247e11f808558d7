//! Open redirects: pages of well-known sites that redirect to any URL.

use std::sync::LazyLock;

use percent_encoding::percent_decode_str;
use terse_core::Target;
use url::{Url, form_urlencoded};

use crate::host_name::{DomainParts, is_at_or_below};
use crate::known_hosts::lines;
use crate::url_parts::UrlParts;

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    lines(include_str!("../data/redirectors.txt")).filter_map(Rule::read).collect()
});

/// One line of the data file.
struct Rule {
    host: &'static str,
    path: &'static str,
    /// Whether the URL is the rest of the path.
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

    fn is_at(&self, host: &str, domain: Option<&DomainParts<'_>>) -> bool {
        match (self.host.strip_suffix(".*"), self.host.strip_prefix("*.")) {
            (Some(label), _) => domain.is_some_and(|domain| {
                domain.label == label && matches!(domain.subdomains, "" | "www")
            }),
            (_, Some(above)) => host != above && is_at_or_below(host, above),
            _ => host.strip_prefix("www.").unwrap_or(host) == self.host,
        }
    }

    /// The URL in the path or query that the page redirects to.
    fn destination(&self, parts: &UrlParts<'_>) -> Option<String> {
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

/// The URL parameter of a known open redirect, if this is one.
fn redirect_parameter(parts: &UrlParts<'_>) -> Option<String> {
    let domain = DomainParts::of(parts.host);
    RULES
        .iter()
        .filter(|rule| rule.is_at(parts.host, domain.as_ref()))
        .find_map(|rule| rule.destination(parts))
}

/// Whether this is a known open redirect with a target.
pub(crate) fn redirects(parts: &UrlParts<'_>) -> bool {
    redirect_parameter(parts).is_some()
}

/// The target of a known open redirect, if its URL contains it.
pub(crate) fn destination(target: &Target) -> Option<Target> {
    let parameter = redirect_parameter(&UrlParts::of(target)?)?;
    let start = parameter.find("http://").or_else(|| parameter.find("https://"))?;
    let url = Url::parse(&parameter[start..]).ok()?;
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
    fn known_open_redirects_are_followed() {
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
                "https://eur01.safelinks.protection.outlook.com/\
                 ?url=https%3A%2F%2Fx.example&data=1",
                Some("https://x.example/"),
            ),
            (
                "https://r.search.yahoo.com/_ylt=A/RU=https%3a%2f%2fx.example%2fa/RK=2",
                Some("https://x.example/a/RK=2"),
            ),
            ("https://www.bing.com/ck/a?u=a1aHR0cHM6", None),
        ] {
            let target = Target::from_stored(text.into());
            assert!(redirects(&UrlParts::of(&target).unwrap()), "{text}");
            assert_eq!(destination(&target).as_ref().map(Target::as_str), end, "{text}");
        }
    }

    #[test]
    fn other_pages_of_the_same_sites_are_not_open_redirects() {
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
            assert!(!redirects(&UrlParts::parse(text).unwrap()), "{text}");
        }
    }
}
