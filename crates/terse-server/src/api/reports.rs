//! Reports about links: anyone sends them, and moderators read them grouped by link.

use crate::describe;
use crate::describe::ToSchema;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use terse_core::registry::{ReportId, ReportState, ReportedLink};
use terse_core::{Cursor, Link};

use super::links::link_key;
use super::moderated::{ModeratedLink, Names};
use super::shapes::host_of;
use crate::http::body::{Json, SMALL, parse_object};
use crate::http::cursor::CursorSeal;
use crate::http::extract::{AnyCaller, Moderator, Name, Peer};
use crate::http::params::{Params, whole_number};
use crate::http::problem::Problem;
use crate::http::state::{App, Web};
use crate::reporting::{self, Reason, Reporter};

/// A report.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "reason": "phishing", "text": "It imitates my bank." }))]
pub(crate) struct CreateReport {
    /// The reason.
    #[schema(schema_with = super::schemas::reason)]
    reason: Reason,
    /// Details.
    #[schema(max_length = 2000)]
    text: Option<String>,
}

/// Report a link
///
/// Answers once the report is on stable storage. Three reports from different accounts or networks
/// put a warning page before the link; then a moderator decides.
#[describe::path(post, path = "/api/v1/urls/{code}/report", operation_id = "report_link",
    tag = "Links",
    request_body(content = CreateReport),
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{1,64}$"),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the \
            primary one", max_length = 253, nullable = false)),
    responses((status = 202, description = "The report is kept"), super::answers::ReportProblems),
    security((), ("key" = [])))]
pub(super) async fn write(
    State(state): Web,
    AnyCaller(principal): AnyCaller,
    Peer(address): Peer,
    params: Params,
    Name(code): Name,
    Json(body): Json<SMALL>,
) -> Result<StatusCode, Problem> {
    let key = link_key(&state, params, &code)?;
    let CreateReport { reason, text } = parse_object(&body)?;
    reporting::report(&state, Reporter { caller: principal.caller, address }, key, reason, text)
        .await?;
    Ok(StatusCode::ACCEPTED)
}

/// A reason and how often it was given.
#[derive(Serialize, ToSchema)]
struct ReasonCount {
    /// The reason.
    #[schema(min_length = 1)]
    reason: String,
    /// How often.
    #[schema(minimum = 1)]
    count: u64,
}

/// A link and what was reported about it.
#[derive(Serialize, ToSchema)]
#[schema(as = ReportedLink)]
struct ReportedBody {
    /// The link's code.
    short_code: String,
    /// Its short domain.
    domain: String,
    /// The link; null if it is gone for good.
    #[schema(required = true)]
    link: Option<ModeratedLink>,
    /// How many reporters there are.
    #[schema(minimum = 1)]
    count: u64,
    /// The reasons.
    reasons: Vec<ReasonCount>,
    /// The last few texts, the latest first.
    texts: Vec<String>,
    /// When the first report arrived.
    #[schema(format = DateTime)]
    first_at: String,
    /// When the last report arrived.
    #[schema(format = DateTime)]
    last_at: String,
}

/// A page of reported links.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "reports": [], "next_cursor": null }))]
pub(crate) struct ReportList {
    /// The reported links.
    #[schema(max_items = 100)]
    reports: Vec<ReportedBody>,
    /// Pass it as `cursor` for the next page; null at the end.
    #[schema(required = true)]
    next_cursor: Option<String>,
}

/// The state of a report.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "its names are what matters")]
enum StateParam {
    Open,
    Confirmed,
    Cleared,
}

/// List reported links
///
/// Those that have waited longest first.
#[describe::path(get, path = "/api/v1/admin/reports", operation_id = "list_reports", tag = "Admin",
    params(
        ("status" = inline(Option<StateParam>), Query, description = "Only reports with this \
            status; `open` by default (also `state`)", nullable = false),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before, with \
            the same filters",
            min_length = 1, max_length = 1024, pattern = "^[A-Za-z0-9_-]+$", nullable = false),
        ("limit" = Option<u16>, Query, description = "At most this many; 50 by \
            default", minimum = 1, maximum = 100, nullable = false)),
    responses((status = 200, description = "A part of the \
        list", body = ReportList), super::answers::AdminListProblems),
    security(("key" = [])))]
pub(super) async fn list(
    State(state): Web,
    Moderator(principal): Moderator,
    mut params: Params,
) -> Result<axum::Json<ReportList>, Problem> {
    let wanted = match params.take_renamed("status", "state")? {
        None => ReportState::Open,
        Some((name, word)) => ReportState::parse(&word)
            .ok_or_else(|| Problem::invalid(name, "one of open, confirmed, cleared"))?,
    };
    let (cursor, limit) = (params.take("cursor"), params.take("limit"));
    params.done()?;
    let limit = limit.map_or(Ok(50), |text| whole_number("limit", &text, 100))?;
    let mut seal = CursorSeal::new(&state.cursor_key, principal.caller);
    seal.bind(Some("reports"));
    seal.bind(Some(wanted.as_str()));
    let after = cursor.map(|text| seal.open_number(&text)).transpose()?.map(ReportId);
    let limit = usize::try_from(limit).unwrap_or(100);
    let found = state.moderation.reported(&principal, wanted, after, limit).await?;
    let next = found
        .last()
        .filter(|_| found.len() == limit)
        .map(|(last, _)| Cursor(last.first.0.to_be_bytes().to_vec()));
    let (mut reports, mut names) = (Vec::with_capacity(found.len()), Names::default());
    for (reported, link) in found {
        reports.push(body(&state, &mut names, reported, link).await?);
    }
    Ok(axum::Json(ReportList { reports, next_cursor: next.map(|cursor| seal.close(&cursor)) }))
}

async fn body(
    state: &App,
    names: &mut Names,
    reported: ReportedLink,
    link: Option<Link>,
) -> Result<ReportedBody, Problem> {
    let ReportedLink { link: key, count, reasons, since, last, texts, .. } = reported;
    let link = match link {
        Some(link) => Some(ModeratedLink::new(state, names, &link).await?),
        None => None,
    };
    Ok(ReportedBody {
        domain: host_of(&key, &state.links.rules().hosts).to_owned(),
        short_code: key.code.to_string(),
        link,
        count,
        reasons: reasons.into_iter().map(|(reason, count)| ReasonCount { reason, count }).collect(),
        texts,
        first_at: since.to_string(),
        last_at: last.to_string(),
    })
}
