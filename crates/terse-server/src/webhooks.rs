//! What the web side must know to look after webhooks. Sending is somebody else's.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use terse_core::registry::WebhookKey;
use terse_core::webhooks::WebhookSignals;
use terse_core::{Hosts, Link, OwnerId, TargetRules, Timestamp};
use tokio::sync::Notify;

use crate::api::shapes::LinkBody;

/// Webhooks, where the operator allows them.
#[derive(Clone, Debug)]
pub struct Webhooks {
    /// What secrets are made from.
    pub key: WebhookKey,
    /// Which receivers are allowed.
    pub rules: TargetRules,
    /// Who has a webhook.
    pub owners: Arc<HookedOwners>,
    /// Rung when there is something to be sent.
    pub wake: Arc<Notify>,
}

impl WebhookSignals for Webhooks {
    fn owner_added(&self, owner: OwnerId) {
        self.owners.add(owner);
    }

    fn wake(&self) {
        self.wake.notify_one();
    }
}

/// Whoever has a webhook, so that nobody else pays for there being such a thing. May name a few too
/// many for a moment, and those who made their first one on another node a few seconds late.
#[derive(Debug, Default)]
pub struct HookedOwners(RwLock<Known>);

#[derive(Debug, Default)]
struct Known {
    owners: HashSet<OwnerId>,
    /// Counts those added here: a list that was read before the last of them may lack it.
    added: u64,
}

impl HookedOwners {
    /// Whether somebody has one.
    pub fn contains(&self, owner: OwnerId) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).owners.contains(&owner)
    }

    /// All owners that have one.
    pub fn all(&self) -> Vec<OwnerId> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.owners.iter().copied().collect()
    }

    /// Somebody has one from now on.
    pub fn add(&self, owner: OwnerId) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.owners.insert(owner);
        known.added += 1;
    }

    /// To be asked before the list is read, and given to `replace`.
    pub fn added(&self) -> u64 {
        self.0.read().unwrap_or_else(PoisonError::into_inner).added
    }

    /// The list as the registry has it.
    pub fn replace(&self, owners: Vec<OwnerId>, added: u64) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.added == added {
            known.owners.clear();
        }
        known.owners.extend(owners);
    }
}

/// A link as the API shows it, but for what only a look at its clicks could tell.
pub fn link_json(link: &Link, hosts: &Hosts, now: Timestamp) -> serde_json::Value {
    let mut value = serde_json::to_value(LinkBody::new(link, None, hosts, now)).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("click_count");
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_while_the_list_is_read_stays() {
        let owners = HookedOwners::default();
        owners.replace(vec![OwnerId(1), OwnerId(2)], owners.added());
        owners.replace(vec![OwnerId(2)], owners.added());
        assert!(!owners.contains(OwnerId(1)) && owners.contains(OwnerId(2)));
        let before = owners.added();
        owners.add(OwnerId(3));
        owners.replace(vec![], before);
        assert!(owners.contains(OwnerId(3)));
        owners.replace(vec![], owners.added());
        assert!(owners.all().is_empty());
    }
}
