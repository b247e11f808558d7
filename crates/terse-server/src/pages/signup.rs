//! Creates accounts: by the set-up link, by an invitation, or by open sign-up if the settings allow
//! it.

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use terse_core::accounts::{AccountError, SignUp};

use super::form::{FormError, OwnForm, problem_page, sentence};
use super::login::{HOME, account_error_page};
use super::session::{begin, guard, private_page, redirect_with_cookie};
use super::{Message, PageFrame, html, message};
use crate::http::extract::Peer;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};
use crate::router::nothing_here;

const OVER: Message = Message {
    status: 404,
    heading: "This invitation is no longer valid",
    text: "It was already used or withdrawn, or it has expired. Each invitation works once.",
    hint: "Ask the person who invited you for a new one.",
};

const SET_UP: Message = Message {
    status: 404,
    heading: "This set-up link no longer works",
    text: "It was already used, or the server has been restarted since: every start prints a new \
        link until the first account exists.",
    hint: "If you have an account, sign in. If not, look for the newest link in the output or log \
        of the server.",
};

/// The ways to create an account.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum SignupMethod {
    Setup,
    Join,
    SignUp,
}

impl SignupMethod {
    fn heading(self) -> &'static str {
        match self {
            Self::Setup => "Set up terse",
            Self::Join => "Accept your invitation",
            Self::SignUp => "Create an account",
        }
    }

    fn lead(self) -> &'static str {
        match self {
            Self::Setup => {
                "This creates the first account, which is an admin. The link that brought \
                 you here works once."
            }
            Self::Join => "Choose a name and a password to create your account.",
            Self::SignUp => {
                "With an account, your links stay as long as you like, and you can change them."
            }
        }
    }

    fn provider(self, state: &App) -> Option<String> {
        state.provider().filter(|_| self == Self::Join)
    }

    /// The same method in the account service's words.
    fn command(self, token: &str) -> SignUp<'_> {
        match self {
            Self::Setup => SignUp::Setup(token),
            Self::Join => SignUp::Invitation(token),
            Self::SignUp => SignUp::Open,
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Setup => "/setup",
            Self::Join => "/join",
            Self::SignUp => "/signup",
        }
    }
}

#[derive(Template)]
#[template(path = "signup.html")]
struct SignupPage {
    frame: PageFrame,
    method: SignupMethod,
    token: String,
    name: String,
    /// The OpenID Connect provider's name, if the invitation can be accepted with it.
    provider: Option<String>,
    wrong: Option<FormError>,
}

impl SignupPage {
    /// Whether the problem is about this field.
    fn is_wrong(&self, field: &str) -> bool {
        self.wrong.as_ref().is_some_and(|(wrong, _)| *wrong == field)
    }
}

pub(super) async fn setup(
    State(state): Web,
    uri: Uri,
    headers: HeaderMap,
    params: Result<Params, Problem>,
) -> Response {
    let token = token_in(params);
    match state.accounts.is_open(&SignUp::Setup(&token)).await {
        Ok(true) => form(&state, &headers, SignupMethod::Setup, token),
        Ok(false) if !token.is_empty() => message(&SET_UP),
        Ok(false) => nothing_here(uri, headers).await,
        Err(error) => account_error_page(&error),
    }
}

pub(super) async fn join(
    State(state): Web,
    uri: Uri,
    headers: HeaderMap,
    params: Result<Params, Problem>,
) -> Response {
    match token_in(params) {
        token if token.is_empty() => nothing_here(uri, headers).await,
        // Check the invitation before the visitor fills in the form.
        token => match state.accounts.is_invited(&token).await {
            Ok(true) => form(&state, &headers, SignupMethod::Join, token),
            Ok(false) => message(&OVER),
            Err(error) => account_error_page(&error),
        },
    }
}

pub(super) async fn sign_up(State(state): Web, uri: Uri, headers: HeaderMap) -> Response {
    match state.accounts.policy().open {
        true => form(&state, &headers, SignupMethod::SignUp, String::new()),
        false => nothing_here(uri, headers).await,
    }
}

pub(super) async fn set_up(
    web: Web,
    peer: Peer,
    uri: Uri,
    headers: HeaderMap,
    form: OwnForm,
) -> Response {
    submit(SignupMethod::Setup, &web.0, peer, uri, headers, form).await
}

pub(super) async fn joined(
    web: Web,
    peer: Peer,
    uri: Uri,
    headers: HeaderMap,
    form: OwnForm,
) -> Response {
    submit(SignupMethod::Join, &web.0, peer, uri, headers, form).await
}

pub(super) async fn signed_up(
    web: Web,
    peer: Peer,
    uri: Uri,
    headers: HeaderMap,
    form: OwnForm,
) -> Response {
    submit(SignupMethod::SignUp, &web.0, peer, uri, headers, form).await
}

/// The token in the query; empty if there is none.
pub(super) fn token_in(params: Result<Params, Problem>) -> String {
    params
        .ok()
        .and_then(|mut params| params.take("token"))
        .filter(|token| token.len() <= 512)
        .unwrap_or_default()
}

fn form(state: &App, headers: &HeaderMap, method: SignupMethod, token: String) -> Response {
    let frame = PageFrame::of(state, headers);
    let provider = method.provider(state);
    private_page(
        StatusCode::OK,
        html(&SignupPage { frame, method, token, name: String::new(), provider, wrong: None }),
    )
}

async fn submit(
    method: SignupMethod,
    state: &App,
    Peer(address): Peer,
    uri: Uri,
    headers: HeaderMap,
    OwnForm(mut fields): OwnForm,
) -> Response {
    let mut take = |name| fields.take(name).unwrap_or_default();
    let (token, name, password, again) =
        (take("token"), take("name"), take("password"), take("again"));
    let sign_up = method.command(&token);
    match state.accounts.is_open(&sign_up).await {
        Ok(true) => {}
        Ok(false) if method == SignupMethod::Setup && !token.is_empty() => return message(&SET_UP),
        // A sign-up that is closed looks like a page that does not exist.
        Ok(false) => return nothing_here(uri, headers).await,
        Err(error) => return account_error_page(&error),
    }
    let signed_up = async {
        fields.done()?;
        if password != again {
            return Err(mismatch());
        }
        let account = match state.accounts.sign_up(&sign_up, address, &name, password).await {
            Err(AccountError::LinkOver) => return Ok(None),
            account => account?,
        };
        Ok(Some(begin(state, &headers, &account).await?))
    };
    let problem = match signed_up.await {
        Ok(Some(cookie)) => return redirect_with_cookie(HOME, cookie),
        Ok(None) if method == SignupMethod::Join => return message(&OVER),
        Ok(None) if method == SignupMethod::Setup => return message(&SET_UP),
        Ok(None) => return nothing_here(uri, headers).await,
        Err(problem) => problem,
    };
    let field = match problem.field() {
        Some("name") => "name",
        Some("password") => "password",
        _ => "form",
    };
    let name = name.chars().take(64).collect();
    let provider = method.provider(state);
    let page = SignupPage {
        frame: PageFrame::of(state, &headers),
        method,
        token,
        name,
        provider,
        wrong: Some((field, sentence(&problem))),
    };
    let mut response = problem_page(&problem, html(&page));
    guard(response.headers_mut());
    response
}

/// The problem of two different passwords. The form asks twice and shows neither again.
pub(super) fn mismatch() -> Problem {
    Problem::invalid("password", "the two passwords differ; type both again")
}
