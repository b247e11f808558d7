//! Answers visits: from memory at once, from the store on a miss, from an old memory when the store
//! is away.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use terse_core::clicks::RequestFlags;
use terse_core::registry::Suspended;
use terse_core::rules::VisitorClassifier;
use terse_core::{
    Absence, ClickSpend, ClickSpender, Clock, Code, Hosts, Link, LinkKey, LinkReader,
    ModerationSource, ModerationStatus, NoScreening, PasswordHash, RouteCache, Screening,
    StoreError, Timestamp, Visit,
};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::batch::LookupBatcher;
use crate::chooser::Chooser;
use crate::client_addr::ClientAddr;
use crate::counts::Snapshot;
use crate::error_responses::{ErrorResponses, Failure, FailurePages};
use crate::fallbacks::Fallbacks;
use crate::fast_path::accepts_html;
use crate::host_table::HostTable;
use crate::limiter::RedirectLimiter;
use crate::route::{Kind, Route, redirect_response};
use crate::routes::Routes;
use crate::settings::{ErrorStyle, Settings};
use crate::single_flight::{JoinedFlight, LookupResult, SingleFlight};
use crate::visitor_headers::VisitorHeaders;

/// For this long after the store did not answer, what is remembered is served without asking it;
/// one visitor a second asks.
const AWAY_MS: i64 = 2_000;
/// How often a look-up is begun anew because the link keeps changing under it.
const ATTEMPTS: usize = 4;

/// A visit that takes more than the fast path.
#[derive(Clone, Copy, Debug)]
pub struct Visitor<'a> {
    /// The number of the domain.
    pub domain: u16,
    /// Shaped like a code.
    pub code: &'a str,
    /// What followed the question mark.
    pub query: Option<&'a str>,
    /// Whether a page is preferred to a problem.
    pub html: bool,
    /// HEAD looks without going: it spends no click.
    pub head: bool,
    /// The hash of the password that the visitor has shown to know. It opens a link only as long as
    /// it is that link's.
    pub knows: Option<&'a PasswordHash>,
    /// What a click says about its visitor.
    pub seen: VisitorHeaders<'a>,
}

impl<'a> Visitor<'a> {
    /// Whoever sent this request.
    pub fn of<B>(request: &'a Request<B>, domain: u16, code: &'a str) -> Self {
        let head = request.method() == Method::HEAD;
        let mut seen = VisitorHeaders::of(request.headers());
        seen.marks = seen.marks.with(RequestFlags::HEAD, head);
        let html = request
            .headers()
            .get_all(header::ACCEPT)
            .iter()
            .any(|accept| accepts_html(accept.as_bytes()));
        Self { domain, code, query: request.uri().query(), html, head, knows: None, seen }
    }
}

/// The answer to such a visit.
#[derive(Debug)]
pub enum Reply {
    /// Ready to be sent.
    Response(Response<Bytes>),
    /// The web side shows a warning page for the link with this code, which in loose mode may
    /// differ from what was asked for.
    Warning(Code),
    /// The web side asks for the password of the link with this code, likewise.
    Password(Code),
}

/// A reply, and what the journal is to know of it.
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) fate: VisitFate,
}

/// What became of a visitor.
pub(crate) enum VisitFate {
    /// Sent on by a link of this owner, made then; with its code, if it was spelled otherwise.
    Went { owner: u64, born_ms: i64, canonical_code: Option<Code> },
    /// Turned away.
    Failed(Failure),
    /// Shown a warning, and not yet gone anywhere.
    Warned,
    /// Asked for the password, and not yet gone anywhere.
    Asked,
}

/// What a look-up came to.
pub(crate) enum Resolved {
    /// As the store has it.
    Route(Route),
    /// As we remember it; the store did not answer.
    Stale(Route),
    /// Nobody knows right now.
    Unavailable,
}

/// The redirect plane's mind, shared by all serving threads.
pub struct Redirector {
    reader: Arc<dyn LinkReader>,
    spender: Arc<dyn ClickSpender>,
    pub(crate) screen: Arc<dyn Screening>,
    clock: Clock,
    pub(crate) suspended: Suspended,
    pub(crate) single_flight: SingleFlight,
    batch: LookupBatcher,
    gate: Semaphore,
    last_complaint_ms: AtomicI64,
    away_until_ms: AtomicI64,
    slow: SlowCounts,
    chooser: Chooser,
    pub(crate) routes: Routes,
    pub(crate) hosts: HostTable,
    pub(crate) error_responses: ErrorResponses,
    pub(crate) fallbacks: Fallbacks,
    pub(crate) limiter: RedirectLimiter,
    pub(crate) settings: Settings,
}

