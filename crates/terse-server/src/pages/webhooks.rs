//! The webhooks of an account: a list, and a form for a new one.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use terse_core::Timestamp;
use terse_core::registry::{EventKind, SubscribedEvents, Webhook};
use terse_core::webhooks::WebhookError;

use super::form::{field_problem, problem_beside, problem_of};
use super::format::{ago, grouped, middle_cut};
use super::member::{Member, MemberForm};
use super::session::{app_page, page_with_problem};
use super::shell::Shell;
use super::webhook;
use super::{UNAVAILABLE, html, message};
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};

/// Names the checkbox of an event: `event.link.created`.
const EVENT: &str = "event.";

#[derive(Template)]
#[template(path = "webhooks.html")]
struct WebhooksPage {
    shell: Shell,
    /// `None` if the operator has not switched webhooks on.
    rows: Option<Vec<WebhookRow>>,
    done: bool,
    url: String,
    events: Vec<EventBox>,
    wrong: Option<(String, String)>,
}

struct WebhookRow {
    path: String,
    url: String,
    events: String,
    /// A word and its colour.
    state: (&'static str, &'static str),
    about: String,
}

/// A checkbox of the form.
pub(super) struct EventBox {
    pub(super) name: String,
    pub(super) word: &'static str,
    pub(super) about: &'static str,
    pub(super) checked: bool,
}

/// The checkboxes, with these events checked.
pub(super) fn boxes(checked: SubscribedEvents) -> Vec<EventBox> {
    let about = |kind| match kind {
        EventKind::LinkCreated => "A link is created",
        EventKind::LinkChanged => "A link is changed or restored",
        EventKind::LinkDeleted => "A link is deleted",
        EventKind::LinkExpired => "A link expires",
        EventKind::LinkFlagged => "A link gets a warning page",
        EventKind::LinkBlocked => "A link is blocked",
        EventKind::Test => "A test",
    };
    let row = |kind: EventKind| EventBox {
        name: format!("{EVENT}{}", kind.as_str()),
        word: kind.as_str(),
        about: about(kind),
        checked: checked.contains(kind),
    };
    EventKind::ALL.into_iter().map(row).collect()
}

/// The words of the checked events.
pub(super) fn checked(fields: &mut Params) -> Vec<String> {
    let taken = fields.take_all(EVENT).into_iter();
    taken.filter_map(|(name, _)| name.strip_prefix(EVENT).map(str::to_owned)).collect()
}

/// The events that these words name.
pub(super) fn known(words: &[String]) -> SubscribedEvents {
    words.iter().filter_map(|word| EventKind::parse(word)).collect()
}

/// Whether a webhook is on, as a word and its colour.
pub(super) fn state_of(webhook: &Webhook) -> (&'static str, &'static str) {
    match &webhook.disabled {
        Some(_) => ("disabled", "over"),
        None => ("enabled", "good"),
    }
}

/// When the receiver last accepted an event, and how many wait.
pub(super) fn about(webhook: &Webhook, now: Timestamp) -> String {
    let last = match webhook.delivered_at {
        Some(at) => format!("last delivered {}", ago(at, now)),
        None => "nothing delivered yet".to_owned(),
    };
    let waiting = match webhook.waiting {
        0 => String::new(),
        count => format!(" · {} waiting", grouped(count)),
    };
    let dropped = match webhook.dropped {
        0 => String::new(),
        count => format!(" · {} dropped because too many waited", grouped(count)),
    };
    format!("{last}{waiting}{dropped}")
}

impl WebhookRow {
    fn new(webhook: &Webhook, now: Timestamp) -> Self {
        let words: Vec<&str> = webhook.events.iter().map(EventKind::as_str).collect();
        let all = words.len() == EventKind::ALL.len();
        let why = webhook.disabled.as_ref().map(|off| format!("{} · ", off.why));
        Self {
            path: format!("/webhooks/{}", webhook.id.0),
            url: middle_cut(webhook.url.as_str(), 90),
            events: if all { "all events".to_owned() } else { words.join(", ") },
            state: state_of(webhook),
            about: format!("{}{}", why.unwrap_or_default(), about(webhook, now)),
        }
    }
}

impl WebhooksPage {
    async fn of(state: &App, member: &Member) -> Result<Self, WebhookError> {
        let now = state.links.now();
        let rows = match &state.webhooks {
            None => None,
            Some(webhooks) => {
                let found = webhooks.list(member.principal.owner()).await?;
                Some(found.iter().map(|webhook| WebhookRow::new(webhook, now)).collect())
            }
        };
        Ok(Self {
            shell: member.shell(state, "/webhooks"),
            rows,
            done: false,
            url: String::new(),
            events: boxes(EventKind::ALL.into_iter().collect()),
            wrong: None,
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

/// The page for a failure that is not a problem of the form.
pub(super) fn error_page(error: &WebhookError) -> Response {
    tracing::error!(%error, "a page of webhooks failed");
    message(&UNAVAILABLE)
}

pub(super) async fn show(
    State(state): Web,
    member: Member,
    params: Result<Params, Problem>,
) -> Response {
    match WebhooksPage::of(&state, &member).await {
        Ok(mut page) => {
            page.done = params.is_ok_and(|mut params| params.take("done").is_some());
            app_page(StatusCode::OK, html(&page))
        }
        Err(error) => error_page(&error),
    }
}

/// Creates a webhook and shows its page with the secret.
pub(super) async fn create(
    State(state): Web,
    MemberForm { member, mut fields }: MemberForm,
) -> Response {
    let Some(webhooks) = &state.webhooks else { return message(&super::NOT_FOUND) };
    let url = fields.take("url").unwrap_or_default();
    let events = checked(&mut fields);
    match webhooks.create(member.principal.owner(), url.trim(), Some(&events)).await {
        Ok((made, secret)) => {
            webhook::shown(&state, &member, made, StatusCode::CREATED, Some(secret)).await
        }
        Err(error) => {
            page_with_problem(
                error,
                WebhooksPage::of(&state, &member),
                error_page,
                |page, problem| {
                    page.wrong = field_problem(problem, "");
                    page.url = url;
                    page.events = boxes(known(&events));
                },
            )
            .await
        }
    }
}
