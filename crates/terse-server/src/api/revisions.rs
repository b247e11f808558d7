//! Earlier revisions of a link, and undo.

use crate::describe;
use crate::describe::ToSchema;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use terse_core::{Hosts, Link, Revision, Timestamp};

use super::links::{answer, conflict, if_match, link_key};
use super::shapes::LinkBody;
use crate::http::body::{MaybeJson, SMALL, parse_object};
use crate::http::extract::{Authenticated, Name};
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::Web;

/// The fields of a link that its owner can change, by their JSON names.
const FIELDS: [&str; 14] = [
    "long_url",
    "title",
    "tags",
    "notes",
    "expires_at",
    "valid_from",
    "max_clicks",
    "redirect",
    "forward_query",
    "crawlable",
    "archived",
    "has_password",
    "rules",
    "preview",
];

/// A link's earlier revisions, the latest first.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "revision": 3, "revisions": [
    { "revision": 2, "until": "2026-11-15T22:00:00Z", "changes": [{ "field": "title",
        "before": null, "after": "Spring sale" }] }
] }))]
pub(crate) struct Revisions {
    /// The revision that the link is at.
    #[schema(minimum = 0)]
    revision: u64,
    /// The last fifty revisions at which its owner changed something.
    #[schema(max_items = 50)]
    revisions: Vec<EarlierRevision>,
}

/// An earlier revision, and the change that followed.
#[derive(Serialize, ToSchema)]
pub(crate) struct EarlierRevision {
    /// Its number, for `undo`.
    #[schema(minimum = 0)]
    revision: u64,
    /// When it was changed.
    #[schema(format = DateTime)]
    until: String,
    /// The changes.
    #[schema(max_items = 14)]
    changes: Vec<FieldChange>,
}

/// A field before and after a change.
#[derive(Serialize, ToSchema)]
pub(crate) struct FieldChange {
    /// Its name. `has_password` is named whenever the password changed, also from one to another.
    field: &'static str,
    /// The value before.
    before: Value,
    /// The value after.
    after: Value,
}

impl EarlierRevision {
    fn new(before: &Link, after: &Link, until: Timestamp, hosts: &Hosts) -> Self {
        let fields = |link: &Link| {
            serde_json::to_value(LinkBody::new(link, None, hosts, until)).unwrap_or_default()
        };
        let (old, new) = (fields(before), fields(after));
        let differs = |field: &&str| {
            old[*field] != new[*field]
                || (*field == "has_password" && before.password != after.password)
        };
        let changes = FIELDS.into_iter().filter(differs);
        let changes = changes.map(|field| FieldChange {
            field,
            before: old[field].clone(),
            after: new[field].clone(),
        });
        Self { revision: before.revision.0, until: until.to_string(), changes: changes.collect() }
    }
}

/// List earlier revisions of a link
///
/// What its owner changed, and when. Changes by moderation are not listed.
#[describe::path(get, path = "/api/v1/urls/{code}/revisions", operation_id = "list_revisions",
    tag = "Links",
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{1,64}$"),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the \
            primary one", max_length = 253, nullable = false)),
    responses((status = 200, description = "The earlier revisions, the latest \
        first", body = Revisions), super::answers::GetProblems),
    security(("key" = [])))]
pub(super) async fn list(
    State(state): Web,
    Authenticated(caller): Authenticated,
    params: Params,
    Name(code): Name,
) -> Result<axum::Json<Revisions>, Problem> {
    let key = link_key(&state, params, &code)?;
    let (link, history) = state.links.history(caller, &key).await?;
    let hosts = &state.links.rules().hosts;
    let mut after = &link;
    let mut revisions = Vec::with_capacity(history.len());
    for past in &history {
        revisions.push(EarlierRevision::new(&past.link, after, past.until, hosts));
        after = &past.link;
    }
    Ok(axum::Json(Revisions { revision: link.revision.0, revisions }))
}

/// The revision to go back to.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "revision": 2 }))]
pub(crate) struct UndoChange {
    /// An earlier revision; the one before the last change by default.
    #[schema(minimum = 0)]
    revision: Option<u64>,
}

/// Undo a change
///
/// Takes a link back to the version before its last change, or to an earlier revision: everything
/// that its owner can change, including the password. This is a change like any other: it obeys the
/// same rules and can itself be undone. With `If-Match`, only if the link is still at that
/// revision.
#[describe::path(post, path = "/api/v1/urls/{code}/undo", operation_id = "undo_change", tag = "Links",
    request_body(content = Option<UndoChange>),
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{1,64}$"),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the \
            primary one", max_length = 253, nullable = false),
        ("If-Match" = Option<String>, Header,
            description = "The `ETag` of the link as you read it, or `*`",
            min_length = 1, pattern = "^(\"[0-9]{1,19}\"|[0-9]{1,19}|[*])$", nullable = false)),
    responses((status = 200, description = "The link as it is now", body = LinkBody,
            headers(("ETag" = String, description = "The revision"))),
        super::answers::PatchProblems),
    security(("key" = [])))]
pub(super) async fn undo(
    State(state): Web,
    Authenticated(caller): Authenticated,
    params: Params,
    Name(code): Name,
    headers: HeaderMap,
    MaybeJson(body): MaybeJson<SMALL>,
) -> Result<Response, Problem> {
    let key = link_key(&state, params, &code)?;
    let expected = if_match(&headers)?;
    let wanted = body
        .map(|body| parse_object::<UndoChange>(&body))
        .transpose()?
        .and_then(|undo| undo.revision);
    let undone = state.links.undo(caller, &key, wanted.map(Revision), expected).await;
    let link = undone.map_err(|error| conflict(error, expected))?;
    Ok(answer(&state, StatusCode::OK, &link).await)
}
