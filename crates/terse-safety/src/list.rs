//! One blocklist, read from the bytes of a file.

mod columns;
mod guard;
mod line;

use std::borrow::Cow;
use std::str;

use terse_core::Target;
use url::Url;

pub use self::guard::Guard;
use crate::parts::Parts;
use columns::{Columns, Row};
use line::Line;

/// The most entries one list may bring. What follows is counted as skipped.
pub const MAX_ENTRIES: usize = 5_000_000;

/// No URL we know is longer; a longer line is noise.
const MAX_LINE: usize = 2 * Target::MAX;

/// What a list turned out to be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ListKind {
    /// `0.0.0.0 bad.example`.
    Hosts,
    /// One domain a line, also in the form of ad blockers.
    Domains,
    /// One URL a line.
    Urls,
    /// PhishTank's CSV.
    PhishTank,
    /// URLhaus's CSV.
    UrlHaus,
    /// Nothing in it could be read.
    Unknown,
}

/// What one entry blocks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Entry<'a> {
    /// A canonical host, and everything below it.
    Host(&'a str),
    /// `host:port/path?query` of one URL: no scheme, no credentials, no fragment. Without a query
    /// it matches any.
    Url(&'a str),
}

/// One list, canonical. Entries lie in two long texts: a million small allocations would cost more
/// than the words.
#[derive(Clone, Debug)]
pub struct ParsedList {
    name: String,
    kind: ListKind,
    hosts: String,
    urls: String,
    entries: usize,
    skipped: usize,
    /// How many entries it may bring.
    most: usize,
}

/// Reads a list. Its kind is recognised by its content. Whatever cannot be understood is skipped
/// and counted, never an error.
pub fn parse(name: &str, bytes: &[u8], guard: &Guard) -> ParsedList {
    parse_at_most(MAX_ENTRIES, name, bytes, guard)
}

fn parse_at_most(most: usize, name: &str, bytes: &[u8], guard: &Guard) -> ParsedList {
    let mut list = ParsedList {
        name: name.into(),
        kind: ListKind::Unknown,
        hosts: String::new(),
        urls: String::new(),
        entries: 0,
        skipped: 0,
        most,
    };
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match Columns::recognise(lines(bytes)) {
        Some(columns) => list.read_columns(bytes, &columns, guard),
        None => list.read_lines(bytes, guard),
    }
    if list.entries == 0 {
        list.kind = ListKind::Unknown;
    }
    list
}

impl ParsedList {
    /// As the operator calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it turned out to be.
    pub fn kind(&self) -> ListKind {
        self.kind
    }

    /// How many entries it brought, repetitions included.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether it brought none.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// How many entries were not understood, or would have blocked too much.
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// All entries: hosts first.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.hosts.lines().map(Entry::Host).chain(self.urls.lines().map(Entry::Url))
    }

    fn read_columns(&mut self, bytes: &[u8], columns: &Columns, guard: &Guard) {
        self.kind = columns.kind;
        // One line is one row, though a quoted field could hold a line break: so a stray quote
        // spoils its line, not the rest.
        let mut row = Row::default();
        for line in lines(bytes) {
            if line.starts_with(b"#") || columns.is_header(line) {
                continue;
            }
            match row.read(line).and_then(|fields| columns.url(&fields)) {
                Some(url) => self.add_url(url, guard),
                None => self.skipped += 1,
            }
        }
    }

    fn read_lines(&mut self, bytes: &[u8], guard: &Guard) {
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
                    names.split_whitespace().for_each(|name| self.add_host(name, guard));
                }
                Line::Domain(name) => {
                    seen[1].1 += 1;
                    self.add_host(name, guard);
                }
                Line::Url(url) => {
                    seen[2].1 += 1;
                    self.add_url(url, guard);
                }
                Line::Unknown => self.skipped += 1,
            }
        }
        // Lists are mixed more often than their authors think: every line was read as what it is,
        // the majority names the list.
        self.kind = seen
            .into_iter()
            .max_by_key(|(_, count)| *count)
            .map_or(ListKind::Unknown, |(kind, _)| kind);
    }

    fn add_host(&mut self, text: &str, guard: &Guard) {
        match crate::name::canonical(text).filter(|host| guard.admits_host(host)) {
            Some(host) if self.entries < self.most => {
                self.hosts.push_str(&host);
                self.hosts.push('\n');
                self.entries += 1;
            }
            _ => self.skipped += 1,
        }
    }

    fn add_url(&mut self, text: &str, guard: &Guard) {
        let text = if text.contains("://") {
            Cow::from(text)
        } else {
            Cow::from(format!("http://{text}"))
        };
        let url = Some(&text)
            .filter(|text| has_possible_place(text))
            .and_then(|text| Url::parse(text).ok());
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.filter(|url| url.as_str().len() <= Target::MAX);
        let parts = url.as_ref().and_then(|url| Parts::of_text(url.as_str()));
        match parts
            .filter(|parts| crate::name::is_possible(parts.host) && guard.admits_place(parts.host))
        {
            Some(parts) if self.entries < self.most => {
                self.urls.push_str(&place_and_path(&parts));
                // An empty query is none: `/login?` is `/login` to every server.
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

/// `host:port/path`: what a URL entry and a target are compared by, before their queries.
pub(crate) fn place_and_path(parts: &Parts<'_>) -> String {
    match parts.port {
        Some(port) => format!("{}:{port}{}", parts.host, parts.path),
        None => format!("{}{}", parts.host, parts.path),
    }
}

/// Whether what stands before the path, credentials and all, is no longer than anybody's.
fn has_possible_place(url: &str) -> bool {
    let place = url.split_once("://").map_or(url, |(_, rest)| rest).trim_start_matches(['/', '\\']);
    crate::name::is_possible_length(place.split(['/', '\\', '?', '#']).next().unwrap_or_default())
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split(|byte| matches!(byte, b'\n' | b'\r'))
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests;
