//! Background jobs, each a [`Job`](terse_core::job::Job), run by one [`Scheduler`].
//!
//! A job has a name, an interval and one method that does its work once. The scheduler decides
//! when: at the interval, only while this node holds the lease for jobs that one node runs for the
//! whole fleet, again after a failure, and never past shutdown. A job that works on the private
//! data of another crate (its lists, its certificates) is in that crate.

mod cache_rescreen;
mod cdn;
mod erasures;
mod hot_links;
mod lease;
mod link_changes;
mod link_checker;
mod live_clicks;
mod mail;
mod memory;
mod metrics;
mod node_version;
mod oldest_report;
mod outgoing_counts;
mod page_title;
mod reaper;
mod registry_refresh;
mod registry_watcher;
mod removal_guard;
mod reports;
mod rescan;
mod retention;
mod salts;
mod scheduler;
mod titles;
mod used_keys;
mod webhooks;

#[cfg(test)]
mod fencing_tests;
#[cfg(test)]
mod removal_tests;

pub use cache_rescreen::CacheRescreen;
pub use cdn::{CdnCounts, CdnPurge, CdnPurgeParts, CloudFront, Cloudflare, Fastly, Varnish};
pub use erasures::ErasureJob;
pub use hot_links::HotLinks;
pub use lease::LeaseKeeper;
pub use link_changes::LinkChanges;
pub use link_checker::{LinkChecker, MAX_CHECKS};
pub use live_clicks::LiveClicks;
pub use mail::MailDelivery;
pub use memory::{FreeMemory, ProgramPages, configure_allocator};
pub use metrics::write_job_metrics;
pub use node_version::NodeReport;
pub use oldest_report::{OldestReport, ReportWatch};
pub use outgoing_counts::OutgoingCounts;
pub use reaper::{Reaper, ReaperCounts};
pub use registry_refresh::{RefreshReceiver, RegistryRefresh};
pub use registry_watcher::{ApplyRegistry, RegistryWatcher};
pub use removal_guard::{RemovalGuard, RetentionKind};
pub use reports::ReportRepair;
pub use rescan::{Fingerprint, Rescan, RescanCounts, RescanParts};
pub use retention::{
    ClickRetentionCounts, ClickRetentionJob, ClickRetentionSettings, RegistryRetention,
};
pub use salts::{DailySalt, OldSalts};
pub use scheduler::{CountsByJob, JobCounts, RunningJobs, Scheduler};
pub use titles::{MAX_PAGES, TitleFetcher, UntitledLink};
pub use used_keys::{UsedKeyFlush, UsedKeys};
pub use webhooks::{
    LinkJson, LinkListeners, MAX_POSTS, OutboxDelivery, WebhookDelivery, WebhookEvents,
    WebhookOwnersRefresh,
};
