//! Creates or imports many links in one request, each with its own result.

use std::future::Future;

use crate::describe;
use crate::describe::ToSchema;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use terse_core::{
    Created, ImportLink, ImportPreview, ImportRowKey, LinkError, MAX_LINKS_PER_REQUEST, Principal,
    SeenImportRows,
};

use super::links::idempotency_key;
use super::shapes::{CreateLinkBody, LinkBody};
use crate::counts::click_counts;
use crate::http::body::{Json, LARGE, not_json, parse_object};
use crate::http::extract::{Admin, MayCreate};
use crate::http::limit_headers;
use crate::http::params::{NoParams, Params};
use crate::http::problem::{INVALID_REQUEST, Problem, ProblemBody};
use crate::http::spelling::{Spelling, in_camel_case};
use crate::http::state::{App, Web};

/// The largest number of items of one request in flight to the store: enough to share its syncs,
/// few enough to leave capacity for other requests.
const MAX_CONCURRENT: usize = 256;

/// The results, in the order of the items.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "results": [
    { "index": 0, "status": 201, "link": { "short_code": "x7Kq2Lm",
        "short_url": "https://go.example/x7Kq2Lm",
        "long_url": "https://example.com/", "domain": "go.example", "owner": 16, "title": null, "tags": [],
        "created_at": "2026-11-15T21:00:00Z", "updated_at": "2026-11-15T21:00:00Z",
        "expires_at": null, "valid_from": null,
        "max_clicks": null, "click_count": 0, "imported_clicks": 0, "redirect": 302, "rules": null, "preview": null,
        "forward_query": false, "crawlable": false,
        "has_password": false, "notes": null, "archived": false, "status": "active", "flags": [],
        "deleted_at": null, "qr_url": "https://go.example/x7Kq2Lm/qr",
        "preview_url": "https://go.example/x7Kq2Lm+",
        "revision": 1 }, "problem": null },
    { "index": 1, "status": 400, "link": null, "problem": { "type": "/api/docs#scheme_not_allowed",
        "title": "Only http and https URLs can be \
            shortened", "status": 400, "code": "scheme_not_allowed",
        "detail": "only http and https URLs can be shortened", "field": "long_url",
        "request_id": null } }
] }))]
pub(crate) struct BulkResults {
    results: Vec<ItemResult>,
}

/// The result of one item.
#[derive(Serialize, ToSchema)]
pub(crate) struct ItemResult {
    /// Its index in the request, from 0.
    #[schema(minimum = 0)]
    index: usize,
    /// The status that the item would have got in a request of its own.
    #[schema(minimum = 200, maximum = 599)]
    status: u16,
    /// The link; in camelCase if the item was.
    #[schema(required = true, value_type = Option<LinkBody>)]
    link: Option<LinkInSpelling>,
    /// What went wrong.
    #[schema(required = true, value_type = Option<ProblemBody>)]
    problem: Option<ProblemBody>,
}

/// A link in the spelling of its request.
#[derive(Serialize)]
#[serde(untagged)]
enum LinkInSpelling {
    SnakeCase(Box<LinkBody>),
    CamelCase(Value),
}

/// Create up to 1,000 links
///
/// The body is an array of what `POST /api/v1/urls` takes, or an object with that array as `links`
/// or `urls`. A problem of one item does not affect the others. With an `Idempotency-Key` the whole
/// request is safe to repeat. Where creating links is limited, each item counts, and a request for
/// more links than are left is refused as a whole.
#[describe::path(post, path = "/api/v1/urls/bulk", operation_id = "create_links", tag = "Links",
    request_body(content = super::schemas::CreateLinks, content_type = "application/json",
        example = json!([{ "long_url": "https://example.com/" }, {
            "long_url": "https://example.org/", "custom_alias": "org" }])),
    params(("Idempotency-Key" = Option<String>, Header, description = "As for `POST /api/v1/urls`.",
        min_length = 1, max_length = 255, pattern = "^[!-~]+$", nullable = false)),
    responses((status = 207, description = "One result per item, in order", body = BulkResults, headers(
            ("RateLimit-Limit" = u32,
                description = "How many links may be created, where that is limited"),
            ("RateLimit-Remaining" = u32, description = "How many of them are left"),
            ("RateLimit-Reset" = u64,
                description = "Seconds until the whole limit is available again"))),
        super::answers::BulkProblems),
    security((), ("key" = [])))]
