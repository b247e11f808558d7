//! The caller's links, page by page.

use crate::describe;
use crate::describe::ToSchema;
use axum::extract::State;
use serde::Serialize;
use terse_core::{
    Caller, LinkStatus, ListQuery, Listing, OwnerFilter, OwnerId, Principal, Sort, Tags,
};

use super::links::domain_of;
use super::shapes::LinkBody;
use crate::counts::click_counts;
use crate::http::cursor::{CursorSeal, bad_cursor};
use crate::http::extract::Member;
use crate::http::params::{Params, whole_number};
use crate::http::problem::Problem;
use crate::http::state::{App, Web};

/// A part of a list.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "links": [], "next_cursor": null }))]
pub(crate) struct LinkList {
    /// The links. May be fewer than asked for, even none, although there are more.
    #[schema(max_items = 100)]
    links: Vec<LinkBody>,
    /// Pass it as `cursor` for the next page; null at the end.
    #[schema(required = true)]
    next_cursor: Option<String>,
}

/// List your links
///
/// Newest first unless `sort` says otherwise. Deleted links are listed only with `status=deleted`,
/// archived ones only with `archived`. Moderators and admins see links of others with `owner`.
#[describe::path(get, path = "/api/v1/urls", operation_id = "list_links", tag = "Links",
    params(
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
        ("owner" = Option<String>, Query, description = "Links of the owner with this number, for \
            moderators and admins; `all` lists every link that you may \
            see", pattern = "^(all|[0-9]{1,19})$", nullable = false),
        ("status" = inline(Option<StatusParam>), Query, description = "Only those with this status",
            nullable = false),
        ("archived" = inline(Option<ArchivedParam>), Query,
            description = "`true` lists only archived links, `all` these too, `false` (the default) \
                none. Deleted links are listed in any case",
            nullable = false),
        ("sort" = inline(Option<SortParam>), Query, description = "`-created_at` (the default) is \
            newest first; `-clicks` (also `clicks`) is most clicks first, then links without \
            clicks, the newest first", nullable = false)),
    responses((status = 200, description = "A part of the list", body = LinkList), super::answers::ListProblems),
    security(("key" = [])))]
pub(super) async fn list(
    State(state): Web,
    Member(principal): Member,
    mut params: Params,
) -> Result<axum::Json<LinkList>, Problem> {
    let owner = owner_param(&mut params)?;
    let (query, seal, order) = read_query(&state, params, principal.caller, owner)?;
    let listing = listing(&state, &principal, owner, query, order).await?;
    let (hosts, counts) =
        (&state.links.rules().hosts, click_counts(&state, listing.page.links.iter()).await);
    let links = listing
        .page
        .links
        .iter()
        .zip(counts)
        .map(|(link, clicks)| LinkBody::new(link, clicks, hosts, listing.now))
        .map(|link| link.shown_to(&principal));
    Ok(axum::Json(LinkList {
        links: links.collect(),
        next_cursor: listing.page.next.map(|cursor| seal.close(&cursor)),
    }))
}

/// The page of a list in its order.
pub(super) async fn listing(
    state: &App,
    principal: &Principal,
    owner: OwnerFilter,
    query: ListQuery,
    order: Order,
) -> Result<Listing, Problem> {
    Ok(match order {
        Order::Created => state.links.list_of(principal, owner, query).await?,
        Order::Clicks => {
            state.links.list_of_by_clicks(principal, owner, &*state.clicks, query).await?
        }
    })
}

/// What a list is ordered by.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Order {
    /// The creation, as the query says.
    Created,
    /// The clicks, the most first.
    Clicks,
}

