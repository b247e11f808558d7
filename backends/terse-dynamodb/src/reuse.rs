//! Reusable links of one owner for one target: an item with their codes. The links themselves
//! decide whether they are given again; the item only finds them.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use terse_core::{Code, Link, LinkKey, StoreError};

use crate::client::Db;
use crate::failure::Failure;
use crate::item::{Attributes as _, Item, number};
use crate::keys::{self, Key};
use crate::requests::Condition;
use crate::row::Stored;

const CODES: &str = "codes";
const VERSION: &str = "version";
/// How many links of one owner and target the item lists, the newest first. An insert reads all of
/// them in one request.
const MAX_CODES: usize = 100;

/// The codes of the links that may be given again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reusable {
    version: Option<u64>,
    pub(crate) codes: BTreeSet<String>,
}

impl Reusable {
    pub(crate) fn read(item: Option<&Item>) -> Result<Self, StoreError> {
        let Some(item) = item else { return Ok(Self::default()) };
        let codes = item.texts(CODES).iter().cloned().collect();
        Ok(Self { version: item.number(VERSION)?, codes })
    }

    /// The keys of the links, all on the domain of this one.
    pub(crate) fn keys(&self, link: &Link) -> Vec<Key> {
        let codes = self.codes.iter().filter_map(|code| Code::parse(code));
        let key = |code| LinkKey { domain: link.key.domain.clone(), code };
        codes.map(|code| keys::link(&key(code))).collect()
    }

    /// With another link, without those that are gone or cannot be given again. `found` are the
    /// links of the present codes.
    pub(crate) fn with(&self, link: &Link, found: &[Stored]) -> Self {
        let mut live: Vec<&Link> = found.iter().map(|stored| &stored.link).collect();
        live.retain(|have| {
            have.reusable && have.deleted_at.is_none() && have.target == link.target
        });
        live.sort_by_key(|have| std::cmp::Reverse(have.created_at));
        live.truncate(MAX_CODES - 1);
        let mut codes: BTreeSet<String> =
            live.iter().map(|have| have.key.code.to_string()).collect();
        codes.insert(link.key.code.to_string());
        Self { version: self.version, codes }
    }

    /// The action that writes this form, if the stored one is still the version that was read.
    pub(crate) fn action(&self, db: &Db, key: &Key) -> Result<TransactWriteItem, Failure> {
        let condition = Condition::version(VERSION, self.version);
        if self.codes.is_empty() {
            return db.delete_action(key, condition);
        }
        let mut item = key.item();
        item.insert(VERSION.into(), number(self.version.unwrap_or(0) + 1));
        item.insert(CODES.into(), AttributeValue::Ss(self.codes.iter().cloned().collect()));
        db.put_action(item, condition)
    }
}

fn reuse_key(link: &Link) -> Option<Key> {
    (link.generated && link.reusable).then(|| keys::reuse(link))
}

/// The actions that keep this item correct when a link changes or is removed: inserts find a
/// reusable link under its present owner and target.
pub(crate) async fn moved(
    db: &Db,
    old: &Link,
    new: Option<&Link>,
) -> Result<Vec<TransactWriteItem>, StoreError> {
    let (from, to) = (reuse_key(old), new.and_then(reuse_key));
    if from == to {
        return Ok(Vec::new());
    }
    let keys: Vec<Key> = from.iter().chain(&to).cloned().collect();
    let items = db.get_all(db.deadline(), &keys, true).await.map_err(StoreError::from)?;
    let at = |key: &Key| items.iter().find(|item| Key::of(item).is_ok_and(|have| have == *key));
    let mut actions = Vec::new();
    if let Some(from) = &from {
        let mut reusable = Reusable::read(at(from))?;
        if reusable.codes.remove(old.key.code.as_str()) {
            actions.push(reusable.action(db, from).map_err(StoreError::from)?);
        }
    }
    if let Some(to) = &to {
        let mut reusable = Reusable::read(at(to))?;
        if reusable.codes.len() < MAX_CODES && reusable.codes.insert(old.key.code.to_string()) {
            actions.push(reusable.action(db, to).map_err(StoreError::from)?);
        }
    }
    Ok(actions)
}
