//! The web side of terse: the REST API and the pages.
//!
//! Turns requests into calls of [`terse_core::Links`] and answers into JSON or HTML. Every rule about links lives in the core;
//! what is decided here is how things look from outside. Absent on purpose: redirects (their plane is a crate of its own),
//! health and metrics (the binary's), and anything about how links are stored.

mod accounts;
mod api;
mod asker;
mod bell;
mod erasure;
mod gate;
mod keys;
mod limits;
mod oidc;
mod pages;
mod passes;
mod passwords;
mod reporting;
mod router;
mod stats;
mod used_keys;
mod way;
mod webhooks;

pub use accounts::Accounts;
pub use api::openapi;
pub use api::request::Peer;
pub use bell::{Bell, BellTower, Rung};
pub use erasure::{ErasureError, Erasures};
pub use gate::{Gate, Gatekeeper, Knock};
pub use keys::Keys;
pub use limits::Limits;
pub use oidc::{Oidc, OidcError, OidcSettings};
pub use pages::{CSP, Pages, pages};
pub use passwords::{PasswordError, Passwords};
pub use router::{Parts, router};
pub use stats::{ApiStats, Outcome};
pub use used_keys::UsedKeys;
pub use way::Brought;
pub use webhooks::{HookedOwners, Webhooks, link_json};
