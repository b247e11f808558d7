//! How somebody comes to have an account: by the set-up link, by an invitation, or by themselves
//! where that is allowed.

use std::net::IpAddr;

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use terse_core::PasswordHasher as _;
use terse_core::registry::{
    Account, AccountName, Actor, Attribution, NewAccount, RegistryError, Role, Token,
};

use super::form::{OwnForm, Wrong, sentence, shown_again};
use super::login::{HOME, away};
use super::session::{begin, go_with, guard, private_page};
use super::{Message, html, message};
use crate::api::account_bodies::MIN_PASSWORD_LEN;
use crate::api::invitations::MAX_INVITATIONS;
use crate::http::extract::Peer;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};
use crate::keys::Keys;
use crate::router::nothing_here;

const OVER: Message = Message {
    status: 404,
    heading: "This invitation is no longer valid",
    text: "It was already used or withdrawn, or it has expired. Each invitation works once.",
    hint: "Ask the person who invited you for a new one.",
};

/// By which way somebody comes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Door {
    Setup,
    Join,
    SignUp,
}

impl Door {
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
                "This creates the first account, which is an administrator. The link that brought \
                 you here works once."
            }
            Self::Join => "Choose a name and a password to create your account.",
            Self::SignUp => {
                "With an account, your links stay as long as you like, and you can change them."
            }
        }
    }

    fn button(self) -> &'static str {
        match self {
            Self::Setup => "Create account",
            Self::Join => "Create account",
            Self::SignUp => "Create account",
        }
    }

    fn provider(self, state: &App) -> Option<String> {
        state.accounts.provider().filter(|_| self == Self::Join)
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
    door: Door,
    token: String,
    name: String,
    /// Who else vouches for people, where an invitation can be taken that way.
    provider: Option<String>,
    wrong: Option<Wrong>,
}

pub(super) async fn setup(
    State(state): Web,
    uri: Uri,
    headers: HeaderMap,
    params: Result<Params, Problem>,
) -> Response {
    let token = token_in(params);
    match state.registry.awaits_setup_by(&hashed(&token)).await {
        Ok(true) => form(&state, Door::Setup, token),
        Ok(false) => nothing_here(uri, headers).await,
        Err(error) => away(&error),
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
        // Said before anything is typed.
        token => match is_open(&state, &hashed(&token)).await {
            Ok(true) => form(&state, Door::Join, token),
            Ok(false) => message(&OVER),
            Err(error) => away(&error),
        },
    }
}

/// Whether an invitation is still there to be taken. Whether whoever wrote it may still invite is
/// asked when it is taken.
async fn is_open(state: &App, token: &Token) -> Result<bool, RegistryError> {
    let open = state.registry.invitations(state.links.now(), MAX_INVITATIONS).await?;
    Ok(open.iter().any(|invitation| invitation.token == *token))
}

