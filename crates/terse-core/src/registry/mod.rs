//! Owners: who they are, what they may do, and what a registry of them must promise.

mod account;
mod audit;
mod delivery;
mod effect;
mod key;
mod line;
mod place;
mod report;
mod store;
mod suspended;
mod webhook;

pub use account::{ForeignIdentity, NewUser, Role, Suspension, User, UserChange, UserName};
pub use audit::{Act, Actor, AuditEntry, By};
pub use delivery::{
    Claim, Delivery, DeliveryId, DeliveryState, Due, NewEvent, Outcome, PAUSES, SETTLED_EACH, Settlement, WAITING_EACH,
};
pub use effect::Effect;
pub use key::{ApiKey, Invitation, KeyId, NewKey, Scope, Session, Token};
pub use line::{Line, forget_person, subject};
pub use place::{BlockedHost, Place};
pub use report::{NewReport, REPORTERS_WHO_WARN, Report, ReportId, ReportState, Reported, ReportedLink, TEXTS_SHOWN};
pub use store::{Audits, Change, FIRST_USER, KEPT_WHEN_EXPIRED, KEYS_EACH, Registry, RegistryError, SESSIONS_EACH, Watermark};
pub use suspended::Suspended;
pub use webhook::{
    Disabled, EventKind, Events, NewWebhook, WEBHOOKS_EACH, Webhook, WebhookChange, WebhookId, WebhookKey, receiver,
};
