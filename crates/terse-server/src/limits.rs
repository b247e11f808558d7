//! How often links may be made, and how callers are told.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, header};
use sha2::{Digest as _, Sha256};
use terse_core::limits::{
    Limit, LimitDecision, LimitKey, LimitSubject, LimitedAction, Limiter, NoLimiter,
    give_back_by_address, take_by_address,
};
use terse_core::registry::{Account, Role};
use terse_core::{Caller, OwnerId};

use crate::http::principal::{Credential, Principal};
use crate::http::problem::{Problem, RATE_LIMITED};

/// So many times as often as links may be made, they may be asked for: a typo costs nobody a link,
/// and a flood of them is turned away before it is read.
const ASKING: u32 = 10;

/// How often somebody who is signed in may try their password: a session that was left open is not
/// the key to the rest.
const PROOFS: Limit = Limit::per_minute(10);

/// How often somebody may make a key: each comes with links of its own to make, so that who makes
/// one key after the other would make as many links as they like.
const NEW_KEYS: Limit = Limit::per_hour(20);

/// Sets an owner's browsers apart from keys; no key has such a high number.
const BROWSERS: u64 = 1 << 63;

/// So many times as often as by one address, a link's password may be tried by all together: many
/// who guess from many places are as hopeless as one.
const ALL_TOGETHER: u32 = 20;

/// What the web side limits.
#[derive(Clone)]
pub struct Limits {
    /// Who keeps count.
    pub limiter: Arc<dyn Limiter>,
    /// Links made by one address, without a key.
    pub create_per_address: Limit,
    /// Links made with one key.
    pub create_per_key: Limit,
    /// Pages asked for by one address of links that are not there.
    pub guesses_per_address: Limit,
    /// Passwords of links tried in vain by one address.
    pub passwords_per_address: Limit,
    /// Attempts to sign in from one address, and as many under one name.
    pub sign_in: Limit,
    /// Reports written by one address.
    pub reports_per_address: Limit,
}

impl Limits {
    /// Nothing is limited.
    pub fn off() -> Self {
        Self {
            limiter: Arc::new(NoLimiter),
            create_per_address: Limit::OFF,
            create_per_key: Limit::OFF,
            guesses_per_address: Limit::OFF,
            passwords_per_address: Limit::OFF,
            sign_in: Limit::OFF,
            reports_per_address: Limit::OFF,
        }
    }

    /// How much this caller may make. The one place that decides it: where keys have limits of
    /// their own, they are known here.
    pub(crate) fn allowance(&self, principal: &Principal, address: Option<IpAddr>) -> Allowance {
        match (principal.caller, principal.credential) {
            (Caller::Anonymous, _) => self.strangers_allowance(address),
            (Caller::Admin(_), _) => {
                Allowance { whose: Whose::Address(nowhere()), limit: Limit::OFF }
            }
            (Caller::Owner(_), Credential::Key { id, plan }) => {
                Allowance { whose: Whose::Key(id.0), limit: plan.unwrap_or(self.create_per_key) }
            }
            (Caller::Owner(owner), _) => {
                Allowance { whose: Whose::Key(BROWSERS | owner.0), limit: self.create_per_key }
            }
        }
    }

    /// How much somebody may make who has shown nothing. Those of whom nobody knows where they are
    /// count as one.
    pub(crate) fn strangers_allowance(&self, address: Option<IpAddr>) -> Allowance {
        Allowance {
            whose: Whose::Address(address.unwrap_or_else(nowhere)),
            limit: self.create_per_address,
        }
    }

    /// Counts that somebody asks for a link, whatever it may be. To be called before the body is
    /// read.
    pub(crate) async fn ask(&self, allowance: Allowance) -> Result<(), Problem> {
        let verdict = self
            .count(LimitedAction::AskToCreate, allowance.whose, allowance.limit.times(ASKING), 1)
            .await;
        if verdict.allowed {
            return Ok(());
        }
        // What a caller can do something with is how many links may be made.
        let verdict = LimitDecision { limit: allowance.limit.count(), remaining: 0, ..verdict };
        Err(Problem::new(
            &RATE_LIMITED,
            format!("too many requests; try again in {}", wait(verdict.retry)),
        )
        .limited(verdict))
    }

    /// Counts links that are about to be made: all of them, or none and a problem.
    pub(crate) async fn take(
        &self,
        allowance: Allowance,
        count: usize,
    ) -> Result<LimitOutcome, Problem> {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let verdict =
            self.count(LimitedAction::Create, allowance.whose, allowance.limit, count).await;
        if verdict.allowed {
            return Ok(LimitOutcome { allowance, verdict });
        }
        let detail = if count > allowance.limit.count() {
            format!(
                "this asks for {count} links; at most {} are allowed ({})",
                allowance.limit.count(),
                allowance.limit
            )
        } else {
            format!(
                "too many links ({} are allowed); try again in {}",
                allowance.limit,
                wait(verdict.retry)
            )
        };
        Err(Problem::new(&RATE_LIMITED, detail).limited(verdict))
    }

