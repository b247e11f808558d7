//! The owners, in a file of their own: who they are never waits for links or clicks.
//!
//! A token is looked up through its index, and brings its owner along in the same query. Every
//! write is a step that is done whole or not at all, its lines in the audit log included; steps of
//! many callers share one fsync. What follows from an act is the core's to say; here it is only
//! written.

mod accounts;
mod admin_key;
mod adopt;
mod credentials;
mod jobs;
mod lists;
mod moderation;
mod options;
mod outbox;
mod prune;
mod queries;
mod rows;
mod salts;
mod schema;
mod snapshot;
mod store;
mod verify;
mod writes;

pub use adopt::move_into_registry;
pub use options::RegistryOptions;
pub use store::EmbeddedRegistry;
pub use verify::{
    RegistryFileCheck, backup_registry, inspect_registry, skip_ahead_registry, verify_registry,
};
