//! The audit log: who did what, when and why.

use crate::describe;
use crate::describe::ToSchema;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use terse_core::Cursor;
use terse_core::registry::{Actor, AuditAction, AuditEntry, AuditQuery};

use super::moderated::{Names, OwnerBody};
use crate::http::cursor::CursorSeal;
use crate::http::extract::Moderator;
use crate::http::params::{Params, whole_number};
use crate::http::problem::Problem;
use crate::http::state::Web;

/// A record of the audit log.
#[derive(Serialize, ToSchema)]
#[schema(as = AuditEntry)]
struct AuditEntryBody {
    /// Its place in the log.
    #[schema(minimum = 1)]
    number: u64,
    /// When.
    #[schema(format = DateTime)]
    at: String,
    /// Who; null if terse did it by itself.
    #[schema(required = true, inline)]
    actor: Option<OwnerBody>,
    /// What was done, such as `link_judged` (by a moderator), `link_screened` (by lists, flags or
    /// reports), `host_blocked` or `user_suspended`.
    act: String,
    /// To what, such as `link:/x7Kq`, `host:evil.example` or `user:1000`.
    subject: String,
    /// Why.
    #[schema(required = true)]
    why: Option<String>,
    /// The value before; null if there was none.
    #[schema(required = true)]
    before: Option<Value>,
    /// The value after; null if there is none.
    #[schema(required = true)]
    after: Option<Value>,
}

/// A part of the log.
#[derive(Serialize, ToSchema)]
#[schema(as = AuditLog, example = json!({ "entries": [], "next_cursor": null }))]
pub(crate) struct AuditLogBody {
    /// The records, the latest first.
    #[schema(max_items = 100)]
    entries: Vec<AuditEntryBody>,
    /// Pass it as `cursor` for the next page; null at the end.
    #[schema(required = true)]
    next_cursor: Option<String>,
}

/// Read the audit log
///
/// The latest first. A record is written before its act: after a crash it may describe something
/// that was not done, or done later.
#[describe::path(get, path = "/api/v1/admin/audit", operation_id = "read_audit", tag = "Admin",
    params(
        ("subject" = Option<String>, Query, description = "Only about this, such as \
            `link:/x7Kq`", min_length = 1, max_length = 400, nullable = false),
        ("action" = Option<String>, Query, description = "Only this, such as \
            `link_judged` (also `act`)", min_length = 1, max_length = 64, nullable = false),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before, with \
            the same filters",
            min_length = 1, max_length = 1024, pattern = "^[A-Za-z0-9_-]+$", nullable = false),
        ("limit" = Option<u16>, Query, description = "At most this many; 50 by \
            default", minimum = 1, maximum = 100, nullable = false)),
    responses((status = 200, description = "A part of the \
        log", body = AuditLogBody), super::answers::AdminListProblems),
    security(("key" = [])))]
pub(super) async fn read(
    State(state): Web,
    Moderator(principal): Moderator,
    mut params: Params,
) -> Result<axum::Json<AuditLogBody>, Problem> {
    let (cursor, limit) = (params.take("cursor"), params.take("limit"));
    let subject = params.take("subject");
    let action = params.take_renamed("action", "act")?.map(|(name, word)| {
        AuditAction::parse(&word).ok_or_else(|| Problem::invalid(name, "no such action is known"))
    });
    let action = action.transpose()?;
    params.done()?;
    if subject.as_ref().is_some_and(|subject| !(1..=400).contains(&subject.chars().count())) {
        return Err(Problem::invalid("subject", "expected 1 to 400 characters"));
    }
    let limit = limit.map_or(Ok(50), |text| whole_number("limit", &text, 100))?;
    let limit = usize::try_from(limit).unwrap_or(100);
    let mut seal = CursorSeal::new(&state.cursor_key, principal.caller);
    seal.bind(Some("audit"));
    seal.bind(subject.as_deref());
    seal.bind(action.map(AuditAction::as_str));
    let before = cursor.map(|text| seal.open_number(&text)).transpose()?;
    let found =
        state.moderation.audit(&principal, &AuditQuery { before, subject, action, limit }).await?;
    let next = found
        .last()
        .filter(|_| found.len() == limit)
        .map(|last| Cursor(last.number.to_be_bytes().to_vec()));
    let (mut entries, mut names) = (Vec::with_capacity(found.len()), Names::default());
    for entry in found {
        let act = entry.act_name().to_owned();
        let AuditEntry { number, at, actor, subject, why, before, after, .. } = entry;
        let actor = match actor {
            Actor::Owner(owner) => Some(names.of(&state, owner).await?),
            Actor::Terse => None,
        };
        let json = |text: Option<String>| {
            text.map(|text| serde_json::from_str(&text).unwrap_or(Value::String(text)))
        };
        let (at, before, after) = (at.to_string(), json(before), json(after));
        entries.push(AuditEntryBody { number, at, actor, act, subject, why, before, after });
    }
    Ok(axum::Json(AuditLogBody { entries, next_cursor: next.map(|cursor| seal.close(&cursor)) }))
}
