//! What the API and the pages share: state, authentication, request parsing and error responses.
//! `api` and `pages` use this module and do not depend on each other.

pub(crate) mod body;
pub(crate) mod cookies;
pub(crate) mod cors;
pub(crate) mod cursor;
pub(crate) mod extract;
pub(crate) mod host;
pub(crate) mod limit_headers;
pub(crate) mod multipart;
pub(crate) mod origin;
pub(crate) mod own_visitor;
pub(crate) mod params;
pub(crate) mod principal;
pub(crate) mod problem;
pub(crate) mod refusal;
pub(crate) mod request_id;
pub(crate) mod self_check;
pub(crate) mod spelling;
pub(crate) mod state;

pub use cors::CorsOrigins;
pub use extract::Peer;
pub use refusal::name_problem;
pub use request_id::RequestLog;
pub use state::{AppState, HttpSettings};
