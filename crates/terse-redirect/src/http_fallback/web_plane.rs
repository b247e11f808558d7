//! The trait through which the fallback calls the API and the pages.

use std::net::IpAddr;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use hyper::body::Body;
use terse_core::{Code, PageLanguage, PasswordHash};

use super::RequestBody;

/// The API and the pages: answers every request that is not a redirect, and decides about visits
/// of links with a password. Its futures run on a runtime of their own, where slow requests do not
/// delay visitors.
pub trait WebPlane: Send + Sync + 'static {
    /// The body of its responses.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Unpin
        + Send
        + 'static;

    /// Answers a request. `forwarded_query` is the query of a visit that the warning page shows.
    fn answer(
        &self,
        request: Request<RequestBody>,
        client: IpAddr,
        forwarded_query: Option<String>,
    ) -> impl Future<Output = Response<Self::Body>> + Send + 'static;

    /// The answer to a request that is refused: a page in this language, or a problem document.
    fn refuse(
        &self,
        rejected: &RejectedRequest,
        page: Option<PageLanguage>,
    ) -> Response<Self::Body>;

    /// The answer to the challenge of a certificate authority that has this token; `None` if there
    /// is no such challenge.
    fn challenge_answer(&self, token: &str) -> Option<Bytes>;

    /// Completes a response that [`WebPlane::answer`] did not make. `request_id` is the id that the
    /// request had in `X-Request-Id`.
    fn complete(
        &self,
        method: &Method,
        request_id: Option<HeaderValue>,
        response: &mut Response<Self::Body>,
    );

    /// Whether the pass is one that the warning page of this link gave to this visitor.
    fn has_warning_pass(&self, visit: &PasswordVisit, pass: &str) -> bool;

    /// Decides about a visit of a link with a password, by the visitor's cookies.
    fn check_cookie(
        &self,
        visit: PasswordVisit,
    ) -> impl Future<Output = PasswordDecision<Self::Body>> + Send + 'static;

    /// Decides about a password that the password form sent.
    fn check_password(
        &self,
        visit: PasswordVisit,
        form: RequestBody,
    ) -> impl Future<Output = PasswordDecision<Self::Body>> + Send + 'static;
}

/// A request that is refused before routing.
#[derive(Clone, Debug)]
pub struct RejectedRequest {
    /// The status.
    pub status: StatusCode,
    /// The stable code.
    pub code: &'static str,
    /// What is wrong.
    pub detail: String,
}

impl RejectedRequest {
    pub(super) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into() }
    }
}

/// A visit of a link that has a password.
#[derive(Clone, Debug)]
pub struct PasswordVisit {
    /// The link's own code, even if the path has another spelling.
    pub code: Code,
    /// The URI as requested.
    pub uri: Uri,
    /// All headers of the request.
    pub headers: HeaderMap,
    /// The client's address.
    pub client: IpAddr,
    /// Whether the client prefers a page to a problem document.
    pub html: bool,
}

/// The decision about a visit of a link that has a password.
#[derive(Debug)]
pub enum PasswordDecision<B> {
    /// The visitor knows the password.
    Open {
        /// The hash of that password. The link may have another password by now.
        knows: PasswordHash,
        /// The pass to set as a cookie, if the visitor has just entered the password.
        pass: Option<HeaderValue>,
    },
    /// The link stays closed; send this response.
    Closed(Response<B>),
    /// No such link, or a link without a password.
    NoPassword,
}
