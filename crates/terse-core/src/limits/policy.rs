//! What the services limit: which buckets a request takes from.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::limiter::whole_seconds;
use super::{
    Limit, LimitDecision, LimitKey, LimitSubject, LimitedAction, Limiter, NoLimiter, TokenRequest,
    by_address,
};
use crate::link::OwnerId;
use crate::links::Caller;
use crate::principal::{Credential, Principal};
use crate::registry::{Account, Role};

/// How many requests to create a link are allowed for each link that may be created. A request with
/// a typo costs no link, and a flood of requests is refused before their bodies are read.
const REQUESTS_PER_LINK: u32 = 10;

/// How often a signed-in account may try its password, so that a session left open cannot be used
/// to guess it.
const PASSWORD_CHECKS: Limit = Limit::per_minute(10);

/// How many wrong codes of two-factor sign-in an account may get.
const CODE_CHECKS: Limit = Limit::per_hour(20);
/// Distinguishes the buckets of codes from those of passwords: no account has such a high number.
const CODES: u64 = 1 << 62;

/// How often an account may create an API key. Each key has its own limit of links, so without this
/// an account could create any number of links.
const NEW_KEYS: Limit = Limit::per_hour(20);

/// Distinguishes the buckets of an owner's browsers from those of keys: no key has such a high
/// number.
const BROWSERS: u64 = 1 << 63;

/// How many times the limit of one address all addresses together may try a link's password, so
/// that guessing from many addresses does not help.
const ALL_ADDRESSES_FACTOR: u32 = 20;

/// How much the services allow.
#[derive(Clone, Copy, Debug)]
pub struct LimitSettings {
    /// Links created by one address without a key.
    pub create_per_address: Limit,
    /// Links created with one key.
    pub create_per_key: Limit,
    /// Links created with all keys and browsers of one account.
    pub create_per_account: Limit,
    /// Links created with keys by one address.
    pub create_per_address_with_key: Limit,
    /// Requests of one address for links that do not exist.
    pub guesses_per_address: Limit,
    /// Wrong passwords of links from one address.
    pub passwords_per_address: Limit,
    /// Attempts to sign in from one address, and as many with one name.
    pub sign_in: Limit,
    /// Reports from one address.
    pub reports_per_address: Limit,
}

impl LimitSettings {
    /// Limits that allow everything.
    pub const OFF: Self = Self {
        create_per_address: Limit::OFF,
        create_per_key: Limit::OFF,
        create_per_account: Limit::OFF,
        create_per_address_with_key: Limit::OFF,
        guesses_per_address: Limit::OFF,
        passwords_per_address: Limit::OFF,
        sign_in: Limit::OFF,
        reports_per_address: Limit::OFF,
    };
}

/// The limits of the services. Clones share their settings, so that all services follow a change.
#[derive(Clone)]
pub struct RateLimits {
    /// Counts the actions.
    limiter: Arc<dyn Limiter>,
    settings: Arc<RwLock<LimitSettings>>,
}

impl RateLimits {
    /// Limits that this limiter counts.
    pub fn new(limiter: Arc<dyn Limiter>, settings: LimitSettings) -> Self {
        Self { limiter, settings: Arc::new(RwLock::new(settings)) }
    }

    /// Limits that allow everything.
    pub fn off() -> Self {
        Self::new(Arc::new(NoLimiter), LimitSettings::OFF)
    }

