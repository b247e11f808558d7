//! An owner's tags, listed and changed over all their links.

use std::time::Duration;

use crate::describe;
use crate::describe::ToSchema;
use axum::extract::State;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};
use terse_core::{Caller, LinkError, ListQuery, Sort, Tags};
use tokio::time::Instant;

use crate::http::body::{Json, SMALL, parse_object};
use crate::http::extract::{Authenticated, Name};
use crate::http::params::NoParams;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};

/// The largest number of tags listed.
const MAX_SHOWN: usize = 1000;
/// The number of links after which a call stops. The client calls again for the rest.
const MAX_CHANGED: usize = 1000;
/// The time after which a call reads no further page. It still changes the links it has read.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The number of links per page.
const PAGE: usize = 100;
/// The largest number of writes in flight: the store commits them together.
const WRITES: usize = 16;

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
    let tag = one(&tag, "tag")?;
    let name = one(&name, "name")?;
    // Otherwise every page would find the same links again.
    if name == tag {
        return Ok(axum::Json(TagChangeProgress { changed: 0, more: false }));
    }
    retag(&state, caller, &tag, Some(&name)).await.map(axum::Json)
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
    retag(&state, caller, &one(&tag, "tag")?, None).await.map(axum::Json)
}

/// Parses a single tag in its canonical form.
fn one(text: &str, field: &'static str) -> Result<String, Problem> {
    let tags = Tags::parse(&[text]).map_err(|refusal| refusal.on(field))?;
    Ok(tags.joined())
}

/// Changes page after page of links, until none is left or a limit of one call is reached.
async fn retag(
    state: &App,
    caller: Caller,
    tag: &str,
    by: Option<&str>,
) -> Result<TagChangeProgress, Problem> {
    // An admin sees all links, but changes tags only on their own.
    let caller = Caller::Owner(caller.owner());
    let (begun, mut changed) = (Instant::now(), 0);
    let mut query = ListQuery {
        owner: None,
        domain: None,
        tag: Some(tag.to_owned()),
        text: None,
        status: None,
        archived: None,
        sort: Sort::Newest,
        after: None,
        limit: PAGE,
        now: state.links.now(),
    };
    loop {
        let page = state.links.list(caller, query.clone()).await?.page;
        changed += page.links.len();
        let writes = page.links.into_iter().map(|link| async move {
            match state.links.retag(caller, &link.key, tag, by).await {
                // The link was purged in the meantime.
                Ok(_) | Err(LinkError::NotFound) => Ok(()),
                Err(error) => Err(error),
            }
        });
        stream::iter(writes).buffer_unordered(WRITES).try_collect::<()>().await?;
        let Some(next) = page.next else { return Ok(TagChangeProgress { changed, more: false }) };
        if changed >= MAX_CHANGED || begun.elapsed() >= TIMEOUT {
            return Ok(TagChangeProgress { changed, more: true });
        }
        query.after = Some(next);
    }
}
