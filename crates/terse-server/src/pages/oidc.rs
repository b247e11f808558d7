//! Signing in with an account elsewhere: the way there and the way back.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::http::header::{HOST, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::Response;
use terse_core::registry::{
    Account, AccountChange, AccountName, Actor, Attribution, ChangeAccount, NewAccount,
    RegistryError, Role, Token,
};
use terse_core::{Domain, OwnerId};

use super::form::OwnForm;
use super::login::{HOME, away, inside};
use super::session::{begin, go, go_with, guard, private_page, signed_in};
use super::{Message, html, message};
use crate::http::cookies::{cookie, is_secure, set_cookie};
use crate::http::extract::Peer;
use crate::http::host::hex;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};
use crate::keys::Keys;
use crate::oidc::{Flow, Oidc, OidcError, ProviderAccount, Purpose};
use crate::router::nothing_here;

const AWAY: Message = Message {
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
    hint: "Ask the administrator of this server.",
};
const OTHERS: Message = Message {
    status: 409,
    heading: "Already connected",
    text: "This sign-in is already connected to another account on this server.",
    hint: "Sign in with it to see which account that is.",
};
const OVER: Message = Message {
    status: 404,
    heading: "This invitation is no longer valid",
    text: "It was already used or withdrawn, or it has expired. Each invitation works once.",
    hint: "Ask the person who invited you for a new one.",
};
const ONLY_WAY: Message = Message {
    status: 409,
    heading: "Set a password first",
    text: "Your account has no password. Without this provider you could not sign in again.",
    hint: "Set a password on your account page, then disconnect the provider.",
};

/// A page with a link to the provider. A form may not lead there by itself: that is what keeps
/// forms from leading anywhere else.
#[derive(Template)]
#[template(path = "redirecting.html")]
struct Onward {
    provider: String,
    url: String,
}

/// `/auth/oidc`: the way there.
pub(super) async fn leave(
    State(state): Web,
    uri: Uri,
    headers: HeaderMap,
    params: Result<Params, Problem>,
) -> Response {
    let Some(oidc) = &state.accounts.oidc else { return nothing_here(uri, headers).await };
    // The provider sends everybody back to one address: only there is the cookie seen again.
    let base = state.links.rules().hosts.base_of(&Domain::primary());
    let base = base.trim_end_matches('/');
    let here = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !base.split_once("://").is_some_and(|(_, known)| known.eq_ignore_ascii_case(here)) {
        return go(&format!("{base}/auth/oidc"));
    }
    let next = params.ok().and_then(|mut params| params.take("next")).unwrap_or_default();
    let purpose = Purpose::SignIn { next: inside(&next).to_owned() };
    match oidc.begin(purpose, state.links.now()).await {
        Ok((url, flow)) => go_with(&url, flow_cookie(&state, oidc, Some(&flow))),
        Err(error) => failed(&error),
    }
}

/// An invitation, taken by somebody who is known elsewhere.
pub(super) async fn join(
    State(state): Web,
    uri: Uri,
    headers: HeaderMap,
    form: Result<OwnForm, Response>,
) -> Response {
    let Some(oidc) = &state.accounts.oidc else { return nothing_here(uri, headers).await };
    match form {
        Ok(OwnForm(mut fields)) => {
            let token = fields.take("token").filter(|token| token.len() <= 512).unwrap_or_default();
            onward(&state, oidc, Purpose::Join { token }).await
        }
        Err(response) => response,
    }
}

/// Somebody who is signed in wants to sign in from elsewhere later.
pub(super) async fn connect(
    State(state): Web,
    uri: Uri,
    headers: HeaderMap,
    form: Result<OwnForm, Response>,
) -> Response {
    let Some(oidc) = &state.accounts.oidc else { return nothing_here(uri, headers).await };
    if let Err(response) = form {
        return response;
    }
    match signed_in(&state, &headers).await {
        Ok(Some(here)) => onward(&state, oidc, Purpose::Connect { owner: here.account.id.0 }).await,
        Ok(None) => go("/login"),
        Err(error) => away(&error),
    }
}

