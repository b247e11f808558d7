//! Redis for several nodes: warm copies of links, news of changed links, and rate limits.
//!
//! Everything here only makes a fleet faster. The store stays the guarantee: without Redis, nodes
//! read links from the store, learn of changes from its feed and count limits for themselves. No
//! call waits longer than [`TIMEOUT`], and after one that failed no call is sent until Redis has
//! answered a probe.

mod announce;
mod client;
mod connection;
mod floors;
mod inspect;
mod limiter;
mod links;

mod target;
mod value;

pub use announce::AnnouncingRoutes;
pub use client::{Redis, RedisOpenError, TIMEOUT};
pub use inspect::{RedisInspection, inspect};
pub use limiter::RedisLimiter;
pub use links::{LinkCounts, LinkOptions, RedisLinks};
pub use target::{InvalidUrl, RedisUrl};
