//! Owners: accounts, credentials, moderation and jobs, and the small traits a store of them
//! implements. [`Registry`] is their sum.

mod account;
mod account_store;
mod account_update;
mod acme_store;
mod admin_key;
mod audit;
mod audit_log;
mod audit_record;
mod branding_store;
mod credential_store;
mod delivery;
mod domain_config;
mod domain_store;
mod key;
mod lease;
mod maintenance;
mod node_versions;
mod preferences;
mod removal_alarm;
mod report;
mod report_store;
mod salts;
mod snapshot;
mod store;
mod suspended;
mod two_factor;
mod webhook;
mod webhook_store;

pub use account::{
    Account, AccountChange, AccountName, NewAccount, OidcIdentity, PasswordReset, Role, Suspension,
};
pub use account_store::{AccountStore, ConditionalAccountChange, FIRST_ACCOUNT};
pub use account_update::AccountUpdate;
pub use acme_store::{
    AcmeRecord, AcmeRecordKind, AcmeRecords, AcmeStore, MAX_ACME_RECORD_BYTES,
    check_acme_record_size,
};
pub use admin_key::AdminKeyStore;
pub use audit::{Actor, Attribution, AuditAction, AuditEntry};
pub use audit_log::{AuditLog, AuditQuery};
pub use audit_record::{AuditRecord, redact_account, subject};
pub use branding_store::BrandingStore;
pub use credential_store::{CredentialStore, MAX_KEYS_PER_OWNER, MAX_SESSIONS_PER_OWNER};
pub use delivery::{
    Delivery, DeliveryAttempt, DeliveryClaim, DeliveryId, DeliveryResult, DeliveryState,
    DueDelivery, EnqueueResult, MAX_SETTLED_PER_WEBHOOK, MAX_WAITING_PER_WEBHOOK, NewEvent,
    RETRY_PAUSES,
};
pub use domain_config::{BlockedHost, DomainConfig};
pub use domain_store::{BlocklistStore, DomainStore};
pub use key::{ApiKey, Invitation, KeyId, KeyUsage, NewKey, Scope, SecretHash, Session};
pub use lease::{
    FencingToken, JobLease, JobProgress, Lease, MAX_PROGRESS_BYTES, NodeId, check_progress_size,
};
pub use maintenance::{DELIVERY_RETENTION, EXPIRED_KEY_RETENTION, RegistryMaintenance};
pub use node_versions::{NODE_MEMORY, NodeVersions};
pub use preferences::AccountPreferences;
pub use removal_alarm::{AlarmKind, AlarmState, RemovalAlarm, RemovalAlarms};
pub use report::{
    AbuseReport, NewReport, REPORTERS_TO_WARN, ReportId, ReportResult, ReportState, ReportedLink,
    TEXTS_SHOWN,
};
pub use report_store::ReportStore;
pub use salts::Salts;
pub use snapshot::{RegistrySnapshot, RegistrySnapshots, RegistryVersion};
pub use store::{Registry, RegistryError};
pub use suspended::SuspendedOwners;
pub use two_factor::{TotpSeed, TwoFactor};
pub use webhook::{
    Deactivation, EventKind, MAX_RECEIVER_URL, MAX_WEBHOOKS_PER_OWNER, NewWebhook,
    SubscribedEvents, Webhook, WebhookChange, WebhookId, WebhookKey, WebhookToggle, receiver,
};
pub use webhook_store::WebhookStore;

/// All traits of a registry, for callers that hold a concrete one. `dyn Registry` needs none of
/// them in scope.
pub mod prelude {
    pub use super::{
        AccountStore as _, AcmeStore as _, AdminKeyStore as _, AuditLog as _, BlocklistStore as _,
        BrandingStore as _, CredentialStore as _, DomainStore as _, JobLease as _,
        JobProgress as _, NodeVersions as _, RegistryMaintenance as _, RegistrySnapshots as _,
        RemovalAlarms as _, ReportStore as _, Salts as _, WebhookStore as _,
    };
}
