//! Click counts of links, if the click store answers in time.

use std::time::Duration;

use terse_core::Link;
use terse_core::clicks::{Count, LinkId};

use crate::http::state::App;

/// How long a response waits for click counts. After that it shows the links without them.
const TIMEOUT: Duration = Duration::from_millis(250);
/// How long a page waits for a report or for single clicks of the click store.
pub(crate) const REPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// The numbers of all clicks of links, in order; `None` if the click store fails or times out.
pub(crate) async fn click_counts<'a>(
    state: &App,
    links: impl Iterator<Item = &'a Link>,
) -> Vec<Option<u64>> {
    counts(state, links).await.into_iter().map(|count| count.map(Count::all)).collect()
}

/// The same, with humans and bots apart.
pub(crate) async fn counts<'a>(
    state: &App,
    links: impl Iterator<Item = &'a Link>,
) -> Vec<Option<Count>> {
    let ids: Vec<LinkId> = links.map(LinkId::of).collect();
    if ids.is_empty() {
        return Vec::new();
    }
    match tokio::time::timeout(TIMEOUT, state.clicks.counts(&ids)).await {
        Ok(Ok(counts)) if counts.len() == ids.len() => counts.into_iter().map(Some).collect(),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the click store failed; links are shown without click counts");
            vec![None; ids.len()]
        }
        _ => {
            tracing::warn!("the click store timed out; links are shown without click counts");
            vec![None; ids.len()]
        }
    }
}
