//! Webhooks: writes deliveries of link events into the registry, and sends them.

mod delivery;
mod events;

pub use delivery::{MAX_POSTS, WebhookDelivery};
pub use events::{LinkJson, LinkListeners, OutboxDelivery, WebhookEvents, WebhookOwnersRefresh};
