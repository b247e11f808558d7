//! The form at `/{code}?report`, with which visitors report an abusive link.

use std::sync::Arc;

use askama::Template;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::Response;
use terse_core::moderation::MAX_REPORT_TEXT;
use terse_core::{Caller, LinkKey, LinkStatus};

use super::form::{fields, problem_page};
use super::preview::not_shown;
use super::{BLOCKED, CROSS_SITE, NOT_FOUND, PageFrame, html, message, page};
use crate::http::extract::{Name, Peer};
use crate::http::host::{key_of, short_url};
use crate::http::origin::Origin;
use crate::http::principal::principal_of;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};
use crate::messages::fill;
use crate::reporting::{self, Reason, Reporter};

#[derive(Template)]
#[template(path = "report.html")]
struct ReportForm {
    frame: PageFrame,
    /// Whether the report was sent.
    sent: bool,
    code: String,
    short: String,
    reasons: Vec<(&'static str, &'static str, bool)>,
    text: String,
    most: usize,
    /// The problem with the report that was sent, and whether it is about the text.
    problem: Option<(bool, String)>,
}

impl ReportForm {
    fn new(
        state: &App,
        headers: &HeaderMap,
        key: &LinkKey,
        chosen: Option<Reason>,
        text: String,
    ) -> Self {
        let frame = PageFrame::translated(state, headers);
        let m = frame.m();
        let format = |reason| match reason {
            Reason::Phishing => m.report_phishing,
            Reason::Malware => m.report_malware,
            Reason::Spam => m.report_spam,
            Reason::Illegal => m.report_illegal,
            Reason::Other => m.report_other,
        };
        Self {
            frame,
            sent: false,
            code: key.code.to_string(),
            short: short_url(key, &state.links.rules().hosts),
            reasons: Reason::ALL
                .map(|reason| (reason.as_str(), format(reason), chosen == Some(reason)))
                .to_vec(),
            text,
            most: MAX_REPORT_TEXT,
            problem: None,
        }
    }
}

/// Shows the form, or the confirmation after the report was sent.
pub(super) async fn show(
    State(state): Web,
    Peer(address): Peer,
    uri: Uri,
    headers: HeaderMap,
    Name(code): Name,
) -> Response {
    let Some(key) = key_of(&state, &uri, &headers, &code) else { return message(&NOT_FOUND) };
    let mut form = ReportForm::new(&state, &headers, &key, None, String::new());
    if uri.query() == Some("sent") {
        form.sent = true;
        return form.frame.page(StatusCode::OK, html(&form));
    }
    match state.public_links.find(&key, address).await {
        Ok(link) if link.status(state.links.now()) == LinkStatus::Blocked => message(&BLOCKED),
        Ok(_) => form.frame.page(StatusCode::OK, html(&form)),
        Err(error) => not_shown(error),
    }
}

/// Takes the report, then redirects to the confirmation, so that a reload does not send it twice.
pub(super) async fn send(
    State(state): Web,
    Peer(address): Peer,
    uri: Uri,
    headers: HeaderMap,
    Name(code): Name,
    body: Body,
) -> Response {
    let Some(key) = key_of(&state, &uri, &headers, &code) else { return message(&NOT_FOUND) };
    // Otherwise any site could make its visitors report a link, each from another address.
    if Origin::of(&state, &uri, &headers) == Origin::Foreign {
        return message(&CROSS_SITE);
    }
    // Invalid credentials count as anonymous, since anonymous visitors may report too.
    let caller = principal_of(&state, &Method::POST, &uri, &headers)
        .await
        .map_or(Caller::Anonymous, |principal| principal.caller);
    let (reason, text) = match read_form(&headers, body).await {
        Ok(form) => form,
        Err(problem) => return refused(&state, &headers, &key, None, String::new(), &problem),
    };
    let Some(chosen) = reason else {
        return refused(
            &state,
            &headers,
            &key,
            None,
            text,
            &Problem::invalid("reason", "choose a reason"),
        );
    };
    let said = Some(text.clone());
    match reporting::report(&state, Reporter { caller, address }, key.clone(), chosen, said).await {
        Ok(()) => {
            let mut response = page(StatusCode::SEE_OTHER, Body::empty());
            if let Ok(place) = HeaderValue::try_from(format!("/r/{}/report?sent", key.code)) {
                response.headers_mut().insert(header::LOCATION, place);
            }
            response
        }
        Err(problem) if problem.status() == 404 => message(&NOT_FOUND),
        Err(problem) => refused(&state, &headers, &key, Some(chosen), text, &problem),
    }
}

async fn read_form(headers: &HeaderMap, body: Body) -> Result<(Option<Reason>, String), Problem> {
    let mut form = fields(headers, body).await?;
    let reason = form.take("reason").as_deref().and_then(Reason::parse);
    // Browsers send a line break as CRLF but count it as one character.
    let text = form.take("text").unwrap_or_default().replace("\r\n", "\n");
    form.done()?;
    Ok((reason, text))
}

/// Shows the form again with the problem and the typed values.
fn refused(
    state: &Arc<App>,
    headers: &HeaderMap,
    key: &LinkKey,
    reason: Option<Reason>,
    text: String,
    problem: &Problem,
) -> Response {
    let mut form = ReportForm::new(state, headers, key, reason, text);
    let m = form.frame.m();
    let words = match (problem.field(), problem.status()) {
        (Some("reason"), 400) => m.report_choose_problem.to_owned(),
        (Some("text"), 400) => fill(m.report_long, MAX_REPORT_TEXT),
        (_, 429) => format!("{} {}", m.limited.text, m.limited.hint),
        (_, 500..) => format!("{} {}", m.unavailable.text, m.unavailable.hint),
        _ => format!("{} {}", m.bad_form.text, m.bad_form.hint),
    };
    form.problem = Some((problem.field() == Some("text"), words));
    let mut response = problem_page(problem, html(&form));
    form.frame.mark_language(&mut response);
    response
}