    /// Changes the limits of all clones. Tokens that were taken stay taken.
    pub fn set(&self, settings: LimitSettings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    /// The limits that hold now.
    pub(crate) fn settings(&self) -> LimitSettings {
        *self.settings.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many links this caller may create. With a key, three buckets count: that of the key,
    /// that of the account with all its keys and browsers, and a wide one of the address. A plan of
    /// the key or of the account replaces the common limit.
    pub fn allowance(&self, principal: &Principal, address: Option<IpAddr>) -> Allowance {
        let per_key = |key, plan: Option<Limit>| Bucket {
            whose: LimitOwner::Key(key),
            limit: plan.unwrap_or(self.settings().create_per_key),
        };
        let (owner, key) = match (principal.caller, principal.credential) {
            (Caller::Anonymous, _) => return self.anonymous_allowance(address),
            (Caller::Admin(_), _) => return Allowance(Vec::new()),
            (Caller::Owner(owner), Credential::Key { id, plan }) => (owner, per_key(id.0, plan)),
            (Caller::Owner(owner), _) => (owner, per_key(BROWSERS | owner.0, None)),
        };
        let account = Bucket {
            whose: LimitOwner::Account(owner.0),
            limit: principal.account_plan.unwrap_or(self.settings().create_per_account),
        };
        let address = Bucket {
            whose: LimitOwner::AddressWithKey(address.unwrap_or_else(unknown_address)),
            limit: self.settings().create_per_address_with_key,
        };
        Allowance::of([key, account, address])
    }

    /// How many links a caller without credentials may create. All callers without an address
    /// share one bucket.
    pub fn anonymous_allowance(&self, address: Option<IpAddr>) -> Allowance {
        let whose = LimitOwner::Address(address.unwrap_or_else(unknown_address));
        Allowance::of([Bucket { whose, limit: self.settings().create_per_address }])
    }

    /// Counts a request to create a link. Call it before the body is read.
    pub async fn count_create_request(&self, allowance: &Allowance) -> Result<(), LimitReached> {
        let asking = |bucket: &Bucket| {
            let limit = bucket.limit.times(REQUESTS_PER_LINK);
            takes(LimitedAction::AskToCreate, bucket.whose, limit, 1)
        };
        let takes: Vec<TokenRequest> = allowance.0.iter().flat_map(asking).collect();
        let verdict = self.limiter.take(&takes).await;
        if verdict.allowed {
            return Ok(());
        }
        // The headers show the limit of links, which the documentation names.
        let limit = verdict.limit / REQUESTS_PER_LINK;
        let verdict = LimitDecision { limit, remaining: 0, ..verdict };
        Err(LimitReached::new(
            verdict,
            format!("too many requests; try again in {}", wait(verdict.retry)),
        ))
    }

    /// Counts links that are about to be created: all of them, or none and an error.
    pub async fn take(
        &self,
        allowance: &Allowance,
        count: usize,
    ) -> Result<LimitOutcome, LimitReached> {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let verdict = self.limiter.take(&allowance.takes(count)).await;
        if verdict.allowed {
            return Ok(LimitOutcome { allowance: allowance.clone(), verdict });
        }
        let Bucket { limit, .. } = allowance.deciding(&verdict);
        let whose = allowance.in_words(limit);
        let detail = if count > limit.count() {
            format!(
                "this asks for {count} links; at most {} are allowed {whose} ({limit})",
                limit.count()
            )
        } else {
            format!(
                "too many links ({limit} are allowed {whose}); try again in {}",
                wait(verdict.retry)
            )
        };
        Err(LimitReached::new(verdict, detail))
    }

    /// Gives back the tokens of links that existed already.
    pub async fn give_back(&self, taken: &mut LimitOutcome, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let LimitOutcome { allowance, verdict } = taken;
        if count == 0 || allowance.0.is_empty() {
            return;
        }
        self.limiter.give_back(&allowance.takes(count)).await;
        let interval = allowance.deciding(verdict).limit.interval();
        verdict.remaining = verdict.remaining.saturating_add(count).min(verdict.limit);
        verdict.reset = verdict.reset.saturating_sub(interval.saturating_mul(count));
    }

    /// Counts a request for a link that does not exist.
    pub async fn count_unknown_code(&self, address: Option<IpAddr>) -> Result<(), LimitReached> {
        let whose = LimitOwner::Address(address.unwrap_or_else(unknown_address));
        let verdict =
            self.count(LimitedAction::Guess, whose, self.settings().guesses_per_address, 1).await;
        if verdict.allowed {
            return Ok(());
        }
        Err(LimitReached::new(verdict, "too many requests for links that do not exist"))
    }

    /// Counts a password that a signed-in account gives to confirm an action.
    pub async fn prove(&self, owner: u64) -> Result<(), LimitReached> {
        let verdict =
            self.count(LimitedAction::SignIn, LimitOwner::Key(owner), PASSWORD_CHECKS, 1).await;
        if verdict.allowed {
            return Ok(());
        }
        let detail = format!("too many passwords were tried; try again in {}", wait(verdict.retry));
        Err(LimitReached::new(verdict, detail))
    }

    /// Counts a code of two-factor sign-in. An attacker who knows the password has few guesses.
    pub async fn try_code(&self, owner: u64) -> Result<(), LimitReached> {
        let verdict =
            self.count(LimitedAction::SignIn, LimitOwner::Key(CODES | owner), CODE_CHECKS, 1).await;
        if verdict.allowed {
            return Ok(());
        }
        let detail = format!("too many codes were tried; try again in {}", wait(verdict.retry));
        Err(LimitReached::new(verdict, detail))
    }

    /// Gives the attempt back: the code was right.
    pub async fn right_code(&self, owner: u64) {
        let whose = LimitOwner::Key(CODES | owner);
        self.limiter.give_back(&takes(LimitedAction::SignIn, whose, CODE_CHECKS, 1)).await;
    }

    /// Counts an API key that an account creates for itself.
    pub async fn make_key(&self, account: &Account) -> Result<(), LimitReached> {
        if account.role == Role::Admin || self.settings().create_per_key.is_off() {
            return Ok(());
        }
        let OwnerId(owner) = account.id;
        let verdict = self.count(LimitedAction::MakeKey, LimitOwner::Key(owner), NEW_KEYS, 1).await;
        if verdict.allowed {
            return Ok(());
        }
        Err(LimitReached::new(
            verdict,
            format!("too many new keys; try again in {}", wait(verdict.retry)),
        ))
    }

    /// Counts an attempt at a link's password, before it is checked: for the address, and for the
    /// link.
    pub async fn try_password(&self, address: IpAddr, link: u64) -> Result<(), LimitReached> {
        if self.settings().passwords_per_address.is_off() {
            return Ok(());
        }
        let verdict = self.limiter.take(&self.password_takes(address, link)).await;
        if verdict.allowed {
            return Ok(());
        }
        let detail =
            format!("the password was wrong too often; try again in {}", wait(verdict.retry));
        Err(LimitReached::new(verdict, detail))
    }

    /// Gives the attempt back: the password was right.
    pub async fn refund_password(&self, address: IpAddr, link: u64) {
        if !self.settings().passwords_per_address.is_off() {
            self.limiter.give_back(&self.password_takes(address, link)).await;
        }
    }

    fn password_takes(&self, address: IpAddr, link: u64) -> Vec<TokenRequest> {
        let (action, limit) = (LimitedAction::LinkPassword, self.settings().passwords_per_address);
        let mut takes = by_address(action, address, limit, 1);
        let subject = LimitSubject { action, key: LimitKey::Link(link) };
        takes.push(TokenRequest { subject, limit: limit.times(ALL_ADDRESSES_FACTOR), count: 1 });
        takes
    }

    /// Counts an attempt to sign in: for the address, and for the name, whether or not an account
    /// has it. So guessing from many addresses helps no more than guessing many names from one.
    pub async fn sign_in(
        &self,
        address: IpAddr,
        name: Option<&str>,
    ) -> Result<SignInAttempt, LimitReached> {
        let attempt = SignInAttempt { address, name: name.map(number_of) };
        if self.settings().sign_in.is_off() {
            return Ok(attempt);
        }
        let verdict = self.limiter.take(&self.sign_in_takes(attempt)).await;
        if verdict.allowed {
            return Ok(attempt);
        }
        let detail = format!("too many attempts; try again in {}", wait(verdict.retry));
        Err(LimitReached::new(verdict, detail))
    }

    /// Gives the attempt back: it succeeded.
    pub async fn succeeded(&self, attempt: SignInAttempt) {
        if !self.settings().sign_in.is_off() {
            self.limiter.give_back(&self.sign_in_takes(attempt)).await;
        }
    }

    fn sign_in_takes(&self, SignInAttempt { address, name }: SignInAttempt) -> Vec<TokenRequest> {
        let limit = self.settings().sign_in;
        let mut all = takes(LimitedAction::SignIn, LimitOwner::Address(address), limit, 1);
        if let Some(name) = name {
            all.extend(takes(LimitedAction::SignIn, LimitOwner::Key(name), limit, 1));
        }
        all
    }

    /// Counts a report of a link.
    pub async fn report(&self, address: IpAddr) -> Result<(), LimitReached> {
        let verdict = self
            .count(
                LimitedAction::Report,
                LimitOwner::Address(address),
                self.settings().reports_per_address,
                1,
            )
            .await;
        if verdict.allowed {
            return Ok(());
        }
        Err(LimitReached::new(
            verdict,
            format!("too many reports; try again in {}", wait(verdict.retry)),
        ))
    }

    async fn count(
        &self,
        action: LimitedAction,
        whose: LimitOwner,
        limit: Limit,
        count: u32,
    ) -> LimitDecision {
        if limit.is_off() {
            return LimitDecision::UNLIMITED;
        }
        self.limiter.take(&takes(action, whose, limit, count)).await
    }
}

/// The tokens that an action costs.
fn takes(action: LimitedAction, whose: LimitOwner, limit: Limit, count: u32) -> Vec<TokenRequest> {
    match (whose, action) {
        (LimitOwner::Address(address), _) => by_address(action, address, limit, count),
        (LimitOwner::AddressWithKey(address), LimitedAction::AskToCreate) => {
            by_address(LimitedAction::AskToCreateWithKey, address, limit, count)
        }
        (LimitOwner::AddressWithKey(address), _) => {
            by_address(LimitedAction::CreateWithKey, address, limit, count)
        }
        (LimitOwner::Key(key), _) => {
            let subject = LimitSubject { action, key: LimitKey::Key(key) };
            vec![TokenRequest { subject, limit, count }]
        }
        (LimitOwner::Account(account), _) => {
            let subject = LimitSubject { action, key: LimitKey::Account(account, limit) };
            vec![TokenRequest { subject, limit, count }]
        }
    }
}

/// How many links a caller may create: the buckets that a create takes from. Empty for no limit.
#[derive(Clone, Debug)]
pub struct Allowance(Vec<Bucket>);

impl Allowance {
    fn of(buckets: impl IntoIterator<Item = Bucket>) -> Self {
        Self(buckets.into_iter().filter(|bucket| !bucket.limit.is_off()).collect())
    }

    fn takes(&self, count: u32) -> Vec<TokenRequest> {
        let buckets = self.0.iter();
        let takes = buckets.flat_map(|Bucket { whose, limit }| {
            takes(LimitedAction::Create, *whose, *limit, count)
        });
        takes.collect()
    }

    /// The bucket that a decision is about. Messages show a decision about a wider network as that
    /// of the address.
    fn deciding(&self, verdict: &LimitDecision) -> Bucket {
        let exact = self.0.iter().find(|bucket| bucket.limit.count() == verdict.limit);
        let unknown_address =
            Bucket { whose: LimitOwner::Address(unknown_address()), limit: Limit::OFF };
        exact.or_else(|| self.0.last()).copied().unwrap_or(unknown_address)
    }
}

impl Allowance {
    /// LimitOwner buckets have this limit. A decision contains the size of the bucket, but not
    /// whose it is. If two buckets have the same limit, either may have decided, and messages name
    /// both.
    fn in_words(&self, limit: Limit) -> String {
        let word = |whose| match whose {
            LimitOwner::Account(_) => "with all keys of the account",
            LimitOwner::Key(_) => "with this key",
            LimitOwner::Address(_) | LimitOwner::AddressWithKey(_) => "from this address",
        };
        let same = self.0.iter().filter(|bucket| bucket.limit.count() == limit.count());
        let words: Vec<&str> = same.map(|bucket| word(bucket.whose)).collect();
        words.join(" or ")
    }
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    whose: LimitOwner,
    limit: Limit,
}

#[derive(Clone, Copy, Debug)]
enum LimitOwner {
    Address(IpAddr),
    /// The same address, for requests with a key.
    AddressWithKey(IpAddr),
    Key(u64),
    /// All keys and browsers of an account.
    Account(u64),
}

/// A counted sign-in.
#[derive(Clone, Copy, Debug)]
pub struct SignInAttempt {
    address: IpAddr,
    name: Option<u64>,
}

/// A number derived from a name, ignoring case.
fn number_of(name: &str) -> u64 {
    let hash: [u8; 32] = Sha256::digest(name.to_ascii_lowercase().as_bytes()).into();
    hash.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

/// Tokens taken from an allowance.
#[derive(Debug)]
pub struct LimitOutcome {
    allowance: Allowance,
    verdict: LimitDecision,
}

impl LimitOutcome {
    /// How much is left.
    pub fn decision(&self) -> &LimitDecision {
        &self.verdict
    }
}

/// A limit was reached: nothing was counted, and the action is refused.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{detail}")]
pub struct LimitReached {
    /// Which limit, and when to try again.
    pub decision: LimitDecision,
    /// The message for the caller.
    pub detail: String,
}

impl LimitReached {
    fn new(decision: LimitDecision, detail: impl Into<String>) -> Self {
        Self { decision, detail: detail.into() }
    }
}

/// The address of callers whose address is unknown.
fn unknown_address() -> IpAddr {
    Ipv4Addr::UNSPECIFIED.into()
}

/// How long to wait, as text.
fn wait(time: Duration) -> String {
    let (count, unit) = match whole_seconds(time).max(1) {
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
    fn a_message_names_every_bucket_that_may_have_decided() {
        let bucket = |whose, count| Bucket { whose, limit: Limit::per_hour(count) };
        let words = |key, account| {
            let address = bucket(LimitOwner::AddressWithKey(unknown_address()), 2000);
            let all =
                [bucket(LimitOwner::Key(1), key), bucket(LimitOwner::Account(2), account), address];
            Allowance::of(all).in_words(Limit::per_hour(100))
        };
        assert_eq!(words(100, 500), "with this key");
        assert_eq!(words(500, 100), "with all keys of the account");
        assert_eq!(words(100, 100), "with this key or with all keys of the account");
    }

    #[test]
    fn a_wait_is_never_shown_too_short() {
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
}
