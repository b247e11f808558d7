//! Forms: reads what a browser sends, and shows a form again with its problem.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

use super::{BAD_FORM, CROSS_SITE, VisitorMessage, message, page};
use crate::http::body::{SMALL, read};
use crate::http::limit_headers;
use crate::http::origin::Origin;
use crate::http::params::Params;
use crate::http::problem::{INVALID_REQUEST, Problem, UNSUPPORTED_MEDIA_TYPE};
use crate::http::state::App;

/// The largest number of fields: those of a link with as many rules as the form shows.
const MAX_FIELDS: usize = 400;

/// A problem with a form: the field, and a sentence to show.
pub(super) type FormError = (&'static str, String);

/// The fields of a form.
pub(super) async fn fields(headers: &HeaderMap, body: Body) -> Result<Params, Problem> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(Problem::new(
            &UNSUPPORTED_MEDIA_TYPE,
            "the form could not be read; reload the page and try again",
        ));
    }
    let bytes = read(body, SMALL).await?;
    let text = std::str::from_utf8(&bytes).map_err(|_| {
        Problem::new(&INVALID_REQUEST, "the form could not be read; reload the page and try again")
    })?;
    Params::parse_at_most(text, MAX_FIELDS)
}

/// The fields of a form that only our own pages may send, because the form acts for an account or
/// sets a cookie.
pub(super) struct OwnForm(pub(super) Params);

impl FromRequest<Arc<App>> for OwnForm {
    type Rejection = Response;

    async fn from_request(request: Request, state: &Arc<App>) -> Result<Self, Response> {
        let (head, body) = request.into_parts();
        if Origin::of(state, &head.uri, &head.headers) != Origin::Own {
            return Err(message(&CROSS_SITE));
        }
        fields(&head.headers, body).await.map(Self).map_err(|problem| refusal(&problem))
    }
}

/// The error page for a form that could not be read.
pub(super) fn refusal(problem: &Problem) -> Response {
    message(&VisitorMessage { status: problem.status(), ..BAD_FORM })
}

/// A problem as a sentence. Details start in lower case because they follow a field name elsewhere.
pub(super) fn sentence(problem: &Problem) -> String {
    let mut detail = problem.detail().to_owned();
    if let Some(first) = detail.get(..1) {
        detail.replace_range(..1, &first.to_uppercase());
    }
    format!("{}.", detail.trim_end_matches('.'))
}

/// What is wrong with this field.
pub(super) fn problem_of<'a>(wrong: Option<&'a (String, String)>, field: &str) -> Option<&'a str> {
    let (wrong, words) = wrong?;
    (wrong == field).then_some(words)
}

/// A problem that is about none of these fields.
pub(super) fn problem_beside<'a>(
    wrong: Option<&'a (String, String)>,
    fields: &[&str],
) -> Option<&'a str> {
    let (wrong, words) = wrong?;
    (!fields.contains(&wrong.as_str())).then_some(words)
}

/// The field of a problem, or this one, and a sentence to show.
pub(super) fn field_problem(problem: &Problem, default_field: &str) -> Option<(String, String)> {
    Some((problem.field().unwrap_or(default_field).to_owned(), sentence(problem)))
}

/// The page of a form with its problem, with the problem's status and rate limit headers.
pub(super) fn problem_page(problem: &Problem, text: String) -> Response {
    let mut response =
        page(StatusCode::from_u16(problem.status()).unwrap_or(StatusCode::BAD_REQUEST), text);
    if let Some(verdict) = problem.verdict() {
        limit_headers::add(verdict, response.headers_mut());
    }
    response
}
