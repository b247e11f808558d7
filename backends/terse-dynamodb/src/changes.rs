//! The feed of changes.
//!
//! A change row is written in the transaction of its change, with the server's time as its sort
//! key. Transactions end in another order than their rows are sorted. A handle therefore reads the
//! rows of the last [`OVERLAP`] at every poll, and skips those that it has seen. It numbers the
//! rows in the order in which it learns of them, and keeps the last ones, so that a caller may ask
//! for the same page again.
//!
//! DynamoDB makes the items of a transaction visible one by one. A reader that saw the row first
//! would forget the link, read the old one again and keep it. A handle therefore compares each new
//! row with its link, and holds the row back until the link has at least this revision.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::TransactWriteItem;
use futures_util::future::try_join_all;
use terse_core::{
    CHANGES_KEPT, ChangeCursor, ChangePage, LinkChange, LinkKey, Revision, StoreError, Timestamp,
};

use crate::client::Db;
use crate::failure::Failure;
use crate::item::{Attributes as _, Item, bytes, corrupt, number, text};
use crate::keys::{self, CHANGE_SHARDS, Key};
use crate::leases;
use crate::requests::{Condition, Range};
use crate::row::{Serial, Slot};

/// How long a transaction may take, and how far clocks may differ, together.
const OVERLAP: Duration = Duration::from_secs(20);
/// How long a row waits for its link. A link that was created and removed since is never seen.
const HOLD: Duration = Duration::from_secs(2);
/// How many changes a handle keeps.
const KEPT: usize = 20_000;
/// A reader that finds more new rows than this forgets everything instead.
const MAX_NEW: usize = 10_000;
/// The table's own expiry removes rows after this.
const FORGET_AFTER_SECONDS: i64 = 3600;
/// How long a handle of a replica reads a changed link in the home region.
const REPLICATION: Duration = Duration::from_secs(600);

/// What a change row says about its link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Created,
    Changed,
    Removed,
    /// The link did not change.
    Announced,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Created, Self::Changed, Self::Removed, Self::Announced];

    fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Removed => "removed",
            Self::Announced => "announced",
        }
    }
}

/// The item of a change row.
fn item(db: &Db, kind: Kind, key: &LinkKey, revision: Revision, serial: &Serial) -> Item {
    let now = db.now();
    let mut item = keys::change(now.as_ms(), keys::random()).item();
    item.insert("kind".into(), text(kind.as_str()));
    item.insert("link".into(), text(keys::link(key).pk));
    item.insert("revision".into(), number(revision.0));
    item.insert("serial".into(), bytes(*serial));
    item.insert("at".into(), number(now.as_ms()));
    // In seconds: the server ignores other units.
    item.insert("forget_at".into(), number(now.as_ms() / 1000 + FORGET_AFTER_SECONDS));
    item
}

/// The action that writes a change row.
pub(crate) fn action(
    db: &Db,
    kind: Kind,
    key: &LinkKey,
    revision: Revision,
    serial: &Serial,
) -> Result<TransactWriteItem, Failure> {
    db.put_action(item(db, kind, key, revision, serial), Condition::default())
}

/// Writes a change row of a link that has not changed.
pub(crate) async fn announce(db: &Db, key: &LinkKey) -> Result<(), StoreError> {
    let row = item(db, Kind::Announced, key, Revision::UNKNOWN, &[0; 16]);
    db.put(db.deadline(), &row, &Condition::default()).await.map_err(StoreError::from)
}

#[derive(Clone, Debug)]
struct Row {
    kind: Kind,
    serial: Vec<u8>,
    change: LinkChange,
    /// When this handle first saw it.
    seen: Instant,
}

impl Row {
    fn read(item: &Item) -> Result<Self, StoreError> {
        let kind = item.text("kind")?;
        let kind = Kind::ALL.into_iter().find(|known| known.as_str() == kind);
        let missing = || corrupt("a change row lacks a field");
        let change = LinkChange {
            key: keys::link_key(item.text("link")?)?,
            revision: Revision(item.number("revision")?.ok_or_else(missing)?),
            at: Timestamp::from_ms(item.number("at")?.ok_or_else(missing)?),
        };
        // A kind of a later version: forget the link at once.
        let kind = kind.unwrap_or(Kind::Announced);
        Ok(Self { kind, serial: item.bytes("serial")?.to_vec(), change, seen: Instant::now() })
    }

