//! Extractors: who sends a request, and from where.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Path};
use axum::http::request;
use terse_core::registry::Role;
use terse_core::{Caller, Creator, Principal};

use super::principal::{in_scope, principal_of};
use super::problem::Problem;
use super::state::App;

/// Whoever asks, with a key or without. A key that is shown must be right, even where none is
/// needed.
pub(crate) struct Anyone(pub(crate) Principal);
/// A caller who may create links: see [`LinkCreation::admit`](terse_core::LinkCreation::admit). The
/// body is not read before.
pub(crate) struct MayCreate(pub(crate) Creator);
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
pub(crate) struct Operator(pub(crate) Principal);

impl FromRequestParts<Arc<App>> for Anyone {
    type Rejection = Problem;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<App>,
    ) -> Result<Self, Problem> {
        principal_of(state, &request.method, &request.uri, &request.headers).await.map(Self)
    }
}

impl FromRequestParts<Arc<App>> for MayCreate {
    type Rejection = Problem;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<App>,
    ) -> Result<Self, Problem> {
        let Anyone(principal) = Anyone::from_request_parts(request, state).await?;
        let address = request.extensions.get::<Peer>().map(|peer| peer.0);
        Ok(Self(state.creation.admit(&principal, address).await?))
    }
}

impl FromRequestParts<Arc<App>> for Keyed {
    type Rejection = Problem;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<App>,
    ) -> Result<Self, Problem> {
        known(request, state).await.map(|principal| Self(principal.caller))
    }
}

impl FromRequestParts<Arc<App>> for ReadOnly {
    type Rejection = Problem;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<App>,
    ) -> Result<Self, Problem> {
        let principal = Anyone::from_request_parts(request, state).await?.0.known()?.may_read()?;
        Ok(Self(principal.caller))
    }
}

impl FromRequestParts<Arc<App>> for Member {
    type Rejection = Problem;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<App>,
    ) -> Result<Self, Problem> {
        known(request, state).await.map(Self)
    }
}

impl FromRequestParts<Arc<App>> for Moderator {
    type Rejection = Problem;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<App>,
    ) -> Result<Self, Problem> {
        Ok(Self(known(request, state).await?.at_least(Role::Moderator)?))
    }
}

impl FromRequestParts<Arc<App>> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<App>,
    ) -> Result<Self, Problem> {
        Ok(Self(known(request, state).await?.at_least(Role::Admin)?))
    }
}

/// Somebody who has shown what opens this method.
async fn known(request: &mut request::Parts, state: &Arc<App>) -> Result<Principal, Problem> {
    let principal = Anyone::from_request_parts(request, state).await?.0.known()?;
    in_scope(principal, &request.method)
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
