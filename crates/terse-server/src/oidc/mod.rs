//! Signing in with an account elsewhere: OpenID Connect, by the authorization code with PKCE, at
//! one provider.
//!
//! The provider is found by discovery at the first sign-in, so that one that is away stops nothing
//! else. What a browser must bring back is in a signed cookie; who somebody is, in a token that the
//! provider has signed for us.

mod flow;
mod provider;
mod wire;

pub(crate) use flow::{Flow, Purpose, TIMEOUT};
pub(crate) use provider::Person;
pub use provider::{Oidc, OidcError, OidcSettings};
