//! How many clicks links have had, as far as that can be said at once.

use std::time::Duration;

use terse_core::Link;
use terse_core::clicks::LinkId;

use crate::http::state::App;

/// A link is worth more than its count: whoever asks for one does not wait longer than this for the
/// other.
const TIMEOUT: Duration = Duration::from_millis(250);

/// The counts of links, in order; `None` where the clicks cannot be asked.
pub(super) async fn click_counts<'a>(
    state: &App,
    links: impl Iterator<Item = &'a Link>,
) -> Vec<Option<u64>> {
    let ids: Vec<LinkId> = links.map(LinkId::of).collect();
    if ids.is_empty() {
        return Vec::new();
    }
    match tokio::time::timeout(TIMEOUT, state.clicks.counts(&ids)).await {
        Ok(Ok(counts)) if counts.len() == ids.len() => {
            counts.into_iter().map(|count| Some(count.all())).collect()
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "links are shown without their clicks");
            vec![None; ids.len()]
        }
        _ => {
            tracing::warn!("links are shown without their clicks: the click store takes too long");
            vec![None; ids.len()]
        }
    }
}
