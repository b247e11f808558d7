//! Answers visits, from memory or after asking the store.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode, header};
use terse_core::clicks::RequestFlags;
use terse_core::{
    Answered, ClickSpend, ExceededLimit, Link, LinkKey, ModerationStatus, PageLanguage,
    RouteCache as _, StoreError, VisitDecision,
};
use tokio::time::{Instant, timeout_at};

use super::Redirector;
use super::visitor::{FollowedLink, Reply, VisitMethod, VisitResult, Visitor};
use crate::client_addr::ClientAddr;
use crate::counts::Counter as _;
use crate::edge;
use crate::now::ClockReading;
use crate::route::{Route, redirect_response};
use crate::settings::ErrorStyle;
use crate::social_preview::preview_response;

impl Redirector {
    /// Answers a visit from memory, or returns `None`. A plain `fn`, so that the compiler keeps
    /// `.await` out of the path that almost every visit takes.
    pub(crate) fn answer_now(
        self: &Arc<Self>,
        visitor: &Visitor<'_>,
        client_addr: ClientAddr,
    ) -> Option<VisitResult> {
        let now = self.now();
        let name = self.routes.name(visitor.domain, visitor.code.as_bytes());
        let answer = self.routes.with(name, visitor.domain, visitor.code.as_bytes(), |route| {
            let answer = self
                .is_fresh(route, now)
                .then(|| self.answer_from_route(route, visitor, client_addr, now))
                .flatten()?;
            if route.wants_refresh(now) {
                self.refresh_soon(route);
            }
            Some(answer)
        });
        answer.flatten().inspect(|_| self.counts.hits.add(1))
    }

