//! Asker asks: what a request shows to be let in, and what that opens.

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, Method, Uri};
use terse_core::limits::Limit;
use terse_core::registry::{Account, KeyId, Role, Scope, Token};
use terse_core::{Caller, OwnerId};

use super::cookies::{cookie, session_cookie};
use super::origin::Origin;
use super::problem::{FORBIDDEN, Problem, SUSPENDED, UNAUTHORIZED};
use super::state::AppState;
use crate::keys::Keys;

/// Whoever asks.
#[derive(Clone, Debug)]
pub(crate) struct Principal {
    /// As the core knows them.
    pub(crate) caller: Caller,
    /// What they may do.
    pub(crate) role: Role,
    /// How much of that, by what they showed.
    pub(crate) scope: Scope,
    /// What they showed.
    pub(crate) credential: Credential,
}

/// What somebody showed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Credential {
    /// Nothing.
    Nothing,
    /// A key of whoever runs this server.
    OperatorKey,
    /// A key of an owner, with a limit of its own if it has one.
    Key {
        /// Which.
        id: KeyId,
        /// How many links it may make.
        plan: Option<Limit>,
    },
    /// The cookie of a session.
    Session(Token),
}

impl Principal {
    const ANONYMOUS: Self = Self {
        caller: Caller::Anonymous,
        role: Role::User,
        scope: Scope::Full,
        credential: Credential::Nothing,
    };
    const OPERATOR: Self = Self {
        caller: Caller::OPERATOR,
        role: Role::Admin,
        scope: Scope::Full,
        credential: Credential::OperatorKey,
    };

    /// Finds out who sent a request. A key that is shown must be right, even where none is needed;
    /// a session that has ended is as good as none.
    pub(crate) async fn of(
        state: &AppState,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Self, Problem> {
        match shown_key(headers)? {
            Some(key) => Self::of_key(state, key).await,
            None => Self::of_session(state, method, uri, headers).await,
        }
    }

    /// Who sent a request that changes nothing: which site asked for it does not matter.
    pub(crate) async fn of_reader(state: &AppState, headers: &HeaderMap) -> Result<Self, Problem> {
        Self::of(state, &Method::GET, &Uri::default(), headers).await
    }

    async fn of_key(state: &AppState, key: &str) -> Result<Self, Problem> {
        // The operator's own keys open the door even while the registry is away.
        if state.keys.is_operator(key) {
            return Ok(Self::OPERATOR);
        }
        let hash = Keys::checked_hash(key).ok_or_else(unknown_key)?;
        let Some((key, account)) = state.registry.key(&Token(hash)).await? else {
            return Err(unknown_key());
        };
        let now = state.links.now();
        if key.expires_at.is_some_and(|at| at <= now) {
            return Err(Problem::new(&UNAUTHORIZED, "this key has expired").on("Authorization"));
        }
        let plan = key.plan.as_deref().and_then(|plan| plan.parse().ok());
        let who = Self::of_account(&account, key.scope, Credential::Key { id: key.id, plan })?;
        state.used_keys.note(key.id, now);
        Ok(who)
    }

    async fn of_session(
        state: &AppState,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Self, Problem> {
        let Some(cookie) = cookie(headers, session_cookie(state)) else {
            return Ok(Self::ANONYMOUS);
        };
        let Some(hash) = Keys::checked_hash(cookie) else { return Ok(Self::ANONYMOUS) };
        let token = Token(hash);
        let Some((_, account)) = state.registry.session(&token, state.links.now()).await? else {
            return Ok(Self::ANONYMOUS);
        };
        // A browser sends the cookie for every page that asks it to, ours or not.
        if !method.is_safe() && Origin::of(state, uri, headers) != Origin::Own {
            return Err(Problem::new(&FORBIDDEN, "this was asked for by a page of another site")
                .on("Origin"));
        }
        Self::of_account(&account, Scope::Full, Credential::Session(token))
    }

    fn of_account(
        account: &Account,
        scope: Scope,
        credential: Credential,
    ) -> Result<Self, Problem> {
        if account.suspended.is_some() {
            return Err(Problem::new(&SUSPENDED, "this account is suspended"));
        }
        let caller = if account.role == Role::Admin {
            Caller::Admin(account.id)
        } else {
            Caller::Owner(account.id)
        };
        Ok(Self { caller, role: account.role, scope, credential })
    }

    /// Refuses those who have shown nothing.
    pub(crate) fn known(self) -> Result<Self, Problem> {
        match self.caller {
            Caller::Anonymous => {
                Err(Problem::new(&UNAUTHORIZED, "this needs a key").on("Authorization"))
            }
            _ => Ok(self),
        }
    }

    /// Refuses those whose key does not open this: looking, where the method only looks, else
    /// everything.
    pub(crate) fn in_scope(self, method: &Method) -> Result<Self, Problem> {
        let detail = match self.scope {
            Scope::Full => return Ok(self),
            Scope::Read if method.is_safe() => return Ok(self),
            Scope::Read => "this key may only look",
            Scope::Create => "this key may only make links",
        };
        Err(Problem::new(&FORBIDDEN, detail).on("Authorization"))
    }

    /// Refuses those whose key does not make links.
    pub(crate) fn may_create(self) -> Result<Self, Problem> {
        match self.scope {
            Scope::Full | Scope::Create => Ok(self),
            Scope::Read => {
                Err(Problem::new(&FORBIDDEN, "this key may only look").on("Authorization"))
            }
        }
    }

    /// Refuses those who may do less.
    pub(crate) fn at_least(self, role: Role) -> Result<Self, Problem> {
        if self.role >= role {
            return Ok(self);
        }
        let detail =
            if role == Role::Admin { "this needs an admin" } else { "this needs a moderator" };
        Err(Problem::new(&FORBIDDEN, detail).on("Authorization"))
    }

    /// Whose account this is.
    pub(crate) fn owner(&self) -> OwnerId {
        self.caller.owner()
    }
}

fn unknown_key() -> Problem {
    Problem::new(&UNAUTHORIZED, "this key is not known").on("Authorization")
}

/// The key in a request, bare or as a bearer's.
fn shown_key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut credential = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = credential.next() else { return Ok(None) };
    let text = value.to_str().map_err(|_| unknown_key())?.trim();
    let key = match text.split_once(' ') {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => key.trim_start(),
        Some(_) => return Err(unknown_key()),
        None => text,
    };
    if credential.next().is_some() {
        return Err(unknown_key());
    }
    Ok(Some(key))
}
