//! Asks for a reset link by mail.

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

use super::form::{FormError, OwnForm, problem_page, sentence};
use super::session::{guard, private_page};
use super::{NOT_FOUND, PageFrame, html, message};
use crate::http::extract::Peer;
use crate::http::state::{App, Web};

#[derive(Template)]
#[template(path = "forgot.html")]
struct ForgotPage {
    frame: PageFrame,
    name: String,
    sent: bool,
    wrong: Option<FormError>,
}

impl ForgotPage {
    fn new(state: &App, headers: &HeaderMap, name: String) -> Self {
        Self { frame: PageFrame::of(state, headers), name, sent: false, wrong: None }
    }
}

pub(super) async fn show(State(state): Web, headers: HeaderMap) -> Response {
    if state.mail.is_none() {
        return message(&NOT_FOUND);
    }
    private_page(StatusCode::OK, html(&ForgotPage::new(&state, &headers, String::new())))
}

/// Answers the same whether or not there is such an account.
pub(super) async fn send(
    State(state): Web,
    Peer(address): Peer,
    headers: HeaderMap,
    OwnForm(mut fields): OwnForm,
) -> Response {
    let Some(queue) = &state.mail else { return message(&NOT_FOUND) };
    let name: String = fields.take("name").unwrap_or_default().chars().take(64).collect();
    let mut page = ForgotPage::new(&state, &headers, name);
    match state.accounts.mail_reset(queue, address, &page.name).await {
        Ok(()) => {
            page.sent = true;
            private_page(StatusCode::OK, html(&page))
        }
        Err(error) => {
            let problem = error.into();
            page.wrong = Some(("name", sentence(&problem)));
            let mut response = problem_page(&problem, html(&page));
            guard(response.headers_mut());
            response
        }
    }
}
