//! Where links lead: the lists, and the links to one host.

use std::time::Duration;

use super::{Moderation, ModerationError};
use crate::host::canonical_host;
use crate::link::{Link, ModerationStatus};
use crate::links::OwnerFilter;
use crate::principal::Principal;
use crate::registry::Role;
use crate::screening::{ListMatch, ListStatus};
use crate::store::{ListQuery, Sort};
use crate::target::Target;
use crate::validation::{ValidationError, ValidationErrorKind};

/// The most links that a search returns.
const MAX_LINKS: usize = 25;
/// The links per page of the store, and the most pages that one search reads: a text that many
/// links contain elsewhere than in their host would otherwise read all links.
const PAGE: usize = 100;
const MAX_PAGES: usize = 10;
/// The time after which a search reads no further page.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The links that lead to a host.
#[derive(Clone, Debug)]
pub struct HostSearch {
    /// The canonical form of the host.
    pub host: String,
    /// The list that blocks it.
    pub blocked_by: Option<ListMatch>,
    /// The list that warns of it.
    pub warned_by: Option<ListMatch>,
    /// The newest links to it or to a subdomain, deleted ones left out.
    pub links: Vec<HostLink>,
    /// Whether there may be more.
    pub is_more: bool,
}

/// A link that leads to the host of a search.
#[derive(Clone, Debug)]
pub struct HostLink {
    /// The link.
    pub link: Link,
    /// The target that is on the host.
    pub target: Target,
    /// Whether that is the target of a redirect rule, and not the link's own.
    pub by_rule: bool,
}

impl HostLink {
    /// `None` if no target of the link is on the host.
    fn of(link: Link, host: &str) -> Option<Self> {
        let target = link.targets().find(|to| is_on(to, host))?.clone();
        Some(Self { by_rule: target != link.target, target, link })
    }
}

impl Moderation {
    /// The lists that targets are compared with. Only for moderators and admins.
    pub fn lists(&self, principal: &Principal) -> Result<Vec<ListStatus>, ModerationError> {
        principal.require(Role::Moderator)?;
        Ok(self.links.screen_lists())
    }

    /// The links of all owners that lead to a host or one of its subdomains, by their target or by
    /// a redirect rule, and what the lists say about the host.
    /// Only for moderators and admins.
    pub async fn search_host(
        &self,
        principal: &Principal,
        typed: &str,
    ) -> Result<HostSearch, ModerationError> {
        principal.require(Role::Moderator)?;
        let host = typed_host(typed).ok_or_else(|| {
            let detail = "a host name, an address, or the URL of a page there";
            ValidationError::new(ValidationErrorKind::InvalidRequest, "search", detail)
        })?;
        let now = self.links.now();
        let mut query =
            ListQuery { text: Some(host.clone()), ..ListQuery::all(Sort::Newest, PAGE, now) };
        let mut found = HostSearch {
            blocked_by: self.links.host_match(&host, ModerationStatus::Blocked),
            warned_by: self.links.host_match(&host, ModerationStatus::Suspicious),
            links: Vec::new(),
            is_more: false,
            host,
        };
        let begun = self.links.now();
        for _ in 0..MAX_PAGES {
            let page = self.links.list_of(principal, OwnerFilter::All, query.clone()).await?.page;
            let leads_there = |link| HostLink::of(link, &found.host);
            let mut matching: Vec<_> = page.links.into_iter().filter_map(leads_there).collect();
            let room = MAX_LINKS - found.links.len();
            found.is_more = matching.len() > room || page.next.is_some();
            matching.truncate(room);
            found.links.extend(matching);
            let late = begun.checked_add(TIMEOUT).is_some_and(|end| self.links.now() >= end);
            match page.next {
                Some(next) if found.links.len() < MAX_LINKS && !late => query.after = Some(next),
                _ => break,
            }
        }
        Ok(found)
    }
}

/// The host of what a moderator typed or pasted: a host, or a URL.
fn typed_host(typed: &str) -> Option<String> {
    let typed = typed.trim();
    let rest = typed.split_once("://").map_or(typed, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let named = match host.rsplit_once(':') {
        Some((before, port)) if !before.contains(':') || before.ends_with(']') => {
            if port.bytes().all(|byte| byte.is_ascii_digit()) { before } else { host }
        }
        _ => host,
    };
    canonical_host(named).filter(|host| !host.is_empty())
}

/// Whether a target is on this host or one of its subdomains.
fn is_on(target: &Target, host: &str) -> bool {
    target.host().is_some_and(|of| {
        let of = of.strip_suffix('.').unwrap_or(&of);
        of.strip_suffix(host).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_what_was_typed_is_found() {
        for (typed, want) in [
            ("evil.example", Some("evil.example")),
            (" EVIL.example ", Some("evil.example")),
            ("https://ann:secret@evil.example:8443/a?b#c", Some("evil.example")),
            ("http://[2001:db8::1]:80/", Some("[2001:db8::1]")),
            ("evil.example/path", Some("evil.example")),
            ("no host", None),
            ("", None),
            ("https://", None),
        ] {
            assert_eq!(typed_host(typed).as_deref(), want, "{typed}");
        }
    }

    #[test]
    fn a_host_is_found_with_its_subdomains_and_a_dot_at_its_end() {
        for (target, want) in [
            ("https://evil.example/x", true),
            ("https://www.evil.example/", true),
            ("https://evil.example./x", true),
            ("https://notevil.example/", false),
            ("https://evil.example.org/", false),
        ] {
            let target = Target::from_stored(target.into());
            assert_eq!(is_on(&target, "evil.example"), want, "{}", target.as_str());
        }
    }
}
