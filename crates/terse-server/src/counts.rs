//! What the click store answers in time: counts of links, reports and single clicks.

use std::time::Duration;

use terse_core::clicks::{ClickPage, ClickReport, ClickSubject, Count, LinkId, Period, RawQuery};
use terse_core::{Link, StoreError};

use crate::http::state::App;

/// How long a response waits for click counts. After that it shows the links without them.
const TIMEOUT: Duration = Duration::from_millis(250);
/// How long a page waits for a report or for single clicks of the click store.
pub(crate) const REPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the API waits for them.
pub(crate) const API_REPORT_TIMEOUT: Duration = Duration::from_secs(30);

/// What a reading of the click store answers; `Unavailable` if that takes longer than `limit`.
pub(crate) async fn in_time<T, E: From<StoreError>>(
    limit: Duration,
    reading: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match tokio::time::timeout(limit, reading).await {
        Ok(answer) => answer,
        Err(_) => Err(StoreError::Unavailable("reading clicks takes too long".into()).into()),
    }
}

/// The report of a subject over a period.
pub(crate) async fn report_in_time(
    state: &App,
    limit: Duration,
    subject: &ClickSubject,
    period: Period,
) -> Result<ClickReport, StoreError> {
    in_time(limit, state.clicks.report(subject, period, state.links.now())).await
}

/// A page of single clicks.
pub(crate) async fn clicks_in_time(
    state: &App,
    limit: Duration,
    query: &RawQuery,
) -> Result<ClickPage, StoreError> {
    in_time(limit, state.clicks.clicks(query)).await
}

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
