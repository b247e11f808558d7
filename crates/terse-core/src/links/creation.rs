//! Creating links for a caller: permission, limits, passwords and metrics, in one place for every
//! adapter.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::{Caller, Created, ImportPreview, ImportRowKey, LinkError, Links};
use crate::create_link::CreateLink;
use crate::insert::IdempotencyKey;
use crate::limits::{Allowance, LimitDecision, LimitOutcome, RateLimits};
use crate::password::PasswordHash;
use crate::principal::Principal;
use crate::registry::Role;
use crate::target::Target;
use crate::time::Timestamp;
use crate::validation::{ValidationError, ValidationErrorKind};

/// A caller who may create links, as [`LinkCreation::admit`] found.
#[derive(Clone, Debug)]
pub struct Creator {
    caller: Caller,
    address: Option<IpAddr>,
    allowance: Allowance,
}

impl Creator {
    /// The caller who owns the links.
    pub fn caller(&self) -> Caller {
        self.caller
    }

    /// Distinguishes anonymous callers, who share one owner. `None` for owners.
    pub fn anonymous_address(&self) -> Option<IpAddr> {
        self.address.filter(|_| self.caller == Caller::Anonymous)
    }
}

/// A link to create, with its password and its request id.
#[derive(Clone, Debug, Default)]
pub struct LinkDraft {
    /// The link. Its `password` is replaced by the hash of the one below.
    pub link: CreateLink,
    /// The password that visitors must know, in clear text.
    pub password: Option<String>,
    /// Identifies the attempt, so that repeating it returns the same link.
    pub request: Option<IdempotencyKey>,
}

/// How an attempt to create a link ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CreateResult {
    /// A new link.
    Created,
    /// An existing link was returned.
    Reused,
    /// The caller asked for something that is not allowed.
    Refused,
    /// The store or another part of the server failed.
    Failed,
    /// The caller reached a limit.
    Limited,
}

impl CreateResult {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Created, Self::Reused, Self::Refused, Self::Failed, Self::Limited];

    /// The label of a metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Reused => "reused",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Limited => "limited",
        }
    }

    fn of(result: &Result<Created, LinkError>) -> Self {
        match result {
            Ok(created) if created.is_fresh() => Self::Created,
            Ok(_) => Self::Reused,
            Err(LinkError::Store(_) | LinkError::NoCode(_) | LinkError::Password(_)) => {
                Self::Failed
            }
            Err(LinkError::Limited(_)) => Self::Limited,
            Err(_) => Self::Refused,
        }
    }
}

/// Counts how attempts to create a link end.
pub trait CreateMetrics: Send + Sync {
    /// Counts one attempt.
    fn count(&self, result: CreateResult);
}

/// The largest number of links in one request.
pub const MAX_LINKS_PER_REQUEST: usize = 1000;
/// The largest number of links with a password in one request: hashing is slow on purpose.
pub const MAX_PASSWORDS_PER_REQUEST: usize = 50;

/// Creates links on behalf of callers. The API, the form on the home page and bulk requests all use
/// it, so that limits and permissions are checked in one place.
pub struct LinkCreation {
    links: Arc<Links>,
    limits: RateLimits,
    metrics: Arc<dyn CreateMetrics>,
}

/// A number of links that the limiter has granted to one caller. [`CreateGrant::finish`] gives back
/// the unused ones.
#[must_use = "finish returns unused tokens to the limiter"]
pub struct CreateGrant<'a> {
    service: &'a LinkCreation,
    caller: Caller,
    taken: LimitOutcome,
    /// Tokens to give back: replayed requests were paid for by the first attempt, and a failure of
    /// the server costs the caller nothing. A refused link is paid for.
    unused: AtomicUsize,
    /// Links with a password so far.
    passwords: AtomicUsize,
}

impl LinkCreation {
    /// Wires the service.
    pub fn new(links: Arc<Links>, limits: RateLimits, metrics: Arc<dyn CreateMetrics>) -> Self {
        Self { links, limits, metrics }
    }

    /// Checks whether a caller may create links: the key's scope, and whether anonymous links are
    /// allowed. Counts the request. Adapters call it before they read the body, so that a flood of
    /// requests is refused cheaply.
    pub async fn admit(
        &self,
        principal: &Principal,
        address: Option<IpAddr>,
    ) -> Result<Creator, LinkError> {
        let principal = principal.clone().may_create()?;
        if principal.caller == Caller::Anonymous && !self.links.rules.anonymous_create {
            return Err(LinkError::KeyNeeded);
        }
        let allowance = self.limits.allowance(&principal, address);
        if let Err(reached) = self.limits.count_create_request(&allowance).await {
            self.metrics.count(CreateResult::Limited);
            return Err(reached.into());
        }
        Ok(Creator { caller: principal.caller, address, allowance })
    }

