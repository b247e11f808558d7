//! What the reaper does: marks expired links, purges old ones, ends quarantines, forgets requests.
//!
//! An index finds the candidates. The index may be late, so the job reads each link again from the
//! home region with strong consistency, and its write has the condition that the link has not
//! changed.

use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use terse_core::registry::EventKind;
use terse_core::{LinkKey, LinkStatus, OutboxEvent, OwnerId, PurgeBefore, StoreError, Timestamp};

use crate::changes::{self, Kind};
use crate::client::Db;
use crate::failure::Failure;
use crate::folded_aliases::FoldedAliases;
use crate::item::{Item, number};
use crate::keys::{self, BY_EXPIRY, BY_PURGE, Index, Key, MAINTENANCE_SHARDS, PurgeQueue};
use crate::outbox;
use crate::requests::{Condition, Range};
use crate::reuse;
use crate::row::{self, SERIAL, Slot, Stored};
use crate::updates;

/// How many links are written at a time.
const AT_A_TIME: usize = 8;

/// The keys of up to `limit` items that are due by a time.
async fn due(
    db: &Db,
    index: Index,
    partition: impl Fn(u64) -> String,
    by: Timestamp,
    limit: usize,
) -> Result<Vec<Key>, StoreError> {
    let deadline = db.deadline();
    let shards = (0..MAINTENANCE_SHARDS).map(|shard| {
        let mut range = Range::of(Some(index), partition(shard), limit);
        range.bounds = vec![("<=", number(by.as_ms()))];
        async move {
            let mut items: Vec<Item> = Vec::new();
            loop {
                let (some, next) = db.query(deadline, &range).await?;
                items.extend(some);
                range.after = next;
                if range.after.is_none() || items.len() >= limit {
                    return Ok::<_, Failure>(items);
                }
            }
        }
    });
    let found = try_join_all(shards).await.map_err(StoreError::from)?;
    let mut due: Vec<Key> =
        found.iter().flatten().map(Key::of).collect::<Result<_, StoreError>>()?;
    due.truncate(limit);
    Ok(due)
}

/// Runs a write for each, some at a time, and returns what they return. Those that another write
/// came before are left out: the next run finds them again.
async fn each<T, F>(all: Vec<T>, write: impl Fn(T) -> F) -> Result<Vec<LinkKey>, StoreError>
where
    F: Future<Output = Result<Option<LinkKey>, StoreError>>,
{
    let mut writes =
        futures_util::stream::iter(all.into_iter().map(write)).buffer_unordered(AT_A_TIME);
    let (mut done, mut failed) = (Vec::new(), None);
    while let Some(outcome) = writes.next().await {
        match outcome {
            Ok(key) => done.extend(key),
            Err(error) => failed = Some(error),
        }
    }
    // Keys that were written must be returned. An error of all of them is an error.
    match failed {
        Some(error) if done.is_empty() => Err(error),
        _ => Ok(done),
    }
}

/// Marks expired links.
pub(crate) async fn mark(
    db: &Db,
    now: Timestamp,
    limit: usize,
    subscribers: &[OwnerId],
) -> Result<Vec<LinkKey>, StoreError> {
    let due = due(db, BY_EXPIRY, row::expiry_partition, now, limit).await?;
    let mut links = db.stored_all(&due).await.map_err(StoreError::from)?;
    links.retain(|one| one.marked.is_none() && one.link.expires_at.is_some_and(|at| at <= now));
    each(links, |old| mark_one(db, old, now, subscribers)).await
}

async fn mark_one(
    db: &Db,
    old: Stored,
    now: Timestamp,
    subscribers: &[OwnerId],
) -> Result<Option<LinkKey>, StoreError> {
    let mut new = Stored { marked: Some(now), ..old.clone() };
    new.link.reusable = false;
    let (key, revision) = (&old.link.key, old.link.revision);
    let mut actions = vec![changes::action(db, Kind::Changed, key, revision, &old.serial)?];
    actions.extend(reuse::moved(db, &old.link, Some(&new.link)).await?);
    if new.link.status(now) == LinkStatus::Expired && subscribers.contains(&new.link.owner) {
        let event = OutboxEvent { kind: EventKind::LinkExpired, at: now };
        let positions = new.take_positions(db.now(), 1);
        actions.extend(outbox::actions(db, &[event], &positions, &new.link)?);
    }
    let (expression, condition) = new.change(revision.0, true);
    actions.insert(0, db.update_action(&keys::link(key), expression, condition)?);
    written(db, actions, key).await
}

async fn written(
    db: &Db,
    actions: Vec<aws_sdk_dynamodb::types::TransactWriteItem>,
    key: &LinkKey,
) -> Result<Option<LinkKey>, StoreError> {
    match db.transact(db.deadline(), actions).await {
        Ok(()) => Ok(Some(key.clone())),
        Err(Failure::Cancelled(_)) => Ok(None),
        Err(other) => Err(other.into()),
    }
}

