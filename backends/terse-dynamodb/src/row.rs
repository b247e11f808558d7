//! Links as items.
//!
//! The link itself is one attribute, `body`, in the codec of the core. Beside it are the attributes
//! that conditions, indexes and counters need. `spent` and `max_clicks` count visits and win over
//! the body.

use terse_core::link_codec;
use terse_core::{Link, LinkKey, ModerationStatus, OwnerId, PurgeBefore, StoreError, Timestamp};

use crate::client::Db;
use crate::failure::Failure;
use crate::item::{Attributes as _, Item, Placeholders, bytes, corrupt, number, text};
use crate::keys::{self, CREATED_SHARDS, MAINTENANCE_SHARDS, OWNER_SHARDS, PurgeQueue, shard};
use crate::requests::Condition;

pub(crate) const BODY: &str = "body";
pub(crate) const REVISION: &str = "revision";
pub(crate) const SERIAL: &str = "serial";
pub(crate) const SPENT: &str = "spent";
pub(crate) const MAX_CLICKS: &str = "max_clicks";
pub(crate) const QUARANTINED_UNTIL: &str = "held_until";
const FORMER_OWNER: &str = "held_owner";
pub(crate) const TAGS: &str = "tags";
pub(crate) const MARKED: &str = "marked";
const VERSIONS: &str = "versions";
const LAST_EVENT: &str = "last_event";

/// The attributes that an update sets or removes. `serial` and `spent` are not among them.
const CHANGED: [&str; 13] = [
    BODY,
    REVISION,
    MAX_CLICKS,
    TAGS,
    MARKED,
    VERSIONS,
    LAST_EVENT,
    "owner_shard",
    "created_shard",
    "expiry_shard",
    "expires",
    "purge_shard",
    "purge_at",
];

/// Names a link for as long as it lives: a later link with the same key has another one.
pub(crate) type Serial = [u8; 16];

/// A link with what the store keeps beside it.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) link: Link,
    pub(crate) serial: Serial,
    /// When it was marked as expired.
    pub(crate) marked: Option<Timestamp>,
    /// How many earlier versions were ever written.
    pub(crate) versions: u64,
    /// The position of its last event.
    pub(crate) last_event: u64,
}

/// What is stored under the key of a link.
#[derive(Clone, Debug)]
pub(crate) enum Slot {
    Link(Box<Stored>),
    /// An alias in quarantine, by its serial and its former owner.
    Quarantined(Serial, OwnerId),
}

impl Slot {
    pub(crate) fn read(item: &Item) -> Result<Self, StoreError> {
        let serial = item.bytes(SERIAL)?.try_into();
        let serial = serial.map_err(|_| corrupt("the serial of a link has another length"))?;
        if item.contains_key(QUARANTINED_UNTIL) {
            let owner = item.text(FORMER_OWNER)?.parse().map(OwnerId);
            return Ok(Self::Quarantined(
                serial,
                owner.map_err(|_| corrupt("an owner is no number"))?,
            ));
        }
        let key = keys::link_key(item.text(keys::PK)?)?;
        let mut link = link_codec::decode_stored(item.bytes(BODY)?)?
            .filter(|link| link.key == key)
            .ok_or_else(|| corrupt(format!("the item of {key:?} is no link")))?;
        link.spent_clicks = item.number(SPENT)?.unwrap_or(0);
        Ok(Self::Link(Box::new(Stored {
            link,
            serial,
            marked: item.number(MARKED)?.map(Timestamp::from_ms),
            versions: item.number(VERSIONS)?.unwrap_or(0),
            last_event: item.number(LAST_EVENT)?.unwrap_or(0),
        })))
    }

    /// The link, if there is one.
    pub(crate) fn into_link(self) -> Option<Stored> {
        match self {
            Self::Link(stored) => Some(*stored),
            Self::Quarantined(..) => None,
        }
    }
}

/// The link in an item, unless it is only an alias in quarantine.
pub(crate) fn read(item: &Item) -> Result<Option<Stored>, StoreError> {
    Slot::read(item).map(Slot::into_link)
}

impl Stored {
    /// A link that is not stored yet.
    pub(crate) fn new(link: Link) -> Result<Self, StoreError> {
        let mut serial = [0; 16];
        getrandom::fill(&mut serial).map_err(|_| StoreError::Busy)?;
        Ok(Self { link, serial, marked: None, versions: 0, last_event: 0 })
    }

