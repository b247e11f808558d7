//! Changes of links, their earlier versions, and spent clicks.

use aws_sdk_dynamodb::types::ReturnValue;
use terse_core::{
    ClickSpend, Link, LinkKey, LinkVersion, MAX_REVISIONS, OutboxEvent, Revision, StoreError,
    Timestamp, Updated, link_codec,
};

use crate::changes::{self, Kind};
use crate::client::Db;
use crate::failure::Failure;
use crate::item::{Attributes as _, Item, Placeholders, bytes, corrupt, number};
use crate::keys::{self, Key};
use crate::outbox;
use crate::requests::{Condition, Range};
use crate::retry::RetryPolicy;
use crate::reuse;
use crate::row::{BODY, MAX_CLICKS, SERIAL, SPENT, Slot, Stored};

/// The number of an earlier version, counted from the first.
const NUMBER: &str = "number";

/// Replaces a link if its revision is still `expected`.
pub(crate) async fn update(
    db: &Db,
    link: &Link,
    expected: Revision,
    events: &[OutboxEvent],
) -> Result<Updated, StoreError> {
    let deadline = db.deadline();
    loop {
        let Some(old) = db.stored(&link.key).await? else { return Ok(Updated::Missing) };
        if old.link.revision != expected {
            return Err(StoreError::Conflict);
        }
        let mut new = Stored { link: old.link.updated_to(link), ..old.clone() };
        if new.link.expires_at != old.link.expires_at {
            new.marked = None;
        }
        let mut actions = Vec::new();
        if !old.link.owner_visible_eq(&new.link) {
            let version = version_item(&old, new.versions, new.link.updated_at);
            actions.push(db.put_action(version, Condition::default())?);
            new.versions += 1;
        }
        let (key, revision) = (&old.link.key, new.link.revision);
        actions.push(changes::action(db, Kind::Changed, key, revision, &new.serial)?);
        actions.extend(reuse::moved(db, &old.link, Some(&new.link)).await?);
        let positions = new.take_positions(db.now(), events.len());
        actions.extend(outbox::actions(db, events, &positions, &new.link)?);
        let (expression, condition) = new.change(expected.0, false);
        actions.insert(0, db.update_action(&keys::link(key), expression, condition)?);
        match db.transact(db.deadline(), actions).await {
            Ok(()) => return Ok(Updated::Done),
            // The next round sees who came first, and answers.
            Err(Failure::Cancelled(_)) if !deadline.has_passed() => {}
            Err(Failure::Cancelled(_)) => return Err(StoreError::Busy),
            Err(other) => return Err(other.into()),
        }
    }
}

fn version_item(old: &Stored, number_of: u64, until: Timestamp) -> Item {
    let slot = number_of % MAX_REVISIONS as u64;
    let mut item = keys::version(&old.link.key, slot).item();
    item.insert(NUMBER.into(), number(number_of));
    item.insert(SERIAL.into(), bytes(old.serial));
    item.insert("until".into(), number(until.as_ms()));
    item.insert(BODY.into(), bytes(link_codec::encode(&old.link)));
    item
}

/// The keys of the earlier versions of a link.
pub(crate) fn version_keys(stored: &Stored) -> Vec<Key> {
    let kept = stored.versions.min(MAX_REVISIONS as u64);
    (0..kept).map(|slot| keys::version(&stored.link.key, slot)).collect()
}

/// The earlier versions of a link, the latest first.
pub(crate) async fn history(
    db: &Db,
    key: &LinkKey,
    limit: usize,
) -> Result<Vec<LinkVersion>, StoreError> {
    let Some(stored) = db.stored(key).await? else { return Ok(Vec::new()) };
    if limit == 0 || stored.versions == 0 {
        return Ok(Vec::new());
    }
    let deadline = db.deadline();
    let mut range = Range::of(None, keys::link(key).pk, MAX_REVISIONS);
    range.bounds = vec![("between", crate::item::text("H#")), ("and", crate::item::text("H#~"))];
    let mut items = Vec::new();
    loop {
        let (some, next) = db.query(deadline, &range).await.map_err(StoreError::from)?;
        items.extend(some);
        range.after = next;
        if range.after.is_none() {
            break;
        }
    }
    let mut versions = Vec::with_capacity(items.len());
    for item in &items {
        if item.bytes(SERIAL)? != stored.serial {
            continue;
        }
        let missing = || corrupt("an earlier version lacks a field");
        let version = LinkVersion {
            link: link_codec::decode_stored(item.bytes(BODY)?)?.ok_or_else(missing)?,
            until: Timestamp::from_ms(item.number("until")?.ok_or_else(missing)?),
        };
        versions.push((item.number::<u64>(NUMBER)?.ok_or_else(missing)?, version));
    }
    versions.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    Ok(versions.into_iter().map(|(_, version)| version).take(limit).collect())
}

/// Deletes the earlier versions of a link.
pub(crate) async fn forget_history(db: &Db, key: &LinkKey) -> Result<(), StoreError> {
    match db.stored(key).await? {
        Some(stored) => {
            let versions = version_keys(&stored);
            db.delete_all(db.deadline(), &versions).await.map_err(StoreError::from)
        }
        None => Ok(()),
    }
}

/// Spends one of a link's clicks. A request without an answer is not repeated: the click may have
/// been counted.
pub(crate) async fn spend(db: &Db, key: &LinkKey) -> Result<ClickSpend, StoreError> {
    let mut placeholders = Placeholders::default();
    let (spent, most) = (placeholders.name(SPENT), placeholders.name(MAX_CLICKS));
    let one = placeholders.value(number(1));
    let expression = format!("SET {spent} = {spent} + {one}");
    let body = placeholders.present(BODY);
    let condition = format!("{body} AND attribute_exists({most}) AND {spent} < {most}");
    let condition = Condition::new(condition, &placeholders);
    let (policy, returned) = (RetryPolicy::UnlessUnknown, ReturnValue::None);
    let key = keys::link(key);
    let deadline = db.deadline();
    match db.update(deadline, policy, &key, &expression, &condition, returned).await {
        Ok(_) => Ok(ClickSpend::Yes),
        Err(Failure::Condition(None)) => Ok(ClickSpend::Missing),
        Err(Failure::Condition(Some(item))) => match Slot::read(&item)? {
            Slot::Quarantined(..) => Ok(ClickSpend::Missing),
            Slot::Link(stored) if stored.link.max_clicks.is_none() => Ok(ClickSpend::Yes),
            Slot::Link(_) => Ok(ClickSpend::UsedUp),
        },
        Err(other) => Err(other.into()),
    }
}
