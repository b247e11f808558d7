//! The redirect plane: request in, redirect out.
//!
//! One thread per core serves connections, each with a runtime of its own. [`fast_path`], a
//! function from bytes to bytes, answers a plain GET of a link that is in memory. Other requests go
//! to hyper and the [`FallbackService`], with the bytes already read. Links are cached as
//! [`Route`]s, whose redirects are prepared bytes.
//!
//! The serving thread writes each visit to its part of the [`Journal`] before it sends the answer.
//! The click pipeline reads the journal and counts.
//!
//! A cache hit does not log, takes no lock that threads share, and never waits for the API, the
//! dashboard, the click pipeline or the disk.

mod batch;
mod body_length;
mod clicks;
mod client_addr;
mod connection;
mod connection_table;
mod counts;
mod date;
mod edge;
mod error_responses;
mod fallbacks;
pub mod fast_path;
mod host_table;
mod http_fallback;
mod hyper_fallback;
mod journal;
mod limiter;
mod listener;
mod metrics;
mod now;
mod permit;
mod proxy_header;
mod redirector;
mod request_framing;
mod route;
mod routes;
mod rule_evaluator;
mod serving_threads;
mod settings;
mod single_flight;
mod social_preview;
mod sources;
mod stream;
mod suspensions;
mod tls;
mod transport_security;
mod unissued_lane;
mod visit_handler;
mod visitor_headers;

pub use client_addr::ClientAddr;
pub use counts::RedirectCounts;
pub use edge::EdgeSettings;
pub use error_responses::{ErrorResponses, FailurePages, LanguagePages};
pub use host_table::HostTable;
pub use http_fallback::{
    FallbackParts, HttpFallback, PasswordDecision, PasswordVisit, RejectedRequest, RequestBody,
    ServedRoles, WebPlane,
};
pub use journal::{AddressDetail, Journal, JournalSettings};
pub use listener::Listener;
pub use now::ClockReading;
pub use redirector::{LinkUnavailable, Redirector, Reply, VisitMethod, Visitor};
pub use route::Route;
pub use routes::Routes;
pub use serving_threads::{FallbackService, Listeners, ServingThreads, SocketsToKeep};
pub use settings::{ErrorStyle, RedirectSettings};
pub use visit_handler::VisitHandler;
pub use visitor_headers::VisitorHeaders;
