//! How somebody comes to have an account: by the set-up link, by an invitation, or by themselves where that is allowed.

use std::net::IpAddr;

use askama::Template;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use terse_core::registry::{Actor, By, NewUser, RegistryError, Role, Token, User, UserName};

use super::form::{Wrong, own_fields, sentence, shown_again};
use super::login::{HOME, away};
use super::session::{begin, go_with, guard, private_page};
use super::{Message, html, message};
use crate::api::invitations::MOST as MOST_INVITATIONS;
use crate::api::people::SHORTEST_PASSWORD as SHORTEST;
use crate::api::problem::Problem;
use crate::api::request::{Params, Peer};
use crate::keys::Keys;
use crate::router::{Parts, Web, nothing_here};

const OVER: Message = Message {
    status: 404,
    heading: "This invitation is over",
    text: "It was used already, taken back, or too old. Each is good for one person, once.",
    hint: "Whoever sent it to you can write another.",
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
            Self::Join => "You are invited",
            Self::SignUp => "Make an account",
        }
    }

    fn lead(self) -> &'static str {
        match self {
            Self::Setup => "This makes the first account, which may do everything. The link that brought you here works once.",
            Self::Join => "Choose a name and a password, and you are in.",
            Self::SignUp => "With an account your links stay as long as you like, and are yours to change.",
        }
    }

    fn button(self) -> &'static str {
        match self {
            Self::Setup => "Make the first account",
            Self::Join => "Join",
            Self::SignUp => "Make the account",
        }
    }

    fn provider(self, parts: &Parts) -> Option<String> {
        parts.accounts.provider().filter(|_| self == Self::Join)
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
#[template(path = "newcomer.html")]
struct Newcomer {
    door: Door,
    token: String,
    name: String,
    /// Who else vouches for people, where an invitation can be taken that way.
    provider: Option<String>,
    wrong: Option<Wrong>,
}

pub(super) async fn setup(State(parts): Web, uri: Uri, headers: HeaderMap, params: Result<Params, Problem>) -> Response {
    let token = token_in(params);
    match parts.registry.awaits_setup_by(&hashed(&token)).await {
        Ok(true) => form(&parts, Door::Setup, token),
        Ok(false) => nothing_here(uri, headers).await,
        Err(error) => away(&error),
    }
}

pub(super) async fn join(State(parts): Web, uri: Uri, headers: HeaderMap, params: Result<Params, Problem>) -> Response {
    match token_in(params) {
        token if token.is_empty() => nothing_here(uri, headers).await,
        // Said before anything is typed.
        token => match is_open(&parts, &hashed(&token)).await {
            Ok(true) => form(&parts, Door::Join, token),
            Ok(false) => message(&OVER),
            Err(error) => away(&error),
        },
    }
}

/// Whether an invitation is still there to be taken. Whether whoever wrote it may still invite is asked when it is taken.
async fn is_open(parts: &Parts, token: &Token) -> Result<bool, RegistryError> {
    let open = parts.registry.invitations(parts.links.now(), MOST_INVITATIONS).await?;
    Ok(open.iter().any(|invitation| invitation.token == *token))
}

pub(super) async fn sign_up(State(parts): Web, uri: Uri, headers: HeaderMap) -> Response {
    match parts.accounts.open {
        true => form(&parts, Door::SignUp, String::new()),
        false => nothing_here(uri, headers).await,
    }
}

pub(super) async fn set_up(web: Web, peer: Peer, uri: Uri, headers: HeaderMap, body: Body) -> Response {
    come(Door::Setup, &web.0, peer, uri, headers, body).await
}

pub(super) async fn joined(web: Web, peer: Peer, uri: Uri, headers: HeaderMap, body: Body) -> Response {
    come(Door::Join, &web.0, peer, uri, headers, body).await
}

pub(super) async fn signed_up(web: Web, peer: Peer, uri: Uri, headers: HeaderMap, body: Body) -> Response {
    come(Door::SignUp, &web.0, peer, uri, headers, body).await
}

/// The token in a link; empty if there is none.
fn token_in(params: Result<Params, Problem>) -> String {
    params.ok().and_then(|mut params| params.take("token")).filter(|token| token.len() <= 512).unwrap_or_default()
}

fn hashed(token: &str) -> Token {
    Token(Keys::hash(token))
}

fn form(parts: &Parts, door: Door, token: String) -> Response {
    let provider = door.provider(parts);
    private_page(StatusCode::OK, html(&Newcomer { door, token, name: String::new(), provider, wrong: None }))
}

async fn come(door: Door, parts: &Parts, Peer(address): Peer, uri: Uri, headers: HeaderMap, body: Body) -> Response {
    let mut fields = match own_fields(parts, &headers, body).await {
        Ok(fields) => fields,
        Err(response) => return response,
    };
    let mut take = |name| fields.take(name).unwrap_or_default();
    let (token, name, password, again) = (take("token"), take("name"), take("password"), take("again"));
    // A door that is closed looks like no door, whatever is brought to it.
    let closed = match door {
        Door::Setup => parts.registry.awaits_setup_by(&hashed(&token)).await.map(|waits| !waits),
        Door::Join => Ok(token.is_empty() || token.len() > 512),
        Door::SignUp => Ok(!parts.accounts.open),
    };
    match closed {
        Ok(false) => {}
        Ok(true) => return nothing_here(uri, headers).await,
        Err(error) => return away(&error),
    }
    let made = match fields.done() {
        Ok(()) => make(door, parts, address, &token, &name, password, &again).await,
        Err(problem) => Err(Refused::Form(problem)),
    };
    let problem = match made {
        Ok(user) => match begin(parts, &headers, &user).await {
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
    let provider = door.provider(parts);
    let shown = Newcomer { door, token, name, provider, wrong: Some((field, sentence(&problem))) };
    let mut response = shown_again(&problem, html(&shown));
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
    parts: &Parts,
    address: IpAddr,
    token: &str,
    name: &str,
    password: String,
    again: &str,
) -> Result<User, Refused> {
    let name = user_name(name)?;
    check_new(&name, &password, again)?;
    // Hashing costs us something, and so does every answer about a name.
    parts.limits.sign_in(address, None).await?;
    let password = Some(parts.passwords.hash(password).await?);
    let created_at = parts.links.now();
    let user = NewUser { name, role: Role::User, password, identity: None, created_at };
    let made = match door {
        Door::Setup => parts.registry.take_setup(&hashed(token), user).await,
        Door::Join => parts.registry.accept(&hashed(token), user).await,
        // Whoever comes by themselves does it in nobody's name: they have none before.
        Door::SignUp => parts.registry.add_user(user, By { actor: Actor::Terse, at: created_at, why: None }).await,
    };
    made.map_err(|error| match error {
        RegistryError::Missing => Refused::Over,
        error => error.into(),
    })
}

/// A name that somebody chose.
fn user_name(text: &str) -> Result<UserName, Problem> {
    let words = "a name has 3 to 64 letters, digits and . _ - + @, and begins with a letter or digit";
    UserName::parse(text.trim()).ok_or_else(|| Problem::invalid("name", words))
}

/// A password that somebody chose.
pub(super) fn check_new(name: &UserName, password: &str, again: &str) -> Result<(), Problem> {
    if password.chars().count() < SHORTEST {
        return Err(Problem::invalid("password", format!("a password has at least {SHORTEST} characters")));
    }
    if password.eq_ignore_ascii_case(name.as_str()) {
        return Err(Problem::invalid("password", "the name is the first password that anybody tries"));
    }
    if password != again {
        // Neither is shown again, so both are to be typed.
        return Err(Problem::invalid("password", "the two are not the same; type both again"));
    }
    Ok(())
}
