//! Makes all nodes forget a link.

use axum::extract::State;
use axum::http::StatusCode;

use super::links::link_key;
use crate::describe;
use crate::http::extract::{Admin, Name};
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::Web;

/// Forget the copies of a link
///
/// Every node drops the link from its memory and from shared copies, and reads it from the store
/// when it is followed next. Nothing is deleted. Only needed after a row was removed or replaced in
/// the database without terse. Succeeds also if there is no such link. Other nodes follow within a
/// second.
#[describe::path(post, path = "/api/v1/admin/links/{code}/forget", operation_id = "forget_link",
    tag = "Admin",
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{1,64}$"),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the \
            primary one", max_length = 253, nullable = false)),
    responses((status = 204, description = "This node has forgotten it, and the others will"),
        super::answers::ForgetProblems),
    security(("key" = [])))]
pub(super) async fn forget(
    State(state): Web,
    Admin(principal): Admin,
    params: Params,
    Name(code): Name,
) -> Result<StatusCode, Problem> {
    let key = link_key(&state, params, &code)?;
    state.links.forget(&principal, &key).await?;
    Ok(StatusCode::NO_CONTENT)
}
