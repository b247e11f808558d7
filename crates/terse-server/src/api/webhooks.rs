//! The caller's webhooks, which receive events about their links.

use crate::describe;
use crate::describe::ToSchema;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use terse_core::Timestamp;
use terse_core::registry::{Delivery, EventKind, Webhook, WebhookId};
use terse_core::webhooks::{WebhookEdit, WebhookError, Webhooks};

use crate::http::body::{Json, SMALL, parse_object};
use crate::http::extract::{Authenticated, Name};
use crate::http::params::{NoParams, Params, whole_number};
use crate::http::problem::{Problem, WEBHOOKS_OFF};
use crate::http::state::{App, Web};

/// A webhook to create.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "url": "https://hooks.example.com/terse", "events": ["link.created",
    "link.deleted"] }))]
pub(crate) struct CreateWebhook {
    /// Where events are sent: an https URL.
    #[schema(min_length = 8, max_length = 2048, pattern = "^https?://", nullable = false)]
    url: String,
    /// Which events; all by default.
    #[schema(nullable = false, min_items = 1)]
    events: Option<Vec<String>>,
}

/// Changes to a webhook. What is absent stays.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "enabled": true }))]
pub(crate) struct PatchWebhook {
    /// Another URL.
    #[schema(min_length = 8, max_length = 2048, pattern = "^https?://", nullable = false)]
    url: Option<String>,
    /// Other events, in place of those before.
    #[schema(nullable = false, min_items = 1)]
    events: Option<Vec<String>>,
    /// Switches it off, or on again.
    #[schema(nullable = false)]
    enabled: Option<bool>,
    /// `true` creates a new secret, which is in the answer. For a day the previous one signs too.
    #[serde(alias = "rotateSecret")]
    #[schema(nullable = false)]
    rotate_secret: Option<bool>,
}

/// A webhook.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Webhook, example = json!({
    "id": "7", "url": "https://hooks.example.com/terse", "events": ["link.created"],
    "created_at": "2026-11-15T21:00:00Z",
    "enabled": true, "disabled_at": null, "disabled_reason": null, "waiting": 0, "dropped": 0,
    "last_delivered_at": null, "secret": null
}))]
pub(crate) struct WebhookBody {
    /// Its id.
    id: String,
    /// Where events are sent.
    url: String,
    /// Which events.
    events: Vec<&'static str>,
    /// When it was created.
    #[schema(format = DateTime)]
    created_at: String,
    /// Whether events are sent.
    enabled: bool,
    /// Since when no events are sent.
    #[schema(required = true, format = DateTime)]
    disabled_at: Option<String>,
    /// Why no events are sent.
    #[schema(required = true)]
    disabled_reason: Option<String>,
    /// How many events wait to be sent.
    #[schema(minimum = 0)]
    waiting: u64,
    /// How many events were dropped because too many waited.
    #[schema(minimum = 0)]
    dropped: u64,
    /// When the receiver last accepted an event.
    #[schema(required = true, format = DateTime)]
    last_delivered_at: Option<String>,
    /// The signing secret. Shown when it is created, and never again.
    #[schema(required = true)]
    secret: Option<String>,
}

impl WebhookBody {
    pub(super) fn new(webhook: &Webhook, secret: Option<String>) -> Self {
        let text = |at: Option<Timestamp>| at.map(|at| at.to_string());
        Self {
            id: webhook.id.0.to_string(),
            url: webhook.url.to_string(),
            events: webhook.events.iter().map(EventKind::as_str).collect(),
            created_at: webhook.created_at.to_string(),
            enabled: webhook.disabled.is_none(),
            disabled_at: text(webhook.disabled.as_ref().map(|disabled| disabled.at)),
            disabled_reason: webhook.disabled.as_ref().map(|disabled| disabled.why.clone()),
            waiting: webhook.waiting,
            dropped: webhook.dropped,
            last_delivered_at: text(webhook.delivered_at),
            secret,
        }
    }
}

/// All of the caller's webhooks.
#[derive(Serialize, ToSchema)]
pub(crate) struct WebhookList {
    /// The webhooks, the oldest first.
    #[schema(max_items = 20)]
    webhooks: Vec<WebhookBody>,
}

