//! What the API and the pages share: the state of the web side, who sends a request, how its parts
//! are read, and how problems are answered. `api` and `pages` build on this module and do not know
//! each other.

pub(crate) mod body;
pub(crate) mod cookies;
pub(crate) mod extract;
pub(crate) mod host;
pub(crate) mod limit_headers;
pub(crate) mod origin;
pub(crate) mod params;
pub(crate) mod principal;
pub(crate) mod problem;
pub(crate) mod state;

pub use extract::Peer;
pub use state::AppState;
