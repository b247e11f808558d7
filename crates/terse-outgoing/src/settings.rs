//! What the operator and the callers may choose.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::resolve::Resolve;

/// How the client behaves, for everyone who uses it.
#[derive(Clone)]
pub struct OutgoingSettings {
    /// Who we say we are: `terse/0.1.0 (+https://go.example)`. What a header cannot hold is left
    /// out.
    pub user_agent: String,
    /// How many calls run at once, each on a thread of its own. Those that may take more than 10 s
    /// have two other threads.
    pub at_once: usize,
    /// How many more of each kind may wait; past it calls are refused as `Busy`.
    pub waiting: usize,
    /// How long a post may take, all parts together.
    pub post_time: Duration,
    /// Loopback and private networks are fine, as inside a company. Link-local addresses, where
    /// clouds keep their metadata, are refused all the same.
    pub allow_private: bool,
    /// How names become addresses; the system's way unless told.
    pub resolver: Option<Arc<dyn Resolve>>,
    /// For tests: these very addresses count as public.
    #[doc(hidden)]
    pub allow: Vec<SocketAddr>,
    /// For tests: certificates in DER that are trusted instead of the usual ones.
    #[doc(hidden)]
    pub trust_only: Vec<Vec<u8>>,
}

impl OutgoingSettings {
    /// The settings of a server that is known as `base_url`.
    pub fn new(version: &str, base_url: &str) -> Self {
        Self { user_agent: format!("terse/{version} (+{base_url})"), ..Self::default() }
    }
}

impl Default for OutgoingSettings {
    fn default() -> Self {
        Self {
            user_agent: concat!("terse/", env!("CARGO_PKG_VERSION")).into(),
            at_once: 8,
            waiting: 64,
            post_time: Duration::from_secs(2),
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
            .field("at_once", &self.at_once)
            .field("waiting", &self.waiting)
            .field("post_time", &self.post_time)
            .field("allow_private", &self.allow_private)
            .finish_non_exhaustive()
    }
}

/// What to do with a body that is longer than wanted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Over {
    /// Take the beginning: a title stands at the top.
    Cut,
    /// Take nothing: half a list is a wrong list.
    Refuse,
}

/// How much of everybody's time and memory one answer may cost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// From the first lookup to the last byte, redirects included.
    pub time: Duration,
    /// The longest body. With 0 no body is read.
    pub body: usize,
    /// When it is longer.
    pub over: Over,
}

impl Limits {
    /// A web page: its first 64 KiB within 2 s.
    pub const PAGE: Self = Self { time: Duration::from_secs(2), body: 64 << 10, over: Over::Cut };
    /// Only whether somebody answers, within 2 s.
    pub const REACH: Self = Self { time: Duration::from_secs(2), body: 0, over: Over::Cut };
    /// A block list: whole or not at all, 64 MiB within a minute.
    pub const FEED: Self =
        Self { time: Duration::from_secs(60), body: 64 << 20, over: Over::Refuse };
}
