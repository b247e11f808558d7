//! Judging targets: on a blocklist, suspicious, or clear.
//!
//! Lists are given as bytes and become one compact index; flags are drawn from the target itself
//! and from small lists of our own under `data/`. Everything here is pure: no files, no network,
//! and no clock but the one that is handed in, for answers that hold for a time. Who fetches lists,
//! when links are judged again and what a visitor sees is decided elsewhere.

mod flag;
mod flags;
mod index;
mod known;
mod list;
mod look_alike;
mod name;
mod parts;
mod redirector;
pub mod safe_browsing;
mod screening;
mod script;
mod table;
mod typed;
mod verdict;

pub use flag::{Flag, FlagSet};
pub use flags::flags;
pub use index::{Index, Match, MatchKind};
pub use list::{Entry, Guard, ListKind, MAX_ENTRIES, ParsedList, parse};
pub use typed::typed_flags;
pub use verdict::{Block, SAFE_BROWSING, Screen, Verdict};
