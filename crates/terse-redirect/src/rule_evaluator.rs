//! Applies a link's redirect rules to a visitor, and recognises preview fetchers.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use terse_core::rules::{
    NoClassifier, RequiredTraits, Rules, SplitKey, VisitorClassifier, VisitorTraits,
    truncate_user_agent,
};
use terse_core::{Link, ModerationStatus, SocialPreview, Target, Timestamp};

use crate::redirector::{VisitMethod, Visitor};

/// How long a visitor waits for the classifier to load its data. After that the rules apply without
/// device and country.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Chooses the target of a link with rules. It classifies the visitor only where a rule of that
/// link needs it.
pub(crate) struct RuleEvaluator {
    classifier: Arc<dyn VisitorClassifier>,
    agents_prepared: AtomicBool,
    countries_prepared: AtomicBool,
    previews_prepared: AtomicBool,
}

impl Default for RuleEvaluator {
    fn default() -> Self {
        Self::new(Arc::new(NoClassifier))
    }
}

impl RuleEvaluator {
    pub(crate) fn new(classifier: Arc<dyn VisitorClassifier>) -> Self {
        Self {
            classifier,
            agents_prepared: AtomicBool::new(false),
            countries_prepared: AtomicBool::new(false),
            previews_prepared: AtomicBool::new(false),
        }
    }

    /// Whether the rules and the preview of a link can be applied without waiting.
    pub(crate) fn is_ready(&self, link: &Link) -> bool {
        self.is_prepared(needs(link))
    }

    fn is_prepared(&self, needs: RequiredTraits) -> bool {
        let prepared = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        (!needs.agent || prepared(&self.agents_prepared))
            && (!needs.country || prepared(&self.countries_prepared))
            && (!needs.previews || prepared(&self.previews_prepared))
    }

    /// Makes the classifier load what the rules and the preview of a link need, on a blocking
    /// thread.
    pub(crate) async fn prepare(&self, link: &Link) {
        let needs = needs(link);
        if self.is_prepared(needs) {
            return;
        }
        let classifier = Arc::clone(&self.classifier);
        let preparing = tokio::task::spawn_blocking(move || classifier.prepare(needs));
        match tokio::time::timeout(TIMEOUT, preparing).await {
            Ok(Ok(())) => {
                self.agents_prepared.fetch_or(needs.agent, Ordering::Release);
                self.countries_prepared.fetch_or(needs.country, Ordering::Release);
                self.previews_prepared.fetch_or(needs.previews, Ordering::Release);
            }
            Ok(Err(_)) | Err(_) => tracing::warn!(
                "the visitor classifier is not ready; redirect rules apply without device and \
                 country"
            ),
        }
    }

    /// The preview that this visitor gets instead of the redirect. `None` for all visitors but
    /// known preview fetchers, and for links with a password, a warning or limited clicks.
    pub(crate) fn preview_for<'l>(
        &self,
        link: &'l Link,
        visitor: &Visitor<'_>,
    ) -> Option<&'l SocialPreview> {
        let preview = link.preview.as_ref()?;
        let is_plain = link.password.is_none()
            && link.max_clicks.is_none()
            && link.moderation == ModerationStatus::Clear;
        let reads = matches!(visitor.method, VisitMethod::Get | VisitMethod::Head);
        let agent = truncate_user_agent(visitor.headers.agent);
        (is_plain
            && reads
            && self.previews_prepared.load(Ordering::Acquire)
            && self.classifier.fetches_previews(agent))
        .then_some(preview)
    }

    /// The target for this visitor.
    pub(crate) fn target<'l>(
        &self,
        link: &'l Link,
        visitor: &Visitor<'_>,
        client: impl FnOnce() -> IpAddr,
        at: Timestamp,
    ) -> &'l Target {
        let Some(rules) = &link.rules else { return &link.target };
        let (needs, address) = (rules.required_traits(), client());
        let agent = truncate_user_agent(visitor.headers.agent);
        let traits = match (needs.agent || needs.country) && self.is_prepared(needs) {
            true => self
                .classifier
                .classify(needs.agent.then_some(agent), needs.country.then_some(address)),
            false => VisitorTraits::default(),
        };
        let languages = std::str::from_utf8(visitor.headers.languages).unwrap_or_default();
        let split_key = SplitKey::of(address, agent).at(&link.key);
        rules
            .choose(&traits.context(languages, visitor.query.unwrap_or_default(), at, split_key))
            .unwrap_or(&link.target)
    }
}

fn needs(link: &Link) -> RequiredTraits {
    let rules = link.rules.as_ref().map(Rules::required_traits).unwrap_or_default();
    RequiredTraits { previews: link.preview.is_some(), ..rules }
}
