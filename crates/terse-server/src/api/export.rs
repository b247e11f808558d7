//! Exports all data of an account for its owner.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};
use terse_core::accounts::OwnSubject;
use terse_core::clicks::{LinkId, RawQuery};
use terse_core::registry::{Actor, AuditEntry, ReportState};
use terse_core::{Caller, LinkStatus, ListQuery, OwnerId, Principal, Sort};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::account_bodies::UserBody;
use super::click_rows::ClickRowBody;
use super::keys::KeyBody;
use super::shapes::{LinkBody, host_of};
use super::streamed::{self, Sender};
use super::webhooks::WebhookBody;
use crate::counts::{API_REPORT_TIMEOUT, click_counts, clicks_in_time};
use crate::describe;
use crate::http::extract::Member;
use crate::http::params::NoParams;
use crate::http::problem::{Problem, STORE_UNAVAILABLE};
use crate::http::state::{App, Web};

/// The number of links, audit entries and clicks per page.
const PAGE: usize = 200;
const CLICKS: usize = 1000;
/// The size of a portion.
const PORTION: usize = 32 * 1024;
/// How long a client may take to read a portion.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// Export your data
///
/// One JSON object per line, each with a `type`: your `account`, your `key`s and `webhook`s without
/// their secrets, your `session`s, your `link`s (including deleted ones that are still kept), each
/// followed by its `click`s, the `report`s you wrote, and the records of the `audit` log about you.
/// The last line is `{"type":"end"}`; without it the export is incomplete.
#[describe::path(get, path = "/api/v1/account/export", operation_id = "export_account",
    tag = "Account",
    responses((status = 200, description = "The export", headers(("Content-Disposition" = String,
        description = "A name for the file")),
            content((String = "application/x-ndjson"))),
        super::answers::OwnReadProblems),
    security(("key" = [])))]
pub(super) async fn export(
    State(state): Web,
    Member(principal): Member,
    _: NoParams,
) -> Result<Response, Problem> {
    let account = state.accounts.own_account(&principal).await?;
    // Each export reads all data of an account.
    let turn = Arc::clone(&state.turns.exports)
        .try_acquire_owned()
        .map_err(|_| Problem::new(&STORE_UNAVAILABLE, "too many exports at once; try again"))?;
    // Read before the response begins: if the registry fails, the client gets a 503.
    let (keys, webhooks) = (
        state.accounts.keys(&principal, account.id).await?,
        state.accounts.webhooks(&principal).await?,
    );
    let (sender, body) = streamed::body();
    let mut lines = Lines { sender, waiting: Vec::new() };
    lines.put("account", &UserBody::from(&account));
    for key in &keys {
        lines.put("key", &KeyBody::from(key));
    }
    for webhook in &webhooks {
        lines.put("webhook", &WebhookBody::new(webhook, None));
    }
    let subjects = state.accounts.own_subjects(&principal).await?;
    tokio::spawn(write(state, principal, subjects, lines, turn));
    let name = "attachment; filename=\"terse-account.jsonl\"";
    Ok((
        [(header::CONTENT_TYPE, "application/x-ndjson"), (header::CONTENT_DISPOSITION, name)],
        body,
    )
        .into_response())
}

/// Why an export ended early.
enum Stop {
    /// The client disconnected or reads too slowly.
    Left,
    /// A store could not be read.
    Failed(Problem),
}

impl<E: Into<Problem>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Lines that wait to be sent.
struct Lines {
    sender: Sender,
    waiting: Vec<u8>,
}

impl Lines {
    fn put(&mut self, kind: &'static str, line: &impl Serialize) {
        #[derive(Serialize)]
        struct TypedTarget<'a, T> {
            r#type: &'static str,
            #[serde(flatten)]
            line: &'a T,
        }
        // Names are text and values are plain, so serialising cannot fail. If it did, the line
        // would be missing, not malformed.
        if let Ok(mut text) = serde_json::to_vec(&TypedTarget { r#type: kind, line }) {
            text.push(b'\n');
            self.waiting.append(&mut text);
        }
    }

    /// Sends the waiting lines, as fast as the client reads.
    async fn send(&mut self) -> Result<(), Stop> {
        let mut bytes = Bytes::from(std::mem::take(&mut self.waiting));
        while !bytes.is_empty() {
            let portion = bytes.split_to(PORTION.min(bytes.len()));
            if !matches!(timeout(SEND_TIMEOUT, self.sender.send(portion)).await, Ok(true)) {
                return Err(Stop::Left);
            }
        }
        Ok(())
    }
}

