//! Invitations to create an account.

use crate::describe;
use crate::describe::ToSchema;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use terse_core::accounts::{InvitationDraft, role_of};
use terse_core::registry::{Invitation, Role};

use crate::http::body::{Json, SMALL, parse_object};
use crate::http::extract::{Moderator, Name};
use crate::http::params::NoParams;
use crate::http::problem::Problem;
use crate::http::state::Web;

/// An invitation to create.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "role": "user", "ttl": 604_800 }))]
pub(crate) struct CreateInvitation {
    /// The role of the new account; `user` by default. Moderators invite users only.
    #[schema(schema_with = super::schemas::role_or_null)]
    role: Option<String>,
    /// How long it is valid, in seconds; a week by default.
    #[schema(minimum = 1, maximum = 2_592_000)]
    ttl: Option<u64>,
    /// Sends the link to this email address. Needs a server that sends mail (`mail.server`).
    #[schema(max_length = 254)]
    email: Option<String>,
}

/// An invitation, without its secret.
#[derive(Serialize, ToSchema)]
#[schema(as = Invitation, example = json!({
    "id": "5f2b8a90c1d3e4f7", "role": "user", "by": 1000, "expires_at": "2026-11-22T21:00:00Z"
}))]
pub(crate) struct InvitationBody {
    /// Its id.
    #[schema(pattern = "^[0-9a-f]{16}$")]
    id: String,
    /// The role of the new account.
    #[schema(schema_with = super::schemas::role)]
    role: &'static str,
    /// The account that created it; 1 is the operator.
    #[schema(minimum = 1)]
    by: u64,
    /// When it expires.
    #[schema(format = DateTime)]
    expires_at: String,
}

/// A new invitation.
#[derive(Serialize, ToSchema)]
pub(crate) struct CreatedInvitation {
    /// The link to send to the invited person. It is shown this once and works once.
    url: String,
    /// Whether the link is sent to `email`. It is not if too many mails wait.
    mailed: bool,
    #[serde(flatten)]
    about: InvitationBody,
}

/// Open invitations, by expiry.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "invitations": [] }))]
pub(crate) struct InvitationList {
    #[schema(max_items = 1000)]
    invitations: Vec<InvitationBody>,
}

impl From<&Invitation> for InvitationBody {
    fn from(invitation: &Invitation) -> Self {
        let Invitation { token, role, by, expires_at } = invitation;
        Self {
            id: token.handle(),
            role: role.as_str(),
            by: by.0,
            expires_at: expires_at.to_string(),
        }
    }
}

/// List open invitations
///
/// Moderators see their own.
#[describe::path(get, path = "/api/v1/invitations", operation_id = "list_invitations", tag = "Admin",
    responses((status = 200, description = "The \
        invitations", body = InvitationList), super::answers::AdminListProblems),
    security(("key" = [])))]
pub(super) async fn list(
    State(state): Web,
    Moderator(principal): Moderator,
    _: NoParams,
) -> Result<axum::Json<InvitationList>, Problem> {
    let open = state.accounts.invitations(&principal).await?;
    Ok(axum::Json(InvitationList { invitations: open.iter().map(InvitationBody::from).collect() }))
}

/// Create an invitation
///
/// The answer has a link that creates one account. The link fails if its author may no longer
/// invite with that role when it is used.
#[describe::path(post, path = "/api/v1/invitations", operation_id = "create_invitation",
    tag = "Admin",
    request_body(content = CreateInvitation),
    responses((status = 201, description = "The \
        invitation", body = CreatedInvitation), super::answers::InviteProblems),
    security(("key" = [])))]
pub(super) async fn create(
    State(state): Web,
    Moderator(principal): Moderator,
    _: NoParams,
    Json(body): Json<SMALL>,
) -> Result<(StatusCode, axum::Json<CreatedInvitation>), Problem> {
    let CreateInvitation { role, ttl, email } = parse_object(&body)?;
    let role = role.map_or(Ok(Role::User), |word| role_of(&word))?;
    let draft = InvitationDraft { role, ttl, email: email.unwrap_or_default() };
    let made = state.accounts.invite(&principal, draft).await?;
    let (url, mailed, about) = (made.url, made.mailed, (&made.invitation).into());
    Ok((StatusCode::CREATED, axum::Json(CreatedInvitation { url, mailed, about })))
}

/// Revoke an invitation
#[describe::path(delete, path = "/api/v1/invitations/{id}", operation_id = "revoke_invitation",
    tag = "Admin",
    params(("id" = String, Path, description = "The invitation", pattern = "^[0-9a-f]{16}$")),
    responses((status = 204, description = "It is revoked"), super::answers::RevokeOfOthersProblems),
    security(("key" = [])))]
pub(super) async fn revoke(
    State(state): Web,
    Moderator(principal): Moderator,
    _: NoParams,
    Name(id): Name,
) -> Result<StatusCode, Problem> {
    state.accounts.revoke_invitation(&principal, |token| token.handle() == id).await?;
    Ok(StatusCode::NO_CONTENT)
}
