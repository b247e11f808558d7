//! Sign-in with OpenID Connect: the authorization code flow with PKCE, at one provider.
//!
//! `OidcProvider` reads the provider's metadata at the first sign-in, so while the provider is
//! unavailable only this way of signing in fails. A signed cookie ([`Flow`]) carries `state`,
//! `nonce` and the PKCE verifier from the request to the callback. The provider's ID token says who
//! signed in.

mod flow;
mod http;
mod id_token;
mod metadata;
mod provider;
mod ring_verifier;

pub(crate) use flow::{Flow, Purpose, TIMEOUT};
pub use http::{OidcHttp, OidcRequest, OidcResponse};
pub(crate) use provider::ProviderAccount;
pub use provider::{OidcError, OidcProvider, OidcSettings};
