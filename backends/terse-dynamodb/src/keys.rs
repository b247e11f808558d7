//! The keys of items, and the partitions of indexes.
//!
//! | partition key `pk` | sort key `sk` | item |
//! |---|---|---|
//! | `L#domain#code` | `L` | a link, or the quarantine of its alias |
//! | `L#domain#code` | `H#nn` | an earlier version of it; the number goes round |
//! | `F#domain#folded` | `F` | the aliases that differ only by case, and those in quarantine |
//! | `U#hash` | `U` | the reusable links of an owner for one target |
//! | `R#id` | `R` | the answer to a request |
//! | `C#shard` | `time#random` | a change |
//! | `O#shard` | `position` | an event of the outbox |
//! | `M` | `identity`, `marks` | the secret of the store; leased numbers and the incarnation |

use terse_core::{Code, Domain, Link, LinkKey, StoreError, Timestamp};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::item::{Attributes as _, Item, corrupt, text};

pub(crate) const PK: &str = "pk";
pub(crate) const SK: &str = "sk";

/// The indexes, their partition key and their sort key.
pub(crate) const BY_OWNER: Index = Index("by_owner", "owner_shard", "place");
pub(crate) const BY_CREATED: Index = Index("by_created", "created_shard", "place");
pub(crate) const BY_EXPIRY: Index = Index("by_expiry", "expiry_shard", "expires");
pub(crate) const BY_PURGE: Index = Index("by_purge", "purge_shard", "purge_at");

/// A partition of the table or of an index accepts about 1,000 writes of a kilobyte a second. Links
/// of one owner, and links that were created at the same time, are spread over this many. Never
/// changed: stored items have them in their keys.
pub(crate) const OWNER_SHARDS: u64 = 8;
pub(crate) const CREATED_SHARDS: u64 = 16;
pub(crate) const MAINTENANCE_SHARDS: u64 = 8;
pub(crate) const CHANGE_SHARDS: u64 = 4;
pub(crate) const OUTBOX_SHARDS: u64 = 4;

/// A global secondary index: its name, partition key and sort key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Index(pub(crate) &'static str, pub(crate) &'static str, pub(crate) &'static str);

/// The primary key of an item.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Key {
    pub(crate) pk: String,
    pub(crate) sk: String,
}

impl Key {
    fn new(pk: impl Into<String>, sk: impl Into<String>) -> Self {
        Self { pk: pk.into(), sk: sk.into() }
    }

    pub(crate) fn item(&self) -> Item {
        [(PK.to_owned(), text(&self.pk)), (SK.to_owned(), text(&self.sk))].into()
    }

    /// The key of an item.
    pub(crate) fn of(item: &Item) -> Result<Self, StoreError> {
        Ok(Self::new(item.text(PK)?, item.text(SK)?))
    }
}

pub(crate) fn link(key: &LinkKey) -> Key {
    Key::new(format!("L#{}#{}", key.domain.as_str(), key.code.as_str()), "L")
}

pub(crate) fn link_key(pk: &str) -> Result<LinkKey, StoreError> {
    let parts = pk.strip_prefix("L#").and_then(|rest| rest.rsplit_once('#'));
    let parsed = parts.and_then(|(domain, code)| {
        Some(LinkKey { domain: Domain::from_stored(domain), code: Code::parse(code)? })
    });
    parsed.ok_or_else(|| corrupt(format!("no key of a link: {pk}")))
}

pub(crate) fn version(key: &LinkKey, slot: u64) -> Key {
    Key { sk: format!("H#{slot:02}"), ..link(key) }
}

pub(crate) fn folded(domain: &Domain, folded: &str) -> Key {
    Key::new(format!("F#{}#{folded}", domain.as_str()), "F")
}

/// Where the reusable links of the same owner, domain and target are. Other links may have the same
/// hash: the reader compares.
pub(crate) fn reuse(link: &Link) -> Key {
    let mut hash = Xxh3::new();
    hash.update(&link.owner.0.to_le_bytes());
    hash.update(&(link.key.domain.as_str().len() as u64).to_le_bytes());
    hash.update(link.key.domain.as_str().as_bytes());
    hash.update(link.target.as_str().as_bytes());
    Key::new(format!("U#{:032x}", hash.digest128()), "U")
}

