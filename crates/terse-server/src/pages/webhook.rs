//! A webhook of an account: its settings, its secret and its deliveries.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use terse_core::Timestamp;
use terse_core::registry::{Delivery, DeliveryState, Webhook, WebhookId};
use terse_core::webhooks::{WebhookEdit, WebhookError, Webhooks};

use super::form::{field_problem, problem_beside, problem_of};
use super::format::{ago, span};
use super::member::{Member, MemberForm};
use super::session::{app_page, page_with_problem, redirect_to};
use super::shell::Shell;
use super::webhooks::{EventBox, about, boxes, checked, error_page, known, state_of};
use super::{BAD_FORM, NOT_FOUND, html, message};
use crate::http::extract::Name;
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};

/// How many deliveries the page shows.
const DELIVERIES: usize = 50;

#[derive(Template)]
#[template(path = "webhook.html")]
struct WebhookPage {
    shell: Shell,
    id: u64,
    url: String,
    /// What the form shows: the URL as it is, or as it was typed.
    typed: String,
    state: (&'static str, &'static str),
    /// Why it is off, if it is.
    off: Option<String>,
    about: String,
    events: Vec<EventBox>,
    deliveries: Vec<DeliveryRow>,
    /// The secret that was just created; the page shows it only this once.
    secret: Option<String>,
    done: Option<&'static str>,
    wrong: Option<(String, String)>,
}

struct DeliveryRow {
    event: String,
    kind: &'static str,
    state: (&'static str, &'static str),
    /// What the receiver answered, and when it is tried next.
    result: String,
    at: String,
    exact: String,
    /// The label of the button; `None` if the event can no longer be sent.
    resend: Option<&'static str>,
}

impl DeliveryRow {
    fn new(delivery: Delivery, shell: &Shell, now: Timestamp) -> Self {
        let waits = delivery.state == DeliveryState::Waiting;
        let answer = match (delivery.status, &delivery.problem) {
            (Some(status), _) => format!("answered {status}"),
            (None, Some(problem)) => format!("no answer: {}", problem.replace('_', " ")),
            (None, None) => "not sent yet".to_owned(),
        };
        let attempts = match delivery.attempts {
            0 | 1 => String::new(),
            count => format!(" · {count} attempts"),
        };
        let ahead = delivery.next_at.as_ms().saturating_sub(now.as_ms());
        let next = match u64::try_from(ahead / 1000) {
            _ if !waits => String::new(),
            Err(_) | Ok(0) => " · due now".to_owned(),
            Ok(ahead) => format!(" · next in {}", span(std::time::Duration::from_secs(ahead))),
        };
        Self {
            kind: delivery.kind.as_str(),
            state: match delivery.state {
                DeliveryState::Waiting => ("waiting", "attention"),
                DeliveryState::Delivered => ("delivered", "good"),
                DeliveryState::Failed => ("failed", "bad"),
            },
            result: format!("{answer}{attempts}{next}"),
            at: ago(delivery.created_at, now),
            exact: shell.date_time(delivery.created_at),
            resend: delivery.to_resend(now).map(|_| if waits { "Send now" } else { "Resend" }),
            event: delivery.event,
        }
    }
}

impl WebhookPage {
    async fn of(state: &App, member: &Member, webhook: Webhook) -> Result<Self, WebhookError> {
        let (now, owner) = (state.links.now(), member.principal.owner());
        let shell = member.shell(state, "/webhooks");
        let deliveries = match &state.webhooks {
            Some(webhooks) => webhooks.deliveries(owner, webhook.id, DELIVERIES).await?,
            None => Vec::new(),
        };
        let row = |delivery| DeliveryRow::new(delivery, &shell, now);
        Ok(Self {
            id: webhook.id.0,
            url: webhook.url.to_string(),
            typed: webhook.url.to_string(),
            state: state_of(&webhook),
            off: webhook.disabled.as_ref().map(|off| off.why.clone()),
            about: about(&webhook, now),
            events: boxes(webhook.events),
            deliveries: deliveries.into_iter().map(row).collect(),
            secret: None,
            done: None,
            wrong: None,
            shell,
        })
    }

    /// What is wrong with this field.
    fn wrong(&self, field: &str) -> Option<&str> {
        problem_of(self.wrong.as_ref(), field)
    }

    /// A problem that is about none of the fields.
    fn general_problem(&self) -> Option<&str> {
        problem_beside(self.wrong.as_ref(), &["url", "events"])
    }
}