    /// The item of a new link.
    pub(crate) fn item(&self) -> Item {
        let mut item = self.changed_attributes();
        item.extend(keys::link(&self.link.key).item());
        item.insert(SERIAL.into(), bytes(self.serial));
        item.insert(SPENT.into(), number(self.link.spent_clicks));
        item.insert("place".into(), text(keys::sort_key(&self.link.key, self.link.created_at)));
        item
    }

    fn changed_attributes(&self) -> Item {
        let link = &self.link;
        let pk = keys::link(&link.key).pk;
        let mut item = Item::from([
            (BODY.to_owned(), bytes(link_codec::encode(link))),
            (REVISION.to_owned(), number(link.revision.0)),
            ("owner_shard".to_owned(), text(owner_partition(link.owner, shard(&pk, OWNER_SHARDS)))),
            ("created_shard".to_owned(), text(shard(&pk, CREATED_SHARDS).to_string())),
        ]);
        let mut set = |name: &str, value| item.insert(name.to_owned(), value);
        if let Some(most) = link.max_clicks {
            set(MAX_CLICKS, number(most));
        }
        if !link.tags.is_empty() && link.deleted_at.is_none() {
            set(TAGS, text(link.tags.joined()));
        }
        if let Some(marked) = self.marked {
            set(MARKED, number(marked.as_ms()));
        }
        if self.versions > 0 {
            set(VERSIONS, number(self.versions));
        }
        if self.last_event > 0 {
            set(LAST_EVENT, number(self.last_event));
        }
        if let (Some(expires), None) = (link.expires_at, self.marked) {
            set("expiry_shard", text(expiry_partition(shard(&pk, MAINTENANCE_SHARDS))));
            set("expires", number(expires.as_ms()));
        }
        if let Some((queue, at)) = self.purge() {
            set("purge_shard", text(queue.partition_of(&pk)));
            set("purge_at", number(at.as_ms()));
        }
        item
    }

    /// The queue that lists the link for a purge, and the time from which on the purge deletes it.
    /// Blocked links are in no queue, so that a purge does not read them again and again.
    fn purge(&self) -> Option<(PurgeQueue, Timestamp)> {
        if self.link.moderation == ModerationStatus::Blocked {
            return None;
        }
        let over = self.marked.zip(self.link.expires_at).map(|(marked, end)| marked.max(end));
        let anonymous = self.link.owner == OwnerId::ANONYMOUS;
        match (self.link.deleted_at, over) {
            (Some(deleted), Some(over)) if anonymous => {
                Some((PurgeQueue::Ended, deleted.min(over)))
            }
            (Some(deleted), _) => Some((PurgeQueue::Ended, deleted)),
            (None, Some(over)) if anonymous => Some((PurgeQueue::Ended, over)),
            (None, Some(over)) => Some((PurgeQueue::ExpiredWithOwner, over)),
            (None, None) => None,
        }
    }

    /// Whether a purge deletes the link.
    pub(crate) fn is_purgeable(&self, before: PurgeBefore) -> bool {
        self.purge().is_some_and(|(queue, at)| match queue {
            PurgeQueue::ExpiredWithOwner => at <= before.expired_with_owner,
            _ => at <= before.ended,
        })
    }

    /// Takes positions for as many events, after those of the link's earlier ones.
    pub(crate) fn take_positions(&mut self, now: Timestamp, count: usize) -> Vec<u64> {
        // Milliseconds in the high bits, so that positions grow with time; chance in the low ones,
        // so that two nodes choose different ones.
        let chance = u64::from(getrandom::u32().unwrap_or_default()) & 0x1f_ffff;
        let by_time = (now.as_ms().max(0).cast_unsigned() << 21) | chance;
        let first = by_time.max(self.last_event + 1);
        let positions: Vec<u64> = (0..count as u64).map(|n| first + n).collect();
        self.last_event = positions.last().copied().unwrap_or(self.last_event);
        positions
    }

    /// The expression that changes the stored link to this one, with the condition that nothing
    /// else has changed it since `revision`.
    pub(crate) fn change(&self, revision: u64, is_unmarked: bool) -> (String, Condition) {
        let mut placeholders = Placeholders::default();
        let mut attributes = self.changed_attributes();
        let (mut set, mut removed) = (Vec::new(), Vec::new());
        for name in CHANGED {
            match attributes.remove(name) {
                Some(value) => set.push(placeholders.equal(name, value)),
                None => removed.push(placeholders.name(name)),
            }
        }
        let mut expression = format!("SET {}", set.join(", "));
        if !removed.is_empty() {
            expression += &format!(" REMOVE {}", removed.join(", "));
        }
        let mut condition = format!(
            "{} AND {}",
            placeholders.equal(REVISION, number(revision)),
            placeholders.equal(SERIAL, bytes(self.serial))
        );
        if is_unmarked {
            condition += &format!(" AND {}", placeholders.absent(MARKED));
        }
        (expression, Condition::new(condition, &placeholders))
    }

