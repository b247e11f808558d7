//! Answers visits, from memory or after asking the store.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode, header};
use terse_core::{ClickSpend, Code, Link, LinkKey, RouteCache as _, StoreError, Timestamp, Visit};
use tokio::time::{Instant, timeout_at};

use super::lookup::Resolved;
use super::visitor::{Answer, Reply, VisitFate, Visitor};
use super::{Redirector, count};
use crate::client_addr::ClientAddr;
use crate::error_responses::Failure;
use crate::route::{Kind, Route, redirect_response};
use crate::settings::ErrorStyle;

impl Redirector {
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

    async fn spend(&self, key: &LinkKey) -> Result<ClickSpend, StoreError> {
        let deadline = Instant::now() + self.settings.store_timeout;
        match timeout_at(deadline, self.spender.spend(key)).await {
            Ok(outcome) => outcome,
            Err(elapsed) => Err(StoreError::Unavailable(elapsed.into())),
        }
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