pub(super) async fn create_many(
    State(state): Web,
    MayCreate(creator): MayCreate,
    _: NoParams,
    headers: HeaderMap,
    Json(body): Json<LARGE>,
) -> Result<Response, Problem> {
    let key = idempotency_key(&headers)?;
    let items = items(&body)?;
    let spellings = items.iter().map(|item| Spelling::of(item.get().as_bytes())).collect();
    let creation = state.creation.begin(&creator, items.len()).await?;
    let running = items.into_iter().enumerate().map(|(index, item)| {
        let (state, creation, creator) = (&state, &creation, &creator);
        async move {
            let create: CreateLinkBody = parse_object(item.get().as_bytes())
                .inspect_err(|_| state.creation.count_malformed())?;
            Ok(creation.create(create.into_draft(creator, key, Some(index))).await?)
        }
    });
    let mut response = answer_all(&state, running.collect(), spellings).await;
    limit_headers::add(&creation.finish().await, response.headers_mut());
    Ok(response)
}

/// Import up to 1,000 links
///
/// Each keeps its code, its creation time and its clicks. Importing the same link again answers 200
/// and changes nothing.
#[describe::path(post, path = "/api/v1/admin/import", operation_id = "import_links", tag = "Admin",
    request_body(content = super::schemas::ImportLinks, content_type = "application/json",
        example = json!([{ "long_url": "https://example.com/", "short_code": "x7Kq2Lm",
            "created_at": "2021-05-04T03:02:01Z" }])),
    params(
        ("dry_run" = Option<bool>, Query, description = "Only say what would happen: status 201 \
            for links that would be created, 200 for those that exist or that an earlier item \
            would create. `link` is null.",
            nullable = false),
        ("brief" = Option<bool>, Query, description = "Leave out the links that were imported: \
            `link` is null", nullable = false)),
    responses((status = 207, description = "One result per item, in \
        order", body = BulkResults), super::answers::ImportProblems),
    security(("key" = [])))]
pub(super) async fn import_many(
    State(state): Web,
    Admin(principal): Admin,
    mut params: Params,
    Json(body): Json<LARGE>,
) -> Result<Response, Problem> {
    let (dry_run, brief) = (flag(&mut params, "dry_run")?, flag(&mut params, "brief")?);
    params.done()?;
    let items = items(&body)?;
    if !dry_run && !brief {
        let spellings = items.iter().map(|item| Spelling::of(item.get().as_bytes())).collect();
        let imported = import(&state, &principal, &items).await?;
        return Ok(show_all(&state, imported, spellings).await);
    }
    let outcomes: Vec<_> = if dry_run {
        let running: Vec<_> =
            items.into_iter().map(|item| preview_one(&state, &principal, item)).collect();
        futures_util::stream::iter(running).buffered(MAX_CONCURRENT).collect().await
    } else {
        let imported = import(&state, &principal, &items).await?;
        let is_new = |Created { new, .. }| match new {
            true => (ImportPreview::New, None),
            false => (ImportPreview::Existing, None),
        };
        imported.into_iter().map(|outcome| outcome.map(is_new)).collect()
    };
    let mut seen = SeenImportRows::default();
    let outcomes = outcomes.into_iter().map(|outcome: Result<_, Problem>| {
        let (preview, row) = outcome?;
        seen.preview(preview, row).map_err(Problem::from)
    });
    let results = outcomes.enumerate().map(|(index, outcome)| match outcome {
        Ok(ImportPreview::New) => ItemResult { index, status: 201, link: None, problem: None },
        Ok(ImportPreview::Existing) => ItemResult { index, status: 200, link: None, problem: None },
        Err(problem) => ItemResult {
            index,
            status: problem.status(),
            link: None,
            problem: Some(problem.into_body()),
        },
    });
    let results = BulkResults { results: results.collect() };
    Ok((StatusCode::MULTI_STATUS, axum::Json(results)).into_response())
}

/// A parameter that is `true` or `false`; `false` if it is absent.
fn flag(params: &mut Params, name: &'static str) -> Result<bool, Problem> {
    match params.take(name).as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Problem::invalid(name, "expected true or false")),
    }
}

