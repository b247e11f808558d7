//! The links of all owners, for moderators.

use crate::describe;
use crate::describe::ToSchema;
use axum::extract::State;
use serde::Serialize;
use terse_core::OwnerFilter;

use super::list::{listing, owner_number, read_query};
use super::moderated::{ModeratedLink, Names};
use crate::http::extract::Moderator;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::Web;

/// A page of the links of all owners.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "links": [], "next_cursor": null }))]
pub(crate) struct ModeratedList {
    /// The links. May be fewer than asked for, even none, although there are more.
    #[schema(max_items = 100)]
    links: Vec<ModeratedLink>,
    /// Pass it as `cursor` for the next page; null at the end.
    #[schema(required = true)]
    next_cursor: Option<String>,
}

/// List all links
///
/// As `GET /api/v1/urls`, and by owner: 0 is anonymous, 1 the operator.
#[describe::path(get, path = "/api/v1/admin/links", operation_id = "list_all_links", tag = "Admin",
    params(
        ("owner" = Option<u64>, Query, description = "Only of this owner", nullable = false),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before, with \
            the same filters",
            min_length = 1, max_length = 1024, pattern = "^[A-Za-z0-9_-]+$", nullable = false),
        ("limit" = Option<u16>, Query, description = "At most this many; 50 by \
            default", minimum = 1, maximum = 100, nullable = false),
        ("q" = Option<String>, Query, description = "Only those whose code, title, target or \
            target of a redirect rule contains this text", max_length = 256, nullable = false),
        ("tag" = Option<String>, Query, description = "Only those with this \
            tag", min_length = 1, max_length = 50, nullable = false),
        ("domain" = Option<String>, Query, description = "Only those on this short \
            domain", max_length = 253, nullable = false),
        ("status" = inline(Option<super::list::StatusParam>), Query, description = "Only those with this status",
            nullable = false),
        ("sort" = inline(Option<super::list::SortParam>), Query, description = "`-created_at` (the default) is \
            newest first; `-clicks` is most clicks first", nullable = false)),
    responses((status = 200, description = "A part of the \
        list", body = ModeratedList), super::answers::AdminListProblems),
    security(("key" = [])))]
pub(super) async fn list(
    State(state): Web,
    Moderator(principal): Moderator,
    mut params: Params,
) -> Result<axum::Json<ModeratedList>, Problem> {
    let owner = match params.take("owner") {
        None => OwnerFilter::All,
        Some(number) => OwnerFilter::Owner(owner_number(&number)?),
    };
    let (query, seal, order) = read_query(&state, params, principal.caller, owner)?;
    let listing = listing(&state, &principal, owner, query, order).await?;
    let (mut links, mut names) = (Vec::with_capacity(listing.page.links.len()), Names::default());
    for link in &listing.page.links {
        links.push(ModeratedLink::new(&state, &mut names, link).await?);
    }
    Ok(axum::Json(ModeratedList {
        links,
        next_cursor: listing.page.next.map(|cursor| seal.close(&cursor)),
    }))
}
