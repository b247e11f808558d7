//! Where the front door brings visitors that the fast path left alone.

use std::net::IpAddr;
use std::rc::Rc;

use terse_core::clicks::Outcome;

use crate::clicks::Visited;
use crate::connection::Thread;
use crate::origin::Origin;
use crate::redirector::{Answer, Fate, Reply, Visitor};
use crate::seen::Seen;

/// Answers the visitors of one request on the thread that serves it, and has each written down before the answer is given out.
#[derive(Clone)]
pub struct Desk {
    thread: Rc<Thread>,
    origin: Origin,
    arrived_micros: i64,
}

impl Desk {
    /// For a request that arrives now.
    pub(crate) fn new(thread: Rc<Thread>, origin: Origin) -> Self {
        let arrived_micros = if thread.clicks.is_some() { thread.redirector.now_micros() } else { 0 };
        Self { thread, origin, arrived_micros }
    }

    /// Whom a request with these fields is from: whoever connected, or whom a proxy of ours names.
    pub fn client(&self, headers: &http::HeaderMap) -> IpAddr {
        self.origin.client(&self.thread.redirector.settings.proxies, &Seen::of(headers))
    }

    /// Answers from memory or not at all. A plain `fn` on purpose: the compiler keeps `.await` out of the path almost every
    /// visitor takes. A warning, or asking for a password, is not counted until [`Desk::answer`] gives it.
    pub fn answer_now(&self, visitor: Visitor<'_>) -> Option<Reply> {
        let answer = self.thread.redirector.answer_now(&visitor, self.origin)?;
        Some(self.give(answer, &visitor))
    }

    /// Answers from memory or after asking the store.
    pub async fn answer(&self, visitor: Visitor<'_>) -> Reply {
        let answer = self.thread.redirector.answer(&visitor, self.origin).await;
        self.give(answer, &visitor)
    }

    fn give(&self, answer: Answer, visitor: &Visitor<'_>) -> Reply {
        let Answer { reply, fate } = answer;
        let Some(clicks) = &self.thread.clicks else { return reply };
        let (outcome, owner, born_ms, spelled) = match fate {
            Fate::Went { owner, born_ms, spelled } => (Outcome::Redirected, owner, born_ms, spelled),
            Fate::Failed(failure) => match failure.outcome() {
                Some(outcome) => (outcome, 0, 0, None),
                None => return reply,
            },
            Fate::Warned | Fate::Asked => return reply,
        };
        let redirector = &self.thread.redirector;
        clicks.write(&Visited {
            outcome,
            owner,
            born_ms,
            domain: redirector.hosts.name(visitor.domain),
            code: spelled.as_ref().map_or(visitor.code, |code| code.as_str()).as_bytes(),
            query: visitor.query,
            seen: &visitor.seen,
            origin: &self.origin,
            proxies: &redirector.settings.proxies,
            now_micros: redirector.now_micros(),
            arrived_micros: self.arrived_micros,
        });
        reply
    }
}
