//! Sign-in with OpenID Connect: the redirect to the provider and the callback.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::http::header::{HOST, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::Response;
use terse_core::OwnerId;
use terse_core::accounts::{AccountError, OidcAccount, SignUp};
use terse_core::limits::LimitReached;
use terse_core::registry::RegistryError;

use super::form::OwnForm;
use super::login::{HOME, account_error_page, local_path};
use super::session::{begin, guard, private_page, redirect_to, redirect_with_cookie, signed_in};
use super::{LIMITED, Message, PageFrame, html, message};
use crate::http::cookies::{cookie, is_secure, set_cookie};
use crate::http::extract::Peer;
use crate::http::limit_headers;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};
use crate::oidc::{Flow, OidcError, OidcProvider, ProviderAccount, Purpose};
use crate::router::nothing_here;

const PROVIDER_UNAVAILABLE: Message = Message {
    status: 503,
    heading: "Sign-in is unavailable",
    text: "We cannot reach the sign-in provider right now.",
    hint: "Try again in a few minutes, or sign in with your password.",
};
const FAILED: Message = Message {
    status: 403,
    heading: "Sign-in failed",
    text: "We could not confirm who you are. The sign-in may have taken too long, or started in \
        another window.",
    hint: "Start again from the sign-in page.",
};
const UNKNOWN: Message = Message {
    status: 403,
    heading: "No account found",
    text: "The provider confirmed who you are, but no account here is connected to that sign-in.",
    hint: "Sign in with your password and connect the provider on your account page, or ask for \
        an invitation.",
};
const SUSPENDED: Message = Message {
    status: 403,
    heading: "This account is suspended",
    text: "The provider confirmed who you are, but the account is suspended.",
    hint: "Ask an admin of this server.",
};
const ALREADY_CONNECTED: Message = Message {
    status: 409,
    heading: "Already connected",
    text: "This sign-in is already connected to another account on this server.",
    hint: "Sign in with it to see which account that is.",
};
const INVITATION_ENDED: Message = Message {
    status: 404,
    heading: "This invitation is no longer valid",
    text: "It was already used or withdrawn, or it has expired. Each invitation works once.",
    hint: "Ask the person who invited you for a new one.",
};
const PASSWORD_REQUIRED: Message = Message {
    status: 409,
    heading: "Set a password first",
    text: "Your account has no password. Without this provider you could not sign in again.",
    hint: "Set a password on your account page, then disconnect the provider.",
};

/// A page with a link to the provider. The `form-action` policy allows our own server only, so a
/// form cannot redirect to the provider.
#[derive(Template)]
#[template(path = "redirecting.html")]
struct RedirectingPage {
    frame: PageFrame,
    provider: String,
    url: String,
}

/// `/auth/oidc`: redirects the browser to the provider.
pub(super) async fn to_provider(
    State(state): Web,
    uri: Uri,
    headers: HeaderMap,
    params: Result<Params, Problem>,
) -> Response {
    let Some(oidc) = &state.oidc else { return nothing_here(uri, headers).await };
    // The callback is on one host only, so the cookie must be set there.
    let base = state.links.rules().hosts.api_base();
    let base = base.trim_end_matches('/');
    let here = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !base.split_once("://").is_some_and(|(_, known)| known.eq_ignore_ascii_case(here)) {
        return redirect_to(&format!("{base}/auth/oidc"));
    }
    let next = params.ok().and_then(|mut params| params.take("next")).unwrap_or_default();
    let purpose = Purpose::SignIn { next: local_path(&next).to_owned() };
    match oidc.begin(purpose, state.links.now()).await {
        Ok((url, flow)) => redirect_with_cookie(&url, flow_cookie(&state, oidc, Some(&flow))),
        Err(error) => error_page(&error),
    }
}

/// Accepts an invitation with an account at the provider.
pub(super) async fn join(
    State(state): Web,
    uri: Uri,
    headers: HeaderMap,
    form: Result<OwnForm, Response>,
) -> Response {
    let Some(oidc) = &state.oidc else { return nothing_here(uri, headers).await };
    match form {
        Ok(OwnForm(mut fields)) => {
            let token = fields.take("token").filter(|token| token.len() <= 512).unwrap_or_default();
            onward(&state, &headers, oidc, Purpose::Join { token }).await
        }
        Err(response) => response,
    }
}

/// Connects the signed-in account to an account at the provider.
pub(super) async fn connect(
    State(state): Web,
    uri: Uri,
    headers: HeaderMap,
    form: Result<OwnForm, Response>,
) -> Response {
    let Some(oidc) = &state.oidc else { return nothing_here(uri, headers).await };
    if let Err(response) = form {
        return response;
    }
    match signed_in(&state, &headers).await {
        Ok(Some(here)) => {
            onward(&state, &headers, oidc, Purpose::Connect { owner: here.account.id.0 }).await
        }
        Ok(None) => redirect_to("/login"),
        Err(error) => account_error_page(&error),
    }
}

/// Disconnects the account from the provider.
pub(super) async fn disconnect(State(state): Web, headers: HeaderMap, _: OwnForm) -> Response {
    let account = match signed_in(&state, &headers).await {
        Ok(Some(here)) => here.account,
        Ok(None) => return redirect_to("/login"),
        Err(error) => return account_error_page(&error),
    };
    match state.accounts.disconnect(&account).await {
        Ok(_) => redirect_to("/account?done=disconnected"),
        Err(AccountError::Forbidden { .. }) => message(&PASSWORD_REQUIRED),
        Err(error) => account_error_page(&error),
    }
}

