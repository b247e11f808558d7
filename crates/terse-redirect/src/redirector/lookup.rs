//! Lookups of links that are not in memory, and their refresh ahead of time.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use terse_core::{
    AbsenceCertainty, Code, Link, LinkKey, ModerationSource, ModerationStatus, StoreError,
    VisitDecision,
};
use tokio::time::{Instant, timeout_at};

use super::Redirector;
use crate::counts::Counter as _;
use crate::now::ClockReading;
use crate::route::Route;
use crate::single_flight::{JoinedFlight, LookupResult};

/// For this long after a failed lookup the store counts as away. Meanwhile cached routes are
/// served past their time to live, and one visitor per second asks the store.
const AWAY_MS: i64 = 2_000;
/// How often a lookup starts again because the link keeps changing.
const ATTEMPTS: usize = 4;

/// A link cannot be looked up now: the store did not answer, or could not read the link's row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LinkUnavailable;

/// What a lookup has found.
struct LoadedRoute {
    route: Route,
    /// Whether it is an old copy, because the store did not answer.
    is_old: bool,
}

impl Redirector {
    /// Whether the store is certain, without a lookup, that there is no such link.
    pub(crate) fn surely_absent(&self, domain: u16, code: &[u8]) -> bool {
        self.absence(domain, code) == AbsenceCertainty::Certain
    }

    /// What the store knows about a code without a lookup. `Likely` is not enough for a 404: the
    /// redirector reads such a code in [`UnissuedLane`](crate::unissued_lane::UnissuedLane).
    fn absence(&self, domain: u16, code: &[u8]) -> AbsenceCertainty {
        let Ok(code) = std::str::from_utf8(code) else { return AbsenceCertainty::Certain };
        if self.settings.loose {
            // An alias may differ from the code by case.
            return AbsenceCertainty::Unknown;
        }
        self.reader.surely_absent(self.hosts.name(domain), code)
    }

    /// Looks a link up, once for all visitors who wait for it, and caches it. If the store does not
    /// answer, an expired cache entry is used where that is allowed.
    pub(crate) async fn look_up(&self, domain: u16, code: &[u8]) -> Result<Route, LinkUnavailable> {
        self.counts.misses.add(1);
        let name = self.routes.name(domain, code);
        if self.surely_absent(domain, code) {
            self.counts.never_issued.add(1);
            return Ok(self.missing(domain, code));
        }
        if let Some(route) = self.fetch(name, domain, code, false).await {
            return Ok(route);
        }
        let cached = self.routes.with(name, domain, code, Route::clone);
        match cached.filter(|route| route.may_serve_stale(self.now(), self.settings.max_stale)) {
            Some(route) => {
                self.counts.stale.add(1);
                Ok(route)
            }
            None => Err(LinkUnavailable),
        }
    }

    /// Looks a cached link up again in the background. The visitor who causes it is answered from
    /// the cache.
    pub(crate) fn refresh_soon(self: &Arc<Self>, route: &Route) {
        self.counts.refreshes.add(1);
        let (redirector, route) = (Arc::clone(self), route.clone());
        tokio::spawn(async move {
            let domain = route.head().domain;
            let name = redirector.routes.name(domain, route.code());
            let _ = redirector.fetch(name, domain, route.code(), true).await;
        });
    }

    /// Whether a cached route may be served without asking the store: within its time to live, and
    /// past it while the store is away.
    pub(crate) fn is_fresh(&self, route: &Route, now: ClockReading) -> bool {
        route.is_fresh(now)
            || (now.steady_ms < self.away_until_ms.load(Ordering::Relaxed)
                && route.may_serve_stale(now, self.settings.max_stale))
    }

    /// Reads a link from the store, or joins the lookup in progress. `None` if the store did not
    /// answer in time or could not read the link. With `refresh`, a fresh cache entry does not
    /// count.
    pub(super) async fn fetch(
        &self,
        name: u64,
        domain: u16,
        code: &[u8],
        refresh: bool,
    ) -> Option<Route> {
        let deadline = Instant::now() + self.settings.store_timeout;
        for _ in 0..ATTEMPTS {
            let result = match timeout_at(deadline, self.single_flight.join(name)).await.ok()? {
                JoinedFlight::LookupResult(result) => result,
                JoinedFlight::FlightGuard(guard) => {
                    // Another lookup may have ended since this visitor missed the cache.
                    let cached = (!refresh)
                        .then(|| self.routes.with(name, domain, code, Route::clone))
                        .flatten();
                    if let Some(route) = cached.filter(|route| route.is_fresh(self.now())) {
                        return Some(route);
                    }
                    let result = match self.is_probably_unissued(name, domain, code) {
                        true => self.load_unissued_by(deadline, domain, code).await,
                        false => self.load_by(deadline, domain, code).await,
                    };
                    guard.finish(result, &self.routes)
                }
            };
            match result {
                LookupResult::Route(route)
                    if route.head().domain == domain && route.code() == code =>
                {
                    return Some(route);
                }
                LookupResult::Failed => return None,
                // Another name has the same hash, or the link changed meanwhile.
                LookupResult::Route(_) | LookupResult::Retry => {}
            }
        }
        None
    }

