//! The one guarded client for everything terse asks of strangers' servers: page titles,
//! reachability, webhooks, feeds.
//!
//! Whoever may name a URL may try to make us knock at doors only we can reach. So a name is
//! resolved once, every address it has must be one of the public Internet, and the connection goes
//! to exactly the addresses that were checked. Each redirect begins again from the start. Every
//! call has one deadline over all its parts and a bound on what is read, and there is a bound on
//! how many run and wait. There is no proxy, no cookie, no credential, no `Referer`, no
//! compression, and no reuse of connections. Whether a feature may call out at all is its own
//! setting, off by default; this room starts no thread before the first call.

mod answer;
mod error;
mod exchange;
mod outgoing;
mod policy;
mod pool;
mod remote_addr;
mod resolve;
mod settings;
mod sign;
mod title;
mod wire;

pub use answer::{Fetched, Posted, Validators};
pub use error::OutgoingError;
pub use outgoing::Outgoing;
pub use resolve::{Resolve, System};
pub use settings::{Limits, OutgoingSettings, Over};
pub use sign::{HookSecret, SIGNATURE_HEADER, SignatureError, sign, verify};
pub use title::title_of;
