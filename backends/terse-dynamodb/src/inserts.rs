//! New links: the store reads what the conditions need in one request, then makes one conditional
//! write.
//!
//! A generated code without further conditions is a single `PutItem`. Everything else is one
//! transaction. If a condition fails because another write came in between, the store reads and
//! tries again.

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use terse_core::{
    IdempotencyKey, Insert, InsertCondition, Inserted, Link, LinkKey, Numbering, StoreError,
    Timestamp,
};

use crate::changes::{self, Kind};
use crate::client::Db;
use crate::failure::{FailedAction, Failure};
use crate::folded_aliases::FoldedAliases;
use crate::item::{Attributes as _, Item, Placeholders, bytes, corrupt, number, text};
use crate::keys::{self, Key, PurgeQueue};
use crate::leases;
use crate::outbox;
use crate::requests::Condition;
use crate::reuse::Reusable;
use crate::row::{QUARANTINED_UNTIL, Serial, Slot, Stored};

/// The table's own expiry removes answers to requests after this, if the reaper did not: the store
/// promises 24 hours.
const FORGET_AFTER_SECONDS: i64 = 48 * 3600;

/// What is stored, as far as an insert depends on it.
#[derive(Debug, Default)]
struct Snapshot {
    request: Option<Item>,
    link: Option<Slot>,
    folded: FoldedAliases,
    reusable: Reusable,
    /// The links that may be given back.
    candidates: Vec<Stored>,
    marks: Option<Item>,
}

/// What must be read first, by what the insert asks.
struct Wanted {
    request: Option<Key>,
    link: Key,
    folded: Option<Key>,
    reusable: Option<Key>,
    /// The length and the number of a code that must not have been issued.
    issued: Option<(u8, u64)>,
}

impl Wanted {
    fn of(insert: &Insert, numbering: &Numbering) -> Self {
        let Insert { link, absent, reuse, request, alias, .. } = insert;
        let issued = absent.iter().find_map(|condition| match condition {
            InsertCondition::Issued(code) => numbering.number(code.as_str().as_bytes()),
            _ => None,
        });
        let folded = absent.iter().find_map(|condition| match condition {
            InsertCondition::Alias { folded, .. }
            | InsertCondition::QuarantinedAlias { folded, .. } => Some(folded),
            _ => None,
        });
        let folded = folded.or(alias.as_ref().map(|alias| &alias.folded));
        let by_target = reuse.as_ref().filter(|reuse| reuse.alias().is_none());
        Self {
            request: request.as_ref().map(|request| keys::request(&request.id)),
            link: keys::link(&link.key),
            folded: folded.map(|folded| keys::folded(&link.key.domain, folded)),
            reusable: by_target.map(|reuse| keys::reuse(&reuse.wanted)),
            issued,
        }
    }

    /// Reads it in one request, and the links that may be given back in a second one.
    async fn read(
        &self,
        db: &Db,
        insert: &Insert,
        reads_link: bool,
    ) -> Result<Snapshot, StoreError> {
        let marks = self.issued.map(|_| keys::marks());
        let mut wanted: Vec<Key> =
            [&self.folded, &self.reusable, &marks].into_iter().flatten().cloned().collect();
        if reads_link {
            wanted.push(self.link.clone());
        }
        // The write finds a request that was answered before. It is read only if something else
        // must be read anyway, because its answer comes first.
        if !wanted.is_empty() {
            wanted.extend(self.request.clone());
        }
        let mut items = db.get_all(db.deadline(), &wanted, true).await.map_err(StoreError::from)?;
        let mut take = |key: Option<&Key>| {
            let key = key?;
            let at = items.iter().position(|i| Key::of(i).is_ok_and(|have| have == *key))?;
            Some(items.swap_remove(at))
        };
        let mut snapshot = Snapshot {
            request: take(self.request.as_ref()),
            link: take(Some(&self.link)).map(|item| Slot::read(&item)).transpose()?,
            folded: FoldedAliases::read(take(self.folded.as_ref()).as_ref())?,
            reusable: Reusable::read(take(self.reusable.as_ref()).as_ref())?,
            candidates: Vec::new(),
            marks: take(marks.as_ref()),
        };
        let codes = snapshot.reusable.keys(&insert.link);
        snapshot.candidates = db.stored_all(&codes).await.map_err(StoreError::from)?;
        Ok(snapshot)
    }
}

impl Snapshot {
    /// The link to give back instead of a new one.
    fn existing(&self, insert: &Insert) -> Option<&Stored> {
        let reuse = insert.reuse.as_ref()?;
        let own = match &self.link {
            Some(Slot::Link(stored)) if reuse.alias().is_some() => Some(&**stored),
            _ => None,
        };
        own.into_iter().chain(&self.candidates).find(|stored| reuse.matches(&stored.link))
    }

