//! Settings of the client and limits of a call.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::resolve::Resolve;

/// The settings of the client.
#[derive(Clone)]
pub struct OutgoingSettings {
    /// The `User-Agent`: `terse/0.1.0 (+https://go.example)`. Characters that a header cannot
    /// contain are removed.
    pub user_agent: String,
    /// The maximum number of concurrent calls, each on its own thread. Calls with a timeout of more
    /// than 10 s run on two separate threads.
    pub max_concurrent: usize,
    /// The maximum number of queued calls per pool; further calls fail with `Busy`.
    pub max_queued: usize,
    /// The timeout of a POST, in total.
    pub post_timeout: Duration,
    /// Allows loopback and private networks. Link-local addresses, where clouds serve metadata, are
    /// always refused.
    pub allow_private: bool,
    /// The resolver; the system's by default.
    pub resolver: Option<Arc<dyn Resolve>>,
    /// For tests: these addresses count as public.
    #[doc(hidden)]
    pub allow: Vec<SocketAddr>,
    /// For tests: DER certificates that are trusted instead of the public roots.
    #[doc(hidden)]
    pub trust_only: Vec<Vec<u8>>,
}

impl OutgoingSettings {
    /// The settings of a server with this base URL.
    pub fn new(version: &str, base_url: &str) -> Self {
        Self { user_agent: format!("terse/{version} (+{base_url})"), ..Self::default() }
    }
}

impl Default for OutgoingSettings {
    fn default() -> Self {
        Self {
            user_agent: concat!("terse/", env!("CARGO_PKG_VERSION")).into(),
            max_concurrent: 8,
            max_queued: 64,
            post_timeout: Duration::from_secs(2),
            allow_private: false,
            resolver: None,
            allow: Vec::new(),
            trust_only: Vec::new(),
        }
    }
}

impl fmt::Debug for OutgoingSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingSettings")
            .field("user_agent", &self.user_agent)
            .field("max_concurrent", &self.max_concurrent)
            .field("max_queued", &self.max_queued)
            .field("post_timeout", &self.post_timeout)
            .field("allow_private", &self.allow_private)
            .finish_non_exhaustive()
    }
}

/// What to do with a body over the limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Oversize {
    /// Keep the start: a title is near the top.
    Truncate,
    /// Fail: half a blocklist is wrong.
    Refuse,
}

/// The limits of one GET.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// From the lookup to the last byte, including redirects.
    pub timeout: Duration,
    /// The maximum body size in bytes. With 0 the body is not read.
    pub max_body: usize,
    /// What to do with a longer body.
    pub oversize: Oversize,
}

impl Limits {
    /// A web page: its first 64 KiB within 2 s.
    pub const PAGE: Self =
        Self { timeout: Duration::from_secs(2), max_body: 64 << 10, oversize: Oversize::Truncate };
    /// Only whether the server responds within 2 s.
    pub const REACHABILITY: Self =
        Self { timeout: Duration::from_secs(2), max_body: 0, oversize: Oversize::Truncate };
    /// A blocklist: 64 MiB within a minute, never truncated.
    pub const FEED: Self =
        Self { timeout: Duration::from_secs(60), max_body: 64 << 20, oversize: Oversize::Refuse };
}
