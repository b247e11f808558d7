//! The one service through which links are created, read and changed, split by use case.

mod busiest;
mod caller;
mod concurrent;
mod create;
mod creation;
mod delete;
mod error;
mod import;
mod import_link;
mod imports;
mod public;
mod ranked;
mod read;
mod reaping;
mod scan_audit;
mod screening;
mod tag_report;
mod tags;
mod undo;
mod update;

pub use busiest::{BusiestLink, TagClicks};
pub use caller::Caller;
pub(crate) use concurrent::for_each_link;
pub use create::Created;
pub use creation::{
    CreateGrant, CreateMetrics, CreateResult, Creator, LinkCreation, LinkDraft,
    MAX_LINKS_PER_REQUEST, MAX_PASSWORDS_PER_REQUEST,
};
pub use error::LinkError;
pub use import::{ImportPreview, ImportRowConflict, ImportRowKey, SeenImportRows};
pub use import_link::ImportLink;
pub use imports::{
    ImportError, ImportOptions, ImportPhase, ImportProgress, Imports, MAX_IMPORT_FILE, SampleRow,
};
pub use public::PublicLinks;
pub use read::{Listing, OwnerFilter};
pub(crate) use scan_audit::moderation_json;
pub use tag_report::{MAX_TAG_REPORT_LINKS, TagReport};
pub use tags::RetagProgress;

use std::sync::Arc;
use std::time::Duration;

use crate::aliases::UnwantedAliases;
use crate::changes::RouteCache;
use crate::clock::Clock;
use crate::codes::CodeSource;
use crate::domain::Hosts;
use crate::events::{LinkEvents, NoEvents};
use crate::link::OwnerId;
use crate::link_codec::CodecLimit;
use crate::outbox::OutboxEvent;
use crate::password::{NoPasswords, PasswordHasher};
use crate::registry::{AuditLog, EventKind, SuspendedOwners};
use crate::screening::Screening;
use crate::store::LinkStore;
use crate::target::TargetRules;
use crate::time::Timestamp;

/// The operator's settings.
#[derive(Clone, Debug)]
pub struct LinkPolicy {
    /// Which targets are allowed.
    pub targets: TargetRules,
    /// The short domains of this server.
    pub hosts: Hosts,
    /// Whether links can be created without a key.
    pub anonymous_create: bool,
    /// How long links without a key live.
    pub anonymous_ttl: Duration,
    /// How long deleted links can be restored.
    pub grace: Duration,
    /// How long expired links of owners are kept. Links without an owner are kept for `grace`.
    pub keep_expired: Duration,
    /// How long an alias stays reserved for its former owner once its link is gone; zero for not at
    /// all.
    pub quarantine: Duration,
    /// Aliases that the operator refuses to every creator.
    pub unwanted_aliases: UnwantedAliases,
}

/// The service. Everything that creates or changes a link goes through it.
pub struct Links {
    store: Arc<dyn LinkStore>,
    codes: Arc<dyn CodeSource>,
    cache: Arc<dyn RouteCache>,
    screen: Arc<dyn Screening>,
    events: Arc<dyn LinkEvents>,
    audit: Arc<dyn AuditLog>,
    passwords: Arc<dyn PasswordHasher>,
    rules: LinkPolicy,
    suspended: SuspendedOwners,
    codec_limit: CodecLimit,
    clock: Clock,
}

impl LinkPolicy {
    /// The end of the quarantine for aliases of links that are deleted now.
    pub fn quarantine_until(&self, now: Timestamp) -> Option<Timestamp> {
        (!self.quarantine.is_zero())
            .then(|| now.checked_add(self.quarantine).unwrap_or(Timestamp::MAX))
    }
}

impl Links {
    /// Wires the service.
    pub fn new(
        store: Arc<dyn LinkStore>,
        codes: Arc<dyn CodeSource>,
        cache: Arc<dyn RouteCache>,
        screen: Arc<dyn Screening>,
        rules: LinkPolicy,
        clock: Clock,
    ) -> Self {
        let (events, audit) = (Arc::new(NoEvents), Arc::new(scan_audit::NoAudit));
        let (suspended, passwords) = (SuspendedOwners::default(), Arc::new(NoPasswords));
        Self {
            store,
            codes,
            cache,
            screen,
            events,
            audit,
            passwords,
            rules,
            suspended,
            codec_limit: CodecLimit::default(),
            clock,
        }
    }

    /// The same, with a hasher for the passwords of links. Without one no link gets a password.
    pub fn with_passwords(self, passwords: Arc<dyn PasswordHasher>) -> Self {
        Self { passwords, ..self }
    }

    /// The same, in a fleet whose nodes may be of several versions.
    pub fn with_codec_limit(self, codec_limit: CodecLimit) -> Self {
        Self { codec_limit, ..self }
    }

    /// The same, with a listener for events.
    pub fn with_events(self, events: Arc<dyn LinkEvents>) -> Self {
        Self { events, ..self }
    }

    /// The operator's settings.
    pub fn rules(&self) -> &LinkPolicy {
        &self.rules
    }

    /// The suspended owners, which the registry watcher keeps up to date.
    pub fn suspended(&self) -> &SuspendedOwners {
        &self.suspended
    }

    /// The clock that the service reads.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The event to add to a write, if the link's owner wants events.
    fn event(&self, kind: EventKind, owner: OwnerId) -> Option<OutboxEvent> {
        self.events.wants(owner).then(|| OutboxEvent { kind, at: self.clock.now() })
    }

    /// Signals that an event was written. Called once the write is durable.
    fn written(&self, event: Option<OutboxEvent>) {
        if event.is_some() {
            self.events.written();
        }
    }
}
