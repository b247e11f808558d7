//! Owners: who they are, what they may do, and what a registry of them must promise.

mod account;
mod account_update;
mod audit;
mod audit_record;
mod delivery;
mod domain_config;
mod key;
mod lease;
mod report;
mod snapshot;
mod store;
mod suspended;
mod webhook;

pub use account::{
    Account, AccountChange, AccountName, ForeignIdentity, NewAccount, Role, Suspension,
};
pub use account_update::AccountUpdate;
pub use audit::{Actor, Attribution, AuditAction, AuditEntry};
pub use audit_record::{AuditRecord, redact_account, subject};
pub use delivery::{
    Claim, Delivery, DeliveryId, DeliveryResult, DeliveryState, Due, MAX_SETTLED_PER_WEBHOOK,
    MAX_WAITING_PER_WEBHOOK, NewEvent, RETRY_PAUSES, Settlement,
};
pub use domain_config::{BlockedHost, DomainConfig};
pub use key::{ApiKey, Invitation, KeyId, NewKey, Scope, Session, Token};
pub use lease::{FencingToken, JobLease, JobProgress, Lease, MAX_PROGRESS_BYTES, NodeId};
pub use report::{
    AbuseReport, NewReport, REPORTERS_TO_WARN, ReportId, ReportState, Reported, ReportedLink,
    TEXTS_SHOWN,
};
pub use snapshot::{RegistrySnapshot, RegistrySnapshots, RegistryVersion};
pub use store::{
    Audits, ChangeAccount, EXPIRED_KEY_RETENTION, FIRST_ACCOUNT, MAX_KEYS_PER_OWNER,
    MAX_SESSIONS_PER_OWNER, Registry, RegistryError,
};
pub use suspended::Suspended;
pub use webhook::{
    Disabled, EventKind, Events, MAX_WEBHOOKS_PER_OWNER, NewWebhook, Webhook, WebhookChange,
    WebhookId, WebhookKey, receiver,
};
