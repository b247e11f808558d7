//! The System page, for admins: what the server finds when it checks itself.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use terse_core::moderation::ModerationError;
use terse_core::registry::RemovalAlarm;
use terse_core::{CheckResult, Finding};

use super::member::{AdminForm, AdminPage, MemberForm};
use super::session::{app_page, go};
use super::shell::Shell;
use super::{BAD_FORM, UNAVAILABLE, html, message};
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::self_check;
use crate::http::state::Web;

#[derive(Template)]
#[template(path = "system.html")]
struct SystemPage {
    shell: Shell,
    version: &'static str,
    now: String,
    findings: Vec<FindingRow>,
    /// Problems and warnings.
    open: usize,
    /// A removal of links that waits for a confirmation.
    removal: Option<RemovalAlarm>,
    done: bool,
}

struct FindingRow {
    what: String,
    found: String,
    advice: String,
    word: &'static str,
    class: &'static str,
}

impl From<Finding> for FindingRow {
    fn from(finding: Finding) -> Self {
        let (word, class) = match finding.verdict {
            CheckResult::Good => ("good", "good"),
            CheckResult::Warning => ("warning", "attention"),
            CheckResult::Problem => ("problem", "bad"),
        };
        let Finding { what, found, advice, .. } = finding;
        Self { what, found, advice, word, class }
    }
}

pub(super) async fn show(
    State(state): Web,
    AdminPage(member): AdminPage,
    params: Result<Params, Problem>,
) -> Response {
    let Ok(mut findings) = self_check::findings(&state, member.principal.clone()).await else {
        return message(&UNAVAILABLE);
    };
    // What needs attention comes first; the order of the checks stays.
    findings.sort_by_key(|finding| match finding.verdict {
        CheckResult::Problem => 0,
        CheckResult::Warning => 1,
        CheckResult::Good => 2,
    });
    let removal = match state.removals.waiting(&member.principal).await {
        Ok(removal) => removal,
        Err(error) => {
            tracing::error!(%error, "the removal that waits could not be read");
            return message(&UNAVAILABLE);
        }
    };
    let shell = member.shell(&state, "/system");
    let page = SystemPage {
        version: env!("CARGO_PKG_VERSION"),
        now: shell.moment(state.links.now()),
        open: findings.iter().filter(|finding| finding.verdict != CheckResult::Good).count(),
        findings: findings.into_iter().map(FindingRow::from).collect(),
        removal,
        done: params.is_ok_and(|mut params| params.take("done").is_some()),
        shell,
    };
    app_page(StatusCode::OK, html(&page))
}

/// Lets a removal continue that stopped because it would delete many links.
pub(super) async fn confirm_removal(
    State(state): Web,
    AdminForm(MemberForm { member, mut fields }): AdminForm,
) -> Response {
    let Some(round) = fields.take("round").and_then(|round| round.parse().ok()) else {
        return message(&BAD_FORM);
    };
    match state.removals.confirm(&member.principal, round).await {
        Ok(_) | Err(ModerationError::NoRemoval) => go("/system?done=1"),
        Err(error) => {
            tracing::error!(%error, "a removal could not be confirmed");
            message(&UNAVAILABLE)
        }
    }
}
