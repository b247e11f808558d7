//! Whoever keeps count of what was done.

use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;

use super::limit::Limit;
use super::network::{Network, SUBNET_FACTOR};

/// What is limited.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum LimitedAction {
    /// Making a link.
    Create,
    /// Asking for a link to be made, whatever comes of it.
    AskToCreate,
    /// Following a link.
    Redirect,
    /// Asking for a link that is not there.
    Guess,
    /// Signing in.
    SignIn,
    /// Trying a link's password.
    LinkPassword,
    /// Reporting a link.
    Report,
    /// Making a key.
    MakeKey,
}

/// By what those who do it are told apart.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum LimitKey {
    /// By where they are.
    Network(Network),
    /// By their key, or its owner.
    Key(u64),
    /// By the link that it is done to, as a number that stands for its name.
    Link(u64),
}

/// What is counted together: an act, and whose.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct LimitSubject {
    /// What is done.
    pub act: LimitedAction,
    /// Whose it is.
    pub who: LimitKey,
}

/// Whether something may be done, and how often it still may.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LimitDecision {
    /// Whether it may be done. Then it is counted; otherwise nothing is.
    pub allowed: bool,
    /// How often at most. 0 if there is no limit.
    pub limit: u32,
    /// How often still, right now.
    pub remaining: u32,
    /// How long until it may be done as often as at the beginning.
    pub reset: Duration,
    /// If it may not be done: how long until it may. More than is ever allowed at once may never be
    /// done.
    pub retry: Duration,
}

impl LimitDecision {
    /// Where there is no limit.
    pub const UNLIMITED: Self = Self {
        allowed: true,
        limit: 0,
        remaining: u32::MAX,
        reset: Duration::ZERO,
        retry: Duration::ZERO,
    };

    /// The one that leaves less.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self.allowed, other.allowed) {
            (true, false) => other,
            (true, true) if other.remaining < self.remaining => other,
            _ => self,
        }
    }
}

/// Keeps count of who did what, in buckets of tokens.
///
/// It takes a bounded amount of memory, however many do something. When that is used up, it forgets
/// first those who have done least: rather let some do too much than keep those from anything who
/// did nothing. It neither fails nor takes long: where the counts are kept elsewhere and cannot be
/// reached, everything is allowed, or counted here alone.
#[async_trait]
pub trait Limiter: Send + Sync {
    /// Takes `count` tokens, at least one, out of the subject's bucket of this size: all of them,
    /// or none. Whoever was refused is not punished for having asked. A subject always comes with
    /// the same limit until the settings change.
    async fn take(&self, subject: LimitSubject, limit: Limit, count: u32) -> LimitDecision;

    /// Puts tokens back that were taken for nothing.
    async fn give_back(&self, subject: LimitSubject, limit: Limit, count: u32);
}

/// Takes tokens for somebody of whom only the address is known: from the bucket of the network, and
/// of the one above it.
pub async fn take_by_address(
    limiter: &dyn Limiter,
    act: LimitedAction,
    address: IpAddr,
    limit: Limit,
    count: u32,
) -> LimitDecision {
    let (network, above) = Network::of(address);
    let verdict =
        limiter.take(LimitSubject { act, who: LimitKey::Network(network) }, limit, count).await;
    match above {
        Some(above) if verdict.allowed => verdict.and(
            limiter
                .take(
                    LimitSubject { act, who: LimitKey::Network(above) },
                    limit.times(SUBNET_FACTOR),
                    count,
                )
                .await,
        ),
        _ => verdict,
    }
}

/// Puts back what [`take_by_address`] took.
pub async fn give_back_by_address(
    limiter: &dyn Limiter,
    act: LimitedAction,
    address: IpAddr,
    limit: Limit,
    count: u32,
) {
    let (network, above) = Network::of(address);
    limiter.give_back(LimitSubject { act, who: LimitKey::Network(network) }, limit, count).await;
    if let Some(above) = above {
        limiter
            .give_back(
                LimitSubject { act, who: LimitKey::Network(above) },
                limit.times(SUBNET_FACTOR),
                count,
            )
            .await;
    }
}

/// Where nothing is limited.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLimiter;

#[async_trait]
impl Limiter for NoLimiter {
    async fn take(&self, _: LimitSubject, _: Limit, _: u32) -> LimitDecision {
        LimitDecision::UNLIMITED
    }

    async fn give_back(&self, _: LimitSubject, _: Limit, _: u32) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_verdicts_the_stricter_counts() {
        let some = LimitDecision {
            allowed: true,
            limit: 9,
            remaining: 3,
            reset: Duration::ZERO,
            retry: Duration::ZERO,
        };
        let less = LimitDecision { remaining: 1, ..some };
        let none = LimitDecision { allowed: false, remaining: 0, ..some };
        assert_eq!(some.and(less), less);
        assert_eq!(less.and(some), less);
        assert_eq!(some.and(none), none);
        assert_eq!(none.and(less), none);
        assert_eq!(LimitDecision::UNLIMITED.and(some), some);
    }
}