/// Deletes links that ended long enough ago.
pub(crate) async fn purge(
    db: &Db,
    before: PurgeBefore,
    limit: usize,
    quarantine_until: Option<Timestamp>,
) -> Result<Vec<LinkKey>, StoreError> {
    let ended = |shard| PurgeQueue::Ended.partition(shard);
    let expired = |shard| PurgeQueue::ExpiredWithOwner.partition(shard);
    let mut found = due(db, BY_PURGE, ended, before.ended, limit).await?;
    if found.len() < limit {
        let left = limit - found.len();
        found.extend(due(db, BY_PURGE, expired, before.expired_with_owner, left).await?);
    }
    let mut links = db.stored_all(&found).await.map_err(StoreError::from)?;
    links.retain(|link| link.is_purgeable(before));
    each(links, |link| purge_one(db, link, quarantine_until)).await
}

async fn purge_one(
    db: &Db,
    old: Stored,
    quarantine_until: Option<Timestamp>,
) -> Result<Option<LinkKey>, StoreError> {
    let link = &old.link;
    let (key, item_key) = (&link.key, keys::link(&link.key));
    let quarantine_until = quarantine_until.filter(|_| !link.generated);
    let mut actions = vec![match quarantine_until {
        Some(until) => {
            db.put_action(row::quarantined(key, old.serial, link.owner, until), old.unchanged())?
        }
        None => db.delete_action(&item_key, old.unchanged())?,
    }];
    actions.push(changes::action(db, Kind::Removed, key, link.revision, &old.serial)?);
    if !link.generated {
        let item_key = keys::folded(&key.domain, &key.code.folded());
        let item = db.get(db.deadline(), &item_key, true).await.map_err(StoreError::from)?;
        let mut folded = FoldedAliases::read(item.as_ref())?;
        let entry = (link.owner, key.code.to_string());
        let mut changed = folded.aliases.remove(&entry);
        changed |= quarantine_until.is_some() && folded.quarantined.insert(entry);
        if changed {
            actions.push(folded.action(db, &item_key)?);
        }
    }
    actions.extend(reuse::moved(db, link, None).await?);
    for version in updates::version_keys(&old) {
        actions.push(db.delete_action(&version, Condition::default())?);
    }
    written(db, actions, key).await
}

/// Ends the quarantine of aliases, and returns of how many.
pub(crate) async fn release(db: &Db, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
    let partition = |shard| PurgeQueue::Quarantine.partition(shard);
    let due = due(db, BY_PURGE, partition, now, limit).await?;
    Ok(each(due, |item_key| release_one(db, item_key)).await?.len())
}

async fn release_one(db: &Db, item_key: Key) -> Result<Option<LinkKey>, StoreError> {
    let key = keys::link_key(&item_key.pk)?;
    let folded_key = keys::folded(&key.domain, &key.code.folded());
    let (deadline, wanted) = (db.deadline(), [item_key.clone(), folded_key.clone()]);
    let items = db.get_all(deadline, &wanted, true).await.map_err(StoreError::from)?;
    let at = |key: &Key| items.iter().find(|item| Key::of(item).is_ok_and(|have| have == *key));
    let Some(Slot::Quarantined(serial, owner)) = at(&item_key).map(Slot::read).transpose()? else {
        return Ok(None);
    };
    let mut placeholders = crate::item::Placeholders::default();
    let is_same = placeholders.equal(SERIAL, crate::item::bytes(serial));
    let is_quarantined = placeholders.present(row::QUARANTINED_UNTIL);
    let condition = Condition::new(format!("{is_same} AND {is_quarantined}"), &placeholders);
    let mut actions = vec![db.delete_action(&item_key, condition)?];
    let mut folded = FoldedAliases::read(at(&folded_key))?;
    if folded.quarantined.remove(&(owner, key.code.to_string())) {
        actions.push(folded.action(db, &folded_key)?);
    }
    written(db, actions, &key).await
}

/// Forgets answers to old requests, and returns how many.
pub(crate) async fn forget_requests(
    db: &Db,
    before: Timestamp,
    limit: usize,
) -> Result<usize, StoreError> {
    let partition = |shard| PurgeQueue::Requests.partition(shard);
    let before = Timestamp::from_ms(before.as_ms().saturating_sub(1));
    let due = due(db, BY_PURGE, partition, before, limit).await?;
    db.delete_all(db.deadline(), &due).await.map_err(StoreError::from)?;
    Ok(due.len())
}

/// About how many links a purge would delete.
pub(crate) async fn count_purgeable(db: &Db, before: PurgeBefore) -> Result<u64, StoreError> {
    let mut count = 0;
    for (queue, by) in [
        (PurgeQueue::Ended, before.ended),
        (PurgeQueue::ExpiredWithOwner, before.expired_with_owner),
    ] {
        let shards = (0..MAINTENANCE_SHARDS).map(|shard| {
            let mut range = Range::of(Some(BY_PURGE), queue.partition(shard), 1000);
            // Erased links, whose deletion time is the epoch, do not count.
            let from = AttributeValue::N((Timestamp::EPOCH.as_ms() + 1).to_string());
            range.bounds = vec![("between", from), ("and", number(by.as_ms()))];
            async move { db.count(&range).await }
        });
        if by > Timestamp::EPOCH {
            count += try_join_all(shards).await.map_err(StoreError::from)?.iter().sum::<u64>();
        }
    }
    Ok(count)
}
