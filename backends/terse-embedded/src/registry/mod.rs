//! The owners, in a file of their own, so that looking them up never waits for links or clicks.
//!
//! A token lookup uses an index and returns the owner in the same query. Every write is a step that
//! is done completely or not at all, including its audit records; the steps of many callers share
//! one fsync. The core decides what follows from an action; this module only writes it.

mod account_ids;
mod accounts;
mod acme;
mod admin_key;
mod adopt;
mod branding;
mod credentials;
mod jobs;
mod lists;
mod moderation;
mod node_versions;
mod options;
mod outbox;
mod prune;
mod queries;
mod removal_alarm;
mod rows;
mod salts;
pub(crate) mod schema;
mod snapshot;
mod store;
mod verify;
mod writes;

pub use account_ids::skip_owners_of_links;
pub use adopt::move_into_registry;
pub use options::RegistryOptions;
pub(crate) use schema::REGISTRY;
pub use store::EmbeddedRegistry;
pub use verify::{
    RegistryFileCheck, backup_registry, inspect_registry, skip_ahead_registry, verify_registry,
};
