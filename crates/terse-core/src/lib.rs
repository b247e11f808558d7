//! The words, rules and contracts of terse.
//!
//! What a link is, which targets and aliases are allowed, how codes are made, what a visitor gets for a link at a
//! given moment, and what a store must promise. Everything here is given `now` and touches nothing outside: no files,
//! no sockets, no HTTP, no SQL. The API, the dashboard and the command line are three doors onto these rules.

pub mod clicks;
mod clock;
mod code;
mod codes;
mod domain;
mod events;
mod host;
mod identity;
pub mod limits;
mod link;
mod links;
mod password;
mod patch;
mod proxies;
mod refusal;
pub mod registry;
pub mod rules;
mod screening;
mod store;
mod target;
mod text;
mod visit;
mod when;
mod wish;

pub use clock::Clock;
pub use code::{Code, is_reserved};
pub use codes::{
    Alphabet, CodeSource, CodeSourceError, Hashed, LONGEST, Numbered, Numbering, Random, SHORTEST, Snowflake, Wanted,
};
pub use domain::{Domain, Hosts};
pub use events::{LinkEvents, NoEvents};
pub use host::{BlockedHosts, canonical_host, is_public_address, is_public_name};
pub use identity::Identity;
pub use link::{Judge, Link, LinkKey, OwnerId, RedirectKind, Revision, Standing, Status};
pub use links::{Caller, Created, LinkError, Links, Listing, Rules};
pub use password::PasswordHash;
pub use patch::{Change, Patch};
pub use proxies::{Proxies, ProxyRange};
pub use refusal::{Refusal, RefusalKind};
pub use screening::{Evidence, Flags, Judgement, NoScreening, REPORTED, Screening, UNREACHABLE, UNSCREENED};
pub use store::{
    BoxError, ChangeFeed, Cursor, Insert, Inserted, LinkStore, ListQuery, NoFeed, Page, Past, REVISIONS, Request, Sort, Spent,
    StoreError, TagCount, Updated,
};
pub use target::{Target, TargetRules, is_bad_port};
pub use text::{Notes, Tags, Title};
pub use visit::{Visit, visit};
pub use when::Moment;
pub use wish::{NewLink, Wish};
