//! For commands: most of them judge nothing, and should not wait for lists to be read.

use std::sync::{Arc, OnceLock};

use terse_core::{Clock, Evidence, Hosts, Judgement, Screening, Target};
use terse_safety::Screen;

use super::Safety;
use crate::config::Config;

/// A screen that reads its lists when it is asked for the first time, and asks nobody elsewhere.
pub(crate) struct OnFirstUse {
    config: Config,
    hosts: Hosts,
    screen: OnceLock<Arc<Screen>>,
}

impl OnFirstUse {
    pub(crate) fn new(config: Config, hosts: Hosts) -> Self {
        Self { config, hosts, screen: OnceLock::new() }
    }

    fn screen(&self) -> &Screen {
        self.screen.get_or_init(|| match Safety::open(&self.config, &self.hosts, &Clock::default()) {
            Ok(safety) => safety.screen,
            // The server judges again what is made now, once its lists can be read.
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), "targets are judged without blocklists");
                Safety::closed(&self.config, &Clock::default()).screen
            }
        })
    }
}

impl Screening for OnFirstUse {
    fn judge(&self, target: &Target, evidence: Evidence<'_>) -> Judgement {
        Screening::judge(self.screen(), target, evidence)
    }

    fn sentence(&self, flag: &str) -> Option<&'static str> {
        Screening::sentence(self.screen(), flag)
    }
}
