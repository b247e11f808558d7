//! The sessions of an account: browsers that are signed in.

use crate::describe;
use crate::describe::ToSchema;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use terse_core::registry::Session;

use crate::http::extract::{Member, Name};
use crate::http::params::NoParams;
use crate::http::problem::Problem;
use crate::http::state::Web;
use terse_core::Credential;

/// A browser that is signed in.
#[derive(Serialize, ToSchema)]
#[schema(as = Session, example = json!({
    "id": "5f2b8a90c1d3e4f7", "created_at": "2026-11-15T21:00:00Z",
    "expires_at": "2026-12-15T21:00:00Z", "browser": "Firefox on Windows",
    "current": true
}))]
pub(crate) struct SessionBody {
    /// Its id.
    #[schema(pattern = "^[0-9a-f]{16}$")]
    id: String,
    /// Since when.
    #[schema(format = DateTime)]
    created_at: String,
    /// Until when.
    #[schema(format = DateTime)]
    expires_at: String,
    /// The browser and its system; null if they are unknown.
    #[schema(required = true)]
    browser: Option<String>,
    /// Whether it is the session of this request.
    current: bool,
}

/// Sessions, the oldest first.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "sessions": [] }))]
pub(crate) struct SessionList {
    #[schema(max_items = 50)]
    sessions: Vec<SessionBody>,
}

/// List your sessions
#[describe::path(get, path = "/api/v1/account/sessions", operation_id = "list_sessions",
    tag = "Account",
    responses((status = 200, description = "The sessions", body = SessionList), super::answers::OwnReadProblems),
    security(("key" = [])))]
pub(super) async fn list(
    State(state): Web,
    Member(principal): Member,
    _: NoParams,
) -> Result<axum::Json<SessionList>, Problem> {
    let sessions = state.accounts.sessions(&principal).await?;
    let body = |session: &Session| SessionBody {
        id: session.token.handle(),
        created_at: session.created_at.to_string(),
        expires_at: session.expires_at.to_string(),
        browser: session.browser.clone(),
        current: principal.credential == Credential::Session(session.token),
    };
    Ok(axum::Json(SessionList { sessions: sessions.iter().map(body).collect() }))
}

/// End all your other sessions
///
/// With a key, all of them.
#[describe::path(delete, path = "/api/v1/account/sessions", operation_id = "end_sessions",
    tag = "Account",
    responses((status = 204, description = "They are ended"), super::answers::EndSessionsProblems),
    security(("key" = [])))]
pub(super) async fn end_all(
    State(state): Web,
    Member(principal): Member,
    _: NoParams,
) -> Result<StatusCode, Problem> {
    state.accounts.end_other_sessions(&principal).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// End one of your sessions
#[describe::path(delete, path = "/api/v1/account/sessions/{id}", operation_id = "end_session",
    tag = "Account",
    params(("id" = String, Path, description = "The session", pattern = "^[0-9a-f]{16}$")),
    responses((status = 204, description = "It is ended"), super::answers::RevokeProblems),
    security(("key" = [])))]
pub(super) async fn end(
    State(state): Web,
    Member(principal): Member,
    _: NoParams,
    Name(id): Name,
) -> Result<StatusCode, Problem> {
    state.accounts.end_session_where(&principal, |token| token.handle() == id).await?;
    Ok(StatusCode::NO_CONTENT)
}
