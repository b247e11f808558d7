//! The redirect plane: request in, redirect out.
//!
//! One thread per core, each with a runtime of its own. A plain GET of a link that is in memory is answered by one pure
//! function ([`fast_path`]) from bytes to bytes; whatever is unusual about a request goes, bytes and all, to hyper and the
//! front door. Links are remembered as [`Route`]s, their answers already written.
//!
//! Absent on purpose: logging on success, locks shared between threads on the way of a hit, anything that waits for the API,
//! the dashboard or the click pipeline.

mod canned;
mod connection;
mod counts;
mod date;
pub mod fast_path;
mod flights;
mod handover;
mod host_table;
mod lookups;
mod redirector;
mod route;
mod routes;
mod seats;
mod settings;
mod workers;

pub use canned::{Canned, Failure, FailurePages};
pub use counts::{BUCKETS_MICROS, Counts, Snapshot};
pub use host_table::HostTable;
pub use redirector::{Redirector, Reply, Visitor};
pub use route::Route;
pub use routes::Routes;
pub use settings::{ErrorStyle, Settings};
pub use workers::{FrontDoor, Workers};
