//! Webhooks: what happens to links becomes events in the registry, and events are delivered.

mod delivery;
mod events;

pub use delivery::{MAX_POSTS, WebhookDelivery};
pub use events::{LinkJson, LinkListeners, OutboxDelivery, WebhookEvents, WebhookOwnersRefresh};
