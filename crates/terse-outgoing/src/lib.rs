//! The one guarded HTTP client for requests to other servers: page titles, reachability checks,
//! webhooks and blocklist feeds. It implements [`terse_core::HttpClient`].
//!
//! A URL from an owner may point at services that only this server can reach (SSRF). The client
//! resolves a name once, requires that every address is public, and connects only to the checked
//! addresses. Every redirect is checked like the first URL. Every call has one deadline and a
//! maximum body size, and the number of running and queued calls is bounded. The client uses no
//! proxy, cookies, credentials, `Referer`, compression or connection reuse. Each feature that calls
//! out has its own setting, off by default. No thread starts before the first call.

mod blocking_client;
mod connector;
mod error;
mod outgoing;
mod policy;
mod pool;
mod request_url;
mod resolve;
mod response;
mod settings;
mod smtp;
mod system_lookup;

pub use outgoing::OutgoingClient;
pub use resolve::{HostResolver, SystemResolver};
pub use settings::OutgoingSettings;
pub use smtp::{SmtpSecurity, SmtpSettings, SmtpTransport};
pub use system_lookup::SystemLookup;