    /// Takes tokens for `count` links from the caller's limit: all of them, or none and `Limited`.
    pub async fn begin(
        &self,
        creator: &Creator,
        count: usize,
    ) -> Result<CreateGrant<'_>, LinkError> {
        let taken = self.limits.take(&creator.allowance, count).await.inspect_err(|_| {
            (0..count).for_each(|_| self.metrics.count(CreateResult::Limited));
        })?;
        let (unused, passwords) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Ok(CreateGrant { service: self, caller: creator.caller, taken, unused, passwords })
    }

    /// Takes over links from another shortener: see [`Links::import`]. Only for admins, and
    /// therefore not limited.
    pub async fn import(
        &self,
        principal: &Principal,
        rows: Vec<(CreateLink, Option<Timestamp>)>,
    ) -> Result<Vec<Result<Created, LinkError>>, LinkError> {
        principal.require(Role::Admin)?;
        let results = self.links.import(principal.caller, rows).await;
        results.iter().for_each(|result| self.metrics.count(CreateResult::of(result)));
        Ok(results)
    }

    /// Says what [`import`](Self::import) would do, and writes nothing.
    pub async fn preview_import(
        &self,
        principal: &Principal,
        link: CreateLink,
    ) -> Result<(ImportPreview, Option<ImportRowKey>), LinkError> {
        principal.require(Role::Admin)?;
        self.links.preview_import(principal.caller, link).await
    }

    /// The hash of a new link's password. The salt is derived from owner, target and password with
    /// the store's secret, so that a repeated request has the same hash and finds its link.
    async fn hash_password(
        &self,
        caller: Caller,
        link: &CreateLink,
        password: String,
    ) -> Result<PasswordHash, LinkError> {
        // As stored, not as sent: two spellings of one target are the same request.
        let target = Target::parse(&link.long_url, &self.links.rules().targets)?;
        let key = self.links.store.identity().derive("salts of links' passwords");
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes keys of any length");
        mac.update(&caller.owner().0.to_be_bytes());
        mac.update(&(target.as_str().len() as u64).to_be_bytes());
        mac.update(target.as_str().as_bytes());
        mac.update(password.as_bytes());
        let mut salt = [0; 16];
        salt.copy_from_slice(&mac.finalize().into_bytes()[..16]);
        let hash = self.links.passwords.hash_with_salt(password, salt).await?;
        Ok(PasswordHash::from_phc(hash))
    }

    /// Counts an attempt whose request could not be parsed.
    pub fn count_malformed(&self) {
        self.metrics.count(CreateResult::Refused);
    }
}

impl CreateGrant<'_> {
    /// Creates one of the links. `Ok` means durable and announced. May run concurrently with others
    /// of the same creation.
    pub async fn create(&self, draft: LinkDraft) -> Result<Created, LinkError> {
        let result = self.try_create(draft).await;
        let outcome = CreateResult::of(&result);
        self.service.metrics.count(outcome);
        if outcome == CreateResult::Failed || result.as_ref().is_ok_and(|made| made.replayed) {
            self.unused.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    async fn try_create(&self, draft: LinkDraft) -> Result<Created, LinkError> {
        let request = draft.request.clone();
        match (self.create_new(draft).await, request) {
            // What was accepted then may be refused now; the first answer still holds.
            (Err(LinkError::Refused(refusal)), Some(request)) => {
                self.service.links.replay(&request).await?.ok_or(refusal.into())
            }
            (result, _) => result,
        }
    }

    async fn create_new(&self, draft: LinkDraft) -> Result<Created, LinkError> {
        let LinkDraft { mut link, password, request } = draft;
        if password.is_some()
            && self.passwords.fetch_add(1, Ordering::Relaxed) >= MAX_PASSWORDS_PER_REQUEST
        {
            let detail =
                format!("at most {MAX_PASSWORDS_PER_REQUEST} links of one list have a password");
            let kind = ValidationErrorKind::InvalidRequest;
            return Err(ValidationError::new(kind, "password", detail).into());
        }
        link.password = match password {
            Some(password) => Some(self.service.hash_password(self.caller, &link, password).await?),
            None => None,
        };
        self.service.links.create(self.caller, link, request).await
    }

    /// Gives back unused tokens and says how much of the limit is left.
    pub async fn finish(self) -> LimitDecision {
        let Self { service, mut taken, unused, .. } = self;
        service.limits.give_back(&mut taken, unused.into_inner()).await;
        *taken.decision()
    }
}