/// An event on its way to a receiver.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Delivery)]
pub(crate) struct DeliveryBody {
    /// The id of the event, as in its body and in `Terse-Delivery`.
    event_id: String,
    /// What happened.
    event: &'static str,
    /// `waiting`, `delivered` or `failed`.
    state: &'static str,
    /// When it happened.
    #[schema(format = DateTime)]
    created_at: String,
    /// How often it was sent.
    #[schema(minimum = 0)]
    attempts: u32,
    /// When it is sent next.
    #[schema(required = true, format = DateTime)]
    next_attempt_at: Option<String>,
    /// When it was last sent.
    #[schema(required = true, format = DateTime)]
    last_attempt_at: Option<String>,
    /// What the receiver answered last.
    #[schema(required = true)]
    last_status: Option<u16>,
    /// Why it did not answer, as a code.
    #[schema(required = true)]
    last_problem: Option<String>,
}

impl From<Delivery> for DeliveryBody {
    fn from(delivery: Delivery) -> Self {
        let waits = delivery.state == terse_core::registry::DeliveryState::Waiting;
        Self {
            event_id: delivery.event,
            event: delivery.kind.as_str(),
            state: delivery.state.as_str(),
            created_at: delivery.created_at.to_string(),
            attempts: delivery.attempts,
            next_attempt_at: waits.then(|| delivery.next_at.to_string()),
            last_attempt_at: delivery.tried_at.map(|at| at.to_string()),
            last_status: delivery.status,
            last_problem: delivery.problem,
        }
    }
}

/// A page of deliveries.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeliveryList {
    /// The latest first.
    #[schema(max_items = 100)]
    deliveries: Vec<DeliveryBody>,
}

/// An event that was queued.
#[derive(Serialize, ToSchema)]
pub(crate) struct QueuedTestEvent {
    /// The id of the event.
    event_id: String,
}

/// List your webhooks
#[describe::path(get, path = "/api/v1/webhooks", operation_id = "list_webhooks", tag = "Webhooks",
    responses((status = 200, description = "All of them", body = WebhookList), super::answers::WebhookListProblems),
    security(("key" = [])))]
pub(super) async fn list(
    State(state): Web,
    Authenticated(caller): Authenticated,
    _: NoParams,
) -> Result<Answer<WebhookList>, Problem> {
    let webhooks = switched_on(&state)?.list(caller.owner()).await?;
    Ok(Answer(WebhookList {
        webhooks: webhooks.iter().map(|webhook| WebhookBody::new(webhook, None)).collect(),
    }))
}

/// Create a webhook
///
/// From now on the receiver gets events about your links. The secret in the answer is shown only
/// this once.
#[describe::path(post, path = "/api/v1/webhooks", operation_id = "create_webhook", tag = "Webhooks",
    request_body(content = CreateWebhook),
    responses((status = 201, description = "The new webhook, with its \
        secret", body = WebhookBody), super::answers::CreateWebhookProblems),
    security(("key" = [])))]
pub(super) async fn create(
    State(state): Web,
    Authenticated(caller): Authenticated,
    _: NoParams,
    Json(body): Json<SMALL>,
) -> Result<(StatusCode, Answer<WebhookBody>), Problem> {
    let webhooks = switched_on(&state)?;
    let CreateWebhook { url, events } = parse_object(&body)?;
    let made = webhooks.create(caller.owner(), &url, events.as_deref()).await?;
    Ok((StatusCode::CREATED, Answer(WebhookBody::new(&made.0, Some(made.1)))))
}

/// Read a webhook
#[describe::path(get, path = "/api/v1/webhooks/{id}", operation_id = "get_webhook", tag = "Webhooks",
    params(("id" = String, Path, description = "The webhook", pattern = "^[0-9]{1,19}$")),
    responses((status = 200, description = "The webhook", body = WebhookBody), super::answers::WebhookProblems),
    security(("key" = [])))]
pub(super) async fn get(
    State(state): Web,
    Authenticated(caller): Authenticated,
    _: NoParams,
    Name(id): Name,
) -> Result<Answer<WebhookBody>, Problem> {
    let webhook = switched_on(&state)?.get(caller.owner(), id_of(&id)?).await?;
    Ok(Answer(WebhookBody::new(&webhook, None)))
}

/// Change a webhook
#[describe::path(patch, path = "/api/v1/webhooks/{id}", operation_id = "change_webhook",
    tag = "Webhooks",
    request_body(content = PatchWebhook),
    params(("id" = String, Path, description = "The webhook", pattern = "^[0-9]{1,19}$")),
    responses((status = 200, description = "The webhook as it is now, with its secret if that is \
        new", body = WebhookBody),
        super::answers::WebhookChangeProblems),
    security(("key" = [])))]
