//! What is known of a visitor, and who finds it out.

use std::hash::Hasher as _;
use std::net::IpAddr;

use siphasher::sip::SipHasher13;

use crate::clicks::Interned;
use crate::link::LinkKey;
use crate::time::Timestamp;

/// What is known of a visitor. What is not known meets no condition.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// `mobile`, `desktop`, … as the statistics of clicks have it.
    pub device: Option<&'a str>,
    /// `iOS`, `Windows`, … as the statistics of clicks have it.
    pub system: Option<&'a str>,
    /// Two letters.
    pub country: Option<&'a str>,
    /// As in `Accept-Language`.
    pub languages: &'a str,
    /// What followed the question mark.
    pub query: &'a str,
    /// When.
    pub at: Timestamp,
    /// Which branch of a split is theirs.
    pub who: SplitKey,
}

impl Facts<'_> {
    /// Somebody of whom nothing is known.
    pub fn unknown(at: Timestamp) -> Self {
        Self {
            device: None,
            system: None,
            country: None,
            languages: "",
            query: "",
            at,
            who: SplitKey(0),
        }
    }
}

/// Tells visitors apart for splits: the same one always goes the same way. Nothing of it is kept
/// anywhere, and it does not depend on the machine, so all of them agree.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SplitKey(pub(super) u64);

impl SplitKey {
    /// Whoever comes from this address with this user agent. Of an IPv6 address the network counts:
    /// the rest of it changes by the hour on many devices.
    pub fn of(address: IpAddr, agent: &[u8]) -> Self {
        let mut hasher = SipHasher13::new();
        match address.to_canonical() {
            IpAddr::V4(address) => hasher.write(&address.to_ipv6_mapped().octets()),
            IpAddr::V6(address) => hasher.write(&address.octets()[..8]),
        }
        hasher.write(agent);
        Self(hasher.finish())
    }

    /// Whoever goes by this name, in a trial.
    pub fn named(name: &str) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write(name.as_bytes());
        Self(hasher.finish())
    }

    /// The same at this link: their way there says nothing about their way at another.
    pub fn at(self, link: &LinkKey) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write(&self.0.to_le_bytes());
        hasher.write(link.code.as_str().as_bytes());
        // No code contains one, so that no domain can continue it.
        hasher.write(b"/");
        hasher.write(link.domain.as_str().as_bytes());
        Self(hasher.finish())
    }
}

/// As much of a user agent as is looked at, here and in the statistics of clicks.
pub fn cut_agent(agent: &[u8]) -> &[u8] {
    &agent[..agent.len().min(crate::clicks::MAX_AGENT_LEN)]
}

/// What can be seen of a visitor by looking closer.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct VisitorTraits {
    /// See [`Facts::device`].
    pub device: Option<Interned>,
    /// See [`Facts::system`].
    pub system: Option<Interned>,
    /// See [`Facts::country`].
    pub country: Option<Interned>,
}

impl VisitorTraits {
    /// With what is plain to see besides.
    pub fn facts<'a>(
        &'a self,
        languages: &'a str,
        query: &'a str,
        at: Timestamp,
        who: SplitKey,
    ) -> Facts<'a> {
        let Self { device, system, country } = self;
        Facts {
            device: device.as_deref(),
            system: system.as_deref(),
            country: country.as_deref(),
            languages,
            query,
            at,
            who,
        }
    }
}

/// Looks closer at visitors, where a rule needs it.
pub trait VisitorClassifier: Send + Sync + 'static {
    /// What a user agent and an address tell. Must not wait: it is asked in the middle of a
    /// redirect.
    fn classify(&self, agent: Option<&[u8]>, address: Option<IpAddr>) -> VisitorTraits;

    /// Gets ready for what the rules of a link need, which may take a while the first time. Called
    /// before the first look, from where it delays nobody else.
    fn prepare(&self, _needs: super::Needs) {}
}

/// Sees nothing: for programs that follow no links.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoClassifier;

impl VisitorClassifier for NoClassifier {
    fn classify(&self, _agent: Option<&[u8]>, _address: Option<IpAddr>) -> VisitorTraits {
        VisitorTraits::default()
    }
}
