//! Forms with files that signed-in accounts send.

use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use axum::response::Response;
use terse_core::registry::Role;

use super::form::refusal;
use super::member::{Member, refused};
use super::{CROSS_SITE, message};
use crate::http::body::read;
use crate::http::multipart::Multipart;
use crate::http::origin::Origin;
use crate::http::state::App;

/// A form of at most `LIMIT` bytes from our own page, sent by an admin. For other accounts there
/// is no such page, and the body is not read.
pub(super) struct AdminUpload<const LIMIT: usize> {
    pub(super) member: Member,
    pub(super) form: Multipart,
}

impl<const LIMIT: usize> FromRequest<Arc<App>> for AdminUpload<LIMIT> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &Arc<App>) -> Result<Self, Response> {
        let (head, body) = request.into_parts();
        if Origin::of(state, &head.uri, &head.headers) != Origin::Own {
            return Err(message(&CROSS_SITE));
        }
        let member = Member::of(state, head.headers.clone(), "").await?;
        if let Some(response) = refused(&member, Role::Admin) {
            return Err(response);
        }
        let body = read(body, LIMIT).await.map_err(|problem| refusal(&problem))?;
        let form = Multipart::parse(&head.headers, &body).map_err(|problem| refusal(&problem))?;
        Ok(Self { member, form })
    }
}
