//! The redirect plane: request in, redirect out.
//!
//! One thread per core, each with a runtime of its own. A plain GET of a link that is in memory is answered by one pure
//! function ([`fast_path`]) from bytes to bytes; whatever is unusual about a request goes, bytes and all, to hyper and the
//! front door. Links are remembered as [`Route`]s, their answers already written.
//!
//! Every visit is copied into its thread's part of the [`Journal`] before its answer leaves; who counts it, and when, is the
//! click pipeline's business.
//!
//! Absent on purpose: logging on success, locks shared between threads on the way of a hit, anything that waits for the API,
//! the dashboard, the click pipeline or the disk.

mod bans;
mod canned;
mod chooser;
mod clicks;
mod connection;
mod counts;
mod date;
mod desk;
mod fallbacks;
pub mod fast_path;
mod flights;
mod handover;
mod host_table;
mod journal;
mod lookups;
mod origin;
mod redirector;
mod route;
mod routes;
mod seats;
mod seen;
mod settings;
mod turnstile;
mod workers;

pub use canned::{Canned, Failure, FailurePages};
pub use counts::{BUCKETS_MICROS, Counts, Snapshot};
pub use desk::Desk;
pub use host_table::HostTable;
pub use journal::{AddressDetail, Journal, JournalSettings};
pub use origin::Origin;
pub use redirector::{Redirector, Reply, Visitor};
pub use route::Route;
pub use routes::Routes;
pub use seen::Seen;
pub use settings::{ErrorStyle, Settings};
pub use workers::{FrontDoor, Workers};
