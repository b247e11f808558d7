//! Extractors: the principal of a request, and the client's address.

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

/// Any caller, with or without a key. A key that is presented must be valid, even where none is
/// needed.
pub(crate) struct AnyCaller(pub(crate) Principal);
/// A caller who may create links: see [`LinkCreation::admit`](terse_core::LinkCreation::admit). The
/// check runs before the body is read.
pub(crate) struct MayCreate(pub(crate) Creator);
/// The client's address, not that of a proxy. The HTTP server sets it.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);
impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(request: &mut request::Parts, _: &S) -> Result<Self, Infallible> {
        // Clients without a known address share one address, and so one rate limit.
        Ok(request
            .extensions
            .get()
            .copied()
            .unwrap_or(Self(std::net::Ipv4Addr::UNSPECIFIED.into())))
    }
}

/// An authenticated caller whose scope permits the method: reading for a method that only reads,
/// else writing.
pub(crate) struct Authenticated(pub(crate) Caller);
/// The same for a method such as POST that changes nothing: the scope to read is enough.
pub(crate) struct ReadOnly(pub(crate) Caller);
/// The same, with the whole principal, for calls about the account.
pub(crate) struct Member(pub(crate) Principal);
/// A moderator or an admin.
pub(crate) struct Moderator(pub(crate) Principal);
/// An admin.
pub(crate) struct Admin(pub(crate) Principal);

impl FromRequestParts<Arc<App>> for AnyCaller {
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
        let AnyCaller(principal) = AnyCaller::from_request_parts(request, state).await?;
        let address = request.extensions.get::<Peer>().map(|peer| peer.0);
        Ok(Self(state.creation.admit(&principal, address).await?))
    }
}

impl FromRequestParts<Arc<App>> for Authenticated {
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
        let principal =
            AnyCaller::from_request_parts(request, state).await?.0.known()?.may_read()?;
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
        let principal = known(request, state).await?;
        principal.require(Role::Moderator)?;
        Ok(Self(principal))
    }
}

impl FromRequestParts<Arc<App>> for Admin {
    type Rejection = Problem;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<App>,
    ) -> Result<Self, Problem> {
        let principal = known(request, state).await?;
        principal.require(Role::Admin)?;
        Ok(Self(principal))
    }
}

/// The authenticated principal, if its scope permits the method.
async fn known(request: &mut request::Parts, state: &Arc<App>) -> Result<Principal, Problem> {
    let principal = AnyCaller::from_request_parts(request, state).await?.0.known()?;
    in_scope(principal, &request.method)
}

/// The variable part of a path. A path that is not UTF-8 gives an empty name, which is never found.
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