async fn write(
    state: Arc<App>,
    principal: Principal,
    subjects: Vec<OwnSubject>,
    mut lines: Lines,
    _turn: OwnedSemaphorePermit,
) {
    match write_all(&state, &principal, subjects, &mut lines).await {
        Ok(()) => {
            let _ = timeout(SEND_TIMEOUT, lines.sender.end()).await;
        }
        Err(Stop::Left) => {}
        Err(Stop::Failed(problem)) => {
            tracing::error!(problem = problem.detail(), "an account export ended early");
        }
    }
}

async fn write_all(
    state: &App,
    principal: &Principal,
    subjects: Vec<OwnSubject>,
    lines: &mut Lines,
) -> Result<(), Stop> {
    let owner = principal.owner();
    for session in state.accounts.sessions(principal).await? {
        let (from, to) = (session.created_at.to_string(), session.expires_at.to_string());
        lines.put("session", &json!({ "created_at": from, "expires_at": to }));
    }
    lines.send().await?;
    for status in [None, Some(LinkStatus::Deleted)] {
        write_links(state, owner, status, lines).await?;
    }
    write_reports(state, principal, lines).await?;
    for subject in subjects {
        write_audit(state, owner, &subject, lines).await?;
    }
    lines.put("end", &json!({}));
    lines.send().await
}

async fn write_links(
    state: &App,
    owner: OwnerId,
    status: Option<LinkStatus>,
    lines: &mut Lines,
) -> Result<(), Stop> {
    let (mut after, hosts) = (None, &state.links.rules().hosts);
    loop {
        let now = state.links.now();
        let query = ListQuery { status, after, ..ListQuery::all(Sort::Oldest, PAGE, now) };
        // Also for an admin, the export has only the account's own links.
        let page = state.links.list(Caller::Owner(owner), query).await?.page;
        let counts = click_counts(state, page.links.iter()).await;
        for (link, count) in page.links.iter().zip(counts) {
            lines.put("link", &LinkBody::new(link, count, hosts, now));
            if count == Some(0) {
                continue;
            }
            let place = json!({ "short_code": link.key.code.to_string(),
                "domain": host_of(&link.key, hosts) });
            write_clicks(state, LinkId::of(link), &place, lines).await?;
        }
        lines.send().await?;
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

async fn write_clicks(
    state: &App,
    link: LinkId,
    place: &Value,
    lines: &mut Lines,
) -> Result<(), Stop> {
    #[derive(Serialize)]
    struct Clicked<'a> {
        #[serde(flatten)]
        place: &'a Value,
        #[serde(flatten)]
        click: ClickRowBody<'a>,
    }
    let mut query = RawQuery { link, from: None, to: None, after: None, limit: CLICKS };
    loop {
        let page = clicks_in_time(state, API_REPORT_TIMEOUT, &query).await?;
        for click in &page.clicks {
            lines.put("click", &Clicked { place, click: ClickRowBody::new(click) });
        }
        query.after = page.next;
        if query.after.is_none() {
            return Ok(());
        }
        lines.send().await?;
    }
}

async fn write_reports(state: &App, principal: &Principal, lines: &mut Lines) -> Result<(), Stop> {
    let hosts = &state.links.rules().hosts;
    for report_state in ReportState::ALL {
        let mut after = None;
        loop {
            let found =
                state.moderation.own_reports(principal, report_state, after, CLICKS).await?;
            let (reports, next) = found;
            if next.is_none() {
                break;
            }
            after = next;
            for report in &reports {
                let (code, domain) = (report.link.code.to_string(), host_of(&report.link, hosts));
                let (at, text) = (report.at.to_string(), &report.text);
                lines.put(
                    "report",
                    &json!({ "short_code": code, "domain": domain, "at": at,
                        "reason": report.reason, "text": text,
                        "state": report_state.as_str() }),
                );
            }
            lines.send().await?;
        }
    }
    Ok(())
}

async fn write_audit(
    state: &App,
    owner: OwnerId,
    subject: &OwnSubject,
    lines: &mut Lines,
) -> Result<(), Stop> {
    let mut before = None;
    loop {
        let entries = state.moderation.own_audit(subject, before, PAGE).await?;
        let Some(last) = entries.last() else { return Ok(()) };
        before = Some(last.number);
        entries.iter().for_each(|entry| lines.put("audit", &audit_line(entry, owner)));
        lines.send().await?;
    }
}

/// An audit record, without the identity of other accounts.
fn audit_line(entry: &AuditEntry, owner: OwnerId) -> Value {
    let by = match entry.actor {
        Actor::Owner(id) if id == owner => "you",
        Actor::Owner(_) => "staff",
        Actor::Terse => "terse",
    };
    let value = |text: &Option<String>| {
        text.as_ref().and_then(|text| serde_json::from_str::<Value>(text).ok())
    };
    json!({
        "at": entry.at.to_string(), "by": by, "act": entry.act_name(), "subject": entry.subject,
        "why": entry.why,
        "before": value(&entry.before), "after": value(&entry.after),
    })
}