/// What is counted off the fast path, by all threads.
#[derive(Debug, Default)]
pub(crate) struct SlowCounts {
    redirected: AtomicU64,
    not_found: AtomicU64,
    never_issued: AtomicU64,
    gone: AtomicU64,
    blocked: AtomicU64,
    limited: AtomicU64,
    warned: AtomicU64,
    asked: AtomicU64,
    unavailable: AtomicU64,
    stale: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    refreshes: AtomicU64,
}

impl Redirector {
    /// `reader` answers misses and may be a cache; `spender` is the store itself. `port` is the one
    /// visitors will most likely send in `Host`.
    pub fn new(
        reader: Arc<dyn LinkReader>,
        spender: Arc<dyn ClickSpender>,
        hosts: Hosts,
        port: u16,
        pages: &FailurePages,
        settings: Settings,
        clock: Clock,
    ) -> Self {
        Self {
            clock,
            suspended: Suspended::default(),
            single_flight: SingleFlight::default(),
            batch: LookupBatcher::new(Arc::clone(&reader)),
            gate: Semaphore::new(settings.store_concurrency.max(1)),
            reader,
            spender,
            screen: Arc::new(NoScreening),
            last_complaint_ms: AtomicI64::new(0),
            away_until_ms: AtomicI64::new(0),
            slow: SlowCounts::default(),
            chooser: Chooser::default(),
            routes: Routes::new(settings.cache_bytes, settings.negative_entries),
            hosts: HostTable::new(hosts, port),
            error_responses: ErrorResponses::new(pages, &settings),
            fallbacks: Fallbacks::default(),
            limiter: RedirectLimiter::new(
                settings.redirect_per_address,
                settings.redirect_per_code,
                settings.guesses_per_address,
            ),
            settings,
        }
    }

    /// With somebody who looks closer at visitors where a link's rules need it.
    pub fn with_classifier(self, onlooker: Arc<dyn VisitorClassifier>) -> Self {
        Self { chooser: Chooser::new(onlooker), ..self }
    }

    /// Lets nobody through to what the screen blocks, whatever the store says of the link: the
    /// store is told in due course, a visitor comes at once.
    #[must_use]
    pub fn screened_by(self, screen: Arc<dyn Screening>) -> Self {
        Self { screen, ..self }
    }

    /// Looks again at all that is remembered, because the screen has learned something, and forgets
    /// what it would have otherwise. Says how many that were. Where much is remembered this takes
    /// seconds, so it is nothing for a serving thread.
    pub fn rescreen(&self) -> usize {
        // First: a look-up that begins from here on is judged by what the screen knows now.
        self.single_flight.invalidate_all();
        self.fallbacks.rescreen(&*self.screen);
        let outdated =
            self.routes.all().into_iter().filter(|(_, route)| route.is_outdated_by(&*self.screen));
        outdated.map(|(name, _)| self.single_flight.invalidate(name, &self.routes)).count()
    }

    /// Which domain a `Host` value means.
    pub fn domain(&self, host: &[u8]) -> Option<u16> {
        self.hosts.domain(host)
    }

