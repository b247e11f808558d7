//! Aliases that differ only by case: one item holds all of them, with their owners, and those in
//! quarantine. A write replaces the item if it is still the version that was read.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use terse_core::{Code, InsertCondition, OwnerId, StoreError};

use crate::client::Db;
use crate::failure::Failure;
use crate::item::{Attributes as _, Item, corrupt, number};
use crate::keys::Key;
use crate::requests::Condition;

const ALIASES: &str = "aliases";
const QUARANTINED: &str = "held";
const VERSION: &str = "version";

/// The aliases with one folded form.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct FoldedAliases {
    version: Option<u64>,
    pub(crate) aliases: BTreeSet<(OwnerId, String)>,
    pub(crate) quarantined: BTreeSet<(OwnerId, String)>,
}

impl FoldedAliases {
    pub(crate) fn read(item: Option<&Item>) -> Result<Self, StoreError> {
        let Some(item) = item else { return Ok(Self::default()) };
        let entries = |name| -> Result<BTreeSet<(OwnerId, String)>, StoreError> {
            let parsed = item.texts(name).iter().map(|entry| {
                let (owner, code) = entry.split_once('/')?;
                Some((OwnerId(owner.parse().ok()?), code.to_owned()))
            });
            parsed.collect::<Option<_>>().ok_or_else(|| corrupt("an alias has no owner"))
        };
        Ok(Self {
            version: item.number(VERSION)?,
            aliases: entries(ALIASES)?,
            quarantined: entries(QUARANTINED)?,
        })
    }

    /// Whether a condition about aliases finds something.
    pub(crate) fn has(&self, condition: &InsertCondition) -> bool {
        let of_others = |entries: &BTreeSet<(OwnerId, String)>, except: &Option<OwnerId>| {
            entries.iter().any(|(owner, _)| Some(*owner) != *except)
        };
        match condition {
            InsertCondition::Alias { except, .. } => of_others(&self.aliases, except),
            InsertCondition::QuarantinedAlias { except, .. } => {
                of_others(&self.quarantined, except)
            }
            InsertCondition::QuarantinedCode(_) | InsertCondition::Issued(_) => false,
        }
    }

    /// The only alias, if there is exactly one.
    pub(crate) fn only(&self) -> Option<Code> {
        let mut all = self.aliases.iter();
        let (_, code) = all.next()?;
        all.next().is_none().then(|| Code::parse(code)).flatten()
    }

    /// Takes a code out of quarantine, for every owner.
    pub(crate) fn release(&mut self, code: &Code) {
        self.quarantined.retain(|(_, other)| other != code.as_str());
    }

    /// The action that writes this form, if the stored one is still the version that was read.
    pub(crate) fn action(&self, db: &Db, key: &Key) -> Result<TransactWriteItem, Failure> {
        let condition = Condition::version(VERSION, self.version);
        if self.aliases.is_empty() && self.quarantined.is_empty() {
            return db.delete_action(key, condition);
        }
        let mut item = key.item();
        item.insert(VERSION.into(), number(self.version.unwrap_or(0) + 1));
        for (name, entries) in [(ALIASES, &self.aliases), (QUARANTINED, &self.quarantined)] {
            if !entries.is_empty() {
                let entry = |(owner, code): &(OwnerId, String)| format!("{}/{code}", owner.0);
                item.insert(name.into(), AttributeValue::Ss(entries.iter().map(entry).collect()));
            }
        }
        db.put_action(item, condition)
    }
}
