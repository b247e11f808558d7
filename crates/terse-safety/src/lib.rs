//! URL screening: a target is blocked, suspicious or clear.
//!
//! Blocklists are parsed from bytes into one compact index. Warning flags are computed from the
//! target and from the built-in lists in `data/`. The crate does no I/O: the binary fetches lists,
//! schedules re-scans and passes in the clock.

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
mod open_redirect;
pub mod safe_browsing;
mod screen;
mod script;
mod url_parts;

pub use flag::{Flag, FlagSet};
pub use flags::flags;
pub use index::{Index, Match, MatchKind};
pub use input_flags::input_flags;
pub use list::{Entry, ListKind, MAX_ENTRIES, ParsedList, ProtectedHosts, parse};
pub use screen::{Block, SAFE_BROWSING, Screen, Verdict};
