//! Answers visits on behalf of the HTTP fallback.

use std::net::IpAddr;
use std::rc::Rc;

use terse_core::Answered;

use crate::clicks::Visit;
use crate::client_addr::ClientAddr;
use crate::connection::ServingThread;
use crate::redirector::{Reply, VisitMethod, VisitResult, Visitor};
use crate::transport_security::should_redirect_to_https;
use crate::visitor_headers::VisitorHeaders;

/// Answers the visit of one request, on the thread that serves its connection. It writes the visit
/// to the journal before it returns the reply.
#[derive(Clone)]
pub struct VisitHandler {
    thread: Rc<ServingThread>,
    client_addr: ClientAddr,
    arrived_nanos: i64,
}

impl VisitHandler {
    /// For a request that arrives now.
    pub(crate) fn new(thread: Rc<ServingThread>, client_addr: ClientAddr) -> Self {
        let arrived_nanos = thread.redirector.steady_nanos();
        Self { thread, client_addr, arrived_nanos }
    }

    /// The client of a request with these headers: the peer, or the address that a trusted proxy
    /// names.
    pub fn client(&self, headers: &http::HeaderMap) -> IpAddr {
        self.client_addr
            .client(&self.thread.redirector.settings.proxies, &VisitorHeaders::of(headers))
    }

    /// Whether the connection is that of a trusted proxy.
    pub(crate) fn is_trusted_proxy(&self) -> bool {
        self.client_addr.is_trusted_proxy()
    }

    /// Whether the visitor should use https and does not: the request came over the listener
    /// without TLS, and no trusted proxy says that the visitor has https.
    pub fn should_redirect_to_https(&self, headers: &http::HeaderMap) -> bool {
        self.thread.redirector.settings.https_only
            && should_redirect_to_https(headers, &self.client_addr)
    }

    /// Answers from memory, or returns `None`. A plain `fn`, so that the compiler keeps `.await`
    /// out of the path that almost every visit takes. Pages of the web plane are not counted here
    /// but in [`VisitHandler::answer`].
    pub fn answer_now(&self, visitor: Visitor<'_>) -> Option<Reply> {
        let answer = self.thread.redirector.answer_now(&visitor, self.client_addr)?;
        // `answer` makes the page again, and records that it was seen.
        match answer.answered {
            Answered::Warned => Some(answer.reply),
            _ => Some(self.record(answer, &visitor)),
        }
    }

    /// Answers from memory or after asking the store.
    pub async fn answer(&self, visitor: Visitor<'_>) -> Reply {
        let answer = self.thread.redirector.answer(&visitor, self.client_addr).await;
        // A form that is sent from the page is not another view of it.
        match answer.answered {
            Answered::Warned if visitor.method == VisitMethod::Post => answer.reply,
            _ => self.record(answer, &visitor),
        }
    }

    /// Writes the visit to the journal and returns the reply.
    fn record(&self, answer: VisitResult, visitor: &Visitor<'_>) -> Reply {
        let VisitResult { reply, answered, link } = answer;
        // After a password form the time includes hashing the password, which says nothing about
        // redirects.
        if matches!(reply, Reply::Response(_)) && visitor.password.is_none() {
            let took = self.thread.redirector.steady_nanos() - self.arrived_nanos;
            self.thread.counts.count_latency(took, 1);
            self.thread.redirector.note_if_slow(self.arrived_nanos, visitor.code);
        }
        let Some(clicks) = &self.thread.clicks else { return reply };
        let code = link.as_ref().and_then(|link| link.canonical_code.as_ref());
        let redirector = &self.thread.redirector;
        clicks.write(&Visit {
            answered,
            owner: link.as_ref().map_or(0, |link| link.owner),
            created_ms: link.as_ref().map_or(0, |link| link.created_ms),
            domain: redirector.hosts.name(visitor.domain),
            code: code.map_or(visitor.code, |code| code.as_str()).as_bytes(),
            query: visitor.query,
            headers: &visitor.headers,
            client_addr: &self.client_addr,
            redirector,
            arrived_nanos: self.arrived_nanos,
            wall_offset_micros: self.thread.wall_offset_micros.get(),
        });
        reply
    }
}
