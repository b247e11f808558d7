//! Hosts that moderators have blocked, each with all its subdomains.

use crate::describe;
use crate::describe::ToSchema;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use terse_core::accounts::reason;
use terse_core::registry::BlockedHost;

use crate::http::body::{Json, SMALL, parse_object};
use crate::http::extract::{Moderator, Name};
use crate::http::params::{NoParams, Params};
use crate::http::problem::Problem;
use crate::http::state::Web;

/// A host to be blocked.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "host": "evil.example", "why": "phishing kits" }))]
pub(crate) struct BlockHost {
    /// A host name or an address.
    #[schema(min_length = 1, max_length = 253)]
    host: String,
    /// For the audit log.
    #[schema(min_length = 1, max_length = 1000)]
    why: String,
}

/// A host that is blocked.
#[derive(Serialize, ToSchema)]
#[schema(as = BlockedHost, example = json!({ "host": "evil.example", "since": "2026-11-15T21:00:00Z",
    "why": "phishing kits" }))]
pub(crate) struct BlockedHostBody {
    /// The host in ASCII (punycode).
    host: String,
    /// Since when.
    #[schema(format = DateTime)]
    since: String,
    /// Why.
    #[schema(required = true)]
    why: Option<String>,
}

impl From<BlockedHost> for BlockedHostBody {
    fn from(BlockedHost { host, at, why }: BlockedHost) -> Self {
        Self { host, since: at.to_string(), why }
    }
}

/// All of them.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "hosts": [] }))]
pub(crate) struct Blocklist {
    /// By name.
    #[schema(max_items = 10000)]
    hosts: Vec<BlockedHostBody>,
}

/// List blocked hosts
#[describe::path(get, path = "/api/v1/admin/blocklist", operation_id = "list_blocked_hosts",
    tag = "Admin",
    responses((status = 200, description = "All of them", body = Blocklist), super::answers::AdminListProblems),
    security(("key" = [])))]
pub(super) async fn list(
    State(state): Web,
    Moderator(principal): Moderator,
    _: NoParams,
) -> Result<axum::Json<Blocklist>, Problem> {
    let hosts = state.moderation.blocked_hosts(&principal).await?;
    Ok(axum::Json(Blocklist { hosts: hosts.into_iter().map(Into::into).collect() }))
}

/// Block a host
///
/// With all its subdomains. From now on no link to it can be created, and links to it answer 451;
/// on other nodes within seconds. Blocking it again changes nothing.
#[describe::path(post, path = "/api/v1/admin/blocklist", operation_id = "block_host", tag = "Admin",
    request_body(content = BlockHost),
    responses((status = 201, description = "It is blocked", body = BlockedHostBody),
        (status = 200, description = "It was blocked before", body = BlockedHostBody), super::answers::BlockProblems),
    security(("key" = [])))]
pub(super) async fn block(
    State(state): Web,
    Moderator(principal): Moderator,
    _: NoParams,
    Json(body): Json<SMALL>,
) -> Result<(StatusCode, axum::Json<BlockedHostBody>), Problem> {
    let BlockHost { host, why } = parse_object(&body)?;
    let blocked = state.moderation.block_host(&principal, &host, reason(&why)?).await?;
    let (host, new) = blocked;
    let status = if new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, axum::Json(host.into())))
}

/// Unblock a host
///
/// Links that were blocked because of it work again within minutes, unless a list contains it too.
#[describe::path(delete, path = "/api/v1/admin/blocklist/{host}", operation_id = "unblock_host",
    tag = "Admin",
    params(("host" = String, Path, description = "The host", min_length = 1, max_length = 253),
        ("why" = Option<String>, Query, description = "For the audit \
            log", min_length = 1, max_length = 1000, nullable = false)),
    responses((status = 204, description = "It is unblocked"), super::answers::UnblockProblems),
    security(("key" = [])))]
pub(super) async fn unblock(
    State(state): Web,
    Moderator(principal): Moderator,
    mut params: Params,
    Name(host): Name,
) -> Result<StatusCode, Problem> {
    let why = params.take("why").as_deref().map(reason).transpose()?;
    params.done()?;
    state.moderation.unblock_host(&principal, &host, why).await?;
    Ok(StatusCode::NO_CONTENT)
}
