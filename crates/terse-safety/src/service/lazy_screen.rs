//! A screen for commands: most of them screen nothing and should not wait for lists to load.

use std::sync::{Arc, OnceLock};

use terse_core::registry::BlockedHost;
use terse_core::{
    Clock, Hosts, ListMatch, ListStatus, ModerationStatus, ScreenInput, ScreenResult, Screening,
    Target,
};

use super::{Safety, SafetySettings};
use crate::Screen;

/// A screen that reads its lists at the first call, and sends no requests.
pub struct LazyScreen {
    settings: SafetySettings,
    hosts: Hosts,
    moderator_blocks: Vec<BlockedHost>,
    screen: OnceLock<Arc<Screen>>,
}

impl LazyScreen {
    /// `moderator_blocks`: the hosts that moderators have blocked.
    pub fn new(settings: SafetySettings, hosts: Hosts, moderator_blocks: Vec<BlockedHost>) -> Self {
        Self { settings, hosts, moderator_blocks, screen: OnceLock::new() }
    }

    fn screen(&self) -> &Screen {
        self.screen.get_or_init(|| {
            let (settings, clock) = (|| self.settings.clone(), Clock::default());
            let opened = Safety::open(settings(), &self.hosts, &clock);
            let safety = opened.unwrap_or_else(|error| {
                // The server screens these links again when it can read its lists.
                tracing::warn!(%error, "targets are scanned without blocklists");
                Safety::without_lists(settings(), &clock)
            });
            safety.block_host(&self.moderator_blocks);
            safety.screen
        })
    }
}

impl Screening for LazyScreen {
    fn screen(&self, target: &Target, evidence: ScreenInput<'_>) -> ScreenResult {
        Screening::screen(self.screen(), target, evidence)
    }

    fn list_match(&self, target: &Target, status: ModerationStatus) -> Option<ListMatch> {
        Screening::list_match(self.screen(), target, status)
    }

    fn lists(&self) -> Vec<ListStatus> {
        Screening::lists(self.screen())
    }

    fn is_blockable(&self, host: &str) -> bool {
        Screening::is_blockable(self.screen(), host)
    }

    fn sentence(&self, flag: &str) -> Option<&'static str> {
        Screening::sentence(self.screen(), flag)
    }
}