pub(super) async fn patch(
    State(state): Web,
    Authenticated(caller): Authenticated,
    _: NoParams,
    Name(id): Name,
    Json(body): Json<SMALL>,
) -> Result<Answer<WebhookBody>, Problem> {
    let webhooks = switched_on(&state)?;
    let PatchWebhook { url, events, enabled, rotate_secret } = parse_object(&body)?;
    let rotate_secret = rotate_secret == Some(true);
    let edit = WebhookEdit { url, events, enabled, rotate_secret };
    let (webhook, secret) = webhooks.edit(caller.owner(), id_of(&id)?, edit).await?;
    Ok(Answer(WebhookBody::new(&webhook, secret)))
}

/// Remove a webhook
///
/// Events that wait for it are dropped.
#[describe::path(delete, path = "/api/v1/webhooks/{id}", operation_id = "delete_webhook",
    tag = "Webhooks",
    params(("id" = String, Path, description = "The webhook", pattern = "^[0-9]{1,19}$")),
    responses((status = 204, description = "It is removed"), super::answers::WebhookProblems),
    security(("key" = [])))]
pub(super) async fn delete(
    State(state): Web,
    Authenticated(caller): Authenticated,
    _: NoParams,
    Name(id): Name,
) -> Result<StatusCode, Problem> {
    switched_on(&state)?.remove(caller.owner(), id_of(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Test a webhook
///
/// Sends an event `webhook.test`, whichever events the webhook is for. The result is in its
/// deliveries.
#[describe::path(post, path = "/api/v1/webhooks/{id}/test", operation_id = "test_webhook",
    tag = "Webhooks",
    params(("id" = String, Path, description = "The webhook", pattern = "^[0-9]{1,19}$")),
    responses((status = 202, description = "It is on its way", body = QueuedTestEvent), super::answers::WebhookProblems),
    security(("key" = [])))]
pub(super) async fn test(
    State(state): Web,
    Authenticated(caller): Authenticated,
    _: NoParams,
    Name(id): Name,
) -> Result<(StatusCode, Answer<QueuedTestEvent>), Problem> {
    let event_id = switched_on(&state)?.test(caller.owner(), id_of(&id)?).await?;
    Ok((StatusCode::ACCEPTED, Answer(QueuedTestEvent { event_id })))
}

/// List deliveries
///
/// The latest first: all that wait, and the last hundred that were delivered or failed.
#[describe::path(get, path = "/api/v1/webhooks/{id}/deliveries", operation_id = "list_deliveries",
    tag = "Webhooks",
    params(("id" = String, Path, description = "The webhook", pattern = "^[0-9]{1,19}$"),
        ("limit" = Option<u16>, Query, description = "At most this many; 50 by \
            default", minimum = 1, maximum = 100, nullable = false)),
    responses((status = 200, description = "The latest of \
        them", body = DeliveryList), super::answers::WebhookProblems),
    security(("key" = [])))]
pub(super) async fn deliveries(
    State(state): Web,
    Authenticated(caller): Authenticated,
    mut params: Params,
    Name(id): Name,
) -> Result<Answer<DeliveryList>, Problem> {
    let webhooks = switched_on(&state)?;
    let limit = params.take("limit");
    params.done()?;
    let limit = limit.map_or(Ok(50), |text| whole_number("limit", &text, 100))?;
    let found = webhooks.deliveries(caller.owner(), id_of(&id)?, limit as usize).await?;
    Ok(Answer(DeliveryList { deliveries: found.into_iter().map(Into::into).collect() }))
}

fn switched_on(state: &App) -> Result<&Webhooks, Problem> {
    let how = "webhooks are switched off on this server; its operator can switch them on with \
        outgoing.webhooks = true";
    state.webhooks.as_ref().ok_or_else(|| Problem::new(&WEBHOOKS_OFF, how))
}

fn id_of(text: &str) -> Result<WebhookId, Problem> {
    let digits = (1..=19).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && !text.starts_with('0');
    digits.then(|| text.parse().ok()).flatten().map(WebhookId).ok_or_else(no_webhook)
}

/// The same problem for a missing webhook and for another owner's.
fn no_webhook() -> Problem {
    WebhookError::NotFound.into()
}
