//! The screen of a running server, which asks Safe Browsing if the lists do not decide.

use std::sync::Arc;

use async_trait::async_trait;
use terse_core::{
    LinkKey, ListMatch, ListStatus, ModerationStatus, ScreenInput, ScreenResult, Screening, Target,
};

use crate::Screen;
use crate::safe_browsing::SafeBrowsingService;

/// Screens with the lists, and asks the service if they do not decide.
pub(crate) struct ScreenWithLookup {
    pub(crate) screen: Arc<Screen>,
    pub(crate) service: Option<Arc<SafeBrowsingService>>,
}

#[async_trait]
impl Screening for ScreenWithLookup {
    fn screen(&self, target: &Target, evidence: ScreenInput<'_>) -> ScreenResult {
        Screening::screen(&*self.screen, target, evidence)
    }

    fn blocks(&self, target: &Target) -> bool {
        self.screen.blocks(target)
    }

    fn list_match(&self, target: &Target, status: ModerationStatus) -> Option<ListMatch> {
        Screening::list_match(&*self.screen, target, status)
    }

    fn version(&self) -> u64 {
        self.screen.version()
    }

    async fn prepare(&self, target: &Target) {
        if let Some(service) = &self.service {
            service.prepare(target).await;
        }
    }

    fn needs_lookup(&self, target: &Target) -> bool {
        self.service.as_ref().is_some_and(|service| service.needs_lookup(target))
    }

    fn revisit(&self, key: &LinkKey, target: &Target) {
        if let Some(service) = &self.service {
            service.revisit(key, target);
        }
    }

    fn lists(&self) -> Vec<ListStatus> {
        Screening::lists(&*self.screen)
    }

    fn is_blockable(&self, host: &str) -> bool {
        Screening::is_blockable(&*self.screen, host)
    }

    fn sentence(&self, flag: &str) -> Option<&'static str> {
        Screening::sentence(&*self.screen, flag)
    }
}
