//! What rules know about a visit, and how visitors are classified.

use std::hash::Hasher as _;
use std::net::IpAddr;

use siphasher::sip::SipHasher13;

use crate::clicks::Interned;
use crate::link::LinkKey;
use crate::time::Timestamp;

/// What is known about a visit. Unknown values match no condition.
#[derive(Clone, Copy, Debug)]
pub struct VisitContext<'a> {
    /// `mobile`, `desktop`, … as in click statistics.
    pub device: Option<&'a str>,
    /// `iOS`, `Windows`, … as in click statistics.
    pub system: Option<&'a str>,
    /// The two-letter country code.
    pub country: Option<&'a str>,
    /// The `Accept-Language` header.
    pub languages: &'a str,
    /// The query string without the question mark.
    pub query: &'a str,
    /// The time of the visit.
    pub at: Timestamp,
    /// Selects the branch of a split.
    pub split_key: SplitKey,
}

impl VisitContext<'_> {
    /// A visit of which only the time is known.
    pub fn unknown(at: Timestamp) -> Self {
        Self {
            device: None,
            system: None,
            country: None,
            languages: "",
            query: "",
            at,
            split_key: SplitKey(0),
        }
    }
}

/// Identifies a visitor for splits, so that the same visitor always gets the same branch. It is not
/// stored, and it does not depend on the node, so all nodes agree.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SplitKey(pub(super) u64);

impl SplitKey {
    /// The key of an address and a user agent. Of an IPv6 address only the /64 network counts,
    /// because many devices change the rest often.
    pub fn of(address: IpAddr, agent: &[u8]) -> Self {
        let mut hasher = SipHasher13::new();
        match address.to_canonical() {
            IpAddr::V4(address) => hasher.write(&address.to_ipv6_mapped().octets()),
            IpAddr::V6(address) => hasher.write(&address.octets()[..8]),
        }
        hasher.write(agent);
        Self(hasher.finish())
    }

    /// The key of a named visitor, for dry runs.
    pub fn named(name: &str) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write(name.as_bytes());
        Self(hasher.finish())
    }

    /// The key for one link, so that a visitor's branches at different links are independent.
    pub fn at(self, link: &LinkKey) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write(&self.0.to_le_bytes());
        hasher.write(link.code.as_str().as_bytes());
        // A separator that no code contains.
        hasher.write(b"/");
        hasher.write(link.domain.as_str().as_bytes());
        Self(hasher.finish())
    }
}

/// The part of a user agent that rules and click statistics use.
pub fn truncate_user_agent(agent: &[u8]) -> &[u8] {
    &agent[..agent.len().min(crate::clicks::MAX_AGENT_LEN)]
}

/// Visitor traits that need a lookup.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct VisitorTraits {
    /// See [`VisitContext::device`].
    pub device: Option<Interned>,
    /// See [`VisitContext::system`].
    pub system: Option<Interned>,
    /// See [`VisitContext::country`].
    pub country: Option<Interned>,
    /// The browser, for the list of an account's sessions. Rules do not use it.
    pub browser: Option<Interned>,
}

impl VisitorTraits {
    /// Combines the traits with the rest of the visit.
    pub fn context<'a>(
        &'a self,
        languages: &'a str,
        query: &'a str,
        at: Timestamp,
        split_key: SplitKey,
    ) -> VisitContext<'a> {
        let Self { device, system, country, browser: _ } = self;
        VisitContext {
            device: device.as_deref(),
            system: system.as_deref(),
            country: country.as_deref(),
            languages,
            query,
            at,
            split_key,
        }
    }
}

/// Classifies visitors by user agent and address.
pub trait VisitorClassifier: Send + Sync + 'static {
    /// The traits of a user agent and an address. Must not block: redirects call it.
    fn classify(&self, agent: Option<&[u8]>, address: Option<IpAddr>) -> VisitorTraits;

    /// Whether a user agent is known to fetch previews of links for chats and social networks. Must
    /// not block.
    fn fetches_previews(&self, _agent: &[u8]) -> bool {
        false
    }

    /// Loads the data for these traits, which may take time on the first call. Called before the
    /// first classification, outside the redirect threads.
    fn prepare(&self, _traits: super::RequiredTraits) {}
}

/// Knows no traits: for programs that serve no redirects.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoClassifier;

impl VisitorClassifier for NoClassifier {
    fn classify(&self, _agent: Option<&[u8]>, _address: Option<IpAddr>) -> VisitorTraits {
        VisitorTraits::default()
    }
}
