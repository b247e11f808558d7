//! The contract of limiters, which count actions against their limits.

use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;

use super::limit::Limit;
use super::network::{Network, SUBNET_FACTOR};

/// A limited action.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum LimitedAction {
    /// Creating a link.
    Create,
    /// Asking for a link to be created, whatever the result.
    AskToCreate,
    /// Creating a link with a key, counted by address.
    CreateWithKey,
    /// Asking for a link to be created with a key, counted by address.
    AskToCreateWithKey,
    /// Following a link.
    Redirect,
    /// Asking for a link that does not exist.
    Guess,
    /// Signing in.
    SignIn,
    /// Trying a link's password.
    LinkPassword,
    /// Reporting a link.
    Report,
    /// Creating an API key.
    MakeKey,
}

/// Whose actions are counted together.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum LimitKey {
    /// The actions of one network.
    Network(Network),
    /// The actions of one API key, or of its owner.
    Key(u64),
    /// The actions with all keys of one account. The limit is part of the key: an account that gets
    /// another limit begins with a full bucket.
    Account(u64, Limit),
    /// The actions on one link, by a number derived from its name.
    Link(u64),
}

/// Identifies a bucket: an action, and whose actions are counted together.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct LimitSubject {
    /// The action.
    pub action: LimitedAction,
    /// Whose actions are counted together.
    pub key: LimitKey,
}

/// Tokens of one bucket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TokenRequest {
    /// The bucket.
    pub subject: LimitSubject,
    /// Its size and rate. A subject always comes with the same limit until the settings change.
    /// Without a limit nothing is counted.
    pub limit: Limit,
    /// How many tokens. 0 counts as 1.
    pub count: u32,
}

/// Whether an action is allowed, and what is left.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LimitDecision {
    /// Whether the action is allowed. Then it is counted; otherwise nothing is.
    pub allowed: bool,
    /// How many tokens a full bucket holds. 0 if there is no limit.
    pub limit: u32,
    /// How many tokens are left now.
    pub remaining: u32,
    /// How long until the bucket is full.
    pub reset: Duration,
    /// How long until a refused action is allowed. An action that needs more tokens than a full
    /// bucket holds is never allowed.
    pub retry: Duration,
}

impl LimitDecision {
    /// The decision where there is no limit.
    pub const UNLIMITED: Self = Self {
        allowed: true,
        limit: 0,
        remaining: u32::MAX,
        reset: Duration::ZERO,
        retry: Duration::ZERO,
    };

    /// Seconds until the bucket is full again, rounded up.
    pub fn reset_seconds(&self) -> u64 {
        whole_seconds(self.reset)
    }

    /// Seconds until the next attempt may succeed, rounded up; at least one.
    pub fn retry_seconds(&self) -> u64 {
        whole_seconds(self.retry).max(1)
    }

    /// The stricter of two decisions: a refusal before an approval, of two refusals the one with
    /// the longer wait, of two approvals the one that leaves less.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let other_is_stricter = match (self.allowed, other.allowed) {
            (true, true) => other.remaining < self.remaining,
            (false, false) => other.retry > self.retry,
            (allowed, _) => allowed,
        };
        if other_is_stricter { other } else { self }
    }
}

/// Counts actions in token buckets.
///
/// A limiter uses a bounded amount of memory, however many subjects there are. When it is full, it
/// forgets the fullest buckets first: it allows some actions too many rather than refuse a subject
/// that did nothing. It never fails and never waits long: a limiter that keeps its counts on
/// another server counts locally while that server is unreachable.
#[async_trait]
pub trait Limiter: Send + Sync {
    /// Takes tokens from all these buckets or from none, in one step and one round trip. The
    /// decision is the strictest of the buckets' (see [`LimitDecision::and`]). A refused attempt
    /// costs nothing. An empty list is allowed.
    async fn take(&self, takes: &[TokenRequest]) -> LimitDecision;

    /// Puts tokens back that an earlier `take` took. A full bucket stays full.
    async fn give_back(&self, takes: &[TokenRequest]);
}

/// The takes for an action of which only the address is known: one from the bucket of its network,
/// and one from the bucket of the wider network, if there is one.
pub fn by_address(
    action: LimitedAction,
    address: IpAddr,
    limit: Limit,
    count: u32,
) -> Vec<TokenRequest> {
    let (network, wider) = Network::of(address);
    let take = |network, limit| {
        let subject = LimitSubject { action, key: LimitKey::Network(network) };
        TokenRequest { subject, limit, count }
    };
    let wider = wider.map(|network| take(network, limit.times(SUBNET_FACTOR)));
    [take(network, limit)].into_iter().chain(wider).collect()
}

/// Rounds up to whole seconds, so that a caller who waits that long does not come too early.
pub(super) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// Allows everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLimiter;

#[async_trait]
impl Limiter for NoLimiter {
    async fn take(&self, _: &[TokenRequest]) -> LimitDecision {
        LimitDecision::UNLIMITED
    }

    async fn give_back(&self, _: &[TokenRequest]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_decisions_the_stricter_counts() {
        let some = LimitDecision {
            allowed: true,
            limit: 9,
            remaining: 3,
            reset: Duration::ZERO,
            retry: Duration::ZERO,
        };
        let less = LimitDecision { remaining: 1, ..some };
        let none = LimitDecision { allowed: false, remaining: 0, ..some };
        let longer = LimitDecision { retry: Duration::from_secs(1), remaining: 2, ..none };
        for (stricter, other) in [
            (less, some),
            (none, some),
            (none, less),
            (longer, none),
            (some, LimitDecision::UNLIMITED),
        ] {
            assert_eq!(stricter.and(other), stricter);
            assert_eq!(other.and(stricter), stricter);
        }
    }

    #[test]
    fn an_address_has_a_bucket_per_network() {
        let limit = Limit::per_hour(30);
        let takes = |text: &str| {
            by_address(LimitedAction::Create, text.parse().unwrap(), limit, 2)
                .iter()
                .map(|take| (take.limit.count(), take.count))
                .collect::<Vec<_>>()
        };
        assert_eq!(takes("203.0.113.7"), [(30, 2)]);
        assert_eq!(takes("2001:db8::1"), [(30, 2), (240, 2)]);
    }
}
