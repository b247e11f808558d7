//! The web plane of terse: the REST API and the pages.
//!
//! Turns requests into calls of [`terse_core::Links`] and results into JSON or HTML. The core holds
//! every rule about links; this crate defines only the HTTP interface. Elsewhere: redirects
//! (`terse-redirect`), health and metrics (`terse-metrics`), and the storage of links
//! (`backends/`).

mod access_cookies;
mod accounts;
mod api;
mod counts;
mod describe;
mod dry_run;
mod http;
mod keys;
mod link_json;
mod messages;
mod oidc;
mod pages;
mod password_gate;
mod passwords;
mod qr;
mod reporting;
mod resolve_target;
mod router;
mod site;
mod stats;
mod tag_name;
mod value_lists;
mod warning_pass;

pub use crate::http::{AppState, CorsOrigins, HttpSettings, Peer, RequestLog, name_problem};
pub use accounts::AccountSettings;
pub use api::OPENAPI;
#[cfg(feature = "openapi")]
pub use api::openapi;
pub use keys::AdminKeys;
pub use link_json::link_json;
pub use oidc::{OidcError, OidcHttp, OidcProvider, OidcRequest, OidcResponse, OidcSettings};
pub use pages::{CSP, Pages, RefusalPages, pages};
pub use password_gate::{GateDecision, PasswordGate, PasswordRequest};
pub use passwords::Passwords;
pub use resolve_target::ForwardedQuery;
pub use router::{router, router_and_gate};
pub use stats::ApiStats;
pub use terse_core::CreateResult;
pub use terse_core::limits::RateLimits;
