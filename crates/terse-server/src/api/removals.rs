//! Deletions by age that stopped and wait for an admin.

use crate::describe;
use crate::describe::ToSchema;
use axum::extract::State;
use serde::Serialize;
use terse_core::moderation::ModerationError;
use terse_core::registry::RemovalAlarm;

use crate::http::extract::{Admin, Name};
use crate::http::params::NoParams;
use crate::http::problem::Problem;
use crate::http::state::Web;

/// A removal that stopped.
#[derive(Serialize, ToSchema)]
#[schema(as = Removal, example = json!({ "round": 1, "why": "900 of 1000 links would be deleted for good" }))]
pub(crate) struct RemovalBody {
    /// The number that confirms it.
    #[schema(minimum = 1)]
    round: u64,
    /// Why it stopped.
    why: String,
}

impl From<RemovalAlarm> for RemovalBody {
    fn from(RemovalAlarm { round, why, .. }: RemovalAlarm) -> Self {
        Self { round, why }
    }
}

/// The removal that waits.
#[derive(Serialize, ToSchema)]
#[schema(as = Removals, example = json!({ "waiting": null }))]
pub(crate) struct RemovalsBody {
    /// `null` if none waits.
    #[schema(required = true)]
    waiting: Option<RemovalBody>,
}

/// Show the removal that waits
///
/// terse stops deleting by age when the clock is implausible, or when it would delete too many
/// links at once.
#[describe::path(get, path = "/api/v1/admin/removals", operation_id = "waiting_removal", tag = "Admin",
    responses((status = 200, description = "The removal that waits", body = RemovalsBody),
        super::answers::AdminListProblems),
    security(("key" = [])))]
pub(super) async fn waiting(
    State(state): Web,
    Admin(principal): Admin,
    _: NoParams,
) -> Result<axum::Json<RemovalsBody>, Problem> {
    let waiting = state.removals.waiting(&principal).await?;
    Ok(axum::Json(RemovalsBody { waiting: waiting.map(Into::into) }))
}

/// Confirm a removal
///
/// The deletion continues within `links.reap_every`.
#[describe::path(post, path = "/api/v1/admin/removals/{round}/confirm",
    operation_id = "confirm_removal", tag = "Admin",
    params(("round" = u64, Path, description = "The number of the removal", minimum = 1)),
    responses((status = 200, description = "It is confirmed", body = RemovalBody),
        super::answers::ConfirmRemovalProblems),
    security(("key" = [])))]
pub(super) async fn confirm(
    State(state): Web,
    Admin(principal): Admin,
    _: NoParams,
    Name(round): Name,
) -> Result<axum::Json<RemovalBody>, Problem> {
    let round = round.parse().map_err(|_| ModerationError::NoRemoval)?;
    Ok(axum::Json(state.removals.confirm(&principal, round).await?.into()))
}
