//! The public suffix list: `co.uk`, `github.io` and thousands of others.
//!
//! `public_suffix_list.dat` has the rules in the format of <https://publicsuffix.org/list/>,
//! sorted. A table of them is built when the first host is looked up. The crate `psl`, which has
//! the list as generated code, compiles for a dozen seconds; the tests of `fuzz` compare this crate
//! with it and write the file when `psl` has a newer list.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The rules, in the format of publicsuffix.org.
pub const LIST: &str = include_str!("public_suffix_list.dat");

static RULES: LazyLock<Rules> = LazyLock::new(|| Rules::parse(LIST));

/// The public suffix of a host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PublicSuffix {
    /// How many bytes at the end of the host it has.
    pub len: usize,
    /// Whether a company that hands out names lists it (`github.io`), not a registry (`co.uk`).
    pub is_private: bool,
}

/// The public suffix of a host in lower case. A top-level domain that the list does not have is a
/// suffix, too. `None` for an empty host.
pub fn public_suffix(host: &str) -> Option<PublicSuffix> {
    RULES.suffix_of(host)
}

/// Who wrote a rule: a registry, or a company in the list's private section.
#[derive(Clone, Copy)]
struct Rule {
    is_private: bool,
}

/// The rules about one name.
#[derive(Clone, Copy, Default)]
struct NameRules {
    /// The rule `co.uk`: the name is a suffix.
    itself: Option<Rule>,
    /// The rule `*.ck`: every name below it is a suffix.
    below: Option<Rule>,
    /// The rule `!www.ck`: the name is none, although `below` of its parent says so.
    exception: Option<Rule>,
}

/// All rules by name. Every parent of a name has an entry too, so that a lookup can stop at the
/// first name without one.
struct Rules(HashMap<&'static str, NameRules, foldhash::fast::FixedState>);

impl Rules {
    fn parse(list: &'static str) -> Self {
        let mut names: HashMap<_, NameRules, _> =
            HashMap::with_capacity_and_hasher(12_000, foldhash::fast::FixedState::default());
        let mut is_private = false;
        for line in list.lines() {
            is_private |= line == "// ===BEGIN PRIVATE DOMAINS===";
            if line.is_empty() || line.starts_with("//") {
                continue;
            }
            let rule = Some(Rule { is_private });
            let mut name = if let Some(name) = line.strip_prefix("*.") {
                names.entry(name).or_default().below = rule;
                name
            } else if let Some(name) = line.strip_prefix('!') {
                names.entry(name).or_default().exception = rule;
                name
            } else {
                names.entry(line).or_default().itself = rule;
                line
            };
            while let Some((_, parent)) = name.split_once('.') {
                names.entry(parent).or_default();
                name = parent;
            }
        }
        Self(names)
    }

    fn suffix_of(&self, host: &str) -> Option<PublicSuffix> {
        let mut start = host.rfind('.').map_or(0, |dot| dot + 1);
        // A top-level domain without a rule is a suffix.
        let mut found = PublicSuffix { len: host.len() - start, is_private: false };
        let mut from_parent = None;
        loop {
            let name = &host[start..];
            let rules = self.0.get(name).copied().unwrap_or_default();
            if let Some(rule) = rules.exception {
                let parent = name.find('.').map_or(0, |dot| name.len() - dot - 1);
                return Some(PublicSuffix { len: parent, is_private: rule.is_private });
            }
            if let Some(rule) = rules.itself.or(from_parent) {
                found = PublicSuffix { len: name.len(), is_private: rule.is_private };
            }
            if start == 0 || !self.0.contains_key(name) {
                break;
            }
            from_parent = rules.below;
            start = host[..start - 1].rfind('.').map_or(0, |dot| dot + 1);
        }
        (found.len > 0).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registries_and_platforms_are_told_apart() {
        for (host, len, is_private) in [
            ("example.com", 3, false),
            ("a.example.co.uk", 5, false),
            ("someone.github.io", 9, true),
            ("github.io", 9, true),
            ("example.not-a-domain", 12, false),
            ("a.b.example.ck", 10, false),
            ("www.ck", 2, false),
            ("a.www.ck", 2, false),
            // By `*.r.cloud.int.apple`; there is also a rule for names below it.
            ("us-east-1.r.cloud.int.apple", 27, true),
            ("a.b.us-east-1.r.cloud.int.apple", 29, true),
            ("example.xn--55qx5d.cn", 13, false),
        ] {
            assert_eq!(public_suffix(host), Some(PublicSuffix { len, is_private }), "{host}");
        }
        assert_eq!(public_suffix(""), None);
    }
}
