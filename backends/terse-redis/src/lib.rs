//! Redis for several nodes: copies of links, announcements of changes, and shared rate limits.
//!
//! Redis only makes a fleet faster. Nodes work without it: they read links from the store, read
//! changes from its feed and count limits for themselves. No call waits longer than [`TIMEOUT`],
//! and after a failed call no call is sent until Redis has answered a probe.

mod announce;
mod client;
mod connection;
mod inspect;
mod limiter;
mod links;
mod minimum_revisions;
mod old_copies;
mod replay;
mod target;
mod value;

pub use announce::AnnouncingRoutes;
pub use client::{Redis, RedisOpenError, TIMEOUT};
pub use inspect::{RedisInspection, inspect};
pub use limiter::RedisLimiter;
pub use links::{LookupCounts, RedisLinkOptions, RedisLinks};
pub use target::{InvalidRedisUrl, RedisUrl};
