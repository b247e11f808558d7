//! What Redis holds for a link.
//!
//! | bytes | content |
//! |---|---|
//! | 1 | `L`: a link; `T`: a tombstone, which only says that older copies are wrong |
//! | 16 | the revision, in hexadecimal digits |
//! | 12 | when it was written, in milliseconds of Redis' clock, in hexadecimal digits |
//! | … | the link, as `terse_core::link_codec` writes it; nothing for a tombstone |
//!
//! Values are ordered by revision, and a tombstone comes after a link of its revision. The script
//! [`PUT`] never replaces a value by an earlier one. Nothing is deleted: after a deletion, a slow
//! reader could write an old copy, and nothing would refuse it.

use terse_core::{Link, Revision, link_codec};

const HEADER: usize = 29;

/// Writes a value unless there is a later one. `KEYS[1]`; kind, revision, time to live in
/// milliseconds, the time of Redis' clock after which it is too late (0: never), content.
pub(crate) const PUT: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local latest = tonumber(ARGV[4])
if latest > 0 and now > latest then return 0 end
local old = redis.call('GETRANGE', KEYS[1], 0, 16)
local theirs = #old == 17 and tonumber(string.sub(old, 2), 16)
if theirs then
    local mine = tonumber(ARGV[2], 16)
    if theirs > mine or (theirs == mine and string.sub(old, 1, 1) == 'T') then return 0 end
end
local value = ARGV[1] .. ARGV[2] .. string.format('%012x', now) .. ARGV[5]
redis.call('SET', KEYS[1], value, 'PX', ARGV[3])
return 1
";

/// A copy of a link.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct LinkCopy {
    pub(crate) link: Link,
    /// When it was written, by Redis' clock.
    pub(crate) written_ms: i64,
}

/// A revision as the script reads it.
pub(crate) fn digits(revision: Revision) -> String {
    // Numbers of Lua are exact up to 2^53. No link has that many revisions.
    format!("{:016x}", revision.0.min(1 << 53))
}

/// Reads a value. `None` for a tombstone and for what this program cannot read: both are a miss.
pub(crate) fn read(bytes: &[u8]) -> Option<LinkCopy> {
    let (header, content) = bytes.split_at_checked(HEADER)?;
    let header = std::str::from_utf8(header).ok()?;
    let written_ms = i64::from_str_radix(header.strip_prefix('L')?.get(16..)?, 16).ok()?;
    let link = link_codec::decode(content)?;
    (header.get(1..17)? == digits(link.revision)).then_some(LinkCopy { link, written_ms })
}