/// Or does not want to any more.
pub(super) async fn disconnect(State(state): Web, headers: HeaderMap, _: OwnForm) -> Response {
    let account = match signed_in(&state, &headers).await {
        Ok(Some(here)) => here.account,
        Ok(None) => return go("/login"),
        Err(error) => return away(&error),
    };
    if account.password.is_none() {
        return message(&ONLY_WAY);
    }
    let change = AccountChange { identity: Some(None), ..AccountChange::default() };
    match state
        .registry
        .change_account(
            ChangeAccount { id: account.id, change, expected: Some(account.revision) },
            state.by(account.id, None),
        )
        .await
    {
        Ok(_) => go("/account?done=disconnected"),
        Err(error) => away(&error),
    }
}

async fn onward(state: &App, oidc: &Arc<Oidc>, purpose: Purpose) -> Response {
    match oidc.begin(purpose, state.links.now()).await {
        Ok((url, flow)) => {
            let page = html(&Onward { provider: oidc.settings().name.clone(), url });
            let mut response = private_page(StatusCode::OK, page);
            response.headers_mut().append(SET_COOKIE, flow_cookie(state, oidc, Some(&flow)));
            response
        }
        Err(error) => failed(&error),
    }
}

/// `/auth/oidc/callback`: the way back.
pub(super) async fn arrive(
    State(state): Web,
    Peer(address): Peer,
    uri: Uri,
    headers: HeaderMap,
    params: Result<Params, Problem>,
) -> Response {
    let Some(oidc) = &state.accounts.oidc else { return nothing_here(uri, headers).await };
    let mut response = match come(&state, oidc, address, &headers, params).await {
        Ok(response) => response,
        Err(Turned::Told(told)) => message(told),
        Err(Turned::Response(response)) => *response,
    };
    // Good for one way back, whatever came of it.
    response.headers_mut().append(SET_COOKIE, flow_cookie(&state, oidc, None));
    guard(response.headers_mut());
    response
}

/// Why somebody was turned away.
enum Turned {
    Told(&'static Message),
    Response(Box<Response>),
}

impl From<&'static Message> for Turned {
    fn from(told: &'static Message) -> Self {
        Self::Told(told)
    }
}

impl From<RegistryError> for Turned {
    fn from(error: RegistryError) -> Self {
        Self::Response(Box::new(away(&error)))
    }
}

async fn come(
    state: &App,
    oidc: &Arc<Oidc>,
    address: std::net::IpAddr,
    headers: &HeaderMap,
    params: Result<Params, Problem>,
) -> Result<Response, Turned> {
    let mut params = params.map_err(|_| &FAILED)?;
    let flow_state = params.take("state").unwrap_or_default();
    let held = cookie(headers, flow_name(state)).and_then(|held| {
        Flow::from_cookie(&oidc.settings().key, held, &flow_state, state.links.now())
    });
    let flow = held.ok_or(&FAILED)?;
    // Where a provider says who it is, it must be the one that was asked.
    if params.take("iss").is_some_and(|issuer| {
        issuer.trim_end_matches('/') != oidc.settings().issuer.trim_end_matches('/')
    }) {
        return Err((&FAILED).into());
    }
    let code =
        params.take("code").filter(|code| !code.is_empty() && code.len() <= 4096).ok_or(&FAILED)?;
    let attempt = state.limits.sign_in(address, None).await.map_err(|reached| {
        let shown = super::form::shown_again(&reached.into(), html(&super::LIMITED));
        Turned::Response(Box::new(shown))
    })?;
    let purpose = flow.purpose.clone();
    let person = oidc
        .finish(flow, code)
        .await
        .map_err(|error| Turned::Response(Box::new(failed(&error))))?;
    state.limits.succeeded(attempt).await;
    match purpose {
        Purpose::SignIn { next } => {
            let account = match state.registry.account_by_identity(&person.identity).await? {
                Some(account) => account,
                None if oidc.settings().sign_up => make(state, &person, None).await?,
                None => return Err((&UNKNOWN).into()),
            };
            enter(state, headers, &account, inside(&next)).await
        }
        Purpose::Join { token } => {
            let account = make(state, &person, Some(Token(Keys::hash(&token)))).await?;
            enter(state, headers, &account, HOME).await
        }
        Purpose::Connect { owner } => {
            let here = signed_in(state, headers)
                .await?
                .filter(|here| here.account.id == OwnerId(owner))
                .ok_or(&FAILED)?;
            let change =
                AccountChange { identity: Some(Some(person.identity)), ..AccountChange::default() };
            let change = ChangeAccount {
                id: here.account.id,
                change,
                expected: Some(here.account.revision),
            };
            match state.registry.change_account(change, state.by(here.account.id, None)).await {
                Ok(_) => Ok(go("/account?done=connected")),
                Err(RegistryError::NameTaken) => Err((&OTHERS).into()),
                Err(error) => Err(error.into()),
            }
        }
    }
}