/// Reads the query of a list, and makes the seal of its cursors.
pub(super) fn read_query(
    state: &App,
    mut params: Params,
    caller: Caller,
    owner: OwnerFilter,
) -> Result<(ListQuery, CursorSeal, Order), Problem> {
    let hosts = &state.links.rules().hosts;
    let (cursor, limit) = (params.take("cursor"), params.take("limit"));
    let text = params.take("q");
    text.as_deref().map_or(Ok(()), ListQuery::check_text)?;
    let tag = params.take("tag");
    if let Some(tag) = &tag {
        Tags::check_length(tag).map_err(|error| error.on("tag"))?;
    }
    let domain = params.take("domain").map(|host| domain_of(hosts, &host)).transpose()?;
    let status = params
        .take("status")
        .map(|word| {
            LinkStatus::parse(&word)
                .ok_or_else(|| not_allowed("status", &LinkStatus::ALL.map(LinkStatus::as_str)))
        })
        .transpose()?;
    let archived = match params.take("archived").as_deref() {
        // Lists deleted links whether archived or not, so that an owner finds any link to restore.
        None if status == Some(LinkStatus::Deleted) => None,
        None | Some("false") => Some(false),
        Some("true") => Some(true),
        Some("all") => None,
        Some(_) => return Err(not_allowed("archived", &["true", "false", "all"])),
    };
    let (sort, order) = match params.take("sort").as_deref() {
        None | Some("-created_at") => (Sort::Newest, Order::Created),
        Some("created_at") => (Sort::Oldest, Order::Created),
        Some("-clicks" | "clicks") => (Sort::Newest, Order::Clicks),
        Some(_) => return Err(not_allowed("sort", &["-created_at", "created_at", "-clicks"])),
    };
    params.done()?;
    let limit = limit.map_or(Ok(50), |text| whole_number("limit", &text, 100))?;
    let mut seal = CursorSeal::new(&state.cursor_key, caller);
    seal.bind(text.as_deref());
    seal.bind(tag.as_deref());
    seal.bind(domain.as_ref().map(terse_core::Domain::as_str));
    seal.bind(status.map(LinkStatus::as_str));
    seal.bind(archived.map(|archived| if archived { "archived" } else { "not archived" }));
    seal.bind(Some(match (order, sort) {
        (Order::Clicks, _) => "clicks",
        (Order::Created, Sort::Newest) => "newest",
        (Order::Created, Sort::Oldest) => "oldest",
    }));
    let owner = match owner {
        OwnerFilter::Caller => None,
        OwnerFilter::All => {
            seal.bind(Some("all"));
            None
        }
        OwnerFilter::Owner(owner) => {
            seal.bind(Some(&owner.0.to_string()));
            Some(owner)
        }
    };
    let after = cursor.map(|text| seal.open(&text).ok_or_else(bad_cursor)).transpose()?;
    let text = text.filter(|text| !text.is_empty());
    let query = ListQuery {
        owner,
        domain,
        tag,
        text,
        status,
        archived,
        sort,
        after,
        limit: limit as usize,
        now: state.links.now(),
    };
    Ok((query, seal, order))
}

/// Whose links or clicks a query is about: the caller's own, unless `owner` says otherwise.
pub(super) fn owner_param(params: &mut Params) -> Result<OwnerFilter, Problem> {
    Ok(match params.take("owner").as_deref() {
        None => OwnerFilter::Caller,
        Some("all") => OwnerFilter::All,
        Some(number) => OwnerFilter::Owner(owner_number(number)?),
    })
}

/// The number of an owner.
pub(super) fn owner_number(text: &str) -> Result<OwnerId, Problem> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number
        .filter(|id| i64::try_from(*id).is_ok())
        .map(OwnerId)
        .ok_or_else(|| Problem::invalid("owner", "the number of an owner"))
}

/// The status of a link.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "its names are what matters")]
pub(super) enum StatusParam {
    Active,
    Scheduled,
    Expired,
    UsedUp,
    Suspicious,
    Blocked,
    Deleted,
}

/// Whether archived links are listed.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "its names are what matters")]
enum ArchivedParam {
    True,
    False,
    All,
}

/// The order of a list.
#[derive(ToSchema)]
#[expect(dead_code, reason = "its names are what matters")]
pub(super) enum SortParam {
    #[schema(rename = "-created_at")]
    Newest,
    #[schema(rename = "created_at")]
    Oldest,
    #[schema(rename = "-clicks")]
    MostClicks,
    #[schema(rename = "clicks")]
    Clicks,
}

fn not_allowed(field: &'static str, allowed: &[&str]) -> Problem {
    Problem::invalid(field, format!("must be one of {}", allowed.join(", ")))
}
