//! What the server finds when it checks itself, for `terse doctor`.

use crate::describe;
use crate::describe::ToSchema;
use axum::extract::State;
use serde::Serialize;
use terse_core::{CheckResult, Finding};

use crate::http::extract::Admin;
use crate::http::params::NoParams;
use crate::http::problem::Problem;
use crate::http::self_check;
use crate::http::state::Web;

/// The result of one check.
#[derive(Serialize, ToSchema)]
#[schema(as = Finding)]
struct FindingBody {
    /// What was checked, such as `base_url`.
    what: String,
    /// How serious it is.
    #[schema(pattern = "^(good|warning|problem)$")]
    verdict: &'static str,
    /// What was found.
    found: String,
    /// How to solve the problem; empty for a good result.
    advice: String,
}

/// All results.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "well": true, "findings": [{ "what": "space", "verdict": "good",
    "found": "20480 MiB free", "advice": "" }] }))]
pub(crate) struct Findings {
    /// Whether there is no problem; warnings do not count.
    well: bool,
    /// The results.
    findings: Vec<FindingBody>,
}

/// Check the server
///
/// The server checks its own settings, its data folder and its machine. `terse doctor` uses this.
#[describe::path(get, path = "/api/v1/admin/doctor", operation_id = "check_server", tag = "Admin",
    responses((status = 200, description = "What the server found", body = Findings),
        super::answers::AdminListProblems),
    security(("key" = [])))]
pub(super) async fn check(
    State(state): Web,
    Admin(principal): Admin,
    _: NoParams,
) -> Result<axum::Json<Findings>, Problem> {
    let findings = self_check::findings(&state, principal).await?;
    let well = findings.iter().all(|finding| finding.verdict != CheckResult::Problem);
    let body = |Finding { what, verdict, found, advice }| FindingBody {
        what,
        verdict: verdict.as_str(),
        found,
        advice,
    };
    Ok(axum::Json(Findings { well, findings: findings.into_iter().map(body).collect() }))
}