    /// Whether a condition other than the link's own key fails.
    fn is_taken(&self, insert: &Insert, wanted: &Wanted) -> Result<bool, StoreError> {
        let is_taken = match &self.link {
            Some(Slot::Link(_)) => true,
            Some(Slot::Quarantined(..)) => !may_replace_quarantined(insert),
            None => false,
        };
        let was_issued = match wanted.issued {
            Some((length, n)) => n < leases::mark(self.marks.as_ref(), length)?,
            None => false,
        };
        Ok(is_taken || was_issued || insert.absent.iter().any(|one| self.folded.has(one)))
    }
}

/// Whether the link may take the place of its own quarantined code.
fn may_replace_quarantined(insert: &Insert) -> bool {
    let own = &insert.link.key.code;
    let refuses =
        |c: &InsertCondition| matches!(c, InsertCondition::QuarantinedCode(c) if c == own);
    !insert.absent.iter().any(refuses)
}

/// What [`insert`] would answer now.
pub(crate) async fn preview(
    db: &Db,
    numbering: &Numbering,
    insert: &Insert,
) -> Result<Inserted, StoreError> {
    let wanted = Wanted::of(insert, numbering);
    let snapshot = wanted.read(db, insert, true).await?;
    if let (Some(request), Some(item)) = (&insert.request, &snapshot.request) {
        return answer(db, request, item).await;
    }
    if let Some(existing) = snapshot.existing(insert) {
        return Ok(Inserted::Existing(Box::new(existing.link.clone())));
    }
    if snapshot.is_taken(insert, &wanted)? {
        return Err(StoreError::CodeTaken);
    }
    Ok(Inserted::Created)
}

/// Applies an insert.
pub(crate) async fn insert(
    db: &Db,
    numbering: &Numbering,
    insert: Insert,
) -> Result<Inserted, StoreError> {
    let wanted = Wanted::of(&insert, numbering);
    // The serial is the same in every attempt: a link that has it was written by an earlier one.
    let mut stored = Stored::new(insert.link.clone())?;
    let deadline = db.deadline();
    let mut reads_link = insert.reuse.as_ref().is_some_and(|reuse| reuse.alias().is_some());
    loop {
        let snapshot = wanted.read(db, &insert, reads_link).await?;
        if let (Some(request), Some(item)) = (&insert.request, &snapshot.request) {
            return answer(db, request, item).await;
        }
        if let Some(existing) = snapshot.existing(&insert) {
            return give_back(db, &insert, existing).await;
        }
        if snapshot.is_taken(&insert, &wanted)? {
            return Err(StoreError::CodeTaken);
        }
        match write(db, &insert, &mut stored, &snapshot, &wanted).await? {
            Outcome::Written => return Ok(Inserted::Created),
            Outcome::Answered(item) => {
                let request = insert.request.as_ref();
                let request = request.ok_or_else(|| corrupt("an answer without a request"))?;
                return answer(db, request, &item).await;
            }
            Outcome::KeyTaken => {
                // The request or the link to give back comes first.
                let is_known = insert.reuse.is_some() || insert.request.is_some();
                if reads_link || !is_known {
                    return Err(StoreError::CodeTaken);
                }
                reads_link = true;
            }
            Outcome::Changed => {}
        }
        if deadline.has_passed() {
            return Err(StoreError::Busy);
        }
    }
}

/// What became of a write.
enum Outcome {
    Written,
    /// The request was answered before; with its item.
    Answered(Item),
    /// Another link has the key.
    KeyTaken,
    /// Something that was read has changed since.
    Changed,
}

/// A part of the transaction, beside its action.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    Link,
    Request,
    Other,
}

async fn write(
    db: &Db,
    insert: &Insert,
    stored: &mut Stored,
    snapshot: &Snapshot,
    wanted: &Wanted,
) -> Result<Outcome, StoreError> {
    let Insert { link, alias, reuse, request, events, .. } = insert;
    let mut own_key = Placeholders::default();
    let mut free = own_key.absent(keys::PK);
    if may_replace_quarantined(insert) {
        free = format!("{free} OR {}", own_key.present(QUARANTINED_UNTIL));
    }
    let condition = Condition::new(free, &own_key);
    let is_alone = wanted.folded.is_none()
        && wanted.reusable.is_none()
        && request.is_none()
        && events.is_empty();
    if is_alone && alias.is_none() {
        return match db.put(db.deadline(), &stored.item(), &condition).await {
            Ok(()) => Ok(Outcome::Written),
            Err(Failure::Condition(item)) => Ok(key_taken(stored, item.as_deref())),
            Err(other) => Err(other.into()),
        };
    }
    let positions = stored.take_positions(db.now(), events.len());
    let mut parts = vec![Part::Link];
    let mut actions = vec![db.put_action(stored.item(), condition)?];
    if let (Some(request), Some(key)) = (request, &wanted.request) {
        let item = request_item(db, key, request, &link.key, &stored.serial, link.created_at, true);
        parts.push(Part::Request);
        actions.push(db.put_action(item, Condition::absent())?);
    }
    if let (Some(key), Some(alias)) = (&wanted.folded, alias) {
        let mut folded = snapshot.folded.clone();
        folded.release(&link.key.code);
        folded.aliases.insert((alias.owner, link.key.code.to_string()));
        actions.push(folded.action(db, key)?);
    }
    if let (Some(key), Some(_)) = (&wanted.reusable, reuse) {
        actions.push(snapshot.reusable.with(link, &snapshot.candidates).action(db, key)?);
    }
    if alias.is_some() {
        let (revision, serial) = (link.revision, &stored.serial);
        actions.push(changes::action(db, Kind::Created, &link.key, revision, serial)?);
    }
    actions.extend(outbox::actions(db, events, &positions, link)?);
    parts.resize(actions.len(), Part::Other);
    transact(db, stored, &parts, actions).await
}