async fn enter(
    state: &App,
    headers: &HeaderMap,
    account: &Account,
    next: &str,
) -> Result<Response, Turned> {
    match begin(state, headers, account).await {
        Ok(cookie) => Ok(go_with(next, cookie)),
        Err(RegistryError::Missing) => Err((&SUSPENDED).into()),
        Err(error) => Err(error.into()),
    }
}

/// Makes an account for somebody, by an invitation or without: under the name they have there, or
/// one like it.
async fn make(
    state: &App,
    person: &ProviderAccount,
    invitation: Option<Token>,
) -> Result<Account, Turned> {
    // An identity has one account. Two at once end in `NameTaken`, and the second look finds it.
    let mut random = [0; 4];
    let _ = getrandom::fill(&mut random);
    let suffix = hex(&random);
    let known = person.names.iter().filter_map(|name| AccountName::parse(name));
    let spare = person
        .names
        .iter()
        .filter_map(|name| AccountName::parse(&format!("{name}-{}", &suffix[..4])));
    let last = AccountName::parse(&format!("user-{suffix}"));
    let created_at = state.links.now();
    for name in known.chain(spare).chain(last) {
        let identity = Some(person.identity.clone());
        let account = NewAccount { name, role: Role::User, password: None, identity, created_at };
        let made = match &invitation {
            Some(token) => state.registry.accept(token, account).await,
            None => {
                state
                    .registry
                    .add_account(
                        account,
                        Attribution { actor: Actor::Terse, at: created_at, why: None },
                    )
                    .await
            }
        };
        match made {
            Err(RegistryError::NameTaken)
                if state.registry.account_by_identity(&person.identity).await?.is_some() =>
            {
                return Err((&OTHERS).into());
            }
            Err(RegistryError::NameTaken) => {}
            Err(RegistryError::Missing) => return Err((&OVER).into()),
            Err(error) => return Err(error.into()),
            Ok(account) => return Ok(account),
        }
    }
    Err((&FAILED).into())
}

fn flow_name(state: &App) -> &'static str {
    if is_secure(state) { "__Host-terse_flow" } else { "terse_flow" }
}

/// The cookie for the way there and back, or none any more.
fn flow_cookie(state: &App, oidc: &Oidc, flow: Option<&Flow>) -> HeaderValue {
    let (value, seconds) = flow.map_or((String::new(), 0), |flow| {
        (flow.to_cookie(&oidc.settings().key), crate::oidc::TIMEOUT)
    });
    set_cookie(state, flow_name(state), &value, seconds)
}

/// What the provider said is for the log; a stranger learns only that it did not work.
fn failed(error: &OidcError) -> Response {
    match error {
        OidcError::Unavailable(why) => {
            tracing::warn!(why, "OpenID Connect provider is unreachable");
            message(&AWAY)
        }
        OidcError::Rejected(why) => {
            tracing::info!(why, "OpenID Connect sign-in refused");
            message(&FAILED)
        }
    }
}