    /// Whether a read of the link now shows this change, or a later one.
    fn is_visible(&self, link: Option<&Slot>) -> bool {
        match (self.kind, link) {
            (Kind::Announced, _) | (Kind::Removed | Kind::Changed, None) => true,
            (Kind::Created, None) => false,
            (Kind::Created | Kind::Changed, Some(Slot::Quarantined(..))) => true,
            (Kind::Created | Kind::Changed, Some(Slot::Link(stored))) => {
                stored.serial[..] != self.serial || stored.link.revision >= self.change.revision
            }
            (Kind::Removed, Some(Slot::Quarantined(..))) => true,
            (Kind::Removed, Some(Slot::Link(stored))) => stored.serial[..] != self.serial,
        }
    }
}

/// What a handle has read of the feed.
#[derive(Default)]
pub(crate) struct Feed {
    last_read: Option<LastRead>,
    /// The rows of the overlap that this handle has seen, by sort key and with their time.
    seen: HashMap<String, i64>,
    held_back: Vec<Row>,
    changes: VecDeque<LinkChange>,
    /// How many changes have arrived.
    arrived: u64,
    /// A cursor before this one has missed changes.
    complete_from: u64,
    recent: Arc<RecentChanges>,
}

struct LastRead {
    at: Timestamp,
    incarnation: u64,
}

impl Feed {
    pub(crate) fn new(recent: Arc<RecentChanges>) -> Self {
        Self { recent, ..Self::default() }
    }

    pub(crate) fn last(&self) -> ChangeCursor {
        ChangeCursor(self.arrived)
    }

    /// Reads what is new.
    pub(crate) async fn refresh(&mut self, db: &Db) -> Result<(), StoreError> {
        let now = db.now();
        let since = self.last_read.as_ref().map_or(now, |last| last.at);
        let from = since.saturating_sub(OVERLAP);
        let (incarnation, rows) = futures_util::future::join(
            leases::incarnation(db),
            rows_since(db, from, MAX_NEW + self.seen.len()),
        )
        .await;
        let (incarnation, rows) = (incarnation?, rows.map_err(StoreError::from)?);
        let before = self.last_read.replace(LastRead { at: now, incarnation });
        let is_first = before.is_none();
        let has_gap = before.is_some_and(|before| {
            now.saturating_sub(CHANGES_KEPT) > before.at || before.incarnation != incarnation
        });
        let Some(rows) = rows.filter(|_| !has_gap) else {
            self.begin_anew();
            return Ok(());
        };
        let mut new = std::mem::take(&mut self.held_back);
        for item in &rows {
            let sort_key = item.text(keys::SK)?;
            if self.seen.contains_key(sort_key) {
                continue;
            }
            let row = Row::read(item)?;
            self.seen.insert(sort_key.to_owned(), row.change.at.as_ms());
            if !is_first {
                new.push(row);
            }
        }
        let oldest = from.as_ms();
        self.seen.retain(|_, at| *at >= oldest);
        new.sort_by_key(|row| row.change.at);
        self.arrive(db, new).await
    }

    /// Passes on the rows whose links show them, and holds the others back.
    async fn arrive(&mut self, db: &Db, new: Vec<Row>) -> Result<(), StoreError> {
        let mut wanted: Vec<Key> = new
            .iter()
            .filter(|row| row.kind != Kind::Announced)
            .map(|row| keys::link(&row.change.key))
            .collect();
        wanted.sort_unstable_by(|a, b| a.pk.cmp(&b.pk));
        wanted.dedup();
        let links = match db.get_all(db.deadline(), &wanted, true).await {
            Ok(links) => links,
            Err(failure) => {
                // The next poll compares them.
                self.held_back = new;
                return Err(failure.into());
            }
        };
        let links: HashMap<String, Slot> = links
            .iter()
            .filter_map(|item| Some((item.text(keys::PK).ok()?.to_owned(), Slot::read(item).ok()?)))
            .collect();
        for row in new {
            let link = links.get(&keys::link(&row.change.key).pk);
            if !row.is_visible(link) && row.seen.elapsed() < HOLD {
                self.held_back.push(row);
                continue;
            }
            self.recent.add(&row.change.key);
            self.arrived += 1;
            self.changes.push_back(row.change);
        }
        while self.changes.len() > KEPT {
            self.changes.pop_front();
        }
        self.complete_from = self.complete_from.max(self.arrived - self.changes.len() as u64);
        Ok(())
    }

