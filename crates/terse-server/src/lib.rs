//! The web side of terse: the REST API and the pages.
//!
//! Turns requests into calls of [`terse_core::Links`] and results into JSON or HTML. The core holds
//! every rule about links; this crate defines only the HTTP interface. Absent on purpose: redirects
//! (the crate `terse-redirect`), health and metrics (the binary), and the storage of links.

mod access_cookies;
mod accounts;
mod api;
mod counts;
mod csv_cell;
mod dry_run;
mod http;
mod keys;
mod oidc;
mod pages;
mod password_gate;
mod passwords;
mod qr;
mod registry_refresh;
mod reporting;
mod resolve_target;
mod router;
mod site;
mod stats;
mod used_keys;
mod value_lists;
mod warning_pass;
mod webhooks;

pub use crate::http::{AppState, CorsOrigins, HttpSettings, Peer, RequestLog};
pub use accounts::AccountSettings;
pub use api::openapi;
pub use keys::Keys;
pub use oidc::{Oidc, OidcError, OidcHttp, OidcRequest, OidcResponse, OidcSettings};
pub use pages::{CSP, Pages, RefusalPages, pages};
pub use password_gate::{GateDecision, PasswordGate, PasswordRequest};
pub use passwords::Passwords;
pub use registry_refresh::{PendingRefreshes, RefreshReceiver, RegistryRefresh};
pub use resolve_target::ForwardedQuery;
pub use router::router;
pub use stats::ApiStats;
pub use terse_core::CreateResult;
pub use terse_core::limits::Limits;
pub use used_keys::UsedKeys;
pub use webhooks::{HookedOwners, Webhooks, link_json};
