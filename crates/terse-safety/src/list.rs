//! Parses one blocklist.

mod columns;
mod line;
mod protected_hosts;

use std::borrow::Cow;
use std::str;

use terse_core::Target;
use url::Url;

pub use self::protected_hosts::ProtectedHosts;
use crate::url_parts::UrlParts;
use columns::{Columns, Row};
use line::Line;

/// The maximum number of entries of one list. Further entries are counted as skipped.
pub const MAX_ENTRIES: usize = 5_000_000;

/// Longer lines are skipped.
const MAX_LINE: usize = 2 * Target::MAX;

/// The detected format of a list.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ListKind {
    /// `0.0.0.0 bad.example`.
    Hosts,
    /// One domain per line, also in ad-blocker syntax.
    Domains,
    /// One URL per line.
    Urls,
    /// PhishTank's CSV.
    PhishTank,
    /// URLhaus's CSV.
    UrlHaus,
    /// No entry could be parsed.
    Unknown,
}

/// What one entry blocks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ListEntry<'a> {
    /// A canonical host with its subdomains.
    Host(&'a str),
    /// `host:port/path?query` of one URL, without scheme, credentials and fragment. An entry
    /// without a query matches every query.
    Url(&'a str),
}

/// One parsed list. Entries are stored in two long strings, because a million small allocations
/// would use more memory than the entries.
#[derive(Clone, Debug)]
pub struct ParsedList {
    name: String,
    kind: ListKind,
    hosts: String,
    urls: String,
    entries: usize,
    skipped: usize,
    /// The maximum number of entries.
    max_entries: usize,
}

/// Parses a list and detects its format. Lines that cannot be parsed are skipped and counted; they
/// are never an error.
pub fn parse(name: &str, bytes: &[u8], protected: &ProtectedHosts) -> ParsedList {
    parse_limited(MAX_ENTRIES, name, bytes, protected)
}

fn parse_limited(
    max_entries: usize,
    name: &str,
    bytes: &[u8],
    protected: &ProtectedHosts,
) -> ParsedList {
    let mut list = ParsedList {
        name: name.into(),
        kind: ListKind::Unknown,
        hosts: String::new(),
        urls: String::new(),
        entries: 0,
        skipped: 0,
        max_entries,
    };
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match Columns::recognise(lines(bytes)) {
        Some(columns) => list.read_columns(bytes, &columns, protected),
        None => list.read_lines(bytes, protected),
    }
    if list.entries == 0 {
        list.kind = ListKind::Unknown;
    }
    list
}

impl ParsedList {
    /// The operator's name for the list.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The detected format.
    pub fn kind(&self) -> ListKind {
        self.kind
    }

    /// The number of entries, including duplicates.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether the list has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The number of entries that could not be parsed or that name protected hosts.
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// All entries, hosts first.
    pub fn entries(&self) -> impl Iterator<Item = ListEntry<'_>> {
        self.hosts.lines().map(ListEntry::Host).chain(self.urls.lines().map(ListEntry::Url))
    }

    fn read_columns(&mut self, bytes: &[u8], columns: &Columns, protected: &ProtectedHosts) {
        self.kind = columns.kind;
        // One line is one row, although a quoted field could contain a line break: a stray quote
        // then loses only its own line.
        let mut row = Row::default();
        for line in lines(bytes) {
            if line.starts_with(b"#") || columns.is_header(line) {
                continue;
            }
            match row.read(line).and_then(|fields| columns.url(&fields)) {
                Some(url) => self.add_url(url, protected),
                None => self.skipped += 1,
            }
        }
    }

    fn read_lines(&mut self, bytes: &[u8], protected: &ProtectedHosts) {
        let mut seen = [(ListKind::Hosts, 0usize), (ListKind::Domains, 0), (ListKind::Urls, 0)];
        for line in lines(bytes) {
            let Some(line) = line::without_comment(line) else { continue };
            let Some(line) = (line.len() <= MAX_LINE).then(|| str::from_utf8(line).ok()).flatten()
            else {
                self.skipped += 1;
                continue;
            };
            match Line::read(line) {
                Line::Hosts(names) => {
                    seen[0].1 += 1;
                    names.split_whitespace().for_each(|name| self.add_host(name, protected));
                }
                Line::Domain(name) => {
                    seen[1].1 += 1;
                    self.add_host(name, protected);
                }
                Line::Url(url) => {
                    seen[2].1 += 1;
                    self.add_url(url, protected);
                }
                Line::Unknown => self.skipped += 1,
            }
        }
        // Lists often mix formats: each line is parsed by its own format, and the most frequent
        // format names the list.
        self.kind = seen
            .into_iter()
            .max_by_key(|(_, count)| *count)
            .map_or(ListKind::Unknown, |(kind, _)| kind);
    }

    fn add_host(&mut self, text: &str, protected: &ProtectedHosts) {
        match crate::host_name::canonical(text).filter(|host| protected.allows_host(host)) {
            Some(host) if self.entries < self.max_entries => {
                self.hosts.push_str(&host);
                self.hosts.push('\n');
                self.entries += 1;
            }
            _ => self.skipped += 1,
        }
    }

    fn add_url(&mut self, text: &str, protected: &ProtectedHosts) {
        let text = if text.contains("://") {
            Cow::from(text)
        } else {
            Cow::from(format!("http://{text}"))
        };
        let url = Some(&text)
            .filter(|text| has_plausible_authority(text))
            .and_then(|text| Url::parse(text).ok());
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.filter(|url| url.as_str().len() <= Target::MAX);
        let parts = url.as_ref().and_then(|url| UrlParts::parse(url.as_str()));
        match parts.filter(|parts| {
            crate::host_name::is_valid(parts.host) && protected.allows_url_at(parts.host)
        }) {
            Some(parts) if self.entries < self.max_entries => {
                self.urls.push_str(&host_and_path(&parts));
                // Servers treat an empty query as none: `/login?` is `/login`.
                if let Some(query) = parts.query.filter(|query| !query.is_empty()) {
                    self.urls.push('?');
                    self.urls.push_str(query);
                }
                self.urls.push('\n');
                self.entries += 1;
            }
            _ => self.skipped += 1,
        }
    }
}

/// `host:port/path`: the key by which URL entries and targets are compared, before their queries.
pub(crate) fn host_and_path(parts: &UrlParts<'_>) -> String {
    match parts.port {
        Some(port) => format!("{}:{port}{}", parts.host, parts.path),
        None => format!("{}{}", parts.host, parts.path),
    }
}

/// Whether the authority, with credentials, has a plausible length.
fn has_plausible_authority(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest).trim_start_matches(['/', '\\']);
    crate::host_name::has_plausible_length(
        rest.split(['/', '\\', '?', '#']).next().unwrap_or_default(),
    )
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split(|byte| matches!(byte, b'\n' | b'\r'))
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests;