    /// Gives back what was taken for links that had been made before.
    pub(crate) async fn give_back(&self, taken: &mut LimitOutcome, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let LimitOutcome { allowance: Allowance { whose, limit }, verdict } = taken;
        if count == 0 || limit.is_off() {
            return;
        }
        match *whose {
            Whose::Address(address) => {
                give_back_by_address(&*self.limiter, LimitedAction::Create, address, *limit, count)
                    .await;
            }
            Whose::Key(key) => {
                self.limiter
                    .give_back(
                        LimitSubject { act: LimitedAction::Create, who: LimitKey::Key(key) },
                        *limit,
                        count,
                    )
                    .await;
            }
        }
        verdict.remaining = verdict.remaining.saturating_add(count).min(verdict.limit);
        verdict.reset = verdict.reset.saturating_sub(limit.interval().saturating_mul(count));
    }

    /// Counts that somebody asked about a link that is not there.
    pub(crate) async fn guess(&self, address: Option<IpAddr>) -> Result<(), Problem> {
        let whose = Whose::Address(address.unwrap_or_else(nowhere));
        let verdict = self.count(LimitedAction::Guess, whose, self.guesses_per_address, 1).await;
        if verdict.allowed {
            return Ok(());
        }
        Err(Problem::new(&RATE_LIMITED, "too many links were asked for that are not there")
            .limited(verdict))
    }

    /// Counts that somebody who is signed in tries to prove it by a password.
    pub(crate) async fn prove(&self, owner: u64) -> Result<(), Problem> {
        let verdict = self.count(LimitedAction::SignIn, Whose::Key(owner), PROOFS, 1).await;
        if verdict.allowed {
            return Ok(());
        }
        let detail = format!("too many passwords were tried; try again in {}", wait(verdict.retry));
        Err(Problem::new(&RATE_LIMITED, detail).limited(verdict))
    }

    /// Counts that somebody makes a key for themselves.
    pub(crate) async fn make_key(&self, account: &Account) -> Result<(), Problem> {
        if account.role == Role::Admin || self.create_per_key.is_off() {
            return Ok(());
        }
        let OwnerId(owner) = account.id;
        let verdict = self.count(LimitedAction::MakeKey, Whose::Key(owner), NEW_KEYS, 1).await;
        if verdict.allowed {
            return Ok(());
        }
        Err(Problem::new(
            &RATE_LIMITED,
            format!("too many new keys; try again in {}", wait(verdict.retry)),
        )
        .limited(verdict))
    }

    /// Counts that somebody tries the password of a link, before it is known whether it is the
    /// right one.
    pub(crate) async fn try_password(&self, address: IpAddr, link: u64) -> Result<(), Problem> {
        let limit = self.passwords_per_address;
        if limit.is_off() {
            return Ok(());
        }
        let one =
            take_by_address(&*self.limiter, LimitedAction::LinkPassword, address, limit, 1).await;
        let verdict = match one.allowed {
            false => one,
            true => self.limiter.take(every(link), limit.times(ALL_TOGETHER), 1).await,
        };
        if verdict.allowed {
            return Ok(());
        }
        if one.allowed {
            give_back_by_address(&*self.limiter, LimitedAction::LinkPassword, address, limit, 1)
                .await;
        }
        let detail =
            format!("the password was wrong too often; try again in {}", wait(verdict.retry));
        Err(Problem::new(&RATE_LIMITED, detail).limited(verdict))
    }

    /// It was the right one, and does not count.
    pub(crate) async fn right_password(&self, address: IpAddr, link: u64) {
        let limit = self.passwords_per_address;
        if !limit.is_off() {
            give_back_by_address(&*self.limiter, LimitedAction::LinkPassword, address, limit, 1)
                .await;
            self.limiter.give_back(every(link), limit.times(ALL_TOGETHER), 1).await;
        }
    }

    /// Counts an attempt to show who one is: by where it comes from, and by the name, whether
    /// anybody has it or not. Whoever guesses from many places gets no further than whoever guesses
    /// many names from one.
    pub(crate) async fn sign_in(
        &self,
        address: IpAddr,
        name: Option<&str>,
    ) -> Result<Attempt, Problem> {
        let refuse = |verdict: LimitDecision| {
            let format = format!("too many attempts; try again in {}", wait(verdict.retry));
            Err(Problem::new(&RATE_LIMITED, format).limited(verdict))
        };
        let attempt = Attempt { address, name: name.map(number_of) };
        let verdict =
            self.count(LimitedAction::SignIn, Whose::Address(address), self.sign_in, 1).await;
        if !verdict.allowed {
            return refuse(verdict);
        }
        let Some(name) = attempt.name else { return Ok(attempt) };
        let verdict = self.count(LimitedAction::SignIn, Whose::Key(name), self.sign_in, 1).await;
        if verdict.allowed { Ok(attempt) } else { refuse(verdict) }
    }

