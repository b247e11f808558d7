//! State that API and pages share with the jobs that send webhooks.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Notify;

use super::WebhookSignals;
use crate::link::OwnerId;
use crate::registry::WebhookKey;
use crate::target::TargetRules;

/// Webhook state, if the operator enables webhooks.
#[derive(Clone, Debug)]
pub struct WebhookState {
    /// The key from which signing secrets are derived.
    pub key: WebhookKey,
    /// The rules for receivers' URLs.
    pub rules: TargetRules,
    /// The owners that have a webhook.
    pub owners: Arc<WebhookOwners>,
    /// Wakes the sender when an event is queued.
    pub wake: Arc<Notify>,
}

impl WebhookSignals for WebhookState {
    fn owner_added(&self, owner: OwnerId) {
        self.owners.add(owner);
    }

    fn wake(&self) {
        self.wake.notify_one();
    }
}

/// The owners that have a webhook, so that other owners' links cause no webhook work. It may
/// briefly list an owner without one, and learns of a first webhook on another node seconds later.
#[derive(Debug, Default)]
pub struct WebhookOwners(RwLock<OwnerSet>);

#[derive(Debug, Default)]
struct OwnerSet {
    owners: HashSet<OwnerId>,
    /// Counts calls of `add`: a list that was read before the last call may lack that owner.
    added: u64,
}

impl WebhookOwners {
    /// Whether an owner has a webhook.
    pub fn contains(&self, owner: OwnerId) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).owners.contains(&owner)
    }

    /// All owners that have a webhook.
    pub fn all(&self) -> Vec<OwnerId> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.owners.iter().copied().collect()
    }

    /// Adds an owner, who has made a webhook.
    pub fn add(&self, owner: OwnerId) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.owners.insert(owner);
        known.added += 1;
    }

    /// The number of additions. Read it before reading the list, and pass it to `replace`.
    pub fn added(&self) -> u64 {
        self.0.read().unwrap_or_else(PoisonError::into_inner).added
    }

    /// Replaces the list by the one that was read from the registry.
    pub fn replace(&self, owners: Vec<OwnerId>, added: u64) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.added == added {
            known.owners.clear();
        }
        known.owners.extend(owners);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_while_the_list_is_read_stays() {
        let owners = WebhookOwners::default();
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
