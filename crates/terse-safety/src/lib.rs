//! URL screening: a target is blocked, suspicious or clear.
//!
//! Blocklists are parsed from bytes into one compact index. Warning flags are computed from the
//! target and from the built-in lists in `data/`. [`Safety`] loads the lists and keeps them up to
//! date with jobs; the binary passes in the HTTP client and the clock.

mod contract;
mod flag;
mod flags;
mod hash_table;
mod host_name;
mod index;
mod input_flags;
mod known_hosts;
mod list;
mod look_alike;
mod metrics;
mod open_redirect;
pub mod safe_browsing;
mod screen;
mod script;
mod service;
mod url_parts;

pub use flag::{Flag, FlagSet};
pub use flags::flags;
pub use index::{BlocklistIndex, IndexMatch, MatchKind};
pub use input_flags::input_flags;
pub use list::{ListEntry, ListKind, MAX_ENTRIES, ParsedList, ProtectedHosts, parse};
pub use screen::{BlockingMatch, SAFE_BROWSING, Screen, Verdict};
pub use service::{
    ConfiguredList, LazyScreen, ListCounts, ListEffect, ListLocation, ListSource, OpenListError,
    Safety, SafetySettings,
};