    /// Whether a code is shaped like a generated one that no node has issued as far as this one
    /// knows, and is not in memory as a link.
    fn is_probably_unissued(&self, name: u64, domain: u16, code: &[u8]) -> bool {
        let is_link = |route: &Route| route.head().decision != VisitDecision::NotFound;
        self.absence(domain, code) == AbsenceCertainty::Likely
            && !self.routes.with(name, domain, code, is_link).unwrap_or(false)
    }

    /// Reads a code that was probably never issued, after others of its kind. A failure says
    /// nothing about the store, because the lookup may have ended before its turn.
    async fn load_unissued_by(&self, deadline: Instant, domain: u16, code: &[u8]) -> LookupResult {
        let Some(key) = self.key(domain, code) else {
            return LookupResult::Route(self.missing(domain, code));
        };
        match timeout_at(deadline, self.unissued.get(key.clone())).await {
            Ok(Ok(Some(link))) => LookupResult::Route(self.route_of(domain, &key, link).route),
            Ok(Ok(None)) => LookupResult::Route(self.missing(domain, code)),
            Ok(Err(StoreError::Busy)) => {
                self.counts.unissued_refused.add(1);
                LookupResult::Failed
            }
            Ok(Err(error)) => {
                self.warn_about(&error);
                LookupResult::Failed
            }
            Err(_) => LookupResult::Failed,
        }
    }

    /// Reads a link from the store and notes whether the store answered. A row that the store
    /// cannot read is an answer: only the link of that row is unavailable, and other links are read
    /// as before.
    async fn load_by(&self, deadline: Instant, domain: u16, code: &[u8]) -> LookupResult {
        let loaded = timeout_at(deadline, self.load(domain, code)).await;
        // An old copy is what a cache has while the store does not answer.
        let answered = matches!(
            loaded,
            Ok(Ok(LoadedRoute { is_old: false, .. })
                | Err(StoreError::Corrupt(_) | StoreError::LaterVersion))
        );
        let away_until_ms = if answered { 0 } else { self.now().steady_ms + AWAY_MS };
        self.away_until_ms.store(away_until_ms, Ordering::Relaxed);
        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        unread.last = (!answered).then(|| (domain, code.into()));
        if matches!(loaded, Ok(Err(StoreError::Corrupt(_)))) {
            unread.damaged = Some((domain, code.into()));
        } else if answered {
            // Forgets a damaged link only when that link itself was read.
            unread.damaged.take_if(|(of, damaged)| (*of, &**damaged) == (domain, code));
        }
        drop(unread);
        match loaded {
            Ok(Ok(LoadedRoute { route, .. })) => LookupResult::Route(route),
            Ok(Err(error)) => {
                self.warn_about(&error);
                LookupResult::Failed
            }
            Err(_) => LookupResult::Failed,
        }
    }

    async fn load(&self, domain: u16, code: &[u8]) -> Result<LoadedRoute, StoreError> {
        let current = |route: Route| LoadedRoute { route, is_old: false };
        let Some(key) = self.key(domain, code) else {
            return Ok(current(self.missing(domain, code)));
        };
        let _permit = self.store_permits.acquire().await;
        if let Some(link) = self.batch.get(key.clone()).await? {
            return Ok(self.route_of(domain, &key, link));
        }
        if self.settings.loose
            && let Some(link) = self.reader.get_folded(&key).await?
        {
            return Ok(current(Route::of_other_spelling(
                domain,
                code,
                self.as_known_now(link),
                self.now(),
                &self.settings,
            )));
        }
        Ok(current(self.missing(domain, code)))
    }

    /// The route of a link that was just read.
    fn route_of(&self, domain: u16, key: &LinkKey, link: Link) -> LoadedRoute {
        let (age, mut now) = (self.reader.age(key), self.now());
        // Its time to live began when the copy was read from the store.
        now.steady_ms -= i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        let route = Route::of_link(domain, self.as_known_now(link), now, &self.settings);
        LoadedRoute { route, is_old: !age.is_zero() }
    }

    /// The route of a code that no link has.
    fn missing(&self, domain: u16, code: &[u8]) -> Route {
        Route::missing(domain, code, self.now(), &self.settings)
    }

    /// The link with what this node knows and the store may not know yet: it is blocked if its
    /// owner is suspended or the screen blocks one of its targets. Warnings are not applied here:
    /// the scan writes them to the store.
    pub(super) fn as_known_now(&self, link: Link) -> Link {
        let mut link = self.suspended.applied(link);
        let screened = link.moderated_by == ModerationSource::Screen
            && link.moderation != ModerationStatus::Blocked;
        if screened && link.targets().any(|target| self.screen.blocks(target)) {
            link.moderation = ModerationStatus::Blocked;
        }
        link
    }

    fn key(&self, domain: u16, code: &[u8]) -> Option<LinkKey> {
        let code = Code::parse(std::str::from_utf8(code).ok()?)?;
        Some(LinkKey { domain: self.hosts.name(domain).clone(), code })
    }

    /// Logs a store error, unless some were logged in this minute: while the store is away, every
    /// miss fails.
    pub(super) fn warn_about(&self, error: &StoreError) {
        if let Some(suppressed) = self.store_log.admit(self.clock.steady()) {
            let reason =
                std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            tracing::warn!(
                reason,
                suppressed,
                "a visitor could not be served from the store: {error}"
            );
        }
    }
}
