//! Forms: what a browser sends, and how one is shown again.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use terse_core::Domain;

use super::{Message, html, message, page};
use crate::api::problem::{INVALID_REQUEST, Problem, UNSUPPORTED_MEDIA_TYPE};
use crate::api::request::{Params, SMALL, read};
use crate::limits;
use crate::principal::is_ours;
use crate::router::AppState;

const FOREIGN: Message = Message {
    status: 403,
    heading: "This came from another site",
    text: "Another website tried to do something here in your name. We did not let it.",
    hint: "If you meant to do it, start from our own page.",
};

/// What is wrong with a form: the field, and the words for people.
pub(super) type Wrong = (&'static str, String);

/// The fields of a form.
pub(super) async fn fields(headers: &HeaderMap, body: Body) -> Result<Params, Problem> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(Problem::new(&UNSUPPORTED_MEDIA_TYPE, "this is not what our form sends"));
    }
    let bytes = read(body, SMALL).await?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| Problem::new(&INVALID_REQUEST, "this is not what our form sends"))?;
    Params::parse(text)
}

/// The fields of a form that only a page of ours may send, because of what it does: in somebody's
/// name, or to their cookies. A browser that says nothing about who asks is refused too.
pub(super) async fn own_fields(
    state: &AppState,
    headers: &HeaderMap,
    body: Body,
) -> Result<Params, Response> {
    if !is_ours(headers) && !names_base(state, headers) {
        return Err(message(&FOREIGN));
    }
    fields(headers, body).await.map_err(|problem| refusal(&problem))
}

/// Behind a proxy that renames us, browsers still name what people know.
fn names_base(state: &AppState, headers: &HeaderMap) -> bool {
    let base = state.links.rules().hosts.base_of(&Domain::primary());
    let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
    !headers.contains_key("sec-fetch-site")
        && headers.contains_key(HOST)
        && origin.is_some_and(|origin| origin.eq_ignore_ascii_case(base.trim_end_matches('/')))
}

/// A form that could not even be read.
fn refusal(problem: &Problem) -> Response {
    let message = Message {
        status: problem.status(),
        heading: "That did not work",
        text: "This is not what our form sends.",
        hint: "Go back and try again.",
    };
    page(StatusCode::from_u16(problem.status()).unwrap_or(StatusCode::BAD_REQUEST), html(&message))
}

/// A problem as a sentence. Details begin small, as they follow a field's name elsewhere.
pub(super) fn sentence(problem: &Problem) -> String {
    let mut detail = problem.detail().to_owned();
    if let Some(first) = detail.get(..1) {
        detail.replace_range(..1, &first.to_uppercase());
    }
    format!("{}.", detail.trim_end_matches('.'))
}

/// A page that shows what is wrong, with the status and the fields that go with it.
pub(super) fn shown_again(problem: &Problem, text: String) -> Response {
    let mut response =
        page(StatusCode::from_u16(problem.status()).unwrap_or(StatusCode::BAD_REQUEST), text);
    if let Some(verdict) = problem.verdict() {
        limits::tell(verdict, response.headers_mut());
    }
    response
}
