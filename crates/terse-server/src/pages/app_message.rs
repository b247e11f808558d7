//! Messages such as "not found" in the frame of the dashboard, for accounts that are signed in.

use std::time::Duration;

use askama::Template;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use terse_core::PageLanguage;

use super::session::{app_page, signed_in};
use super::shell::Shell;
use super::{AnyMessage, html};
use crate::http::state::App;
use crate::messages::{MessageText, catalogue};

/// The first words of the paths of the dashboard.
const DASHBOARD: [&str; 11] = [
    "account",
    "accounts",
    "branding",
    "dashboard",
    "domains",
    "import",
    "links",
    "moderation",
    "system",
    "tags",
    "webhooks",
];
/// How long reading the session may take. Without it, the page has the frame of visitors.
const TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Template)]
#[template(path = "app_message.html")]
struct AppMessagePage {
    shell: Shell,
    status: u16,
    words: MessageText,
}

/// Writes the page of a response that was made by [`message`](super::message), if an account asked
/// for a page of the dashboard.
pub(crate) async fn in_app_frame(
    state: &App,
    headers: &HeaderMap,
    route: Option<&str>,
    mut response: Response,
) -> Response {
    let first = route.and_then(|route| route.split('/').nth(1)).unwrap_or_default();
    let Some(message) = response.extensions().get::<AnyMessage>().copied() else { return response };
    if !DASHBOARD.contains(&first) {
        return response;
    }
    let Ok(Ok(Some(here))) = tokio::time::timeout(TIMEOUT, signed_in(state, headers)).await else {
        return response;
    };
    let words = match message {
        AnyMessage::English(words) => {
            MessageText { heading: words.heading, text: words.text, hint: words.hint }
        }
        AnyMessage::Translated(words) => *(words.words)(catalogue(PageLanguage::English)),
    };
    let shell = Shell::new(state, headers, &here.account, "");
    let page = AppMessagePage { shell, status: message.status(), words };
    let status = StatusCode::from_u16(message.status()).unwrap_or(StatusCode::OK);
    let (page, body) = app_page(status, html(&page)).into_parts();
    response.extensions_mut().remove::<AnyMessage>();
    // The policy of the dashboard replaces that of visitors' pages; what else is set stays.
    response.headers_mut().remove(header::CONTENT_SECURITY_POLICY);
    for (name, value) in &page.headers {
        response.headers_mut().entry(name).or_insert_with(|| value.clone());
    }
    response.map(|_| body)
}