    /// Answers a visit, from memory or after asking the store.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        visitor: &Visitor<'_>,
        client_addr: ClientAddr,
    ) -> VisitResult {
        let answer = match self.answer_now(visitor, client_addr) {
            Some(answer) => answer,
            None => self.look_up_and_answer(visitor, client_addr).await,
        };
        // Other answers are counted where they are made. `answer_now` and this function both make a
        // page for one visit; it is counted here only. A visitor who sends a password is not
        // counted as asked for one.
        let asks = visitor.method != VisitMethod::Post;
        if asks && let Answered::Warned | Answered::PasswordAsked = answer.answered {
            self.counts.count(answer.answered);
        }
        answer
    }

    /// Answers a visit that leaves no click, for tests.
    #[doc(hidden)]
    pub async fn answer_uncounted(self: &Arc<Self>, visitor: Visitor<'_>) -> Reply {
        let unknown =
            ClientAddr::new(std::net::Ipv4Addr::UNSPECIFIED.into(), &self.settings.proxies);
        self.answer(&visitor, unknown).await.reply
    }

    /// The same, with the owner and the creation time of the link that a redirect followed: what a
    /// journal records of it.
    #[doc(hidden)]
    pub async fn answer_for_journal(
        self: &Arc<Self>,
        visitor: Visitor<'_>,
    ) -> (Reply, Option<(u64, i64)>) {
        let unknown =
            ClientAddr::new(std::net::Ipv4Addr::UNSPECIFIED.into(), &self.settings.proxies);
        let VisitResult { reply, answered, link } = self.answer(&visitor, unknown).await;
        let followed = link.filter(|_| answered == Answered::Redirected);
        (reply, followed.map(|link| (link.owner, link.created_ms)))
    }

    async fn look_up_and_answer(
        self: &Arc<Self>,
        visitor: &Visitor<'_>,
        client_addr: ClientAddr,
    ) -> VisitResult {
        let now = self.now();
        let name = self.routes.name(visitor.domain, visitor.code.as_bytes());
        let cached = self.routes.with(name, visitor.domain, visitor.code.as_bytes(), Route::clone);
        let route = match cached.filter(|route| self.is_fresh(route, now)) {
            Some(route) => {
                self.counts.hits.add(1);
                route
            }
            None => match self.look_up(visitor.domain, visitor.code.as_bytes()).await {
                Ok(route) => route,
                Err(_) => return self.fail(Answered::Unavailable, visitor),
            },
        };
        match self.answer_from_route(&route, visitor, client_addr, now) {
            Some(answer) => answer,
            None => self.answer_after_waiting(&route, visitor, client_addr, now).await,
        }
    }

    /// The answer that a route alone can give. `None` if the store has to spend a click, or if the
    /// classifier is not ready for the link's rules or its preview.
    fn answer_from_route(
        &self,
        route: &Route,
        visitor: &Visitor<'_>,
        client_addr: ClientAddr,
        now: ClockReading,
    ) -> Option<VisitResult> {
        let (mut decision, link) = (route.head().decision, route.head().link.as_deref());
        if visitor.past_warning
            && decision == VisitDecision::Warning
            && let Some(link) = link
        {
            // What the link would do without the warning.
            let clear = Link { moderation: ModerationStatus::Clear, ..link.clone() };
            decision = VisitDecision::of(&clear, now.wall());
        }
        if let VisitMethod::Post | VisitMethod::Other = visitor.method {
            match other_method(route, visitor) {
                OtherMethod::LikeGet => {}
                OtherMethod::Form(link) => {
                    return Some(VisitResult::page(Answered::PasswordAsked, link));
                }
                OtherMethod::Refused => return Some(VisitResult::wrong_method()),
            }
        }
        let redirects = match (decision, link) {
            (VisitDecision::Redirect, _) => true,
            (
                VisitDecision::RedirectWithQuery
                | VisitDecision::RedirectByRules
                | VisitDecision::RedirectOrPreview,
                Some(_),
            ) => true,
            (VisitDecision::RedirectIfSpent, Some(_)) => return None,
            (VisitDecision::Password, Some(link)) if visitor.has_password_of(link) => {
                if link.max_clicks.is_some() {
                    return None;
                }
                true
            }
            _ => false,
        };
        if redirects {
            if link.is_some_and(|link| !self.rules.is_ready(link)) {
                return None;
            }
            if let Some(limit) = self.exceeded_limit(route, visitor, client_addr, now) {
                return Some(self.fail(Answered::Limited(limit), visitor));
            }
        }
        Some(match (decision, link) {
            (VisitDecision::Redirect, _) if !visitor.past_warning => {
                self.redirect_as_prepared(route)
            }
            (_, Some(link)) if redirects => self.redirect(link, visitor, client_addr, now),
            (VisitDecision::Warning, Some(link)) => VisitResult::page(Answered::Warned, link),
            (VisitDecision::Password, Some(link)) => {
                VisitResult::page(Answered::PasswordAsked, link)
            }
            (VisitDecision::Gone, _) => self.fail(Answered::Gone, visitor),
            (VisitDecision::UsedUp, _) => self.fail(Answered::UsedUp, visitor),
            (VisitDecision::Blocked, _) => self.fail(Answered::Blocked, visitor),
            _ => {
                let client = || client_addr.client(&self.settings.proxies, &visitor.headers);
                let limit = self.limiter.count_unknown_code(client, now.steady_ms);
                self.fail(limit.map_or(Answered::NotFound, Answered::Limited), visitor)
            }
        })
    }

    /// Counts a redirect against the limits, and returns the limit that it exceeds.
    fn exceeded_limit(
        &self,
        route: &Route,
        visitor: &Visitor<'_>,
        client_addr: ClientAddr,
        now: ClockReading,
    ) -> Option<ExceededLimit> {
        if !self.limiter.limits_redirects {
            return None;
        }
        self.limiter.redirect(
            client_addr.client(&self.settings.proxies, &visitor.headers),
            self.number_of(route),
            now.steady_ms,
        )
    }

    /// A number for the link of a route. All spellings of its code have the same number.
    pub(crate) fn number_of(&self, route: &Route) -> u64 {
        let code = route.canonical_code().map_or(route.code(), |code| code.as_str().as_bytes());
        self.routes.name(route.head().domain, code)
    }

    /// The answer for a link with limited clicks, or with rules or a preview that the classifier
    /// was not ready for.
    async fn answer_after_waiting(
        &self,
        route: &Route,
        visitor: &Visitor<'_>,
        client_addr: ClientAddr,
        now: ClockReading,
    ) -> VisitResult {
        // The limits come before the spend: a visitor who is refused spends no click.
        if let Some(limit) = self.exceeded_limit(route, visitor, client_addr, now) {
            return self.fail(Answered::Limited(limit), visitor);
        }
        let Some(link) = route.head().link.as_deref() else {
            return self.fail(Answered::NotFound, visitor);
        };
        self.rules.prepare(link).await;
        if link.max_clicks.is_none() {
            return self.redirect(link, visitor, client_addr, now);
        }
        // Only a visit spends a click. The client repeats the request when the visitor follows.
        if visitor.headers.flags.has(RequestFlags::PREFETCH) {
            return self.fail(Answered::PrefetchRefused, visitor);
        }
        if visitor.method == VisitMethod::Head {
            return self.answer_without_spending(link, visitor, client_addr).await;
        }
        match self.spend(&link.key).await {
            Ok(ClickSpend::Yes) => self.redirect(link, visitor, client_addr, now),
            Ok(ClickSpend::UsedUp) => {
                self.forget(&link.key);
                self.fail(Answered::UsedUp, visitor)
            }
            Ok(ClickSpend::Missing) => {
                self.forget(&link.key);
                self.fail(Answered::NotFound, visitor)
            }
            Err(error) => {
                self.warn_about(&error);
                self.fail(Answered::Unavailable, visitor)
            }
        }
    }

    /// The answer to HEAD of a link with limited clicks. Only the store knows how many are left.
    async fn answer_without_spending(
        &self,
        link: &Link,
        visitor: &Visitor<'_>,
        client_addr: ClientAddr,
    ) -> VisitResult {
        let deadline = Instant::now() + self.settings.store_timeout;
        let link = match timeout_at(deadline, self.reader.get(&link.key)).await {
            Ok(Ok(Some(link))) => self.as_known_now(link),
            Ok(Ok(None)) => return self.fail(Answered::NotFound, visitor),
            Ok(Err(_)) | Err(_) => return self.fail(Answered::Unavailable, visitor),
        };
        match VisitDecision::of(&link, self.now().wall()) {
            VisitDecision::Password if !visitor.has_password_of(&link) => {
                VisitResult::page(Answered::PasswordAsked, &link)
            }
            VisitDecision::Redirect
            | VisitDecision::RedirectWithQuery
            | VisitDecision::RedirectByRules
            | VisitDecision::RedirectOrPreview
            | VisitDecision::RedirectIfSpent
            | VisitDecision::Password => self.redirect(&link, visitor, client_addr, self.now()),
            VisitDecision::Warning => VisitResult::page(Answered::Warned, &link),
            VisitDecision::Gone => self.fail(Answered::Gone, visitor),
            VisitDecision::UsedUp => self.fail(Answered::UsedUp, visitor),
            VisitDecision::Blocked => self.fail(Answered::Blocked, visitor),
            VisitDecision::NotFound => self.fail(Answered::NotFound, visitor),
        }
    }

    async fn spend(&self, key: &LinkKey) -> Result<ClickSpend, StoreError> {
        let deadline = Instant::now() + self.settings.store_timeout;
        match timeout_at(deadline, self.spender.spend(key)).await {
            Ok(spent) => spent,
            Err(elapsed) => Err(StoreError::Unavailable(elapsed.into())),
        }
    }

    /// The prepared redirect of a route.
    fn redirect_as_prepared(&self, route: &Route) -> VisitResult {
        self.counts.count(Answered::Redirected);
        let link = FollowedLink {
            owner: route.head().owner,
            created_ms: route.head().created_ms,
            canonical_code: route.canonical_code().cloned(),
        };
        VisitResult {
            reply: Reply::Response(route.response()),
            answered: Answered::Redirected,
            link: Some(link),
        }
    }

    /// The redirect of a link for this visitor, by its rules and with the query. A preview fetcher
    /// gets the link's own preview instead.
    fn redirect(
        &self,
        link: &Link,
        visitor: &Visitor<'_>,
        client_addr: ClientAddr,
        now: ClockReading,
    ) -> VisitResult {
        let canonical_code =
            (link.key.code.as_str() != visitor.code).then(|| link.key.code.clone());
        let created_ms = link.created_at.as_ms();
        let followed = Some(FollowedLink { owner: link.owner.0, created_ms, canonical_code });
        if let Some(preview) = self.rules.preview_for(link, visitor) {
            self.counts.count(Answered::Previewed);
            let reply = Reply::Response(preview_response(preview));
            return VisitResult { reply, answered: Answered::Previewed, link: followed };
        }
        self.counts.count(Answered::Redirected);
        if visitor.past_warning {
            self.counts.went_on.add(1);
        }
        let now = now.wall();
        let client = || client_addr.client(&self.settings.proxies, &visitor.headers);
        let target = self.rules.target(link, visitor, client, now);
        let location = match visitor.query.filter(|query| link.forward_query && !query.is_empty()) {
            Some(query) => target.with_query(query),
            None => target.as_str().to_owned(),
        };
        let response = redirect_response(link, &location, now, &self.settings);
        VisitResult {
            reply: Reply::Response(response),
            answered: Answered::Redirected,
            link: followed,
        }
    }

    /// Any other answer.
    fn fail(&self, answered: Answered, visitor: &Visitor<'_>) -> VisitResult {
        self.counts.count(answered);
        let response = self.failure_response(answered, visitor);
        VisitResult { reply: Reply::Response(response), answered, link: None }
    }

    fn failure_response(&self, answered: Answered, visitor: &Visitor<'_>) -> Response<Bytes> {
        if let Some(fallback) = self.fallbacks.response(visitor.domain, answered, visitor.code) {
            return fallback;
        }
        let has_page = !matches!(
            answered,
            Answered::Unavailable | Answered::Limited(_) | Answered::PrefetchRefused
        );
        if has_page && self.settings.errors == ErrorStyle::Page {
            let location = format!("/r/{}?error={}", visitor.code, answered.as_str());
            let response = Response::builder()
                .status(StatusCode::FOUND)
                .header(header::LOCATION, location)
                .header(header::CACHE_CONTROL, "private, max-age=0, no-store")
                .header("x-robots-tag", "noindex")
                .header(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*")
                .header(header::CONTENT_LENGTH, "0")
                .body(Bytes::new());
            if let Ok(response) = response {
                return response;
            }
        }
        let page = visitor.html.then(|| PageLanguage::preferred(visitor.headers.languages));
        let mut response =
            self.error_responses.with(|responses| responses.response(answered, page));
        let domain = self.hosts.name(visitor.domain);
        edge::tag_missing(&mut response, answered, domain.as_str(), visitor.code, &self.settings);
        response
    }
}

/// What a request with a method other than GET and HEAD gets.
enum OtherMethod<'a> {
    /// The answer that GET gets: the link has 307 or 308, or cannot be followed.
    LikeGet,
    /// The web plane reads the password form.
    Form(&'a Link),
    /// 405.
    Refused,
}

fn other_method<'a>(route: &'a Route, visitor: &Visitor<'_>) -> OtherMethod<'a> {
    let head = route.head();
    if let VisitDecision::NotFound
    | VisitDecision::Gone
    | VisitDecision::UsedUp
    | VisitDecision::Blocked = head.decision
    {
        return OtherMethod::LikeGet;
    }
    let locked = head.link.as_deref().filter(|link| link.password.is_some());
    match locked {
        Some(link) if visitor.method == VisitMethod::Post && visitor.password.is_none() => {
            OtherMethod::Form(link)
        }
        // The visitor has sent the form, and is redirected with 303.
        Some(_) if visitor.method == VisitMethod::Post => OtherMethod::LikeGet,
        _ if route.keeps_method() => OtherMethod::LikeGet,
        _ => OtherMethod::Refused,
    }
}