async fn onward(
    state: &App,
    headers: &HeaderMap,
    oidc: &Arc<OidcProvider>,
    purpose: Purpose,
) -> Response {
    match oidc.begin(purpose, state.links.now()).await {
        Ok((url, flow)) => {
            let frame = PageFrame::of(state, headers);
            let provider = oidc.settings().name.clone();
            let page = html(&RedirectingPage { frame, provider, url });
            let mut response = private_page(StatusCode::OK, page);
            response.headers_mut().append(SET_COOKIE, flow_cookie(state, oidc, Some(&flow)));
            response
        }
        Err(error) => error_page(&error),
    }
}

/// `/auth/oidc/callback`: the provider redirects the browser back here.
pub(super) async fn callback(
    State(state): Web,
    Peer(address): Peer,
    uri: Uri,
    headers: HeaderMap,
    params: Result<Params, Problem>,
) -> Response {
    let Some(oidc) = &state.oidc else { return nothing_here(uri, headers).await };
    let mut response = match complete_sign_in(&state, oidc, address, &headers, params).await {
        Ok(response) => response,
        Err(Rejected::Message(shown)) => message(shown),
        Err(Rejected::Response(response)) => *response,
    };
    // Delete the cookie: it is valid for one callback, whatever the result.
    response.headers_mut().append(SET_COOKIE, flow_cookie(&state, oidc, None));
    guard(response.headers_mut());
    response
}

/// Why a sign-in was refused.
enum Rejected {
    Message(&'static Message),
    Response(Box<Response>),
}

impl From<&'static Message> for Rejected {
    fn from(message: &'static Message) -> Self {
        Self::Message(message)
    }
}

impl From<LimitReached> for Rejected {
    fn from(reached: LimitReached) -> Self {
        let mut shown = message(&LIMITED);
        limit_headers::add(&reached.decision, shown.headers_mut());
        Self::Response(Box::new(shown))
    }
}

impl From<OidcError> for Rejected {
    fn from(error: OidcError) -> Self {
        Self::Response(Box::new(error_page(&error)))
    }
}

impl From<AccountError> for Rejected {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::Suspended => Self::Message(&SUSPENDED),
            AccountError::IdentityTaken => Self::Message(&ALREADY_CONNECTED),
            AccountError::LinkOver => Self::Message(&INVITATION_ENDED),
            AccountError::Registry(RegistryError::NameTaken) => Self::Message(&FAILED),
            error => Self::Response(Box::new(account_error_page(&error))),
        }
    }
}

async fn complete_sign_in(
    state: &App,
    oidc: &Arc<OidcProvider>,
    address: std::net::IpAddr,
    headers: &HeaderMap,
    params: Result<Params, Problem>,
) -> Result<Response, Rejected> {
    let mut params = params.map_err(|_| &FAILED)?;
    let flow_state = params.take("state").unwrap_or_default();
    let held = cookie(headers, flow_name(state)).and_then(|held| {
        Flow::from_cookie(&oidc.settings().key, held, &flow_state, state.links.now())
    });
    let flow = held.ok_or(&FAILED)?;
    // If the provider sends `iss`, it must be the configured issuer.
    if params.take("iss").is_some_and(|issuer| {
        issuer.trim_end_matches('/') != oidc.settings().issuer.trim_end_matches('/')
    }) {
        return Err((&FAILED).into());
    }
    let code =
        params.take("code").filter(|code| !code.is_empty() && code.len() <= 4096).ok_or(&FAILED)?;
    let purpose = flow.purpose.clone();
    let accounts = &state.accounts;
    let proof = async { oidc.finish(flow, code).await.map_err(Rejected::from) };
    let person = accounts.sign_in_oidc(address, proof).await?;
    match purpose {
        Purpose::SignIn { next } => {
            let account = match accounts.by_identity(&person.identity).await? {
                Some(account) => account,
                None if oidc.settings().sign_up => {
                    accounts.sign_up_oidc(&SignUp::Open, &provider_identity(person)).await?
                }
                None => return Err((&UNKNOWN).into()),
            };
            Ok(redirect_with_cookie(local_path(&next), begin(state, headers, &account).await?))
        }
        Purpose::Join { token } => {
            let way = SignUp::Invitation(&token);
            let account = accounts.sign_up_oidc(&way, &provider_identity(person)).await?;
            Ok(redirect_with_cookie(HOME, begin(state, headers, &account).await?))
        }
        Purpose::Connect { owner } => {
            let here = signed_in(state, headers)
                .await?
                .filter(|here| here.account.id == OwnerId(owner))
                .ok_or(&FAILED)?;
            accounts.connect(&here.account, person.identity).await?;
            Ok(redirect_to("/account?done=connected"))
        }
    }
}

fn provider_identity(person: ProviderAccount) -> OidcAccount {
    OidcAccount { identity: person.identity, names: person.names }
}

fn flow_name(state: &App) -> &'static str {
    if is_secure(state) { "__Host-terse_flow" } else { "terse_flow" }
}

/// The cookie of a sign-in that is under way; `None` deletes it.
fn flow_cookie(state: &App, oidc: &OidcProvider, flow: Option<&Flow>) -> HeaderValue {
    let (value, seconds) = flow.map_or((String::new(), 0), |flow| {
        (flow.to_cookie(&oidc.settings().key), crate::oidc::TIMEOUT)
    });
    set_cookie(state, flow_name(state), &value, seconds)
}

/// Logs the provider's error; the visitor learns only that the sign-in failed.
fn error_page(error: &OidcError) -> Response {
    match error {
        OidcError::Unavailable(why) => {
            tracing::warn!(why, "OpenID Connect provider is unreachable");
            message(&PROVIDER_UNAVAILABLE)
        }
        OidcError::Rejected(why) => {
            tracing::info!(why, "OpenID Connect sign-in refused");
            message(&FAILED)
        }
    }
}
