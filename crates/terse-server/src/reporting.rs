//! Receives reports about links, for the API and the pages.

use std::sync::Arc;

use crate::describe::ToSchema;
use serde::{Deserialize, Serialize};
use terse_core::LinkKey;
pub(crate) use terse_core::moderation::Reporter;

use crate::http::problem::{Problem, STORE_UNAVAILABLE};
use crate::http::state::App;

/// The reason of a report.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reason {
    Phishing,
    Malware,
    Spam,
    Illegal,
    Other,
}

impl Reason {
    /// All reasons, the most serious first.
    pub(crate) const ALL: [Self; 5] =
        [Self::Phishing, Self::Malware, Self::Spam, Self::Illegal, Self::Other];

    /// The name of the reason in JSON and forms.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Phishing => "phishing",
            Self::Malware => "malware",
            Self::Spam => "spam",
            Self::Illegal => "illegal",
            Self::Other => "other",
        }
    }

    /// Parses the name of a reason.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }
}

/// Stores a report. `Ok` means durable. Enough independent reports put a warning page before the
/// link.
pub(crate) async fn report(
    state: &Arc<App>,
    from: Reporter,
    key: LinkKey,
    reason: Reason,
    text: Option<String>,
) -> Result<(), Problem> {
    let code = key.code.clone();
    let report = state.moderation.draft_report(from, key, reason.as_str(), text).await?;
    // In a separate task, so that a client that disconnects cannot prevent the warning page.
    let kept = tokio::spawn({
        let state = Arc::clone(state);
        async move { state.moderation.keep_report(report).await }
    });
    match kept.await {
        Ok(warned) => {
            match warned? {
                Ok(true) => {
                    tracing::info!(link.code = %code,
                        "several reports put a warning before {code}");
                }
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, link.code = %code, "a reported link has no \
                    warning page yet; a background job will put one before it"),
            }
            Ok(())
        }
        Err(_) => Err(Problem::new(&STORE_UNAVAILABLE, "the report was not kept; try again")),
    }
}
