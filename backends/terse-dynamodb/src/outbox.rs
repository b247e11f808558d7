//! Events that wait in the table until they are handed over.

use aws_sdk_dynamodb::types::TransactWriteItem;
use futures_util::future::try_join_all;
use terse_core::{
    EventId, Link, OutboxEvent, OutboxPage, OutboxRow, StoreError, Timestamp, link_codec,
};

use crate::client::Db;
use crate::failure::Failure;
use crate::item::{Attributes as _, Item, bytes, corrupt, number, text};
use crate::keys::{self, OUTBOX_SHARDS};
use crate::requests::{Condition, Range};
use crate::row::BODY;

/// The actions that write events of a link, at these positions.
pub(crate) fn actions(
    db: &Db,
    events: &[OutboxEvent],
    positions: &[u64],
    link: &Link,
) -> Result<Vec<TransactWriteItem>, StoreError> {
    let action = |(event, position): (&OutboxEvent, &u64)| {
        let mut item = keys::event(*position).item();
        item.insert("kind".into(), text(event.kind.as_str()));
        item.insert("at".into(), number(event.at.as_ms()));
        item.insert("id".into(), bytes(EventId::random()?.0));
        item.insert(BODY.into(), bytes(link_codec::encode(link)));
        // Another node may have chosen the same position.
        db.put_action(item, Condition::absent()).map_err(StoreError::from)
    };
    events.iter().zip(positions).map(action).collect()
}

fn row(item: &Item) -> Result<OutboxRow<'_>, StoreError> {
    let at = item.number("at")?.ok_or_else(|| corrupt("an event has no time"))?;
    Ok(OutboxRow {
        position: position(item)?,
        id: item.bytes("id")?.try_into().ok().map(EventId),
        kind: item.text("kind")?,
        at: Timestamp::from_ms(at),
        link: item.bytes(BODY)?,
    })
}

fn position(item: &Item) -> Result<u64, StoreError> {
    item.text(keys::SK)?.parse().map_err(|_| corrupt("an event has no position"))
}

/// The first events that are left, only those behind `after`.
pub(crate) async fn page(
    db: &Db,
    after: Option<u64>,
    limit: usize,
) -> Result<OutboxPage, StoreError> {
    let deadline = db.deadline();
    let shards = (0..OUTBOX_SHARDS).map(|shard| async move {
        let mut range = Range::of(None, keys::event_partition(shard), limit);
        range.bounds.extend(after.map(|after| (">", text(keys::event(after).sk))));
        let mut items = Vec::new();
        loop {
            let (some, next) = db.query(deadline, &range).await?;
            items.extend(some);
            range.after = next;
            if range.after.is_none() || items.len() >= limit {
                return Ok::<_, Failure>(items);
            }
        }
    });
    let mut items: Vec<Item> =
        try_join_all(shards).await.map_err(StoreError::from)?.into_iter().flatten().collect();
    items.sort_by_cached_key(|item| position(item).unwrap_or(u64::MAX));
    items.truncate(limit);
    let mut page = OutboxPage::default();
    for item in &items {
        let position = position(item)?;
        let error = match row(item) {
            Ok(row) if page.push(row) => continue,
            Ok(_) => corrupt("an event of another form"),
            Err(error) => {
                page.unreadable.push(position);
                error
            }
        };
        tracing::error!(%error, position, "left out an event that cannot be read");
    }
    Ok(page)
}

/// Removes events.
pub(crate) async fn remove(db: &Db, positions: &[u64]) -> Result<(), StoreError> {
    let mut positions = positions.to_vec();
    positions.sort_unstable();
    positions.dedup();
    let keys: Vec<_> = positions.iter().map(|position| keys::event(*position)).collect();
    db.delete_all(db.deadline(), &keys).await.map_err(StoreError::from)
}
