//! The redirect plane: request in, redirect out.
//!
//! One thread per core, each with a runtime of its own. A plain GET of a link that is in memory is
//! answered by one pure function ([`fast_path`]) from bytes to bytes; whatever is unusual about a
//! request goes, bytes and all, to hyper and the front door. Links are remembered as [`Route`]s,
//! their answers already written.
//!
//! Every visit is copied into its thread's part of the [`Journal`] before its answer leaves; who
//! counts it, and when, is the click pipeline's business.
//!
//! Absent on purpose: logging on success, locks shared between threads on the way of a hit,
//! anything that waits for the API, the dashboard, the click pipeline or the disk.

mod bans;
mod batch;
mod chooser;
mod clicks;
mod client_addr;
mod connection;
mod connection_table;
mod counts;
mod date;
mod error_responses;
mod fallbacks;
pub mod fast_path;
mod host_table;
mod hyper_fallback;
mod journal;
mod limiter;
mod redirector;
mod route;
mod routes;
mod settings;
mod single_flight;
mod visit_handler;
mod visitor_headers;
mod workers;

pub use client_addr::ClientAddr;
pub use counts::{BUCKETS_MICROS, Counts, Snapshot};
pub use error_responses::{ErrorResponses, Failure, FailurePages};
pub use host_table::HostTable;
pub use journal::{AddressDetail, Journal, JournalSettings};
pub use redirector::{Redirector, Reply, Visitor};
pub use route::Route;
pub use routes::Routes;
pub use settings::{ErrorStyle, Settings};
pub use visit_handler::VisitHandler;
pub use visitor_headers::VisitorHeaders;
pub use workers::{FallbackService, Workers};
