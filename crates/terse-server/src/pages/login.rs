//! Signing in and out.

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use terse_core::accounts::{AccountError, SignInStep};

use super::form::{FormError, OwnForm, problem_page, sentence};
use super::session::{
    begin, end, guard, private_page, redirect_to, redirect_with_cookie, signed_in,
};
use super::{PageFrame, UNAVAILABLE, html, message};
use crate::http::extract::Peer;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};

/// The page after a sign-in that names no other page.
pub(super) const HOME: &str = "/dashboard";

/// After a password was set by a reset link.
const NEW_PASSWORD: &str = "Your password is changed. Sign in with it.";

#[derive(Template)]
#[template(path = "login.html")]
struct Login {
    frame: PageFrame,
    /// Whether sign-up is open.
    open: bool,
    /// The name of the OpenID Connect provider, if one is configured.
    provider: Option<String>,
    /// Whether this server sends reset links by mail.
    mail: bool,
    name: String,
    next: String,
    /// The message about the action that was just done.
    done: Option<&'static str>,
    wrong: Option<FormError>,
}

impl Login {
    fn new(state: &App, headers: &HeaderMap, name: String, next: String) -> Self {
        Self {
            frame: PageFrame::of(state, headers),
            open: state.accounts.policy().open,
            provider: state.provider(),
            mail: state.mail.is_some(),
            name,
            next,
            done: None,
            wrong: None,
        }
    }
}

pub(super) async fn show(
    State(state): Web,
    headers: HeaderMap,
    params: Result<Params, Problem>,
) -> Response {
    let mut params = params.ok();
    let mut take = |name| params.as_mut().and_then(|params| params.take(name));
    let (next, done) = (take("next").unwrap_or_default(), take("done"));
    match signed_in(&state, &headers).await {
        Ok(Some(_)) => redirect_to(local_path(&next)),
        Ok(None) => {
            let next = if local_path(&next) == HOME { String::new() } else { next };
            let mut login = Login::new(&state, &headers, String::new(), next);
            login.done = (done.as_deref() == Some("reset")).then_some(NEW_PASSWORD);
            private_page(StatusCode::OK, html(&login))
        }
        Err(error) => account_error_page(&error),
    }
}

pub(super) async fn sign_in(
    State(state): Web,
    Peer(address): Peer,
    headers: HeaderMap,
    OwnForm(mut fields): OwnForm,
) -> Response {
    let mut take = |name| fields.take(name).unwrap_or_default();
    let (name, password, next) = (take("name"), take("password"), take("next"));
    let signed_in = async {
        fields.done()?;
        match state.accounts.check_password(address, &name, password).await? {
            SignInStep::Done(account) => Ok(redirect_with_cookie(
                local_path(&next),
                begin(&state, &headers, &account).await?,
            )),
            SignInStep::Code { ticket } => {
                let page = CodePage::new(&state, &headers, ticket, next.clone());
                Ok(private_page(StatusCode::OK, html(&page)))
            }
        }
    };
    match signed_in.await {
        Ok(response) => response,
        Err(problem) => form_problem(&state, &headers, name, next, &problem),
    }
}

/// The second page: the code of an authenticator app, or a recovery code.
#[derive(Template)]
#[template(path = "login_code.html")]
struct CodePage {
    frame: PageFrame,
    ticket: String,
    next: String,
    wrong: Option<FormError>,
}

impl CodePage {
    fn new(state: &App, headers: &HeaderMap, ticket: String, next: String) -> Self {
        Self { frame: PageFrame::of(state, headers), ticket, next, wrong: None }
    }
}

/// The second page cannot be opened without a password.
pub(super) async fn show_code() -> Response {
    redirect_to("/login")
}

pub(super) async fn check_code(
    State(state): Web,
    Peer(address): Peer,
    headers: HeaderMap,
    OwnForm(mut fields): OwnForm,
) -> Response {
    let mut take = |name| fields.take(name).unwrap_or_default();
    let (ticket, code, next) = (take("ticket"), take("code"), take("next"));
    let signed_in = async {
        let account = state.accounts.check_code(address, &ticket, &code).await?;
        begin(&state, &headers, &account).await
    };
    let error = match signed_in.await {
        Ok(cookie) => return redirect_with_cookie(local_path(&next), cookie),
        Err(error) => error,
    };
    if matches!(error, AccountError::SignInOver) {
        return form_problem(&state, &headers, String::new(), next, &error.into());
    }
    let problem = Problem::from(error);
    let mut page = CodePage::new(&state, &headers, ticket, next);
    page.wrong = Some(("code", sentence(&problem)));
    let mut response = problem_page(&problem, html(&page));
    guard(response.headers_mut());
    response
}

pub(super) async fn sign_out(State(state): Web, headers: HeaderMap, _: OwnForm) -> Response {
    match end(&state, &headers).await {
        Ok(cookie) => redirect_with_cookie("/", cookie),
        Err(error) => account_error_page(&error),
    }
}

fn form_problem(
    state: &App,
    headers: &HeaderMap,
    name: String,
    next: String,
    problem: &Problem,
) -> Response {
    let mut login = Login::new(state, headers, name.chars().take(64).collect(), next);
    login.wrong = Some(("name", sentence(problem)));
    let mut response = problem_page(problem, html(&login));
    guard(response.headers_mut());
    response
}

/// Logs that the registry does not answer, and shows the error page.
pub(super) fn account_error_page(error: &AccountError) -> Response {
    tracing::error!(%error, "account lookup failed");
    message(&UNAVAILABLE)
}

/// The page after sign-in: `next` if it is a path on this server in plain characters, else `HOME`.
/// `//host` and `/\host` lead to other hosts.
pub(super) fn local_path(next: &str) -> &str {
    let plain = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let ours = next.starts_with('/') && !next.starts_with("//");
    if plain && ours && next.len() <= 512 { next } else { HOME }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_elsewhere_after_signing_in() {
        for next in ["/", "/account?done=key", "/api/docs#x"] {
            assert_eq!(local_path(next), next);
        }
        let long = format!("/{}", "x".repeat(512));
        for next in [
            "",
            "//evil.example",
            "/\\evil.example",
            "/a\\b",
            "https://evil.example",
            "javascript:alert(1)",
            "/a b",
            "/\n",
            &long,
        ] {
            assert_eq!(local_path(next), HOME, "{next:?}");
        }
    }
}
