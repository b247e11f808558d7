//! What an operator can decide about redirects.

use std::time::Duration;

use terse_core::Proxies;
use terse_core::limits::Limit;

/// How a failed visit is answered.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ErrorStyle {
    /// With its status, and a page or a problem as the body.
    #[default]
    Status,
    /// With a redirect to `/r/{code}?error=…`.
    Page,
}

/// The redirect plane's part of the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Serving threads.
    pub threads: usize,
    /// Off only to compare the fast path with what stands behind it.
    pub fast_path: bool,
    /// How failures are answered.
    pub errors: ErrorStyle,
    /// How long caches may keep a 301 or 308.
    pub permanent_max_age: Duration,
    /// How long a visitor may wait for the store.
    pub store_timeout: Duration,
    /// How many visitors may wait for the store at once.
    pub store_concurrency: usize,
    /// How long a request's head may take to arrive.
    pub header_timeout: Duration,
    /// How long a connection may be idle.
    pub idle_timeout: Duration,
    /// Connections beyond this are closed at once.
    pub max_connections: usize,
    /// Bytes for remembered links.
    pub cache_bytes: usize,
    /// How long a link is believed without asking the store again.
    pub cache_ttl: Duration,
    /// How long a missing link is believed to be missing.
    pub negative_ttl: Duration,
    /// How many missing links are remembered.
    pub negative_entries: usize,
    /// Whether an alias is also found when its case differs.
    pub loose: bool,
    /// How often one source may be redirected.
    pub redirect_per_address: Limit,
    /// How often one link may be followed.
    pub redirect_per_code: Limit,
    /// How often one source may ask for what is not there.
    pub guesses_per_address: Limit,
    /// Whose word about where a visitor comes from is taken.
    pub proxies: Proxies,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            fast_path: true,
            errors: ErrorStyle::Status,
            permanent_max_age: Duration::from_hours(24),
            store_timeout: Duration::from_millis(500),
            store_concurrency: 256,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            max_connections: 20_000,
            cache_bytes: 64 << 20,
            cache_ttl: Duration::from_mins(5),
            negative_ttl: Duration::from_secs(30),
            negative_entries: 65_536,
            loose: false,
            redirect_per_address: Limit::OFF,
            redirect_per_code: Limit::OFF,
            guesses_per_address: Limit::OFF,
            proxies: Proxies::default(),
        }
    }
}
