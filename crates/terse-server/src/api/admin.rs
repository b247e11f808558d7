//! What only the operator does.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use terse_core::Patch;

use super::answers::StandingProblems;
use super::links::{answer, link_key};
use super::problem::Problem;
use super::request::{Json, Name, Operator, Params, SMALL, parse_object};
use super::shapes::{LinkBody, SetStanding};
use crate::router::Web;

/// Judge a link
#[utoipa::path(put, path = "/api/v1/admin/links/{code}/standing", operation_id = "judge_link", tag = "Admin",
    request_body(content = SetStanding),
    params(("code" = String, Path, description = "The link's code", pattern = "^[A-Za-z0-9_-]{3,64}$"),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the primary one", max_length = 253, nullable = false)),
    responses((status = 200, description = "The link as it is now", body = LinkBody,
            headers(("ETag" = String, description = "The revision"))),
        StandingProblems),
    security(("key" = [])))]
pub(super) async fn set_standing(
    State(parts): Web,
    Operator(caller): Operator,
    params: Params,
    Name(code): Name,
    Json(body): Json<SMALL>,
) -> Result<Response, Problem> {
    let key = link_key(&parts, params, &code)?;
    let SetStanding { standing } = parse_object(&body)?;
    let patch = Patch { standing: Some(standing.into()), ..Patch::default() };
    let link = parts.links.patch(caller, &key, &patch, None).await?;
    Ok(answer(&parts, StatusCode::OK, &link).await)
}
