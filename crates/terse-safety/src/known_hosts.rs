//! The built-in lists in `data/`: shorteners, free hosting services and imitated brands.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::look_alike::{Similarity, fold};

/// Other URL shorteners.
pub(crate) static SHORTENERS: LazyLock<HostSet> =
    LazyLock::new(|| HostSet::read(include_str!("../data/shorteners.txt")));
/// Free hosting and dynamic DNS services.
pub(crate) static FREE_HOSTING: LazyLock<HostSet> =
    LazyLock::new(|| HostSet::read(include_str!("../data/free_hosting.txt")));
/// Brand names that phishing hosts imitate.
pub(crate) static BRANDS: LazyLock<Brands> =
    LazyLock::new(|| Brands::read(include_str!("../data/names.txt")));

/// The lines of a data file without comments.
pub(crate) fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// A set of hosts, and of domains whose subdomains match.
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

    /// Whether a canonical host is in the set.
    pub(crate) fn contains(&self, host: &str) -> bool {
        let host = host.strip_prefix("www.").unwrap_or(host);
        let mut parents =
            std::iter::successors(host.split_once('.'), |(_, above)| above.split_once('.'));
        self.hosts.contains(host) || parents.any(|(_, above)| self.above.contains(above))
    }
}

/// Brand names and the forms they are compared by.
pub(crate) struct Brands {
    exact: HashSet<&'static str>,
    /// Brands that are a warning wherever they appear as a label.
    sensitive: HashSet<&'static str>,
    skeletons: HashMap<String, &'static str>,
    loose_skeletons: HashMap<String, &'static str>,
    /// Unrelated names that look like a brand.
    exceptions: HashSet<&'static str>,
}

/// The minimum length for loose comparison. Shorter brands match too many unrelated words once
/// digits and accents are ignored: `über`, `äpple`.
const MIN_LOOSE_LEN: usize = 6;

impl Brands {
    fn read(text: &'static str) -> Self {
        let (mut exact, mut sensitive, mut exceptions) =
            (HashSet::new(), HashSet::new(), HashSet::new());
        for line in lines(text) {
            if let Some(name) = line.strip_prefix('-') {
                exceptions.insert(name);
                continue;
            }
            let name = line.trim_end_matches([' ', '+']);
            exact.insert(name);
            if line.ends_with('+') {
                sensitive.insert(name);
            }
        }
        let skeletons =
            exact.iter().map(|name| (fold(name, Similarity::Skeleton), *name)).collect();
        let loose = exact.iter().filter(|name| name.len() >= MIN_LOOSE_LEN);
        let loose_skeletons = loose.map(|name| (fold(name, Similarity::Loose), *name)).collect();
        Self { exact, sensitive, skeletons, loose_skeletons, exceptions }
    }

    /// Whether a label is a brand name itself.
    pub(crate) fn contains(&self, label: &str) -> bool {
        self.exact.contains(label)
    }

    /// Whether a brand is a warning wherever it appears as a label.
    pub(crate) fn is_sensitive(&self, name: &str) -> bool {
        self.sensitive.contains(name)
    }

    /// The brand that a label, in Unicode, looks like without being it.
    pub(crate) fn imitated(&self, label: &str) -> Option<&'static str> {
        if self.contains(label) || self.exceptions.contains(label) {
            return None;
        }
        self.skeletons
            .get(&fold(label, Similarity::Skeleton))
            .or_else(|| self.loose_skeletons.get(&fold(label, Similarity::Loose)))
            .copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_lists_hold_each_canonical_host_once() {
        for text in
            [include_str!("../data/shorteners.txt"), include_str!("../data/free_hosting.txt")]
        {
            let mut seen = HashSet::new();
            for line in lines(text) {
                let host = line.trim_start_matches("*.");
                assert_eq!(crate::host_name::canonical(host).as_deref(), Some(host));
                assert!(host.contains('.') && seen.insert(line), "{line}");
            }
        }
    }

    #[test]
    fn no_two_names_look_alike() {
        let names = &*BRANDS;
        assert_eq!(names.skeletons.len(), names.exact.len());
        assert_eq!(
            names.loose_skeletons.len(),
            names.exact.iter().filter(|name| name.len() >= MIN_LOOSE_LEN).count()
        );
        assert_eq!(
            names.exact.len() + names.exceptions.len(),
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