async fn preview_one(
    state: &App,
    principal: &Principal,
    item: &RawValue,
) -> Result<(ImportPreview, Option<ImportRowKey>), Problem> {
    let row: ImportLink = parse_object(item.get().as_bytes())?;
    row.created_at().map_err(LinkError::from)?;
    let previewed = state.creation.preview_import(principal, row.into_link()).await;
    previewed.map_err(|error| Problem::from(error).renamed("custom_alias", "short_code"))
}

/// Imports all items, each after those before it.
async fn import(
    state: &App,
    principal: &Principal,
    items: &[&RawValue],
) -> Result<Vec<Result<Created, Problem>>, Problem> {
    let mut rows = Vec::with_capacity(items.len());
    let parsed: Vec<Result<(), Problem>> = items
        .iter()
        .map(|item| {
            let row: ImportLink = parse_object(item.get().as_bytes())?;
            let created_at = row.created_at().map_err(LinkError::from)?;
            rows.push((row.into_link(), created_at));
            Ok(())
        })
        .collect();
    let mut imported = state.creation.import(principal, rows).await?.into_iter();
    let outcomes = parsed.into_iter().map(|parsed| {
        parsed?;
        let imported = imported.next().expect("one answer for each row");
        imported.map_err(|error| Problem::from(error).renamed("custom_alias", "short_code"))
    });
    Ok(outcomes.collect())
}

/// The items as unparsed text, so that an invalid item gets its own problem and affects no other.
fn items(body: &[u8]) -> Result<Vec<&RawValue>, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wrapped<'a> {
        #[serde(alias = "urls", borrow)]
        links: Vec<&'a RawValue>,
    }
    let array = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let items = if array {
        serde_json::from_slice(body).map_err(|_| not_json())?
    } else {
        parse_object::<Wrapped<'_>>(body)?.links
    };
    if !(1..=MAX_LINKS_PER_REQUEST).contains(&items.len()) {
        return Err(Problem::new(
            &INVALID_REQUEST,
            format!("expected 1 to {MAX_LINKS_PER_REQUEST} items, got {}", items.len()),
        ));
    }
    Ok(items)
}

/// Runs the items concurrently and returns their results in order, each in the spelling of its
/// item.
async fn answer_all<F>(state: &App, running: Vec<F>, spellings: Vec<Spelling>) -> Response
where
    F: Future<Output = Result<Created, Problem>>,
{
    let outcomes = futures_util::stream::iter(running).buffered(MAX_CONCURRENT).collect().await;
    show_all(state, outcomes, spellings).await
}

/// The results in order, each in the spelling of its item.
async fn show_all(
    state: &App,
    outcomes: Vec<Result<Created, Problem>>,
    spellings: Vec<Spelling>,
) -> Response {
    let hosts = &state.links.rules().hosts;
    let now = state.links.now();
    // New links have no clicks, and a replay repeats the first answer. One query reads the counts
    // of the others.
    let old = outcomes.iter().flatten().filter(|made| !made.new).map(|made| &made.link);
    let mut old_counts = click_counts(state, old).await.into_iter();
    let spelled = outcomes.into_iter().zip(spellings).enumerate();
    let results = spelled.map(|(index, (outcome, spelling))| match outcome {
        Ok(made) => {
            let status = if made.new { StatusCode::CREATED } else { StatusCode::OK };
            let clicks = if made.new { Some(0) } else { old_counts.next().flatten() };
            let now = if made.new && made.replayed { made.link.created_at } else { now };
            let body = LinkBody::new(&made.link, clicks, hosts, now);
            let link = match spelling.is_camel_case() {
                true => LinkInSpelling::CamelCase(in_camel_case(&body)),
                false => LinkInSpelling::SnakeCase(Box::new(body)),
            };
            ItemResult { index, status: status.as_u16(), link: Some(link), problem: None }
        }
        Err(problem) => ItemResult {
            index,
            status: problem.status(),
            link: None,
            problem: Some(problem.into_body().with_spelling(&spelling)),
        },
    });
    (StatusCode::MULTI_STATUS, axum::Json(BulkResults { results: results.collect() }))
        .into_response()
}
