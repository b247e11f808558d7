//! Ways in for those without an account.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use terse_core::Domain;
use terse_core::registry::{Invitation, RegistryError, Role, Token};
use utoipa::ToSchema;

use super::answers::{AdminListProblems, UserChangeProblems};
use super::schemas;
use super::sessions::handle;
use super::users::role_of;
use crate::http::body::{Json, SMALL, parse_object};
use crate::http::extract::{Moderator, Name};
use crate::http::params::NoParams;
use crate::http::problem::{FORBIDDEN, NOT_FOUND, Problem, STORE_UNAVAILABLE};
use crate::http::state::{App, Web};
use crate::keys::Keys;
use terse_core::Principal;

/// How long an invitation is good for, in seconds.
const USUAL_TTL: u64 = 7 * 86_400;
const MAX_TTL: u64 = 30 * 86_400;
/// How many may be open at once, and how many of them by one moderator.
pub(crate) const MAX_INVITATIONS: usize = 1000;
const MAX_PER_ACCOUNT: usize = 100;

/// An invitation to be written.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "role": "user", "ttl": 604_800 }))]
pub(crate) struct CreateInvitation {
    /// What whoever takes it may do; `user` by default. Moderators invite users.
    #[schema(schema_with = schemas::role_or_null)]
    role: Option<String>,
    /// How long it is good for, in seconds; a week by default.
    #[schema(minimum = 1, maximum = 2_592_000)]
    ttl: Option<u64>,
}

/// An invitation, without its secret.
#[derive(Serialize, ToSchema)]
#[schema(as = Invitation, example = json!({
    "id": "5f2b8a90c1d3e4f7", "role": "user", "by": 1000, "expires_at": "2026-11-22T21:00:00Z"
}))]
pub(crate) struct InvitationBody {
    /// Names it.
    #[schema(pattern = "^[0-9a-f]{16}$")]
    id: String,
    /// What whoever takes it may do.
    #[schema(schema_with = schemas::role)]
    role: &'static str,
    /// The account that wrote it; 1 is whoever runs this server.
    #[schema(minimum = 1)]
    by: u64,
    /// Until when it is good.
    #[schema(format = DateTime)]
    expires_at: String,
}

/// An invitation that was just written.
#[derive(Serialize, ToSchema)]
pub(crate) struct MadeInvitation {
    /// The link to send to whoever is invited. It is shown this once, and good once.
    url: String,
    #[serde(flatten)]
    about: InvitationBody,
}

/// Invitations that nobody has taken yet, the first to end first.
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
            id: handle(token),
            role: role.as_str(),
            by: by.0,
            expires_at: expires_at.to_string(),
        }
    }
}

/// List open invitations
///
/// Moderators see their own.
#[utoipa::path(get, path = "/api/v1/invitations", operation_id = "list_invitations", tag = "Admin",
    responses((status = 200, description = "The \
        invitations", body = InvitationList), AdminListProblems),
    security(("key" = [])))]
pub(super) async fn list(
    State(state): Web,
    Moderator(principal): Moderator,
    _: NoParams,
) -> Result<axum::Json<InvitationList>, Problem> {
    let open = open(&state, &principal).await?;
    Ok(axum::Json(InvitationList { invitations: open.iter().map(InvitationBody::from).collect() }))
}

/// Invite somebody
///
/// The answer has a link that makes one account. It is worth no more than whoever wrote it is when
/// it is taken.
#[utoipa::path(post, path = "/api/v1/invitations", operation_id = "create_invitation", tag = "Admin",
    request_body(content = CreateInvitation),
    responses((status = 201, description = "The \
        invitation", body = MadeInvitation), UserChangeProblems),
    security(("key" = [])))]
pub(super) async fn create(
    State(state): Web,
    Moderator(principal): Moderator,
    _: NoParams,
    Json(body): Json<SMALL>,
) -> Result<(StatusCode, axum::Json<MadeInvitation>), Problem> {
    let CreateInvitation { role, ttl } = parse_object(&body)?;
    let role = role.map_or(Ok(Role::User), |word| role_of(&word))?;
    if principal.role < Role::Admin && role > Role::User {
        return Err(
            Problem::new(&FORBIDDEN, "moderators invite users; this needs an admin").on("role")
        );
    }
    let ttl = ttl.unwrap_or(USUAL_TTL);
    let now = state.links.now();
    let ends =
        (1..=MAX_TTL).contains(&ttl).then(|| now.checked_add(Duration::from_secs(ttl))).flatten();
    let expires_at = ends.ok_or_else(|| {
        Problem::invalid("ttl", format!("1 to {MAX_TTL} seconds, which is 30 days"))
    })?;
    let open = state.registry.invitations(now, MAX_INVITATIONS).await?;
    let own = open.iter().filter(|invitation| invitation.by == principal.owner()).count();
    if open.len() >= MAX_INVITATIONS || principal.role < Role::Admin && own >= MAX_PER_ACCOUNT {
        return Err(RegistryError::TooMany.into());
    }
    let (secret, hash) = Keys::generate().map_err(|error| {
        tracing::error!(%error, "no invitation could be made");
        Problem::new(&STORE_UNAVAILABLE, "no invitation could be made; try again")
    })?;
    let invitation = Invitation { token: Token(hash), role, by: principal.owner(), expires_at };
    state.registry.invite(invitation.clone(), state.by(principal.owner(), None)).await?;
    let url =
        format!("{}/join?token={secret}", state.links.rules().hosts.base_of(&Domain::primary()));
    Ok((StatusCode::CREATED, axum::Json(MadeInvitation { url, about: (&invitation).into() })))
}

/// Take an invitation back
#[utoipa::path(delete, path = "/api/v1/invitations/{id}", operation_id = "revoke_invitation", tag = "Admin",
    params(("id" = String, Path, description = "The invitation", pattern = "^[0-9a-f]{16}$")),
    responses((status = 204, description = "It is good for nothing now"), UserChangeProblems),
    security(("key" = [])))]
pub(super) async fn revoke(
    State(state): Web,
    Moderator(principal): Moderator,
    _: NoParams,
    Name(id): Name,
) -> Result<StatusCode, Problem> {
    let missing = || Problem::new(&NOT_FOUND, "there is no such invitation");
    let open = open(&state, &principal).await?;
    let wanted =
        open.iter().find(|invitation| handle(&invitation.token) == id).ok_or_else(missing)?;
    match state.registry.revoke_invitation(&wanted.token, state.by(principal.owner(), None)).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(RegistryError::Missing) => Err(missing()),
        Err(error) => Err(error.into()),
    }
}

/// The open invitations that are somebody's to see.
async fn open(state: &App, principal: &Principal) -> Result<Vec<Invitation>, Problem> {
    let mut open = state.registry.invitations(state.links.now(), MAX_INVITATIONS).await?;
    open.retain(|invitation| principal.role == Role::Admin || invitation.by == principal.owner());
    Ok(open)
}