    /// The condition that the link is still the one that was read.
    pub(crate) fn unchanged(&self) -> Condition {
        let mut placeholders = Placeholders::default();
        let text = format!(
            "{} AND {}",
            placeholders.equal(REVISION, number(self.link.revision.0)),
            placeholders.equal(SERIAL, bytes(self.serial))
        );
        Condition::new(text, &placeholders)
    }
}

/// The item of an alias in quarantine.
pub(crate) fn quarantined(key: &LinkKey, serial: Serial, owner: OwnerId, until: Timestamp) -> Item {
    let mut item = keys::link(key).item();
    let pk = keys::link(key).pk;
    item.insert(SERIAL.into(), bytes(serial));
    item.insert(QUARANTINED_UNTIL.into(), number(until.as_ms()));
    item.insert(FORMER_OWNER.into(), text(owner.0.to_string()));
    item.insert("purge_shard".into(), text(PurgeQueue::Quarantine.partition_of(&pk)));
    item.insert("purge_at".into(), number(until.as_ms()));
    item
}

pub(crate) fn owner_partition(owner: OwnerId, shard: u64) -> String {
    format!("{}#{shard}", owner.0)
}

pub(crate) fn expiry_partition(shard: u64) -> String {
    shard.to_string()
}

impl Db {
    /// Reads a link from the home region, with strong consistency.
    pub(crate) async fn stored(&self, key: &LinkKey) -> Result<Option<Stored>, StoreError> {
        match self.get(self.deadline(), &keys::link(key), true).await.map_err(StoreError::from)? {
            Some(item) => read(&item),
            None => Ok(None),
        }
    }

    /// Reads links from the home region, with strong consistency. Leaves out damaged ones.
    pub(crate) async fn stored_all(&self, keys: &[keys::Key]) -> Result<Vec<Stored>, Failure> {
        let items = self.get_all(self.deadline(), keys, true).await?;
        let readable = items.iter().filter_map(|item| match read(item) {
            Ok(stored) => stored,
            Err(error) => {
                tracing::warn!(%error, "a link cannot be read");
                None
            }
        });
        Ok(readable.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terse_core::{Code, Domain, Revision, Target};

    fn stored() -> Stored {
        // Decoded from a golden form would tie this test to the codec: it only needs some link.
        let link = terse_testkit::alias("abc", "https://example.com/");
        Stored::new(Link {
            key: LinkKey { domain: Domain::primary(), code: Code::parse("abc").unwrap() },
            target: Target::from_stored("https://example.com/".into()),
            revision: Revision(1),
            ..link
        })
        .unwrap()
    }

    #[test]
    fn positions_of_one_link_grow_whatever_the_clock_says() {
        let mut stored = stored();
        let first = stored.take_positions(Timestamp::from_ms(1_800_000_000_000), 2);
        let later = stored.take_positions(Timestamp::from_ms(1_700_000_000_000), 2);
        assert!(first[0] < first[1] && first[1] < later[0] && later[0] < later[1]);
        assert!(later[1] < i64::MAX as u64);
    }

    #[test]
    fn a_body_of_a_later_version_is_not_called_damaged() {
        let mut item = stored().item();
        let body = item.bytes(BODY).unwrap();
        let mut later = [&[200][..], &body[1..body.len() - 8]].concat();
        later.extend(xxhash_rust::xxh3::xxh3_64(&later).to_le_bytes());
        item.insert(BODY.into(), bytes(later));
        assert!(matches!(read(&item), Err(StoreError::LaterVersion)));
    }

    #[test]
    fn a_changed_body_is_corrupt_and_never_followed() {
        let mut item = stored().item();
        assert!(read(&item).unwrap().is_some());
        item.insert(keys::PK.into(), text("L##other"));
        assert!(matches!(read(&item), Err(StoreError::Corrupt(_))));
        let mut item = stored().item();
        item.insert(BODY.into(), bytes([1, 2, 3]));
        assert!(matches!(read(&item), Err(StoreError::Corrupt(_))));
    }
}