    /// Changes were missed.
    fn begin_anew(&mut self) {
        // One number that no page contains, so that every cursor up to now has missed it.
        self.arrived += 1;
        self.complete_from = self.arrived;
        self.changes.clear();
        self.held_back.clear();
        self.recent.add_all();
    }

    /// The changes after a cursor.
    pub(crate) fn page(&self, after: ChangeCursor, limit: usize) -> ChangePage {
        let first = self.arrived - self.changes.len() as u64;
        let gap = after.0 < self.complete_from || after.0 > self.arrived;
        let from = if gap { first } else { after.0 };
        let skipped = usize::try_from(from - first).unwrap_or(usize::MAX);
        let changes: Vec<LinkChange> =
            self.changes.iter().skip(skipped).take(limit).cloned().collect();
        let next = ChangeCursor(from + changes.len() as u64);
        ChangePage { changes, next, gap }
    }
}

/// The rows since a time, or `None` if there are more than `most`.
async fn rows_since(db: &Db, from: Timestamp, most: usize) -> Result<Option<Vec<Item>>, Failure> {
    let deadline = db.deadline();
    let shards = (0..CHANGE_SHARDS).map(|shard| async move {
        let mut range = Range::of(None, keys::change_partition(shard), 1000);
        range.bounds = vec![(">=", text(keys::change_time(from.as_ms())))];
        let mut rows = Vec::new();
        loop {
            let (some, next) = db.query(deadline, &range).await?;
            rows.extend(some);
            range.after = next;
            if range.after.is_none() || rows.len() > most {
                return Ok::<_, Failure>(rows);
            }
        }
    });
    let rows: Vec<Item> = try_join_all(shards).await?.into_iter().flatten().collect();
    Ok(Some(rows).filter(|rows| rows.len() <= most))
}

/// The changes of the last `span`; `None` if there are more than `limit`.
pub(crate) async fn recent(
    db: &Db,
    span: Duration,
    limit: usize,
) -> Result<Option<Vec<LinkChange>>, StoreError> {
    let from = db.now().saturating_sub(span).saturating_sub(OVERLAP);
    let rows = rows_since(db, from, limit).await.map_err(StoreError::from)?;
    let Some(rows) = rows else { return Ok(None) };
    rows.iter()
        .map(|item| Row::read(item).map(|row| row.change))
        .collect::<Result<_, _>>()
        .map(Some)
}

/// Links that changed so recently that a replica may not have the change.
#[derive(Debug, Default)]
pub(crate) struct RecentChanges(RwLock<(HashMap<LinkKey, Instant>, Option<Instant>)>);

impl RecentChanges {
    fn add(&self, key: &LinkKey) {
        let mut recent = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if recent.0.len() >= KEPT {
            recent.0.retain(|_, at| at.elapsed() < REPLICATION);
        }
        if recent.0.len() >= KEPT {
            // Too many to tell them apart.
            recent.1 = Some(now);
            recent.0.clear();
        }
        recent.0.insert(key.clone(), now);
    }

    fn add_all(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).1 = Some(Instant::now());
    }

    /// Whether a replica may lack a change of this link.
    pub(crate) fn contains(&self, key: &LinkKey) -> bool {
        let recent = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |at: &Instant| at.elapsed() < REPLICATION;
        recent.1.as_ref().is_some_and(is_recent) || recent.0.get(key).is_some_and(is_recent)
    }
}
