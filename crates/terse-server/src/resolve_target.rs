//! Resolves the target of a single visitor, for pages and dry runs, exactly as the redirect plane
//! does.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use terse_core::rules::{RequiredTraits, SplitKey, VisitorTraits, truncate_user_agent};
use terse_core::{Link, Target};

use crate::http::state::App;

/// Long enough to load the tables of devices and countries, which happens once per process.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The query of a visit that gets a page instead of a redirect. The HTTP fallback of the binary
/// adds it to the request's extensions.
#[derive(Clone, Debug, Default)]
pub struct ForwardedQuery(pub String);

/// Classifies a visitor on a blocking thread. `None` if that takes too long or fails.
pub(crate) async fn classify(
    state: &App,
    agent: Option<Vec<u8>>,
    address: Option<IpAddr>,
) -> Option<VisitorTraits> {
    let classifier = Arc::clone(&state.classifier);
    let looking = tokio::task::spawn_blocking(move || {
        let (by_agent, country) = (agent.is_some(), address.is_some());
        classifier.prepare(RequiredTraits { agent: by_agent, country, previews: false });
        classifier.classify(agent.as_deref().map(truncate_user_agent), address)
    });
    tokio::time::timeout(TIMEOUT, looking).await.ok()?.ok()
}

/// The target of a link for a visitor with these headers.
pub(crate) async fn resolve_target<'l>(
    state: &App,
    link: &'l Link,
    headers: &HeaderMap,
    address: IpAddr,
    query: &str,
) -> &'l Target {
    let Some(rules) = &link.rules else { return &link.target };
    // The first value that is not empty, as for visits.
    let field = |name: HeaderName| {
        headers.get_all(name).iter().map(HeaderValue::as_bytes).find(|value| !value.is_empty())
    };
    let agent = field(header::USER_AGENT).unwrap_or_default();
    let needs = rules.required_traits();
    let traits =
        classify(state, needs.agent.then(|| agent.to_vec()), needs.country.then_some(address))
            .await
            .unwrap_or_default();
    let languages = field(header::ACCEPT_LANGUAGE)
        .and_then(|text| std::str::from_utf8(text).ok())
        .unwrap_or_default();
    let who = SplitKey::of(address, truncate_user_agent(agent)).at(&link.key);
    rules.choose(&traits.context(languages, query, state.links.now(), who)).unwrap_or(&link.target)
}