fn done_message(word: &str) -> Option<&'static str> {
    Some(match word {
        "saved" => "The webhook is changed.",
        "test" => "A test is on its way. Reload the page for the result.",
        "resent" => "The event is on its way again. Reload the page for the result.",
        "on" => "The webhook is enabled.",
        "off" => "The webhook is disabled. It gets no events.",
        _ => return None,
    })
}

fn id_of(text: &str) -> Option<WebhookId> {
    text.parse().ok().map(WebhookId)
}

/// The webhook of this page, and the service.
async fn find_webhook<'a>(
    state: &'a App,
    member: &Member,
    id: &str,
) -> Result<(Webhook, &'a Webhooks), Response> {
    let (Some(webhooks), Some(id)) = (&state.webhooks, id_of(id)) else {
        return Err(message(&NOT_FOUND));
    };
    match webhooks.get(member.principal.owner(), id).await {
        Ok(webhook) => Ok((webhook, webhooks)),
        Err(WebhookError::NotFound) => Err(message(&NOT_FOUND)),
        Err(error) => Err(error_page(&error)),
    }
}

/// The page of a webhook, with a new secret if there is one.
pub(super) async fn shown(
    state: &App,
    member: &Member,
    webhook: Webhook,
    status: StatusCode,
    secret: Option<String>,
) -> Response {
    match WebhookPage::of(state, member, webhook).await {
        Ok(page) => app_page(status, html(&WebhookPage { secret, ..page })),
        Err(error) => error_page(&error),
    }
}

pub(super) async fn show(
    State(state): Web,
    member: Member,
    Name(id): Name,
    params: Result<Params, Problem>,
) -> Response {
    let (webhook, _) = match find_webhook(&state, &member, &id).await {
        Ok(found) => found,
        Err(response) => return response,
    };
    match WebhookPage::of(&state, &member, webhook).await {
        Ok(mut page) => {
            let done = params.ok().and_then(|mut params| params.take("done"));
            page.done = done.and_then(|word| done_message(&word));
            app_page(StatusCode::OK, html(&page))
        }
        Err(error) => error_page(&error),
    }
}

/// What the buttons of the page do.
pub(super) async fn act(
    State(state): Web,
    Name(id): Name,
    MemberForm { member, mut fields }: MemberForm,
) -> Response {
    let (webhook, webhooks) = match find_webhook(&state, &member, &id).await {
        Ok(found) => found,
        Err(response) => return response,
    };
    let (owner, id) = (member.principal.owner(), webhook.id);
    let mut take = |name| fields.take(name).unwrap_or_default();
    let (action, url, event) = (take("action"), take("url"), take("event"));
    let events = checked(&mut fields);
    let enable = |on| WebhookEdit { enabled: Some(on), ..WebhookEdit::default() };
    let done = match action.as_str() {
        "save" => {
            let (url, events) = (Some(url.trim().to_owned()), Some(events.clone()));
            let edit = WebhookEdit { url, events, ..WebhookEdit::default() };
            webhooks.edit(owner, id, edit).await.map(|_| "saved")
        }
        "on" => webhooks.edit(owner, id, enable(true)).await.map(|_| "on"),
        "off" => webhooks.edit(owner, id, enable(false)).await.map(|_| "off"),
        "test" => webhooks.test(owner, id).await.map(|_| "test"),
        "resend" => webhooks.resend(owner, id, &event).await.map(|()| "resent"),
        "secret" => {
            let edit = WebhookEdit { rotate_secret: true, ..WebhookEdit::default() };
            match webhooks.edit(owner, id, edit).await {
                Ok((webhook, secret)) => {
                    return shown(&state, &member, webhook, StatusCode::CREATED, secret).await;
                }
                Err(error) => Err(error),
            }
        }
        "delete" => match webhooks.remove(owner, id).await {
            // One that is already gone counts as deleted.
            Ok(()) | Err(WebhookError::NotFound) => return redirect_to("/webhooks?done=deleted"),
            Err(error) => Err(error),
        },
        _ => return message(&BAD_FORM),
    };
    let error = match done {
        Ok(word) => return redirect_to(&format!("/webhooks/{}?done={word}", id.0)),
        Err(error) => error,
    };
    page_with_problem(
        error,
        WebhookPage::of(&state, &member, webhook),
        error_page,
        |page, problem| {
            page.wrong = field_problem(problem, "");
            if action == "save" {
                page.typed = url;
                page.events = boxes(known(&events));
            }
        },
    )
    .await
}
