//! Where the visitors of a link with rules go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use terse_core::rules::{
    NoClassifier, RequiredTraits, Rules, SplitKey, VisitorClassifier, VisitorTraits,
    truncate_user_agent,
};
use terse_core::{Link, Target, Timestamp};

use crate::redirector::Visitor;

/// For so long a visitor waits while whoever looks closer gets ready, once in the life of a
/// process. Then the visitor is judged by what is plain to see.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Applies rules, and has visitors looked at closer where a rule needs it.
pub(crate) struct Chooser {
    onlooker: Arc<dyn VisitorClassifier>,
    knows_agents: AtomicBool,
    knows_countries: AtomicBool,
}

impl Default for Chooser {
    fn default() -> Self {
        Self::new(Arc::new(NoClassifier))
    }
}

impl Chooser {
    pub(crate) fn new(onlooker: Arc<dyn VisitorClassifier>) -> Self {
        Self {
            onlooker,
            knows_agents: AtomicBool::new(false),
            knows_countries: AtomicBool::new(false),
        }
    }

    /// Whether the visitors of a link can be sent on without waiting.
    pub(crate) fn is_ready(&self, link: &Link) -> bool {
        self.can_see(needs(link))
    }

    fn can_see(&self, needs: RequiredTraits) -> bool {
        let knows = |known: &AtomicBool| known.load(Ordering::Acquire);
        (!needs.agent || knows(&self.knows_agents))
            && (!needs.country || knows(&self.knows_countries))
    }

    /// Gets ready for the visitors of a link, on a thread where that delays nobody else.
    pub(crate) async fn get_ready(&self, link: &Link) {
        let needs = needs(link);
        if self.can_see(needs) {
            return;
        }
        let onlooker = Arc::clone(&self.onlooker);
        let preparing = tokio::task::spawn_blocking(move || onlooker.prepare(needs));
        match tokio::time::timeout(TIMEOUT, preparing).await {
            Ok(Ok(())) => {
                self.knows_agents.fetch_or(needs.agent, Ordering::Release);
                self.knows_countries.fetch_or(needs.country, Ordering::Release);
            }
            Ok(Err(_)) | Err(_) => tracing::warn!(
                "devices or countries of visitors cannot be told yet; rules go without them"
            ),
        }
    }

    /// Where this visitor goes.
    pub(crate) fn choose<'l>(
        &self,
        link: &'l Link,
        visitor: &Visitor<'_>,
        client: impl FnOnce() -> std::net::IpAddr,
        at: Timestamp,
    ) -> &'l Target {
        let Some(rules) = &link.rules else { return &link.target };
        let (needs, address) = (rules.required_traits(), client());
        let agent = truncate_user_agent(visitor.seen.agent);
        let looks = match (needs.agent || needs.country) && self.can_see(needs) {
            true => self
                .onlooker
                .classify(needs.agent.then_some(agent), needs.country.then_some(address)),
            false => VisitorTraits::default(),
        };
        let languages = std::str::from_utf8(visitor.seen.languages).unwrap_or_default();
        let who = SplitKey::of(address, agent).at(&link.key);
        rules
            .choose(&looks.context(languages, visitor.query.unwrap_or_default(), at, who))
            .unwrap_or(&link.target)
    }
}

fn needs(link: &Link) -> RequiredTraits {
    link.rules.as_ref().map(Rules::required_traits).unwrap_or_default()
}
