//! Hosts that moderators have blocked, each with all names below it.

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use terse_core::registry::BlockedHost;
use utoipa::ToSchema;

use super::account_bodies::reason;
use super::answers::{AdminListProblems, BlockProblems, UnblockProblems};
use crate::http::body::{Json, SMALL, parse_object};
use crate::http::extract::{Moderator, Name};
use crate::http::params::{NoParams, Params};
use crate::http::problem::{NOT_FOUND, Problem, TOO_MANY};
use crate::http::state::Web;

/// More than this are a list, and belong into a file.
const MAX_HOSTS: usize = 10_000;

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
#[schema(example = json!({ "host": "evil.example", "since": "2026-11-15T21:00:00Z", "why": "phishing kits" }))]
pub(crate) struct BlockedBody {
    /// The host, as machines write it.
    host: String,
    /// Since when.
    #[schema(format = DateTime)]
    since: String,
    /// Why.
    #[schema(required = true)]
    why: Option<String>,
}

impl From<BlockedHost> for BlockedBody {
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
    hosts: Vec<BlockedBody>,
}

/// List blocked hosts
#[utoipa::path(get, path = "/api/v1/admin/blocklist", operation_id = "list_blocked_hosts", tag = "Admin",
    responses((status = 200, description = "All of them", body = Blocklist), AdminListProblems),
    security(("key" = [])))]
pub(super) async fn list(
    State(state): Web,
    _: Moderator,
    _: NoParams,
) -> Result<axum::Json<Blocklist>, Problem> {
    let hosts = state.registry.blocked_hosts().await?;
    Ok(axum::Json(Blocklist { hosts: hosts.into_iter().map(Into::into).collect() }))
}

/// Block a host
///
/// With all names below it. From now on no link can be made to it, and links that lead there answer
/// 451; on other machines of yours within seconds. Blocking it again changes nothing.
#[utoipa::path(post, path = "/api/v1/admin/blocklist", operation_id = "block_host", tag = "Admin",
    request_body(content = BlockHost),
    responses((status = 201, description = "It is blocked", body = BlockedBody),
        (status = 200, description = "It was blocked before", body = BlockedBody), BlockProblems),
    security(("key" = [])))]
pub(super) async fn block(
    State(state): Web,
    Moderator(principal): Moderator,
    _: NoParams,
    Json(body): Json<SMALL>,
) -> Result<(StatusCode, axum::Json<BlockedBody>), Problem> {
    let BlockHost { host, why } = parse_object(&body)?;
    let why = reason(&why)?;
    let host = state.links.blockable(host.trim())?;
    let blocked = state.registry.blocked_hosts().await?;
    if let Some(before) = blocked.iter().find(|before| before.host == host) {
        return Ok((StatusCode::OK, axum::Json(before.clone().into())));
    }
    if blocked.len() >= MAX_HOSTS {
        return Err(Problem::new(
            &TOO_MANY,
            format!("{MAX_HOSTS} hosts are blocked; put more of them into a list"),
        ));
    }
    let by = state.by(principal.owner(), Some(why.clone()));
    let blocked = BlockedHost { host, at: by.at, why: Some(why) };
    state.registry.block_host(blocked.clone(), by).await?;
    state.registry_refresh.refresh().await;
    Ok((StatusCode::CREATED, axum::Json(blocked.into())))
}

/// Unblock a host
///
/// Links that were taken down because of it work again within minutes, unless a list names it too.
#[utoipa::path(delete, path = "/api/v1/admin/blocklist/{host}", operation_id = "unblock_host", tag = "Admin",
    params(("host" = String, Path, description = "The host", min_length = 1, max_length = 253),
        ("why" = Option<String>, Query, description = "For the audit \
            log", min_length = 1, max_length = 1000, nullable = false)),
    responses((status = 204, description = "It is not blocked any more"), UnblockProblems),
    security(("key" = [])))]
pub(super) async fn unblock(
    State(state): Web,
    Moderator(principal): Moderator,
    mut params: Params,
    Name(host): Name,
) -> Result<StatusCode, Problem> {
    let why = params.take("why").as_deref().map(reason).transpose()?;
    params.done()?;
    let missing = || Problem::new(&NOT_FOUND, "this host is not blocked");
    // Whatever it is now: what was once blocked can be unblocked.
    let host = terse_core::canonical_host(host.trim()).ok_or_else(missing)?;
    match state.registry.unblock_host(&host, state.by(principal.owner(), why)).await {
        Err(terse_core::registry::RegistryError::Missing) => Err(missing()),
        outcome => {
            outcome?;
            state.registry_refresh.refresh().await;
            Ok(StatusCode::NO_CONTENT)
        }
    }
}
