//! Our own small lists, from `data/`.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::look_alike::{Fold, fold};

/// Other shorteners.
pub(crate) static SHORTENERS: LazyLock<HostSet> =
    LazyLock::new(|| HostSet::read(include_str!("../data/shorteners.txt")));
/// Free hosting and dynamic DNS.
pub(crate) static FREE_HOSTING: LazyLock<HostSet> =
    LazyLock::new(|| HostSet::read(include_str!("../data/free_hosting.txt")));
/// Names that others imitate.
pub(crate) static NAMES: LazyLock<Names> =
    LazyLock::new(|| Names::read(include_str!("../data/names.txt")));

/// The lines of a data file that are no comments.
pub(crate) fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Single hosts, and domains of which everything below counts.
pub(crate) struct HostSet {
    hosts: HashSet<&'static str>,
    above: HashSet<&'static str>,
}

impl HostSet {
    fn read(text: &'static str) -> Self {
        let (above, hosts): (Vec<_>, Vec<_>) = lines(text).partition(|line| line.starts_with("*."));
        Self {
            hosts: hosts.into_iter().collect(),
            above: above.into_iter().filter_map(|line| line.strip_prefix("*.")).collect(),
        }
    }

    /// Of a canonical host.
    pub(crate) fn contains(&self, host: &str) -> bool {
        let host = host.strip_prefix("www.").unwrap_or(host);
        let mut parents =
            std::iter::successors(host.split_once('.'), |(_, above)| above.split_once('.'));
        self.hosts.contains(host) || parents.any(|(_, above)| self.above.contains(above))
    }
}

/// The names that others imitate, as they are and as they look.
pub(crate) struct Names {
    exact: HashSet<&'static str>,
    /// Those that need no second sign.
    precious: HashSet<&'static str>,
    looks: HashMap<String, &'static str>,
    rough_looks: HashMap<String, &'static str>,
    /// Names of their own that only look like one.
    honest: HashSet<&'static str>,
}

/// Shorter names look like too many honest words once digits and accents are ignored: `über`,
/// `äpple`.
const ROUGH_FROM: usize = 6;

impl Names {
    fn read(text: &'static str) -> Self {
        let (mut exact, mut precious, mut honest) =
            (HashSet::new(), HashSet::new(), HashSet::new());
        for line in lines(text) {
            if let Some(name) = line.strip_prefix('-') {
                honest.insert(name);
                continue;
            }
            let name = line.trim_end_matches([' ', '+']);
            exact.insert(name);
            if line.ends_with('+') {
                precious.insert(name);
            }
        }
        let looks = exact.iter().map(|name| (fold(name, Fold::Look), *name)).collect();
        let rough = exact.iter().filter(|name| name.len() >= ROUGH_FROM);
        let rough_looks = rough.map(|name| (fold(name, Fold::Rough), *name)).collect();
        Self { exact, precious, looks, rough_looks, honest }
    }

    /// Whether a label is such a name itself.
    pub(crate) fn contains(&self, label: &str) -> bool {
        self.exact.contains(label)
    }

    /// Whether a name is reason enough for a warning wherever it stands.
    pub(crate) fn is_precious(&self, name: &str) -> bool {
        self.precious.contains(name)
    }

    /// The name that a label, in Unicode, looks like without being it.
    pub(crate) fn imitated(&self, label: &str) -> Option<&'static str> {
        if self.contains(label) || self.honest.contains(label) {
            return None;
        }
        self.looks
            .get(&fold(label, Fold::Look))
            .or_else(|| self.rough_looks.get(&fold(label, Fold::Rough)))
            .copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_our_lists_is_a_canonical_host_and_stands_there_once() {
        for text in
            [include_str!("../data/shorteners.txt"), include_str!("../data/free_hosting.txt")]
        {
            let mut seen = HashSet::new();
            for line in lines(text) {
                let host = line.trim_start_matches("*.");
                assert_eq!(crate::name::canonical(host).as_deref(), Some(host));
                assert!(host.contains('.') && seen.insert(line), "{line}");
            }
        }
    }

    #[test]
    fn no_two_names_look_alike() {
        let names = &*NAMES;
        assert_eq!(names.looks.len(), names.exact.len());
        assert_eq!(
            names.rough_looks.len(),
            names.exact.iter().filter(|name| name.len() >= ROUGH_FROM).count()
        );
        assert_eq!(
            names.exact.len() + names.honest.len(),
            lines(include_str!("../data/names.txt")).count()
        );
        for name in &names.exact {
            assert_eq!(names.imitated(name), None, "{name}");
        }
    }

    #[test]
    fn a_set_of_hosts_is_matched_label_by_label() {
        let set = HostSet::read("# head\n*.free.example\nshort.example\n");
        for host in ["a.free.example", "a.b.free.example", "short.example", "www.short.example"] {
            assert!(set.contains(host), "{host}");
        }
        for host in
            ["free.example", "www.free.example", "afree.example", "a.short.example", "example", ""]
        {
            assert!(!set.contains(host), "{host}");
        }
    }
}
