//! Extractors of the dashboard: the signed-in account of a page, and of a form.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::{HeaderMap, Uri, request};
use axum::response::Response;
use terse_core::Principal;
use terse_core::accounts::SignedIn;
use terse_core::registry::Role;
use url::form_urlencoded::byte_serialize;

use super::form::OwnForm;
use super::login::account_error_page;
use super::session::{redirect_to, signed_in};
use super::shell::{MAX_COUNTED_REPORTS, Shell};
use super::{NOT_FOUND, message};
use crate::http::params::Params;
use crate::http::state::App;

/// The account that opened a page. Without one, the visitor is sent to the sign-in page, which
/// leads back.
pub(super) struct Member {
    pub(super) here: SignedIn,
    pub(super) principal: Principal,
    headers: HeaderMap,
    /// How many reported links wait for this account's decision.
    reports: usize,
}

impl Member {
    pub(super) async fn of(state: &App, headers: HeaderMap, next: &str) -> Result<Self, Response> {
        let here = match signed_in(state, &headers).await {
            Ok(Some(here)) => here,
            Ok(None) if next.is_empty() => return Err(redirect_to("/login")),
            Ok(None) => {
                let next: String = byte_serialize(next.as_bytes()).collect();
                return Err(redirect_to(&format!("/login?next={}", next.replace("%2F", "/"))));
            }
            Err(error) => return Err(account_error_page(&error)),
        };
        match state.accounts.principal(&here) {
            Ok(principal) => Ok(Self { here, principal, headers, reports: 0 }),
            Err(error) => Err(account_error_page(&error)),
        }
    }

    /// Counts the reported links, for moderators and admins. Without an answer the page shows no
    /// number.
    async fn count_reports(&mut self, state: &App) {
        let counted = state.moderation.count_reported(&self.principal, MAX_COUNTED_REPORTS);
        self.reports = counted.await.unwrap_or(0);
    }

    /// The frame of a page that belongs to this entry of the side bar.
    pub(super) fn shell(&self, state: &App, current: &'static str) -> Shell {
        Shell::new(state, &self.headers, &self.here.account, current).with_reports(self.reports)
    }
}

/// The path to come back to after signing in.
fn path_of(uri: &Uri) -> &str {
    uri.path_and_query().map_or("/", axum::http::uri::PathAndQuery::as_str)
}

impl FromRequestParts<Arc<App>> for Member {
    type Rejection = Response;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<App>,
    ) -> Result<Self, Response> {
        let mut member = Self::of(state, request.headers.clone(), path_of(&request.uri)).await?;
        member.count_reports(state).await;
        Ok(member)
    }
}

/// A form from our own page, sent by a signed-in account.
pub(super) struct MemberForm {
    pub(super) member: Member,
    pub(super) fields: Params,
}

impl FromRequest<Arc<App>> for MemberForm {
    type Rejection = Response;

    async fn from_request(request: Request, state: &Arc<App>) -> Result<Self, Response> {
        let headers = request.headers().clone();
        let OwnForm(fields) = OwnForm::from_request(request, state).await?;
        // The request does not say which page the form is on, so signing in does not lead back to
        // it.
        let mut member = Member::of(state, headers, "").await?;
        member.count_reports(state).await;
        Ok(Self { member, fields })
    }
}

/// A page for moderators and admins. For other accounts there is no such page.
pub(super) struct ModeratorPage(pub(super) Member);
/// A page for admins. For other accounts there is no such page.
pub(super) struct AdminPage(pub(super) Member);
/// A form of a page for moderators and admins.
pub(super) struct ModeratorForm(pub(super) MemberForm);
/// A form of a page for admins.
pub(super) struct AdminForm(pub(super) MemberForm);

/// Answers a lesser role as if the page did not exist. The services check the role again.
pub(super) fn refused(member: &Member, role: Role) -> Option<Response> {
    member.principal.require(role).is_err().then(|| message(&NOT_FOUND))
}

impl FromRequestParts<Arc<App>> for ModeratorPage {
    type Rejection = Response;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<App>,
    ) -> Result<Self, Response> {
        let member = Member::from_request_parts(request, state).await?;
        refused(&member, Role::Moderator).map_or(Ok(Self(member)), Err)
    }
}

impl FromRequestParts<Arc<App>> for AdminPage {
    type Rejection = Response;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<App>,
    ) -> Result<Self, Response> {
        let member = Member::from_request_parts(request, state).await?;
        refused(&member, Role::Admin).map_or(Ok(Self(member)), Err)
    }
}

impl FromRequest<Arc<App>> for ModeratorForm {
    type Rejection = Response;

    async fn from_request(request: Request, state: &Arc<App>) -> Result<Self, Response> {
        let form = MemberForm::from_request(request, state).await?;
        refused(&form.member, Role::Moderator).map_or(Ok(Self(form)), Err)
    }
}

impl FromRequest<Arc<App>> for AdminForm {
    type Rejection = Response;

    async fn from_request(request: Request, state: &Arc<App>) -> Result<Self, Response> {
        let form = MemberForm::from_request(request, state).await?;
        refused(&form.member, Role::Admin).map_or(Ok(Self(form)), Err)
    }
}
