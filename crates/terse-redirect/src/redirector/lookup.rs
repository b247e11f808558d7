//! Look-ups of links that are not in memory, and their refresh ahead of time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use terse_core::{Absence, Code, Link, LinkKey, ModerationSource, ModerationStatus, StoreError};
use tokio::time::{Instant, timeout_at};

use super::{Redirector, count};
use crate::route::Route;
use crate::single_flight::{JoinedFlight, LookupResult};

/// For this long after the store did not answer, what is remembered is served without asking it;
/// one visitor a second asks.
const AWAY_MS: i64 = 2_000;
/// How often a look-up is begun anew because the link keeps changing under it.
const ATTEMPTS: usize = 4;

/// What a look-up came to.
pub(crate) enum Resolved {
    /// As the store has it.
    Route(Route),
    /// As we remember it; the store did not answer.
    Stale(Route),
    /// Nobody knows right now.
    Unavailable,
}

impl Redirector {
    /// Whether the store is certain, without looking, that there is no such link. `Likely` is not
    /// enough for a 404: the link is looked up like any other.
    pub(crate) fn surely_absent(&self, domain: u16, code: &[u8]) -> bool {
        let Ok(code) = std::str::from_utf8(code) else { return true };
        !self.settings.loose
            && self.reader.surely_absent(self.hosts.name(domain), code) == Absence::Certain
    }

    /// Looks a link up, once for all who are asking, and remembers it.
    pub(crate) async fn look_up(&self, domain: u16, code: &[u8]) -> Resolved {
        count(&self.slow.misses);
        let name = self.routes.name(domain, code);
        if self.surely_absent(domain, code) {
            count(&self.slow.never_issued);
            return Resolved::Route(Route::missing(domain, code, self.clock.now(), &self.settings));
        }
        if let Some(route) = self.finish(name, domain, code, false).await {
            return Resolved::Route(route);
        }
        let remembered = self.routes.with(name, domain, code, Route::clone);
        match remembered.filter(|route| route.may_serve_stale(self.now_ms())) {
            Some(route) => {
                count(&self.slow.stale);
                Resolved::Stale(route)
            }
            None => Resolved::Unavailable,
        }
    }

    /// Has a link looked up again although it is remembered. Nobody waits for it: whoever noticed
    /// is answered from memory.
    pub(crate) fn refresh_soon(self: &Arc<Self>, route: &Route) {
        count(&self.slow.refreshes);
        let (redirector, route) = (Arc::clone(self), route.clone());
        tokio::spawn(async move {
            let domain = route.head().domain;
            let name = redirector.routes.name(domain, route.code());
            let _ = redirector.finish(name, domain, route.code(), true).await;
        });
    }

    /// Whether a remembered route may be served without asking the store. While the store is away,
    /// waiting for it again and again would help nobody.
    pub(crate) fn is_fresh(&self, route: &Route, now_ms: i64) -> bool {
        let fresh = now_ms < route.head().fresh_until;
        fresh
            || (now_ms < self.away_until_ms.load(Ordering::Relaxed)
                && route.may_serve_stale(now_ms))
    }

    /// `None` if the store did not answer in time.
    async fn finish(&self, name: u64, domain: u16, code: &[u8], again: bool) -> Option<Route> {
        let deadline = Instant::now() + self.settings.store_timeout;
        let ours = |route: &Route| route.head().domain == domain && route.code() == code;
        for _ in 0..ATTEMPTS {
            let result = match timeout_at(deadline, self.single_flight.join(name)).await.ok()? {
                JoinedFlight::LookupResult(result) => result,
                JoinedFlight::FlightGuard(guard) => {
                    // Somebody may have landed between our look into memory and now.
                    let known = if again {
                        None
                    } else {
                        self.routes.with(name, domain, code, Route::clone)
                    };
                    match known.filter(|route| self.now_ms() < route.head().fresh_until) {
                        Some(route) => return Some(route),
                        None => {
                            let loaded = timeout_at(deadline, self.load(domain, code)).await;
                            self.note_store(matches!(
                                loaded,
                                Ok(Ok(_) | Err(StoreError::Corrupt(_)))
                            ));
                            let result = match loaded {
                                Ok(Ok(route)) => LookupResult::Route(route),
                                Ok(Err(error)) => {
                                    self.complain(&error);
                                    LookupResult::Failed
                                }
                                Err(_) => LookupResult::Failed,
                            };
                            guard.finish(result, &self.routes)
                        }
                    }
                }
            };
            match result {
                LookupResult::Route(route) if ours(&route) => return Some(route),
                LookupResult::Failed => return None,
                // Another name with the same hash, or a link that changed meanwhile.
                LookupResult::Route(_) | LookupResult::Again => {}
            }
        }
        None
    }

    /// Notes whether the store answered a look-up. A row that it cannot read is an answer: only the
    /// link of that row is unavailable, and other links are read as before.
    fn note_store(&self, answered: bool) {
        let away_until_ms = if answered { 0 } else { self.now_ms() + AWAY_MS };
        self.away_until_ms.store(away_until_ms, Ordering::Relaxed);
    }

    async fn load(&self, domain: u16, code: &[u8]) -> Result<Route, StoreError> {
        let missing = || Route::missing(domain, code, self.clock.now(), &self.settings);
        let Some(key) = self.key(domain, code) else { return Ok(missing()) };
        let _turn = self.gate.acquire().await;
        if let Some(link) = self.batch.get(key.clone()).await? {
            return Ok(Route::of_link(
                domain,
                self.as_known_now(link),
                self.clock.now(),
                &self.settings,
            ));
        }
        if self.settings.loose
            && let Some(link) = self.reader.get_folded(&key).await?
        {
            return Ok(Route::of_other_spelling(
                domain,
                code,
                self.as_known_now(link),
                self.clock.now(),
                &self.settings,
            ));
        }
        Ok(missing())
    }

    /// A link as it is by what is known beside the store: taken down if its owner is suspended or
    /// the screen would have it so. Lesser doubts can wait until the store knows.
    pub(super) fn as_known_now(&self, link: Link) -> Link {
        let mut link = self.suspended.applied(link);
        let judged =
            link.judged == ModerationSource::Screen && link.standing != ModerationStatus::Blocked;
        if judged && link.targets().any(|target| self.screen.blocks(target)) {
            link.standing = ModerationStatus::Blocked;
        }
        link
    }

    fn key(&self, domain: u16, code: &[u8]) -> Option<LinkKey> {
        let code = Code::parse(std::str::from_utf8(code).ok()?)?;
        Some(LinkKey { domain: self.hosts.name(domain).clone(), code })
    }

    /// At most once a second: a store that is away is met by every miss.
    pub(super) fn complain(&self, error: &StoreError) {
        let (now, last) = (self.now_ms(), self.last_complaint_ms.load(Ordering::Relaxed));
        if now - last >= 1000
            && self
                .last_complaint_ms
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            let reason =
                std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            tracing::warn!(reason, "a visitor could not be served from the store: {error}");
        }
    }
}
