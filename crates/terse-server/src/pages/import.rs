//! The import of a file with links, for admins: upload, dry run, import and report.

use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use terse_core::import_file::guard as inert;
use terse_core::{
    ImportError, ImportOptions, ImportPhase, ImportProgress, MAX_IMPORT_FILE, SampleRow,
};

use super::format::{grouped, middle_cut};
use super::link::domain_choices;
use super::member::{AdminForm, AdminPage, Member, MemberForm};
use super::session::{app_page, guard, redirect_to};
use super::shell::Shell;
use super::upload::AdminUpload;
use super::{NOT_FOUND, html, message};
use crate::http::state::{App, Web};

/// The largest form: the file, and room for the other fields.
const MAX_FORM: usize = MAX_IMPORT_FILE + (64 << 10);
/// How many rows of the report the page shows; the CSV file has all.
const SHOWN: usize = 20;
/// How often a page of an import under way loads itself again.
const RELOAD: Duration = Duration::from_secs(2);

#[derive(Template)]
#[template(path = "import.html")]
struct ImportPage {
    shell: Shell,
    /// The short domains to choose from; empty if there is one.
    domains: Vec<String>,
    progress: Option<ImportView>,
    wrong: Option<String>,
    max_mib: usize,
}

/// An import as the page shows it.
struct ImportView {
    phase: ImportPhase,
    source: Option<&'static str>,
    used: Vec<(String, &'static str)>,
    unused: String,
    partial: Option<(usize, u64)>,
    percent: u64,
    rows: String,
    created: String,
    existing: String,
    refused: String,
    skipped: String,
    sample: Vec<SampleRow>,
    report: Vec<ReportRow>,
    /// How many rows the report has, and how many of these the page leaves out.
    report_len: usize,
    hidden: u64,
    reload: Option<u64>,
}

struct ReportRow {
    line: u64,
    outcome: &'static str,
    code: String,
    reason: String,
}

impl ImportView {
    fn new(progress: ImportProgress) -> Self {
        let left_out = progress.refused + progress.skipped;
        let report_len = progress.report.len();
        let report = progress.report.iter().take(SHOWN).map(|(row, outcome)| ReportRow {
            line: row.line,
            outcome,
            code: middle_cut(row.short_code.as_deref().unwrap_or_default(), 40),
            reason: match &row.field {
                Some(field) => format!("{field}: {}", row.reason),
                None => row.reason.clone(),
            },
        });
        let report: Vec<ReportRow> = report.collect();
        let sample = progress.sample.iter().map(|row| SampleRow {
            code: row.code.as_deref().map(|code| middle_cut(code, 40)),
            target: middle_cut(&row.target, 70),
            title: row.title.as_deref().map(|title| middle_cut(title, 60)),
        });
        let (done, size) = progress.bytes;
        Self {
            source: progress.source,
            unused: progress.unused.join(", "),
            partial: progress.partial,
            percent: (done * 100).checked_div(size).unwrap_or(100),
            rows: grouped(progress.rows()),
            created: grouped(progress.created),
            existing: grouped(progress.existing),
            refused: grouped(progress.refused),
            skipped: grouped(progress.skipped),
            sample: sample.collect(),
            hidden: left_out.saturating_sub(report.len() as u64),
            report_len,
            report,
            reload: progress.is_running().then_some(RELOAD.as_secs()),
            used: progress.used.into_iter().collect(),
            phase: progress.phase,
        }
    }

    fn heading(&self) -> &'static str {
        match self.phase {
            ImportPhase::Checking => "Checking the file",
            ImportPhase::Checked => "This would happen",
            ImportPhase::Importing => "Importing",
            ImportPhase::Done => "The import is complete",
            ImportPhase::Failed(_) => "The import stopped",
        }
    }

    fn is_running(&self) -> bool {
        self.reload.is_some()
    }

    fn is_checked(&self) -> bool {
        self.phase == ImportPhase::Checked
    }

    /// Whether what the counts say has happened.
    fn is_past(&self) -> bool {
        matches!(self.phase, ImportPhase::Importing | ImportPhase::Done)
    }

    fn failure(&self) -> Option<&str> {
        match &self.phase {
            ImportPhase::Failed(why) => Some(why),
            _ => None,
        }
    }
}

fn page_for(state: &App, member: &Member) -> ImportPage {
    ImportPage {
        shell: member.shell(state, "/links"),
        domains: domain_choices(state),
        progress: state.imports.progress(&member.principal).map(ImportView::new),
        wrong: None,
        max_mib: MAX_IMPORT_FILE >> 20,
    }
}

pub(super) async fn show(State(state): Web, AdminPage(member): AdminPage) -> Response {
    app_page(StatusCode::OK, html(&page_for(&state, &member)))
}

/// Shows the page with what is wrong.
fn refused(state: &App, member: &Member, error: &ImportError) -> Response {
    let status = match error {
        ImportError::Access(_) => return message(&NOT_FOUND),
        ImportError::File(_) => StatusCode::BAD_REQUEST,
        ImportError::Busy | ImportError::NoFile => StatusCode::CONFLICT,
        ImportError::Full => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut page = page_for(state, member);
    page.wrong = Some(error.to_string());
    app_page(status, html(&page))
}

/// Takes a file and begins the dry run.
pub(super) async fn check(
    State(state): Web,
    AdminUpload { member, mut form }: AdminUpload<MAX_FORM>,
) -> Response {
    let chosen = match form.text("domain") {
        Ok(chosen) => chosen,
        Err(problem) => return super::form::refusal(&problem),
    };
    let domain = match chosen.as_str() {
        "" => None,
        // The primary domain has no name.
        "primary" => Some(String::new()),
        name => Some(name.to_owned()),
    };
    let file = form.file("file").unwrap_or_default();
    match state.imports.check(&member.principal, file, ImportOptions { domain }) {
        Ok(()) => redirect_to("/import"),
        Err(error) => refused(&state, &member, &error),
    }
}

/// Imports the checked file.
pub(super) async fn start(
    State(state): Web,
    AdminForm(MemberForm { member, .. }): AdminForm,
) -> Response {
    match state.imports.start(&member.principal) {
        Ok(()) => redirect_to("/import"),
        Err(error) => refused(&state, &member, &error),
    }
}

/// Forgets the file, and stops an import under way.
pub(super) async fn discard(
    State(state): Web,
    AdminForm(MemberForm { member, .. }): AdminForm,
) -> Response {
    state.imports.discard(&member.principal);
    redirect_to("/import")
}

/// The rows that do not become links, as CSV.
pub(super) async fn report(State(state): Web, AdminPage(member): AdminPage) -> Response {
    let Some(progress) = state.imports.progress(&member.principal) else {
        return message(&NOT_FOUND);
    };
    let mut text = String::from("line,outcome,short_code,field,reason\r\n");
    for (row, outcome) in &progress.report {
        text.push_str(&format!("{},{outcome}", row.line));
        let texts = [row.short_code.as_deref(), row.field.as_deref(), Some(row.reason.as_str())];
        for cell in texts {
            text.push_str(",\"");
            text.push_str(&inert(cell.unwrap_or_default()).replace('"', "\"\""));
            text.push('"');
        }
        text.push_str("\r\n");
    }
    let mut response = text.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/csv; charset=utf-8"));
    let name = HeaderValue::from_static("attachment; filename=\"refused.csv\"");
    headers.insert(CONTENT_DISPOSITION, name);
    guard(headers);
    response
}
