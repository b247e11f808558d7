//! Problems of requests that do not reach the router: those that are refused before it, and those
//! about the password of a link.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::problem::ProblemBody;
use super::request_id::{self, RequestId};

/// The problem of a request that is refused before routing. [`name_problem`] completes it.
pub(crate) fn refusal(status: StatusCode, code: &'static str, detail: &str) -> Response {
    let problem = ProblemBody::undocumented(status, code, detail.to_owned());
    let kind = [(header::CONTENT_TYPE, "application/problem+json")];
    let mut response = (status, kind, problem.text()).into_response();
    response.extensions_mut().insert(problem);
    response
}

/// If the response is a problem that the router did not make, writes the id of the request into it
/// and into `X-Request-Id`, and returns the id. `sent` is the id that the request had; without
/// one, it gets a new one.
pub fn name_problem(response: &mut Response, sent: Option<HeaderValue>) -> Option<String> {
    let problem = response.extensions_mut().remove::<ProblemBody>()?;
    let sent: HeaderMap = sent.into_iter().map(|id| (request_id::HEADER, id)).collect();
    let id = RequestId::of(&sent);
    *response.body_mut() = problem.with_id(&id).text().into();
    response.headers_mut().extend(id.header().map(|id| (request_id::HEADER, id)));
    Some(id.as_str().to_owned())
}
