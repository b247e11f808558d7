//! Owners: who they are, what they may do, and what a registry of them must promise.

mod account;
mod audit;
mod key;
mod place;
mod report;
mod store;

pub use account::{ForeignIdentity, NewUser, Role, Suspension, User, UserChange, UserName};
pub use audit::{Act, Actor, AuditEntry, By};
pub use key::{ApiKey, Invitation, KeyId, NewKey, Scope, Session, Token};
pub use place::{BlockedHost, Place};
pub use report::{NewReport, Report, ReportId, ReportState, Reported};
pub use store::{Audits, Change, Registry, RegistryError, Watermark};