    /// The time, in milliseconds.
    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now().as_ms()
    }

    /// The time, in microseconds.
    pub(crate) fn now_micros(&self) -> i64 {
        self.clock.now_micros()
    }

    /// The routes in memory.
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Answers a visit that the fast path left alone, from memory or not at all. A plain `fn` on
    /// purpose: the compiler keeps `.await` out of the path almost every visitor takes.
    pub(crate) fn answer_now(
        self: &Arc<Self>,
        visitor: &Visitor<'_>,
        client_addr: ClientAddr,
    ) -> Option<Answer> {
        let now_ms = self.now_ms();
        let name = self.routes.name(visitor.domain, visitor.code.as_bytes());
        let answered = self.routes.with(name, visitor.domain, visitor.code.as_bytes(), |route| {
            let answer = self
                .is_fresh(route, now_ms)
                .then(|| self.ready_answer(route, visitor, client_addr, now_ms))
                .flatten()?;
            if route.wants_refresh(now_ms) {
                self.refresh_soon(route);
            }
            Some(answer)
        });
        answered.flatten().inspect(|_| count(&self.slow.hits))
    }

    /// Answers a visit, from memory or after asking the store.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        visitor: &Visitor<'_>,
        client_addr: ClientAddr,
    ) -> Answer {
        let answer = match self.answer_now(visitor, client_addr) {
            Some(answer) => answer,
            None => self.answer_in_time(visitor, client_addr).await,
        };
        match answer.fate {
            VisitFate::Warned => count(&self.slow.warned),
            VisitFate::Asked => count(&self.slow.asked),
            VisitFate::Went { .. } | VisitFate::Failed(_) => {}
        }
        answer
    }

    /// Answers a visit that is nobody's click, for tests.
    #[doc(hidden)]
    pub async fn answer_uncounted(self: &Arc<Self>, visitor: Visitor<'_>) -> Reply {
        let nowhere =
            ClientAddr::new(std::net::Ipv4Addr::UNSPECIFIED.into(), &self.settings.proxies);
        self.answer(&visitor, nowhere).await.reply
    }

    async fn answer_in_time(
        self: &Arc<Self>,
        visitor: &Visitor<'_>,
        client_addr: ClientAddr,
    ) -> Answer {
        let now_ms = self.now_ms();
        let name = self.routes.name(visitor.domain, visitor.code.as_bytes());
        let known = self.routes.with(name, visitor.domain, visitor.code.as_bytes(), Route::clone);
        let route = match known.filter(|route| self.is_fresh(route, now_ms)) {
            Some(route) => {
                count(&self.slow.hits);
                route
            }
            None => match self.look_up(visitor.domain, visitor.code.as_bytes()).await {
                Resolved::Route(route) | Resolved::Stale(route) => route,
                Resolved::Unavailable => return self.fail(Failure::Unavailable, visitor),
            },
        };
        match self.ready_answer(&route, visitor, client_addr, now_ms) {
            Some(answer) => answer,
            None => self.ask_the_store(&route, visitor, client_addr, now_ms).await,
        }
    }

    /// The answer that a route alone can give: all but those of links whose visits are counted by
    /// the store, and those whose rules nobody is ready for yet.
    fn ready_answer(
        &self,
        route: &Route,
        visitor: &Visitor<'_>,
        client_addr: ClientAddr,
        now_ms: i64,
    ) -> Option<Answer> {
        let link = route.head().link.as_deref();
        let knows = link.is_some_and(|link| knows(visitor, link));
        let goes = match route.head().kind {
            Kind::Go | Kind::Forward | Kind::Choose => true,
            Kind::Password => knows && link.is_some_and(|link| link.max_clicks.is_none()),
            _ => false,
        };
        if goes && link.is_some_and(|link| !self.chooser.is_ready(link)) {
            return None;
        }
        if goes && let Some(failure) = self.too_many(route, visitor, client_addr, now_ms) {
            return Some(self.fail(failure, visitor));
        }
        Some(match (route.head().kind, route.head().link.as_deref()) {
            (Kind::Spend, Some(_)) => return None,
            (Kind::Go, _) => {
                count(&self.slow.redirected);
                let head = route.head();
                let fate = VisitFate::Went {
                    owner: head.owner,
                    born_ms: head.born_ms,
                    canonical_code: route.other_code().cloned(),
                };
                Answer { reply: Reply::Response(route.response()), fate }
            }
            (Kind::Forward | Kind::Choose, Some(link)) => {
                count(&self.slow.redirected);
                self.redirect(link, visitor, client_addr, now_ms)
            }
            (Kind::Warn, Some(link)) => warn(&link.key.code),
            (Kind::Password, Some(link)) if !knows => ask(&link.key.code),
            (Kind::Password, Some(_)) if !goes => return None,
            (Kind::Password, Some(link)) => {
                count(&self.slow.redirected);
                self.redirect(link, visitor, client_addr, now_ms)
            }
            (Kind::Gone, _) => self.fail(Failure::Gone, visitor),
            (Kind::Blocked, _) => self.fail(Failure::Blocked, visitor),
            (
                Kind::Missing
                | Kind::Forward
                | Kind::Choose
                | Kind::Spend
                | Kind::Warn
                | Kind::Password,
                _,
            ) => {
                let client = || client_addr.client(&self.settings.proxies, &visitor.seen);
                self.fail(self.limiter.guess(client, now_ms).unwrap_or(Failure::NotFound), visitor)
            }
        })
    }

    /// Counts a redirect where they are limited, and says whether it was one too many.
    fn too_many(
        &self,
        route: &Route,
        visitor: &Visitor<'_>,
        client_addr: ClientAddr,
        now_ms: i64,
    ) -> Option<Failure> {
        if !self.limiter.limits_redirects {
            return None;
        }
        self.limiter.redirect(
            client_addr.client(&self.settings.proxies, &visitor.seen),
            self.number_of(route),
            now_ms,
        )
    }

    /// A number for the link behind a route, however the visitor spelled it.
    pub(crate) fn number_of(&self, route: &Route) -> u64 {
        let code = route.other_code().map_or(route.code(), |code| code.as_str().as_bytes());
        self.routes.name(route.head().domain, code)
    }

    /// The answer for a link that is good for some visits, or whose rules nobody was ready for.
    async fn ask_the_store(
        &self,
        route: &Route,
        visitor: &Visitor<'_>,
        client_addr: ClientAddr,
        now_ms: i64,
    ) -> Answer {
        // Before a click is spent: whoever is turned away has spent none.
        if let Some(failure) = self.too_many(route, visitor, client_addr, now_ms) {
            return self.fail(failure, visitor);
        }
        if let Some(link) = route.head().link.as_deref() {
            self.chooser.get_ready(link).await;
        }
        match (route.head().kind, route.head().link.as_deref()) {
            (Kind::Choose | Kind::Password, Some(link)) if link.max_clicks.is_none() => {
                count(&self.slow.redirected);
                self.redirect(link, visitor, client_addr, now_ms)
            }
            (Kind::Spend | Kind::Password, Some(link)) if visitor.head => {
                self.look_without_spending(link, visitor, client_addr).await
            }
            (Kind::Spend | Kind::Password, Some(link)) => match self.spend(&link.key).await {
                Ok(ClickSpend::Yes) => {
                    count(&self.slow.redirected);
                    self.redirect(link, visitor, client_addr, now_ms)
                }
                Ok(ClickSpend::UsedUp) => {
                    self.forget(&link.key);
                    self.fail(Failure::Gone, visitor)
                }
                Ok(ClickSpend::Missing) => {
                    self.forget(&link.key);
                    self.fail(Failure::NotFound, visitor)
                }
                Err(error) => {
                    self.complain(&error);
                    self.fail(Failure::Unavailable, visitor)
                }
            },
            _ => self.fail(Failure::NotFound, visitor),
        }
    }

    /// HEAD of a link that is good for some visits: how many are left, only the store knows.
    async fn look_without_spending(
        &self,
        link: &Link,
        visitor: &Visitor<'_>,
        client_addr: ClientAddr,
    ) -> Answer {
        let deadline = Instant::now() + self.settings.store_timeout;
        match timeout_at(deadline, self.reader.get(&link.key)).await {
            Ok(Ok(Some(link))) => {
                match terse_core::visit(&self.as_known_now(link.clone()), self.clock.now()) {
                    Visit::Go | Visit::GoIfSpent => {
                        self.redirect(&link, visitor, client_addr, self.now_ms())
                    }
                    Visit::Gone => self.fail(Failure::Gone, visitor),
                    Visit::Blocked => self.fail(Failure::Blocked, visitor),
                    Visit::Warn => warn(&link.key.code),
                    Visit::Password if knows(visitor, &link) => {
                        self.redirect(&link, visitor, client_addr, self.now_ms())
                    }
                    Visit::Password => ask(&link.key.code),
                    Visit::NotFound => self.fail(Failure::NotFound, visitor),
                }
            }
            Ok(Ok(None)) => self.fail(Failure::NotFound, visitor),
            Ok(Err(_)) | Err(_) => self.fail(Failure::Unavailable, visitor),
        }
    }

    fn redirect(
        &self,
        link: &Link,
        visitor: &Visitor<'_>,
        client_addr: ClientAddr,
        now_ms: i64,
    ) -> Answer {
        let client = || client_addr.client(&self.settings.proxies, &visitor.seen);
        let target = self.chooser.choose(link, visitor, client, Timestamp::from_ms(now_ms));
        let location = match visitor.query.filter(|query| link.forward_query && !query.is_empty()) {
            Some(query) => target.with_query(query),
            None => target.as_str().to_owned(),
        };
        let reply = Reply::Response(redirect_response(
            link,
            &location,
            Timestamp::from_ms(now_ms),
            &self.settings,
        ));
        let canonical_code =
            (link.key.code.as_str() != visitor.code).then(|| link.key.code.clone());
        Answer {
            reply,
            fate: VisitFate::Went {
                owner: link.owner.0,
                born_ms: link.created_at.as_ms(),
                canonical_code,
            },
        }
    }

    fn fail(&self, failure: Failure, visitor: &Visitor<'_>) -> Answer {
        count(match failure {
            Failure::NotFound => &self.slow.not_found,
            Failure::Gone => &self.slow.gone,
            Failure::Blocked => &self.slow.blocked,
            Failure::Unavailable => &self.slow.unavailable,
            Failure::TooManyGuesses | Failure::TooManyVisits | Failure::TooManyVisitors => {
                &self.slow.limited
            }
        });
        Answer {
            reply: Reply::Response(self.failure(failure, visitor)),
            fate: VisitFate::Failed(failure),
        }
    }

    fn failure(&self, failure: Failure, visitor: &Visitor<'_>) -> Response<Bytes> {
        if let Some(elsewhere) = self.fallbacks.response(visitor.domain, failure) {
            return elsewhere;
        }
        if self.settings.errors == ErrorStyle::Page
            && failure != Failure::Unavailable
            && !failure.is_limited()
        {
            let location = format!("/r/{}?error={}", visitor.code, failure.code());
            let response = Response::builder()
                .status(StatusCode::FOUND)
                .header(header::LOCATION, location)
                .header(header::CACHE_CONTROL, "private, max-age=0, no-store")
                .header("x-robots-tag", "noindex")
                .header(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*")
                .header(header::CONTENT_LENGTH, "0")
                .body(Bytes::new());
            return response
                .unwrap_or_else(|_| self.error_responses.response(failure, visitor.html));
        }
        self.error_responses.response(failure, visitor.html)
    }

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
    fn as_known_now(&self, link: Link) -> Link {
        let mut link = self.suspended.applied(link);
        let judged =
            link.judged == ModerationSource::Screen && link.standing != ModerationStatus::Blocked;
        if judged && link.targets().any(|target| self.screen.blocks(target)) {
            link.standing = ModerationStatus::Blocked;
        }
        link
    }

    async fn spend(&self, key: &LinkKey) -> Result<ClickSpend, StoreError> {
        let deadline = Instant::now() + self.settings.store_timeout;
        match timeout_at(deadline, self.spender.spend(key)).await {
            Ok(outcome) => outcome,
            Err(elapsed) => Err(StoreError::Unavailable(elapsed.into())),
        }
    }

    fn key(&self, domain: u16, code: &[u8]) -> Option<LinkKey> {
        let code = Code::parse(std::str::from_utf8(code).ok()?)?;
        Some(LinkKey { domain: self.hosts.name(domain).clone(), code })
    }

    /// At most once a second: a store that is away is met by every miss.
    fn complain(&self, error: &StoreError) {
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

    /// Adds what was counted off the fast path.
    pub fn add_counts(&self, to: &mut Snapshot) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        to.redirected += read(&self.slow.redirected);
        to.not_found += read(&self.slow.not_found);
        to.never_issued += read(&self.slow.never_issued);
        to.gone += read(&self.slow.gone);
        to.blocked += read(&self.slow.blocked);
        to.limited += read(&self.slow.limited);
        to.warned += read(&self.slow.warned);
        to.asked += read(&self.slow.asked);
        to.unavailable += read(&self.slow.unavailable);
        to.stale += read(&self.slow.stale);
        to.hits += read(&self.slow.hits);
        to.misses += read(&self.slow.misses);
        to.refreshes += read(&self.slow.refreshes);
    }
}

impl RouteCache for Redirector {
    fn forget(&self, key: &LinkKey) {
        let Some(domain) = self.hosts.number(&key.domain) else { return };
        let code = key.code.as_str().as_bytes();
        self.single_flight.invalidate(self.routes.name(domain, code), &self.routes);
    }

    fn forget_all(&self) {
        // In this order: a look-up that began before is not remembered, and what was remembered
        // before that is removed below.
        self.single_flight.invalidate_all();
        self.routes.remove_where(|_| true);
    }
}

fn warn(code: &Code) -> Answer {
    Answer { reply: Reply::Warning(code.clone()), fate: VisitFate::Warned }
}

fn ask(code: &Code) -> Answer {
    Answer { reply: Reply::Password(code.clone()), fate: VisitFate::Asked }
}

/// Whether the visitor has shown to know this link's password.
fn knows(visitor: &Visitor<'_>, link: &Link) -> bool {
    visitor.knows.is_some() && visitor.knows == link.password.as_ref()
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
