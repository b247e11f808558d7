//! Sets a new password by a reset link.

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use terse_core::accounts::AccountError;

use super::form::{FormError, OwnForm, problem_page, sentence};
use super::session::{guard, no_cookie, private_page, redirect_with_cookie};
use super::signup::{mismatch, token_in};
use super::{Message, PageFrame, UNAVAILABLE, html, message};
use crate::http::extract::Peer;
use crate::http::limit_headers;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};

const OVER: Message = Message {
    status: 404,
    heading: "This reset link is no longer valid",
    text: "It was already used, or it has expired, or a newer link has replaced it. Each reset \
        link works once.",
    hint: "Ask an admin for a new one.",
};

const TOO_MANY: Message = Message {
    status: 429,
    heading: "Too many attempts",
    text: "Too many links or passwords were tried from your network.",
    hint: "Wait a minute, then open the link again.",
};

#[derive(Template)]
#[template(path = "reset.html")]
struct ResetPage {
    frame: PageFrame,
    token: String,
    /// The name of the account.
    name: String,
    wrong: Option<FormError>,
}

pub(super) async fn show(
    State(state): Web,
    Peer(address): Peer,
    headers: HeaderMap,
    params: Result<Params, Problem>,
) -> Response {
    let token = token_in(params);
    match state.accounts.reset_account(address, &token).await {
        Ok(account) => {
            let (frame, name) = (PageFrame::of(&state, &headers), account.name.to_string());
            private_page(StatusCode::OK, html(&ResetPage { frame, token, name, wrong: None }))
        }
        Err(error) => refused(error),
    }
}

pub(super) async fn set(
    State(state): Web,
    Peer(address): Peer,
    headers: HeaderMap,
    OwnForm(mut fields): OwnForm,
) -> Response {
    let mut take = |name| fields.take(name).unwrap_or_default();
    let (token, password, again) = (take("token"), take("password"), take("again"));
    // Password managers fill in this field; the server ignores it.
    let name: String = take("username").chars().take(64).collect();
    if password != again {
        return shown(&state, &headers, token, name, &mismatch());
    }
    match state.accounts.reset_password(address, &token, password).await {
        Ok(_) => redirect_with_cookie("/login?done=reset", no_cookie(&state)),
        Err(AccountError::LinkOver) => message(&OVER),
        Err(error) => shown(&state, &headers, token, name, &error.into()),
    }
}

/// The form again, with its problem.
fn shown(
    state: &App,
    headers: &HeaderMap,
    token: String,
    name: String,
    problem: &Problem,
) -> Response {
    let frame = PageFrame::of(state, headers);
    let wrong = Some(("password", sentence(problem)));
    let mut response = problem_page(problem, html(&ResetPage { frame, token, name, wrong }));
    guard(response.headers_mut());
    response
}

fn refused(error: AccountError) -> Response {
    if matches!(error, AccountError::LinkOver) {
        return message(&OVER);
    }
    let problem = Problem::from(error);
    let Some(verdict) = problem.verdict() else { return message(&UNAVAILABLE) };
    let mut response = message(&TOO_MANY);
    limit_headers::add(verdict, response.headers_mut());
    response
}