pub(super) async fn sign_up(State(state): Web, uri: Uri, headers: HeaderMap) -> Response {
    match state.accounts.open {
        true => form(&state, Door::SignUp, String::new()),
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
    come(Door::Setup, &web.0, peer, uri, headers, form).await
}

pub(super) async fn joined(
    web: Web,
    peer: Peer,
    uri: Uri,
    headers: HeaderMap,
    form: OwnForm,
) -> Response {
    come(Door::Join, &web.0, peer, uri, headers, form).await
}

pub(super) async fn signed_up(
    web: Web,
    peer: Peer,
    uri: Uri,
    headers: HeaderMap,
    form: OwnForm,
) -> Response {
    come(Door::SignUp, &web.0, peer, uri, headers, form).await
}

/// The token in a link; empty if there is none.
fn token_in(params: Result<Params, Problem>) -> String {
    params
        .ok()
        .and_then(|mut params| params.take("token"))
        .filter(|token| token.len() <= 512)
        .unwrap_or_default()
}

fn hashed(token: &str) -> Token {
    Token(Keys::hash(token))
}

fn form(state: &App, door: Door, token: String) -> Response {
    let provider = door.provider(state);
    private_page(
        StatusCode::OK,
        html(&SignupPage { door, token, name: String::new(), provider, wrong: None }),
    )
}

async fn come(
    door: Door,
    state: &App,
    Peer(address): Peer,
    uri: Uri,
    headers: HeaderMap,
    OwnForm(mut fields): OwnForm,
) -> Response {
    let mut take = |name| fields.take(name).unwrap_or_default();
    let (token, name, password, again) =
        (take("token"), take("name"), take("password"), take("again"));
    // A door that is closed looks like no door, whatever is brought to it.
    let closed = match door {
        Door::Setup => state.registry.awaits_setup_by(&hashed(&token)).await.map(|waits| !waits),
        Door::Join => Ok(token.is_empty() || token.len() > 512),
        Door::SignUp => Ok(!state.accounts.open),
    };
    match closed {
        Ok(false) => {}
        Ok(true) => return nothing_here(uri, headers).await,
        Err(error) => return away(&error),
    }
    let made = match fields.done() {
        Ok(()) => make(door, state, address, &token, &name, password, &again).await,
        Err(problem) => Err(Refused::Form(problem)),
    };
    let problem = match made {
        Ok(account) => match begin(state, &headers, &account).await {
            Ok(cookie) => return go_with(HOME, cookie),
            Err(error) => error.into(),
        },
        Err(Refused::Form(problem)) => problem,
        Err(Refused::Over) if door == Door::Join => return message(&OVER),
        Err(Refused::Over) => return nothing_here(uri, headers).await,
    };
    let field = match problem.field() {
        Some("name") => "name",
        Some("password") => "password",
        _ => "form",
    };
    let name = name.chars().take(64).collect();
    let provider = door.provider(state);
    let credential =
        SignupPage { door, token, name, provider, wrong: Some((field, sentence(&problem))) };
    let mut response = shown_again(&problem, html(&credential));
    guard(response.headers_mut());
    response
}

enum Refused {
    /// Something about the form.
    Form(Problem),
    /// The link is not good any more.
    Over,
}

impl<P: Into<Problem>> From<P> for Refused {
    fn from(problem: P) -> Self {
        Self::Form(problem.into())
    }
}

async fn make(
    door: Door,
    state: &App,
    address: IpAddr,
    token: &str,
    name: &str,
    password: String,
    again: &str,
) -> Result<Account, Refused> {
    let name = user_name(name)?;
    check_new(&name, &password, again)?;
    // Hashing costs us something, and so does every answer about a name.
    state.limits.sign_in(address, None).await?;
    let password = Some(state.passwords.hash(password).await?);
    let created_at = state.links.now();
    let account = NewAccount { name, role: Role::User, password, identity: None, created_at };
    let made = match door {
        Door::Setup => state.registry.take_setup(&hashed(token), account).await,
        Door::Join => state.registry.accept(&hashed(token), account).await,
        // Whoever comes by themselves does it in nobody's name: they have none before.
        Door::SignUp => {
            state
                .registry
                .add_account(
                    account,
                    Attribution { actor: Actor::Terse, at: created_at, why: None },
                )
                .await
        }
    };
    made.map_err(|error| match error {
        RegistryError::Missing => Refused::Over,
        error => error.into(),
    })
}

/// A name that somebody chose.
fn user_name(text: &str) -> Result<AccountName, Problem> {
    let format =
        "the name must have 3 to 64 letters, digits or . _ - + @ and begin with a letter or digit";
    AccountName::parse(text.trim()).ok_or_else(|| Problem::invalid("name", format))
}

/// A password that somebody chose.
pub(super) fn check_new(name: &AccountName, password: &str, again: &str) -> Result<(), Problem> {
    if password.chars().count() < MIN_PASSWORD_LEN {
        return Err(Problem::invalid(
            "password",
            format!("the password must have at least {MIN_PASSWORD_LEN} characters"),
        ));
    }
    if password.eq_ignore_ascii_case(name.as_str()) {
        return Err(Problem::invalid("password", "the password must differ from the name"));
    }
    if password != again {
        // Neither is shown again, so both are to be typed.
        return Err(Problem::invalid("password", "the two passwords differ; type both again"));
    }
    Ok(())
}
