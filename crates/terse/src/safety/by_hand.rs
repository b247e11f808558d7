//! Hosts that moderators have blocked, taken from the registry while running.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use terse_core::registry::{BlockedHost, Registry, RegistryError, Watermark};
use terse_safety::{Guard, ParsedList};
use tokio::sync::watch;

use super::Safety;

/// How often it is looked whether something has changed. A block is to be felt within five seconds, everywhere.
const LOOK: Duration = Duration::from_secs(1);
/// As what they are known to the operator.
const NAME: &str = "moderators";

/// These hosts as a list.
pub(super) struct ByHand {
    parsed: ParsedList,
    digest: [u8; 32],
}

impl ByHand {
    pub(super) fn new(hosts: &[BlockedHost]) -> Self {
        let text: String = hosts.iter().map(|host| format!("{}\n", host.host)).collect();
        let guard = Guard { own_hosts: Vec::new(), platforms: true };
        Self { parsed: terse_safety::parse(NAME, text.as_bytes(), &guard), digest: Sha256::digest(&text).into() }
    }

    pub(super) fn parsed(&self) -> &ParsedList {
        &self.parsed
    }

    pub(super) fn digest(&self) -> [u8; 32] {
        self.digest
    }
}

impl Safety {
    /// Puts these hosts in force, in the place of those before.
    pub(crate) fn block_by_hand(&self, hosts: &[BlockedHost]) {
        let new = ByHand::new(hosts);
        // In the same order as everybody who compiles.
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut by_hand = self.by_hand.lock().unwrap_or_else(PoisonError::into_inner);
        if new.digest == by_hand.digest {
            return;
        }
        *by_hand = new;
        drop(by_hand);
        self.compile(&held);
        tracing::info!(hosts = hosts.len(), "took the hosts that moderators have blocked");
    }

    /// Reads the hosts of the registry, and says as of which change.
    pub(crate) async fn read_by_hand(self: &Arc<Self>, registry: &dyn Registry) -> Result<Watermark, RegistryError> {
        // Before the hosts: what changes in between is read again.
        let seen = registry.watermark().await?;
        let (safety, hosts) = (Arc::clone(self), registry.blocked_hosts().await?);
        if let Err(error) = tokio::task::spawn_blocking(move || safety.block_by_hand(&hosts)).await {
            tracing::error!(%error, "the hosts that moderators have blocked could not be put in force");
        }
        Ok(seen)
    }

    /// Reads them again whenever the registry has changed, until told to stop.
    pub(crate) async fn watch_registry(
        self: Arc<Self>,
        registry: Arc<dyn Registry>,
        mut seen: Watermark,
        mut stop: watch::Receiver<bool>,
    ) {
        let (mut looks, mut well) = (tokio::time::interval(LOOK), true);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = looks.tick() => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            let look = async { if registry.watermark().await? == seen { Ok(seen) } else { self.read_by_hand(&*registry).await } };
            match look.await {
                Ok(now) => (seen, well) = (now, true),
                // Told once: the next look may find the same.
                Err(error) if well => {
                    well = false;
                    tracing::warn!(%error, "the registry cannot be read; the hosts blocked so far stay blocked");
                }
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terse_core::{Clock, Hosts, Moment, Target};
    use terse_safety::Verdict;

    #[test]
    fn hosts_of_every_kind_are_blocked_with_all_below_them() {
        let config = crate::Config::default();
        let base = "https://go.example/".parse().unwrap();
        let safety = Safety::open(&config, &Hosts::new(&base, &[], vec![]).unwrap(), &Clock::default()).unwrap();
        let judged = |target: &str| {
            let target = Target::parse(target, &Default::default()).unwrap();
            matches!(safety.screen.judge(&target, terse_safety::Flags::NONE), Verdict::Blocked(block) if block.source == NAME)
        };
        let host = |host: &str| BlockedHost { host: host.into(), at: Moment::from_ms(1), why: None };
        let (before, changes) = (safety.screen.version(), safety.changes());
        safety.block_by_hand(&[host("evil.example.net"), host("8.8.8.8"), host("[2606:4700::1111]"), host("xn--mnchen-3ya.de")]);
        assert!(safety.screen.version() > before && changes.has_changed().unwrap());
        for target in [
            "https://evil.example.net/",
            "https://a.b.evil.example.net./x",
            "http://8.8.8.8/",
            "http://[2606:4700::1111]/",
            "https://münchen.de/",
        ] {
            assert!(judged(target), "{target}");
        }
        assert!(!judged("https://notevil.example.net/"));
        let before = safety.screen.version();
        safety.block_by_hand(&[host("evil.example.net"), host("8.8.8.8"), host("[2606:4700::1111]"), host("xn--mnchen-3ya.de")]);
        assert_eq!(safety.screen.version(), before, "nothing new");
        safety.block_by_hand(&[]);
        assert!(!judged("https://evil.example.net/"));
    }
}
