//! A visit that the fast path leaves to hyper, and its reply.

use bytes::Bytes;
use http::{Method, Request, Response, header};
use terse_core::clicks::RequestFlags;
use terse_core::{Code, PasswordHash};

use crate::error_responses::Failure;
use crate::fast_path::accepts_html;
use crate::visitor_headers::VisitorHeaders;

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