    /// An attempt that succeeded does not count.
    pub(crate) async fn succeeded(&self, Attempt { address, name }: Attempt) {
        if self.sign_in.is_off() {
            return;
        }
        give_back_by_address(&*self.limiter, LimitedAction::SignIn, address, self.sign_in, 1).await;
        if let Some(name) = name {
            self.limiter
                .give_back(
                    LimitSubject { act: LimitedAction::SignIn, who: LimitKey::Key(name) },
                    self.sign_in,
                    1,
                )
                .await;
        }
    }

    /// Counts that somebody reports a link.
    pub(crate) async fn report(&self, address: IpAddr) -> Result<(), Problem> {
        let verdict = self
            .count(LimitedAction::Report, Whose::Address(address), self.reports_per_address, 1)
            .await;
        if verdict.allowed {
            return Ok(());
        }
        Err(Problem::new(
            &RATE_LIMITED,
            format!("too many reports; try again in {}", wait(verdict.retry)),
        )
        .limited(verdict))
    }

    async fn count(
        &self,
        act: LimitedAction,
        whose: Whose,
        limit: Limit,
        count: u32,
    ) -> LimitDecision {
        if limit.is_off() {
            return LimitDecision::UNLIMITED;
        }
        match whose {
            Whose::Address(address) => {
                take_by_address(&*self.limiter, act, address, limit, count).await
            }
            Whose::Key(key) => {
                self.limiter.take(LimitSubject { act, who: LimitKey::Key(key) }, limit, count).await
            }
        }
    }
}

/// How much somebody may make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    whose: Whose,
    limit: Limit,
}

#[derive(Clone, Copy, Debug)]
enum Whose {
    Address(IpAddr),
    Key(u64),
}

/// An attempt to sign in that was counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    address: IpAddr,
    name: Option<u64>,
}

/// A number that stands for a name in any mixture of cases.
fn number_of(name: &str) -> u64 {
    let hash: [u8; 32] = Sha256::digest(name.to_ascii_lowercase().as_bytes()).into();
    hash.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

/// What was taken of an allowance.
#[derive(Debug)]
pub(crate) struct LimitOutcome {
    allowance: Allowance,
    verdict: LimitDecision,
}

impl LimitOutcome {
    /// Tells in an answer how much is left.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        tell(&self.verdict, headers);
    }
}

/// Tells in an answer how much is left, and when to come again if that is nothing.
pub(crate) fn tell(verdict: &LimitDecision, headers: &mut HeaderMap) {
    if verdict.limit == 0 {
        return;
    }
    headers.insert("ratelimit-limit", verdict.limit.into());
    headers.insert("ratelimit-remaining", verdict.remaining.into());
    headers.insert("ratelimit-reset", HeaderValue::from(seconds(verdict.reset)));
    if !verdict.allowed {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds(verdict.retry).max(1)));
    }
}

/// Everybody who tries the password of this link.
fn every(link: u64) -> LimitSubject {
    LimitSubject { act: LimitedAction::LinkPassword, who: LimitKey::Link(link) }
}

fn nowhere() -> IpAddr {
    Ipv4Addr::UNSPECIFIED.into()
}

/// Whole seconds, rather one too many.
fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// How long to wait, in words.
fn wait(time: Duration) -> String {
    let (count, unit) = match seconds(time).max(1) {
        seconds @ 0..=90 => (seconds, "second"),
        seconds @ 91..=5_400 => (seconds.div_ceil(60), "minute"),
        seconds => (seconds.div_ceil(3_600), "hour"),
    };
    if count == 1 { format!("1 {unit}") } else { format!("{count} {unit}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_told_to_come_too_early() {
        for (ms, want) in [
            (0, "1 second"),
            (1, "1 second"),
            (1_001, "2 seconds"),
            (90_000, "90 seconds"),
            (119_000, "2 minutes"),
            (3_601_000, "61 minutes"),
            (7_200_001, "3 hours"),
        ] {
            assert_eq!(wait(Duration::from_millis(ms)), want, "{ms}");
        }
    }

    #[test]
    fn an_answer_without_a_limit_tells_nothing() {
        let mut headers = HeaderMap::new();
        tell(&LimitDecision::UNLIMITED, &mut headers);
        assert!(headers.is_empty());
    }
}