pub(crate) fn request(id: &[u8; 32]) -> Key {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    Key::new(format!("R#{hex}"), "R")
}

pub(crate) fn marks() -> Key {
    Key::new("M", "marks")
}

pub(crate) fn identity() -> Key {
    Key::new("M", "identity")
}

/// The key of a new change row.
pub(crate) fn change(at_ms: i64, random: u64) -> Key {
    let shard = random % CHANGE_SHARDS;
    Key::new(change_partition(shard), format!("{}#{random:016x}", change_time(at_ms)))
}

pub(crate) fn change_partition(shard: u64) -> String {
    format!("C#{shard}")
}

/// Change rows are sorted by this.
pub(crate) fn change_time(at_ms: i64) -> String {
    format!("{:015}", at_ms.max(0))
}

pub(crate) fn event(position: u64) -> Key {
    Key::new(event_partition(position % OUTBOX_SHARDS), format!("{position:020}"))
}

pub(crate) fn event_partition(shard: u64) -> String {
    format!("O#{shard}")
}

/// A random number. Without random numbers, one that changes with every call in this process.
pub(crate) fn random() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    getrandom::u64().unwrap_or_else(|_| NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
}

/// Names a transaction, so that the server applies it once however often it is sent.
pub(crate) fn random_token() -> String {
    format!("{:016x}{:016x}", random(), random())
}

/// The shard of a link or request.
pub(crate) fn shard(pk: &str, shards: u64) -> u64 {
    xxh3_64(pk.as_bytes()) % shards
}

/// The sort key of a link in lists: ordered by time of creation, then by key.
pub(crate) fn sort_key(key: &LinkKey, created_at: Timestamp) -> String {
    // Flipping the sign makes negative times sort before positive ones.
    let time = created_at.as_ms().cast_unsigned() ^ (1 << 63);
    format!("{time:016x}#{}#{}", key.domain.as_str(), key.code.as_str())
}

/// Whether a text is a sort key.
pub(crate) fn is_sort_key(text: &str) -> bool {
    let Some((time, key)) = text.split_once('#') else { return false };
    time.len() == 16
        && time.bytes().all(|digit| digit.is_ascii_hexdigit())
        && link_key(&format!("L#{key}")).is_ok()
}

/// A queue of rows in the index [`BY_PURGE`], which a purge reads in the order of time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PurgeQueue {
    /// Links that were deleted, and expired links without an owner.
    Ended,
    /// Expired links of owners.
    ExpiredWithOwner,
    /// Aliases in quarantine.
    Quarantine,
    /// Answers to requests.
    Requests,
}

impl PurgeQueue {
    pub(crate) fn partition(self, shard: u64) -> String {
        let name = match self {
            Self::Ended => "ended",
            Self::ExpiredWithOwner => "expired",
            Self::Quarantine => "quarantine",
            Self::Requests => "requests",
        };
        format!("{name}#{shard}")
    }

    pub(crate) fn partition_of(self, pk: &str) -> String {
        self.partition(shard(pk, MAINTENANCE_SHARDS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sort_keys_sort_by_time_and_are_recognised() {
        let key = LinkKey { domain: Domain::primary(), code: Code::parse("abc").unwrap() };
        let times = [Timestamp::MIN, Timestamp::from_ms(-1), Timestamp::EPOCH, Timestamp::MAX];
        let sort_keys: Vec<String> = times.iter().map(|at| sort_key(&key, *at)).collect();
        assert!(sort_keys.is_sorted(), "{sort_keys:?}");
        assert!(sort_keys.iter().all(|key| is_sort_key(key)));
        for other in ["", "x", "not a cursor", "0000000000000000", "000000000000000g##abc"] {
            assert!(!is_sort_key(other), "{other}");
        }
    }

    #[test]
    fn a_key_is_read_back_from_its_partition() {
        for domain in ["", "go.example"] {
            let code = Code::parse("a_b-C").unwrap();
            let key = LinkKey { domain: Domain::from_stored(domain), code };
            assert_eq!(link_key(&link(&key).pk).unwrap(), key);
        }
        for bad in ["", "L#", "L##", "F##abc", "abc"] {
            assert!(link_key(bad).is_err(), "{bad}");
        }
    }
}
