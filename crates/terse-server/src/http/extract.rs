//! Extractors: who sends a request, and from where.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Path};
use axum::http::request;
use terse_core::Caller;
use terse_core::registry::Role;

use super::principal::Principal;
use super::problem::{Problem, UNAUTHORIZED};
use super::state::AppState;
use crate::limits::Allowance;
use crate::stats::CreateResult;

/// Whoever asks, with a key or without. A key that is shown must be right, even where none is
/// needed.
pub(crate) struct Anyone(pub(crate) Principal);
/// Whoever may make links here. Strangers who may not, and those who ask too often, are turned away
/// before their body is read.
pub(crate) struct Creator {
    pub(crate) caller: Caller,
    /// Tells strangers apart, who have no key to be known by; empty for owners.
    pub(crate) place: String,
    /// How much may be made.
    pub(crate) allowance: Allowance,
}
/// Whom a request is from, as far as whoever took it in knows: the client's address, not that of a
/// proxy.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);
impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(request: &mut request::Parts, _: &S) -> Result<Self, Infallible> {
        // Those of whom nobody knows where they are count as one.
        Ok(request
            .extensions
            .get()
            .copied()
            .unwrap_or(Self(std::net::Ipv4Addr::UNSPECIFIED.into())))
    }
}

/// Somebody with a key or a session, good for looking if the method only looks, else for
/// everything.
pub(crate) struct Keyed(pub(crate) Caller);
/// The same for a method that says more than it does: it looks, and changes nothing.
pub(crate) struct ReadOnly(pub(crate) Caller);
/// The same, for what is about the account rather than about links.
pub(crate) struct Member(pub(crate) Principal);
/// A moderator or an admin.
pub(crate) struct Moderator(pub(crate) Principal);
/// An admin.
pub(crate) struct Operator(pub(crate) Caller);

impl FromRequestParts<Arc<AppState>> for Anyone {
    type Rejection = Problem;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<AppState>,
    ) -> Result<Self, Problem> {
        Principal::of(state, &request.method, &request.uri, &request.headers).await.map(Self)
    }
}

impl FromRequestParts<Arc<AppState>> for Creator {
    type Rejection = Problem;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<AppState>,
    ) -> Result<Self, Problem> {
        let principal = Anyone::from_request_parts(request, state).await?.0.may_create()?;
        let caller = principal.caller;
        if caller == Caller::Anonymous && !state.links.rules().anonymous_create {
            return Err(
                Problem::new(&UNAUTHORIZED, "making links needs a key here").on("Authorization")
            );
        }
        let peer = request.extensions.get::<Peer>().map(|peer| peer.0);
        let allowance = state.limits.allowance(&principal, peer);
        state
            .limits
            .ask(allowance)
            .await
            .inspect_err(|_| state.stats.count_create(CreateResult::Limited))?;
        let place = peer
            .filter(|_| caller == Caller::Anonymous)
            .map(|peer| peer.to_string())
            .unwrap_or_default();
        Ok(Self { caller, place, allowance })
    }
}

impl FromRequestParts<Arc<AppState>> for Keyed {
    type Rejection = Problem;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<AppState>,
    ) -> Result<Self, Problem> {
        known(request, state).await.map(|principal| Self(principal.caller))
    }
}

impl FromRequestParts<Arc<AppState>> for ReadOnly {
    type Rejection = Problem;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<AppState>,
    ) -> Result<Self, Problem> {
        let principal = Anyone::from_request_parts(request, state)
            .await?
            .0
            .known()?
            .in_scope(&axum::http::Method::GET)?;
        Ok(Self(principal.caller))
    }
}

impl FromRequestParts<Arc<AppState>> for Member {
    type Rejection = Problem;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<AppState>,
    ) -> Result<Self, Problem> {
        known(request, state).await.map(Self)
    }
}

impl FromRequestParts<Arc<AppState>> for Moderator {
    type Rejection = Problem;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<AppState>,
    ) -> Result<Self, Problem> {
        known(request, state).await?.at_least(Role::Moderator).map(Self)
    }
}

impl FromRequestParts<Arc<AppState>> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<AppState>,
    ) -> Result<Self, Problem> {
        known(request, state).await?.at_least(Role::Admin).map(|principal| Self(principal.caller))
    }
}

/// Somebody who has shown what opens this method.
async fn known(request: &mut request::Parts, state: &Arc<AppState>) -> Result<Principal, Problem> {
    Anyone::from_request_parts(request, state).await?.0.known()?.in_scope(&request.method)
}

/// The variable part of a path. What is not even UTF-8 is empty, and so never found, rather than an
/// error of its own.
pub(crate) struct Name(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Infallible;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &S,
    ) -> Result<Self, Infallible> {
        let name = Path::<String>::from_request_parts(request, state).await;
        Ok(Self(name.map(|Path(name)| name).unwrap_or_default()))
    }
}
