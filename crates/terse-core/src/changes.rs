//! How caches of links learn that a link changed.

use crate::link::LinkKey;

/// A cache of routes in this process. A service calls it after a write is durable and before it
/// answers the caller, so that the node that wrote never serves the old link again.
pub trait RouteCache: Send + Sync + 'static {
    /// Drops what is cached for this link, found or missing. A look-up that began before this call
    /// is not cached when it ends.
    fn forget(&self, key: &LinkKey);

    /// Drops everything, with the same promise about look-ups under way. May take a while where
    /// much is cached: not for a serving thread.
    fn forget_all(&self);
}

/// For programs that cache nothing.
#[derive(Debug, Default)]
pub struct NoRouteCache;

impl RouteCache for NoRouteCache {
    fn forget(&self, _key: &LinkKey) {}

    fn forget_all(&self) {}
}
