//! The settings of the redirect plane.

use std::time::Duration;

use terse_core::Proxies;
use terse_core::limits::Limit;

use crate::edge::EdgeSettings;

/// How a visit without a redirect is answered.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ErrorStyle {
    /// With its status, and a page or a problem document as the body.
    #[default]
    Status,
    /// With a redirect to `/r/{code}?error=…`.
    Page,
}

/// The settings of the redirect plane.
#[derive(Clone, Debug)]
pub struct RedirectSettings {
    /// Serving threads.
    pub threads: usize,
    /// Off only in tests that compare the fast path with hyper.
    pub fast_path: bool,
    /// How visits without a redirect are answered.
    pub errors: ErrorStyle,
    /// How long clients may cache a 301 or 308.
    pub permanent_max_age: Duration,
    /// A link with 302 that has not changed for this long is answered with 301; `None` for never.
    pub permanent_after: Option<Duration>,
    /// How long a visitor may wait for the store.
    pub store_timeout: Duration,
    /// How many lookups may wait for the store at the same time.
    pub store_concurrency: usize,
    /// How long a request's head may take to arrive.
    pub header_timeout: Duration,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How many TLS handshakes may be in progress; further connections are refused.
    pub max_handshakes: usize,
    /// Whether requests without TLS are left to the fallback service, which redirects them to
    /// https.
    pub https_only: bool,
    /// How long a connection may be idle.
    pub idle_timeout: Duration,
    /// The most open connections. When they are all in use, a new connection closes those that have
    /// been idle longest; if none is idle, the new one is refused.
    pub max_connections: usize,
    /// The most connections of one source. Trusted proxies may have more.
    pub max_connections_per_source: usize,
    /// The memory for cached links, in bytes.
    pub cache_bytes: usize,
    /// How many connections may speak HTTP/2. Each may fill its windows of 64 KiB.
    pub max_http2_connections: usize,
    /// The time to live of a cached link.
    pub cache_ttl: Duration,
    /// How long a cached link is served past its time to live while the store is away.
    pub max_stale: Duration,
    /// The time to live of a cached code without a link.
    pub negative_ttl: Duration,
    /// How many codes without a link are cached.
    pub negative_entries: usize,
    /// Whether an alias is also found if the case of its letters differs.
    pub loose: bool,
    /// Redirects per network.
    pub redirect_per_address: Limit,
    /// Redirects per link.
    pub redirect_per_code: Limit,
    /// Requests per network for links that do not exist.
    pub guesses_per_address: Limit,
    /// What a CDN in front of the nodes may keep; `None` without one.
    pub edge: Option<EdgeSettings>,
    /// How long browsers use https only, for answers over https; `None` for no such header.
    pub hsts: Option<Duration>,
    /// The proxies whose `X-Forwarded-For` is trusted.
    pub proxies: Proxies,
    /// Whether these proxies begin each connection with a header of the PROXY protocol.
    pub proxy_protocol: bool,
}

impl Default for RedirectSettings {
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            fast_path: true,
            errors: ErrorStyle::Status,
            permanent_max_age: Duration::from_hours(24),
            permanent_after: None,
            store_timeout: Duration::from_millis(500),
            store_concurrency: 256,
            header_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(10),
            max_handshakes: 1024,
            https_only: false,
            idle_timeout: Duration::from_secs(75),
            max_connections: 20_000,
            max_connections_per_source: 2_500,
            cache_bytes: 64 << 20,
            max_http2_connections: 1024,
            cache_ttl: Duration::from_mins(5),
            max_stale: Duration::from_hours(1),
            negative_ttl: Duration::from_secs(30),
            negative_entries: 65_536,
            loose: false,
            redirect_per_address: Limit::OFF,
            redirect_per_code: Limit::OFF,
            guesses_per_address: Limit::OFF,
            edge: None,
            hsts: None,
            proxies: Proxies::default(),
            proxy_protocol: false,
        }
    }
}
