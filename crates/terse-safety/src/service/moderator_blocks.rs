//! Hosts that moderators have blocked, as an overlay of the screen. The registry watcher reads
//! them.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use sha2::{Digest as _, Sha256};
use terse_core::registry::BlockedHost;

use super::Safety;
use crate::screen::MODERATORS;
use crate::{BlocklistIndex, ParsedList, ProtectedHosts, parse};

/// The name of this list in logs and messages.
const NAME: &str = MODERATORS;

/// The blocked hosts as a list.
pub(super) struct ModeratorBlocks {
    parsed: ParsedList,
    digest: [u8; 32],
}

impl ModeratorBlocks {
    pub(super) fn new(hosts: &[BlockedHost]) -> Self {
        let text: String = hosts.iter().map(|host| format!("{}\n", host.host)).collect();
        let guard = ProtectedHosts { own_hosts: Vec::new(), allow_platforms: true };
        Self { parsed: parse(NAME, text.as_bytes(), &guard), digest: Sha256::digest(&text).into() }
    }

    pub(super) fn digest(&self) -> [u8; 32] {
        self.digest
    }
}

impl Safety {
    /// Replaces the hosts that moderators have blocked. Returns whether they differ from those
    /// before. The hosts are an overlay of the screen, so the lists are not compiled again.
    pub fn block_host(&self, hosts: &[BlockedHost]) -> bool {
        let new = ModeratorBlocks::new(hosts);
        // Every caller takes the locks in this order.
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut moderator_blocks =
            self.moderator_blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if new.digest == moderator_blocks.digest {
            return false;
        }
        let overlay = BlocklistIndex::build([&new.parsed]);
        self.counts.moderated.store(overlay.len() as u64, Ordering::Relaxed);
        *moderator_blocks = new;
        drop(moderator_blocks);
        self.screen.replace_overlay(overlay);
        // After the overlay: receivers scan links with it.
        self.changed.send_replace(self.fingerprint(&held));
        tracing::info!(hosts = hosts.len(), "loaded the hosts that moderators have blocked");
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ConfiguredList, ListEffect, ListLocation, ListSource, tests::settings};
    use super::*;
    use crate::Verdict;
    use terse_core::{Clock, Hosts, Target, Timestamp};

    #[test]
    fn hosts_of_every_kind_are_blocked_with_all_below_them() {
        let base = "https://go.example/".parse().unwrap();
        let hosts = Hosts::new(&base, &[], vec![]).unwrap();
        let safety = Safety::open(settings(vec![]), &hosts, &Clock::default()).unwrap();
        let blocks = |target: &str| {
            let target = Target::parse(target, &Default::default()).unwrap();
            matches!(safety.screen.check(&target, crate::FlagSet::NONE),
                Verdict::Blocked(block) if block.source == NAME)
        };
        let host =
            |host: &str| BlockedHost { host: host.into(), at: Timestamp::from_ms(1), why: None };
        let (before, changes) = (safety.screen.version(), safety.changes());
        safety.block_host(&[
            host("evil.example.net"),
            host("8.8.8.8"),
            host("[2606:4700::1111]"),
            host("xn--mnchen-3ya.de"),
        ]);
        assert!(safety.screen.version() > before && changes.has_changed().unwrap());
        for target in [
            "https://evil.example.net/",
            "https://a.b.evil.example.net./x",
            "http://8.8.8.8/",
            "http://[2606:4700::1111]/",
            "https://münchen.de/",
        ] {
            assert!(blocks(target), "{target}");
        }
        assert!(!blocks("https://notevil.example.net/"));
        let before = safety.screen.version();
        let same = safety.block_host(&[
            host("evil.example.net"),
            host("8.8.8.8"),
            host("[2606:4700::1111]"),
            host("xn--mnchen-3ya.de"),
        ]);
        assert_eq!((safety.screen.version(), same), (before, false), "nothing new");
        assert!(safety.block_host(&[]));
        assert!(!blocks("https://evil.example.net/"));
    }

    #[test]
    fn blocking_one_host_compiles_no_list() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("list.txt");
        std::fs::write(&file, "listed.example\n").unwrap();
        let list = ConfiguredList {
            setting: "safety.lists",
            effect: ListEffect::Block,
            source: ListSource { name: "list".into(), place: ListLocation::File(file) },
        };
        let base = "https://go.example/".parse().unwrap();
        let hosts = Hosts::new(&base, &[], vec![]).unwrap();
        let safety = Safety::open(settings(vec![list]), &hosts, &Clock::default()).unwrap();
        let compiled = || safety.counts.compiled.load(Ordering::Relaxed);
        let blocks = |target: &str| {
            let target = Target::parse(target, &Default::default()).unwrap();
            safety.screen.blocks(&target)
        };
        assert_eq!(compiled(), 1);
        for count in 1..=3 {
            let blocked: Vec<_> = (0..count)
                .map(|n| BlockedHost {
                    host: format!("evil{n}.example"),
                    at: Timestamp::from_ms(1),
                    why: None,
                })
                .collect();
            assert!(safety.block_host(&blocked));
            assert!(blocks("https://evil0.example/") && blocks("https://listed.example/"));
            assert!(!blocks(&format!("https://evil{count}.example/")));
        }
        assert_eq!(compiled(), 1, "the lists were compiled at start only");
    }
}
