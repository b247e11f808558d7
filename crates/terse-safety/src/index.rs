//! All blocklists compiled into one index.

use std::hash::{BuildHasher, RandomState};

use terse_core::Target;

use crate::hash_table::Table;
use crate::list::{ListEntry, ParsedList, host_and_path};
use crate::url_parts::UrlParts;

/// All blocklists, compiled. Built once, then read-only.
///
/// The index stores only 64-bit hashes. Every index uses a new random hash key, so an attacker
/// cannot search for a harmless entry that collides with another host. With a million entries, a
/// lookup is wrong by chance once in 10¹².
#[derive(Debug, Default)]
pub struct BlocklistIndex {
    sources: Vec<Box<str>>,
    hosts: Table,
    urls: Table,
    hasher: RandomState,
}

/// Why a target is blocked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IndexMatch<'a> {
    /// The name of the list; the first one if several match.
    pub source: &'a str,
    /// What the entry names.
    pub kind: MatchKind,
    /// The listed host, or the listed URL without scheme and query. Safe to log.
    pub entry: String,
}

/// What a matching entry names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MatchKind {
    /// A host with its subdomains.
    Host,
    /// One URL.
    Url,
}

impl BlocklistIndex {
    /// Compiles lists. Lists after the 65,536th are ignored.
    pub fn build<'a>(lists: impl IntoIterator<Item = &'a ParsedList>) -> Self {
        let hasher = RandomState::new();
        let (mut sources, mut hosts, mut urls) = (Vec::new(), Vec::new(), Vec::new());
        for (source, list) in (0..=u16::MAX).zip(lists) {
            sources.push(list.name().into());
            for entry in list.entries() {
                match entry {
                    ListEntry::Host(host) => hosts.push((hasher.hash_one(host), source)),
                    ListEntry::Url(url) => urls.push((hasher.hash_one(url), source)),
                }
            }
        }
        Self { sources, hosts: Table::build(hosts), urls: Table::build(urls), hasher }
    }

    /// The entry that blocks this target, if any: its host, a parent domain, or its URL.
    pub fn find(&self, target: &Target) -> Option<IndexMatch<'_>> {
        let parts = UrlParts::of(target)?;
        self.find_host(&parts).or_else(|| self.find_url(&parts))
    }

    /// The number of distinct entries.
    pub fn len(&self) -> usize {
        self.hosts.len() + self.urls.len()
    }

    /// Whether the index has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory used, in bytes.
    pub fn size(&self) -> usize {
        self.hosts.size()
            + self.urls.size()
            + self.sources.iter().map(|name| name.len() + size_of::<Box<str>>()).sum::<usize>()
    }

    fn find_host(&self, parts: &UrlParts<'_>) -> Option<IndexMatch<'_>> {
        if self.hosts.len() == 0 {
            return None;
        }
        let mut rest = parts.host;
        loop {
            if let Some(source) = self.hosts.get(self.hasher.hash_one(rest)) {
                return Some(self.matched(source, MatchKind::Host, rest.to_owned()));
            }
            // An IP address has no parent domain, and a name without a dot is never listed.
            rest = rest
                .split_once('.')
                .map(|(_, above)| above)
                .filter(|above| above.contains('.') && !parts.is_address())?;
        }
    }

    fn find_url(&self, parts: &UrlParts<'_>) -> Option<IndexMatch<'_>> {
        if self.urls.len() == 0 {
            return None;
        }
        let url = host_and_path(parts);
        let found = self.urls.get(self.hasher.hash_one(url.as_str())).or_else(|| {
            let query = parts.query.filter(|query| !query.is_empty())?;
            self.urls.get(self.hasher.hash_one(format!("{url}?{query}").as_str()))
        });
        found.map(|source| self.matched(source, MatchKind::Url, url))
    }

    fn matched(&self, source: u16, kind: MatchKind, entry: String) -> IndexMatch<'_> {
        IndexMatch { source: &self.sources[usize::from(source)], kind, entry }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::list::{ProtectedHosts, parse};

    fn index(lists: &[(&str, &str)]) -> BlocklistIndex {
        let lists: Vec<_> = lists
            .iter()
            .map(|(name, text)| parse(name, text.as_bytes(), &ProtectedHosts::default()))
            .collect();
        BlocklistIndex::build(&lists)
    }

    fn target(text: &str) -> Target {
        Target::parse(text, &Default::default()).unwrap()
    }

    #[test]
    fn a_host_is_matched_label_by_label() {
        let index = index(&[
            ("one", "evil.example\n9.9.9.9\n2620:fe::9"),
            ("two", "evil.example\nsub.good.example"),
        ]);
        for text in [
            "https://evil.example/",
            "https://EVIL.EXAMPLE/",
            "https://evil.example./",
            "http://evil.example:8080/x?y#z",
            "https://a.b.evil.example/",
            "https://good.example.org@evil.example/",
            "https://%65vil.example/",
            "https://ｅｖｉｌ.example/",
            "https://ev\u{ad}il.example/",
            "https://evil。example/",
            "https:/evil.example/",
        ] {
            let found = index.find(&target(text)).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(
                found,
                IndexMatch { source: "one", kind: MatchKind::Host, entry: "evil.example".into() }
            );
        }
        assert_eq!(index.find(&target("https://x.sub.good.example/")).unwrap().source, "two");
        assert_eq!(index.find(&target("http://0x09090909/")).unwrap().entry, "9.9.9.9");
        assert_eq!(index.find(&target("http://[2620:fe:0::9]:81/")).unwrap().entry, "[2620:fe::9]");
        for text in [
            "https://notevil.example/",
            "https://evil.example.org/",
            "https://good.example/",
            "https://example.org/evil.example",
            "https://evil.example@example.org/",
            "http://9.9.9.8/",
        ] {
            assert_eq!(index.find(&target(text)), None, "{text}");
        }
    }

    #[test]
    fn a_url_is_matched_by_host_path_and_listed_query() {
        let index = index(&[(
            "urls",
            "http://big.example/a%20b/x\nhttps://big.example:8080/p?id=1#f\nhttp://root.example/",
        )]);
        for (text, entry) in [
            ("https://big.example/a b/x?any#f", "big.example/a%20b/x"),
            ("http://u@BIG.example./a%20b/x", "big.example/a%20b/x"),
            ("http://big.example:8080/p?id=1", "big.example:8080/p"),
            ("https://root.example", "root.example/"),
        ] {
            let found = index.find(&target(text)).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((found.kind, found.entry.as_str()), (MatchKind::Url, entry));
        }
        for text in [
            "http://big.example/",
            "http://big.example/a%20b/x/",
            "http://big.example/A%20b/x",
            "http://big.example:8080/p",
            "http://big.example:8080/p?id=2",
            "http://big.example/p?id=1",
            "http://sub.big.example/a%20b/x",
            "http://root.example/y",
        ] {
            assert_eq!(index.find(&target(text)), None, "{text}");
        }
    }

    #[test]
    fn an_empty_index_blocks_nothing() {
        assert!(BlocklistIndex::default().is_empty());
        assert_eq!(BlocklistIndex::default().find(&target("https://example.com/")), None);
        assert_eq!(index(&[("empty", "")]).find(&target("https://example.com/")), None);
    }

    #[test]
    fn a_damaged_target_is_no_match_and_no_panic() {
        let index = index(&[("one", "evil.example")]);
        for text in [
            "",
            "https://",
            "https://evil.example",
            "ftp://evil.example/",
            "https:///",
            "https://@:/",
            "https://]/",
        ] {
            assert_eq!(index.find(&Target::from_stored(text.into())), None, "{text}");
        }
    }

    proptest! {
        /// Few labels, so that hosts match often.
        #[test]
        fn the_index_finds_what_a_plain_search_finds(
            hosts in prop::collection::hash_set("(([ab]{1,2}\\.){1,3})example", 0..12),
            urls in prop::collection::hash_set("[ab]\\.example/[xy]{0,2}(\\?[xy])?", 0..6),
            urls_to_check in prop::collection::vec(
                "https://([ab]{1,2}\\.){1,5}example/[xy]{0,2}(\\?[xy])?(#x)?",
                1..30,
            ),
        ) {
            let host_list: Vec<_> = hosts.iter().cloned().collect();
            let url_list: Vec<_> = urls.iter().map(|url| format!("http://{url}")).collect();
            let index = index(&[("hosts", &host_list.join("\n")), ("urls", &url_list.join("\n"))]);
            for text in urls_to_check {
                let plain = text.trim_start_matches("https://").split('#').next().unwrap();
                let host = plain.split('/').next().unwrap();
                let by_host = hosts
                    .iter()
                    .any(|listed| host == listed || host.ends_with(&format!(".{listed}")));
                let without_query: HashSet<&str> = [plain, plain.split('?').next().unwrap()].into();
                let by_url = without_query.iter().any(|plain| urls.contains(*plain));
                let found = index.find(&target(&text)).map(|found| found.kind);
                let want = match (by_host, by_url) {
                    (true, _) => Some(MatchKind::Host),
                    (false, true) => Some(MatchKind::Url),
                    (false, false) => None,
                };
                prop_assert_eq!(found, want, "{}", text);
            }
        }
    }
}