async fn transact(
    db: &Db,
    stored: &Stored,
    parts: &[Part],
    actions: Vec<TransactWriteItem>,
) -> Result<Outcome, StoreError> {
    let failed = match db.transact(db.deadline(), actions).await {
        Ok(()) => return Ok(Outcome::Written),
        Err(Failure::Cancelled(failed)) => failed,
        Err(other) => return Err(other.into()),
    };
    let failed_part = |wanted: Part| {
        let of = parts
            .iter()
            .zip(&failed)
            .filter(|(part, action)| **part == wanted && action.has_failed);
        of.map(|(_, action)| action).next()
    };
    // A stored answer to the same request comes before a conflict about the key.
    if let Some(FailedAction { item, .. }) = failed_part(Part::Request) {
        return Ok(item.clone().map_or(Outcome::Changed, Outcome::Answered));
    }
    if let Some(FailedAction { item, .. }) = failed_part(Part::Link) {
        return Ok(key_taken(stored, item.as_ref()));
    }
    Ok(Outcome::Changed)
}

/// The outcome if the key exists already: an earlier attempt whose answer was lost wrote this link,
/// or another link has the key.
fn key_taken(stored: &Stored, item: Option<&Item>) -> Outcome {
    match item.map(Slot::read) {
        Some(Ok(Slot::Link(have))) if have.serial == stored.serial => Outcome::Written,
        Some(_) => Outcome::KeyTaken,
        None => Outcome::Changed,
    }
}

/// Gives an existing link back, and remembers it as the answer to the request.
async fn give_back(db: &Db, insert: &Insert, existing: &Stored) -> Result<Inserted, StoreError> {
    let found = Inserted::Existing(Box::new(existing.link.clone()));
    let Some(request) = &insert.request else { return Ok(found) };
    let key = keys::request(&request.id);
    let (link, serial) = (&existing.link.key, &existing.serial);
    let item = request_item(db, &key, request, link, serial, insert.link.created_at, false);
    match db.put(db.deadline(), &item, &Condition::absent()).await {
        Ok(()) => Ok(found),
        Err(Failure::Condition(Some(stored))) => {
            let is_own = stored.get("attempt") == item.get("attempt");
            if is_own { Ok(found) } else { answer(db, request, &stored).await }
        }
        Err(other) => Err(other.into()),
    }
}

fn request_item(
    db: &Db,
    key: &Key,
    request: &IdempotencyKey,
    link: &LinkKey,
    serial: &Serial,
    at: Timestamp,
    created: bool,
) -> Item {
    let mut item = key.item();
    item.insert("fingerprint".into(), bytes(request.fingerprint));
    item.insert("link".into(), text(keys::link(link).pk));
    item.insert("serial".into(), bytes(*serial));
    item.insert("created".into(), AttributeValue::Bool(created));
    // Tells an attempt whose answer was lost from another request.
    item.insert("attempt".into(), bytes(keys::random().to_le_bytes()));
    item.insert("purge_shard".into(), text(PurgeQueue::Requests.partition_of(&key.pk)));
    item.insert("purge_at".into(), number(at.as_ms()));
    // In seconds: the server ignores other units.
    item.insert("forget_at".into(), number(db.now().as_ms() / 1000 + FORGET_AFTER_SECONDS));
    item
}

/// The answer to a request that was answered before.
async fn answer(db: &Db, request: &IdempotencyKey, item: &Item) -> Result<Inserted, StoreError> {
    if item.bytes("fingerprint")? != request.fingerprint {
        return Ok(Inserted::RequestMismatch);
    }
    let key = keys::link_key(item.text("link")?)?;
    let serial = item.bytes("serial")?;
    // A later link with the same key is not the answer.
    let link = db.stored(&key).await?.filter(|stored| stored.serial[..] == *serial);
    let link = link.map(|stored| Box::<Link>::new(stored.link));
    Ok(Inserted::Replayed { link, created: item.flag("created") })
}

/// The answer that an insert would repeat for this request.
pub(crate) async fn answered(
    db: &Db,
    request: &IdempotencyKey,
) -> Result<Option<Inserted>, StoreError> {
    let key = keys::request(&request.id);
    match db.get(db.deadline(), &key, true).await.map_err(StoreError::from)? {
        Some(item) => answer(db, request, &item).await.map(Some),
        None => Ok(None),
    }
}
