//! For commands: most of them judge nothing, and should not wait for lists to be read.

use std::sync::{Arc, OnceLock};

use terse_core::registry::BlockedHost;
use terse_core::{Clock, Evidence, Hosts, Judgement, Screening, Target};
use terse_safety::Screen;

use super::Safety;
use crate::config::Config;

/// A screen that reads its lists when it is asked for the first time, and asks nobody elsewhere.
pub(crate) struct OnFirstUse {
    config: Config,
    hosts: Hosts,
    by_hand: Vec<BlockedHost>,
    screen: OnceLock<Arc<Screen>>,
}

impl OnFirstUse {
    /// `by_hand`: the hosts that moderators have blocked.
    pub(crate) fn new(config: Config, hosts: Hosts, by_hand: Vec<BlockedHost>) -> Self {
        Self { config, hosts, by_hand, screen: OnceLock::new() }
    }

    fn screen(&self) -> &Screen {
        self.screen.get_or_init(|| {
            let safety = Safety::open(&self.config, &self.hosts, &Clock::default()).unwrap_or_else(|error| {
                // The server judges again what is made now, once its lists can be read.
                tracing::warn!(error = format!("{error:#}"), "targets are judged without blocklists");
                Safety::closed(&self.config, &Clock::default())
            });
            safety.block_by_hand(&self.by_hand);
            safety.screen
        })
    }
}

impl Screening for OnFirstUse {
    fn judge(&self, target: &Target, evidence: Evidence<'_>) -> Judgement {
        Screening::judge(self.screen(), target, evidence)
    }

    fn is_blockable(&self, host: &str) -> bool {
        Screening::is_blockable(self.screen(), host)
    }

    fn sentence(&self, flag: &str) -> Option<&'static str> {
        Screening::sentence(self.screen(), flag)
    }
}
