//! Background jobs, each a [`Job`], run by one [`Scheduler`].
//!
//! A job has a name, an interval and one method that does its work once. The scheduler decides
//! when: at the interval, only while this node holds the lease for jobs that one node runs for the
//! whole fleet, again after a failure, and never past shutdown. Jobs that need more than the core
//! (the server's pages, the HTTP client, the redirect plane) are in the binary.

mod erasures;
mod job;
mod lease;
mod link_changes;
mod live_clicks;
mod reaper;
mod removal_guard;
mod reports;
mod rescan;
mod retention;
mod scheduler;

#[cfg(test)]
mod fencing_tests;
#[cfg(test)]
mod removal_tests;

pub use erasures::ErasureJob;
pub use job::{Context, Job, Next};
pub use lease::LeaseKeeper;
pub use link_changes::LinkChanges;
pub use live_clicks::LiveClicks;
pub use reaper::{Reaper, ReaperCounts};
pub use removal_guard::{Aged, RemovalGuard};
pub use reports::Reports;
pub use rescan::{Fingerprint, Rescan, RescanCounts, RescanParts};
pub use retention::{
    ClickRetentionCounts, ClickRetentionJob, ClickRetentionSettings, RegistryRetention,
};
pub use scheduler::{CountsByJob, JobCounts, Running, Scheduler};
