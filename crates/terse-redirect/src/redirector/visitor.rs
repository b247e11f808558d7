//! A visit that the fast path leaves to hyper, and its reply.

use bytes::Bytes;
use http::{Method, Request, Response, header};
use terse_core::clicks::RequestFlags;
use terse_core::{Answered, Code, Link, PasswordHash};

use crate::fast_path::accepts_html;
use crate::visitor_headers::VisitorHeaders;

/// The method of a request for a link.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum VisitMethod {
    /// GET.
    #[default]
    Get,
    /// HEAD, which spends no click.
    Head,
    /// POST: the password form, or a request for a link with 307 or 308.
    Post,
    /// Any other method: a request for a link with 307 or 308.
    Other,
}

/// A request for a link.
#[derive(Clone, Copy, Debug)]
pub struct Visitor<'a> {
    /// The number of the domain.
    pub domain: u16,
    /// The path, which has the shape of a code.
    pub code: &'a str,
    /// The query, without the question mark.
    pub query: Option<&'a str>,
    /// Whether the client prefers an HTML page to a problem document.
    pub html: bool,
    /// The method of the request.
    pub method: VisitMethod,
    /// Whether the visitor has seen the warning page and goes on.
    pub past_warning: bool,
    /// The hash of the password that the visitor has proven to know. It opens a link as long as the
    /// link has the same hash.
    pub password: Option<&'a PasswordHash>,
    /// The headers that a click records.
    pub headers: VisitorHeaders<'a>,
}

impl<'a> Visitor<'a> {
    /// The visitor who sent a request.
    pub fn of<B>(request: &'a Request<B>, domain: u16, code: &'a str) -> Self {
        let method = match *request.method() {
            Method::GET => VisitMethod::Get,
            Method::HEAD => VisitMethod::Head,
            Method::POST => VisitMethod::Post,
            _ => VisitMethod::Other,
        };
        let mut headers = VisitorHeaders::of(request.headers());
        headers.flags = headers.flags.with(RequestFlags::HEAD, method == VisitMethod::Head);
        let html = request
            .headers()
            .get_all(header::ACCEPT)
            .iter()
            .any(|accept| accepts_html(accept.as_bytes()));
        let query = request.uri().query();
        Self { domain, code, query, html, method, past_warning: false, password: None, headers }
    }

    /// The same visitor, who has seen the warning page and goes on. `query` is the part of the
    /// query that came with the visit.
    #[must_use]
    pub fn past_warning(self, query: Option<&'a str>) -> Self {
        let mut headers = self.headers;
        headers.flags = headers.flags.with(RequestFlags::WENT_ON, true);
        Self { past_warning: true, query, headers, ..self }
    }

    /// Whether the visitor has proven to know this link's password.
    pub(super) fn has_password_of(&self, link: &Link) -> bool {
        self.password.is_some() && self.password == link.password.as_ref()
    }
}

/// The reply to a visit.
#[derive(Debug)]
pub enum Reply {
    /// A complete response.
    Response(Response<Bytes>),
    /// The web plane renders a page for the link with this code: the warning page for
    /// [`Answered::Warned`], the password form for [`Answered::PasswordAsked`]. In loose mode the
    /// link's own code can differ from the requested one.
    Page(Answered, Code),
    /// 405: the link redirects GET and HEAD only. The visit counts as nothing.
    WrongMethod,
}

/// A reply, and what the journal records of it.
pub(crate) struct VisitResult {
    pub(crate) reply: Reply,
    pub(crate) answered: Answered,
    /// The link that a redirect followed.
    pub(crate) link: Option<FollowedLink>,
}

impl VisitResult {
    /// A request with a method that the link does not redirect.
    pub(super) fn wrong_method() -> Self {
        Self { reply: Reply::WrongMethod, answered: Answered::WrongMethod, link: None }
    }

    /// A page of the web plane.
    pub(super) fn page(answered: Answered, link: &Link) -> Self {
        let link_followed = FollowedLink {
            owner: link.owner.0,
            created_ms: link.created_at.as_ms(),
            canonical_code: Some(link.key.code.clone()),
        };
        Self {
            reply: Reply::Page(answered, link.key.code.clone()),
            answered,
            link: Some(link_followed),
        }
    }
}

/// What a click records of its link.
pub(crate) struct FollowedLink {
    pub(crate) owner: u64,
    pub(crate) created_ms: i64,
    /// The link's own code, if the requested code differs from it by case.
    pub(crate) canonical_code: Option<Code>,
}
