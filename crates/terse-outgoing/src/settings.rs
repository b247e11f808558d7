//! Settings of the client.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::resolve::HostResolver;

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
    pub resolver: Option<Arc<dyn HostResolver>>,
    /// For tests: these addresses count as public.
    #[doc(hidden)]
    pub allow: Vec<SocketAddr>,
    /// DER certificates that are trusted instead of the public roots, if there are any.
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
