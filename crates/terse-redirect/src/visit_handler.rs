//! Where the front door brings visitors that the fast path left alone.

use std::net::IpAddr;
use std::rc::Rc;

use terse_core::clicks::ClickOutcome;

use crate::clicks::Visited;
use crate::client_addr::ClientAddr;
use crate::connection::Thread;
use crate::redirector::{Answer, Reply, VisitFate, Visitor};
use crate::visitor_headers::VisitorHeaders;

/// Answers the visitors of one request on the thread that serves it, and has each written down
/// before the answer is given out.
#[derive(Clone)]
pub struct VisitHandler {
    thread: Rc<Thread>,
    client_addr: ClientAddr,
    arrived_micros: i64,
}

impl VisitHandler {
    /// For a request that arrives now.
    pub(crate) fn new(thread: Rc<Thread>, client_addr: ClientAddr) -> Self {
        let arrived_micros =
            if thread.clicks.is_some() { thread.redirector.now_micros() } else { 0 };
        Self { thread, client_addr, arrived_micros }
    }

    /// Whom a request with these fields is from: whoever connected, or whom a proxy of ours names.
    pub fn client(&self, headers: &http::HeaderMap) -> IpAddr {
        self.client_addr
            .client(&self.thread.redirector.settings.proxies, &VisitorHeaders::of(headers))
    }

    /// Answers from memory or not at all. A plain `fn` on purpose: the compiler keeps `.await` out
    /// of the path almost every visitor takes. A warning, or asking for a password, is not counted
    /// until [`VisitHandler::answer`] gives it.
    pub fn answer_now(&self, visitor: Visitor<'_>) -> Option<Reply> {
        let answer = self.thread.redirector.answer_now(&visitor, self.client_addr)?;
        Some(self.give(answer, &visitor))
    }

    /// Answers from memory or after asking the store.
    pub async fn answer(&self, visitor: Visitor<'_>) -> Reply {
        let answer = self.thread.redirector.answer(&visitor, self.client_addr).await;
        self.give(answer, &visitor)
    }

    fn give(&self, answer: Answer, visitor: &Visitor<'_>) -> Reply {
        let Answer { reply, fate } = answer;
        let Some(clicks) = &self.thread.clicks else { return reply };
        let (outcome, owner, born_ms, canonical_code) = match fate {
            VisitFate::Went { owner, born_ms, canonical_code } => {
                (ClickOutcome::Redirected, owner, born_ms, canonical_code)
            }
            VisitFate::Failed(failure) => match failure.outcome() {
                Some(outcome) => (outcome, 0, 0, None),
                None => return reply,
            },
            VisitFate::Warned | VisitFate::Asked => return reply,
        };
        let redirector = &self.thread.redirector;
        clicks.write(&Visited {
            outcome,
            owner,
            born_ms,
            domain: redirector.hosts.name(visitor.domain),
            code: canonical_code.as_ref().map_or(visitor.code, |code| code.as_str()).as_bytes(),
            query: visitor.query,
            seen: &visitor.seen,
            client_addr: &self.client_addr,
            proxies: &redirector.settings.proxies,
            now_micros: redirector.now_micros(),
            arrived_micros: self.arrived_micros,
        });
        reply
    }
}
