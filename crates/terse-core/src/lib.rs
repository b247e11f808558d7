//! Domain types, rules, services and contracts of terse.
//!
//! Links, targets, aliases and codes; the outcome of a visit; the services behind the API, the
//! dashboard and the command line; and the contracts that stores implement. The crate does no I/O:
//! no files, sockets, HTTP or SQL. Callers pass in the time.

pub mod accounts;
mod aliases;
mod branding;
mod certificate_status;
mod changes;
pub mod clicks;
mod clock;
mod clock_guard;
mod code;
mod codes;
mod colour;
mod create_link;
mod domain;
mod domain_check;
mod edge;
mod events;
mod host;
mod http_client;
mod human_duration;
mod identity;
pub mod import_file;
mod insert;
pub mod job;
mod job_board;
mod join_all;
pub mod limits;
mod link;
pub mod link_codec;
mod link_reader;
mod links;
mod listen_address;
mod log_limit;
mod mail;
pub mod metrics;
pub mod moderation;
mod notices;
mod object_storage;
mod operator;
mod outbox;
mod outcome;
mod page_language;
mod password;
mod patch;
mod principal;
mod proxies;
pub mod registry;
mod removals;
pub mod rules;
mod screening;
mod secret;
mod self_check;
mod social_preview;
mod store;
mod system_info;
mod target;
mod text;
mod time;
mod traces;
pub mod transfer;
mod validation;
pub mod webhooks;

pub use aliases::UnwantedAliases;
pub use branding::{
    AccentColour, Branding, EffectiveOperator, FooterLink, MAX_BRANDING_LOGO, MAX_FOOTER_LABEL,
    MAX_FOOTER_LINKS,
};
pub use certificate_status::{CertificateState, CertificateStatus, NoCertificates};
pub use changes::{
    CHANGES_KEPT, ChangeCallback, ChangeCursor, ChangeFeed, ChangeFollower, ChangePage, LinkChange,
    NoRouteCache, RouteCache, SharedCache,
};
pub use clock::Clock;
pub use clock_guard::{ClockGuard, ClockProblem};
pub use code::{AliasMinimum, Code, is_reserved};
pub use codes::{
    Alphabet, CodeRequest, CodeSource, CodeSourceError, HashedCodes, LeaseMarks, MAX_CODE_LENGTH,
    MIN_CODE_LENGTH, NumberedCodes, Numbering, RandomCodes, SnowflakeCodes,
};
pub use colour::Colour;
pub use create_link::{CreateBounds, CreateLink, NewLink};
pub use domain::{Domain, Hosts};
pub use domain_check::{
    DnsState, DomainChecks, ExpectedAddresses, LookupFailed, NameLookup, NoLookup,
};
pub use edge::{EdgeCache, OwnerTags, Purge, PurgeError, code_tag, link_tag};
pub use events::{LinkEvents, NoEvents};
pub use host::{BlockedHosts, canonical_host, is_public_address, is_public_name};
pub use http_client::{
    ExchangeMethod, ExchangeRequest, ExchangeResponse, GetResponse, HttpClient, HttpExchange,
    OutgoingError, OversizePolicy, PostResponse, RequestLimits, Validators,
};
pub use human_duration::HumanDuration;
pub use identity::{CodeHash, StoreIdentity};
pub use insert::{FoldedAlias, IdempotencyKey, Insert, InsertCondition, Inserted, ReuseKey};
pub use job_board::{JobBoard, JobRun, JobStatus, RunJobError};
pub use link::{
    Link, LinkKey, LinkStatus, ModerationSource, ModerationStatus, OwnerId, RedirectKind, Revision,
};
pub use link_reader::{AbsenceCertainty, ClickSpend, ClickSpender, LinkReader};
pub use links::{
    BusiestLink, Caller, CreateGrant, CreateMetrics, CreateResult, Created, Creator, ImportError,
    ImportLink, ImportOptions, ImportPhase, ImportPreview, ImportProgress, ImportRowConflict,
    ImportRowKey, Imports, LinkCreation, LinkDraft, LinkError, LinkPolicy, Links, Listing,
    MAX_IMPORT_FILE, MAX_LINKS_PER_REQUEST, MAX_PASSWORDS_PER_REQUEST, MAX_TAG_REPORT_LINKS,
    OwnerFilter, PublicLinks, RetagProgress, SampleRow, SeenImportRows, TagClicks, TagReport,
};
pub use listen_address::ListenAddress;
pub use log_limit::LogLimit;
pub use mail::{EmailAddress, Mail, MailError, MailQueue, MailRequest, MailTransport, QueuedMail};
pub use notices::Notices;
pub use object_storage::ObjectStorage;
pub use operator::{Contact, Logo, MAX_CONTACT, Operator, OperatorName, PageUrl};
pub use outbox::{
    DrainedPage, EventId, LaterEntry, Outbox, OutboxDrain, OutboxEntry, OutboxEvent, OutboxPage,
    OutboxRow,
};
pub use outcome::{Answered, ExceededLimit, VisitDecision};
pub use page_language::PageLanguage;
pub use password::{MAX_PASSWORD_LEN, NoPasswords, PasswordError, PasswordHash, PasswordHasher};
pub use patch::{LinkPatch, MAX_TTL, PatchField};
pub use principal::{AccessError, Credential, Principal};
pub use proxies::{Proxies, ProxyRange};
pub use removals::Removals;
pub use screening::{
    EntryKind, LinkFlags, ListMatch, ListStatus, NoScreening, REPORTED, ScreenInput, ScreenResult,
    Screening, UNREACHABLE, UNSCREENED,
};
pub use secret::Secret;
pub use self_check::{CheckResult, Finding, NoSelfCheck, SelfCheck, self_check};
pub use social_preview::{
    MAX_PREVIEW_DESCRIPTION, MAX_PREVIEW_IMAGE_URL, MAX_PREVIEW_TITLE, RawPreview, SocialPreview,
};
pub use store::{
    BoxError, CodeLease, Cursor, LinkPage, LinkStore, LinkVersion, ListQuery, MAX_REVISIONS,
    MAX_SEARCH_LENGTH, PurgeBefore, Sort, StoreError, TagCount, Updated,
};
pub use system_info::{
    NoSystemInfo, SettingInForce, StoredSize, SystemInfo, SystemReport, system_report,
};
pub use target::{Target, TargetRules, is_bad_port};
pub use text::{Notes, Tags, Title};
pub use time::{Timestamp, TimestampError};
pub use traces::TRACE_TARGET;
pub use validation::{ValidationError, ValidationErrorKind};
