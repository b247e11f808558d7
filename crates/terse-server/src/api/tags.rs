//! An owner's tags, listed and changed over all their links.

use crate::describe;
use crate::describe::ToSchema;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use terse_core::RetagProgress;

use crate::http::body::{Json, SMALL, parse_object};
use crate::http::extract::{Authenticated, Name};
use crate::http::params::NoParams;
use crate::http::problem::Problem;
use crate::http::state::Web;
use crate::tag_name::tag_name;

/// The largest number of tags listed.
const MAX_SHOWN: usize = 1000;
/// A tag of yours.
#[derive(Serialize, ToSchema)]
#[schema(as = Tag, example = json!({ "tag": "spring", "links": 12 }))]
pub(crate) struct TagBody {
    /// The tag.
    tag: String,
    /// How many of your links have it.
    links: u64,
}

/// Your tags.
#[derive(Serialize, ToSchema)]
pub(crate) struct TagList {
    /// By number of links, the most first.
    #[schema(max_items = 1000)]
    tags: Vec<TagBody>,
}

/// A new name for a tag.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "name": "summer" }))]
pub(crate) struct RenameTag {
    /// The new name. A link that has it already keeps it once.
    #[schema(min_length = 1, max_length = 50, pattern = "^[^,\\u0000-\\u001f\\u007f-\\u009f]*$")]
    name: String,
}

/// The progress of a change of many links.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "changed": 12, "more": false }))]
pub(crate) struct TagChangeProgress {
    /// How many links were changed.
    changed: usize,
    /// Whether there may be more: call again to continue.
    more: bool,
}

impl From<RetagProgress> for TagChangeProgress {
    fn from(RetagProgress { changed, more }: RetagProgress) -> Self {
        Self { changed, more }
    }
}

/// List your tags
///
/// With the number of your links that have each, not counting deleted ones.
#[describe::path(get, path = "/api/v1/tags", operation_id = "list_tags", tag = "Tags",
    responses((status = 200, description = "Your tags", body = TagList), super::answers::ListProblems),
    security(("key" = [])))]
pub(super) async fn list(
    State(state): Web,
    Authenticated(caller): Authenticated,
    _: NoParams,
) -> Result<axum::Json<TagList>, Problem> {
    let tags = state.links.tags(caller, MAX_SHOWN).await?;
    let tags = tags.into_iter().map(|count| TagBody { tag: count.tag, links: count.links });
    Ok(axum::Json(TagList { tags: tags.collect() }))
}

/// Rename a tag
///
/// On all your links that have it, except deleted ones; up to 1,000 a call. Call again to continue;
/// when all is done, a call changes nothing.
#[describe::path(patch, path = "/api/v1/tags/{tag}", operation_id = "rename_tag", tag = "Tags",
    request_body(content = RenameTag),
    params(("tag" = String, Path, description = "The tag", min_length = 1, max_length = 50)),
    responses((status = 200, description = "The progress", body = TagChangeProgress), super::answers::RenameTagProblems),
    security(("key" = [])))]
pub(super) async fn rename(
    State(state): Web,
    Authenticated(caller): Authenticated,
    _: NoParams,
    Name(tag): Name,
    Json(body): Json<SMALL>,
) -> Result<axum::Json<TagChangeProgress>, Problem> {
    let RenameTag { name } = parse_object(&body)?;
    let tag = tag_name(&tag, "tag")?;
    let name = tag_name(&name, "name")?;
    Ok(axum::Json(state.links.retag_all(caller, &tag, Some(&name)).await?.into()))
}

/// Remove a tag
///
/// From all your links that have it, as renaming does. The links stay.
#[describe::path(delete, path = "/api/v1/tags/{tag}", operation_id = "remove_tag", tag = "Tags",
    params(("tag" = String, Path, description = "The tag", min_length = 1, max_length = 50)),
    responses((status = 200, description = "The progress", body = TagChangeProgress), super::answers::TouchTagProblems),
    security(("key" = [])))]
pub(super) async fn remove(
    State(state): Web,
    Authenticated(caller): Authenticated,
    _: NoParams,
    Name(tag): Name,
) -> Result<axum::Json<TagChangeProgress>, Problem> {
    let tag = tag_name(&tag, "tag")?;
    Ok(axum::Json(state.links.retag_all(caller, &tag, None).await?.into()))
}
