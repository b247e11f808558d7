//! What a registry must promise.

use std::time::Duration;

use async_trait::async_trait;

use super::account::{Account, AccountChange, AccountName, ForeignIdentity, NewAccount};
use super::audit::{Attribution, AuditAction, AuditEntry};
use super::delivery::{Claim, Delivery, Due, NewEvent, Settlement};
use super::domain_config::{BlockedHost, DomainConfig};
use super::key::{ApiKey, Invitation, KeyId, NewKey, Session, Token};
use super::lease::{JobLease, JobProgress};
use super::report::{AbuseReport, NewReport, ReportId, ReportState, Reported, ReportedLink};
use super::snapshot::RegistrySnapshots;
use super::webhook::{NewWebhook, Webhook, WebhookChange, WebhookId};
use crate::domain::Domain;
use crate::link::{LinkKey, OwnerId, Revision};
use crate::store::StoreError;
use crate::time::Timestamp;

/// What went wrong, by what can be done about it.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Another account has this name, or this identity. Take another.
    #[error("the name is taken")]
    NameTaken,
    /// Somebody changed it in between, or the token is known already. Read it again.
    #[error("it was changed by somebody else")]
    Conflict,
    /// There is no such thing, or it is used up or over.
    #[error("there is no such thing")]
    Missing,
    /// It would leave nobody who may do everything.
    #[error("this is the last admin")]
    LastAdmin,
    /// There are as many as one owner may have.
    #[error("there are too many")]
    TooMany,
    /// The fencing token is not the current one: another node runs the job now. Stop the job.
    #[error("another node holds the lease now")]
    Fenced,
    /// As with the links.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The id of the first account. Those below are nobody's, the operator's, and for what may come.
pub const FIRST_ACCOUNT: OwnerId = OwnerId(1000);
/// How many keys an owner may have.
pub const MAX_KEYS_PER_OWNER: usize = 100;
/// How many sessions an owner may have.
pub const MAX_SESSIONS_PER_OWNER: usize = 50;
/// How long an expired key is kept, so that its owner sees why it stopped working.
pub const EXPIRED_KEY_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// A change of an account, and what it must still be for the change to be made.
#[derive(Clone)]
pub struct ChangeAccount {
    /// Whose.
    pub id: OwnerId,
    /// What.
    pub change: AccountChange,
    /// Only at this revision, if given.
    pub expected: Option<Revision>,
}

/// Which lines of the audit log, the latest first.
#[derive(Clone, Debug, Default)]
pub struct Audits {
    /// Before this place.
    pub before: Option<u64>,
    /// Only about this.
    pub subject: Option<String>,
    /// Only this.
    pub act: Option<AuditAction>,
    /// At most this many.
    pub limit: usize,
}

/// Where owners live. Every implementation runs `terse_testkit::registry!`.
///
/// Every write is one atomic, durable step, together with its line in the audit log where it takes
/// a [`Attribution`]. A write that returns an error other than `Unavailable` changed nothing, and
/// wrote no line; nor does one that finds all as it should be already. What a line says is
/// [`AuditRecord`](super::Line)'s.
#[async_trait]
pub trait Registry: JobLease + JobProgress + RegistrySnapshots {
    /// Remembers the token of the one-time set-up link, in place of an earlier one. `false`, and
    /// nothing is done, if there has ever been an admin.
    async fn offer_setup(&self, token: Token) -> Result<bool, RegistryError>;
    /// Makes the first admin, if the token is the one that was offered. After that, and as soon as
    /// anybody has become an admin in another way, there is no such token any more: `Missing`. The
    /// audit log says that they added themselves.
    async fn take_setup(
        &self,
        token: &Token,
        account: NewAccount,
    ) -> Result<Account, RegistryError>;
    /// Whether a set-up link is waiting to be used.
    async fn awaits_setup(&self) -> Result<bool, RegistryError>;
    /// Whether the set-up link with this token is the one that is waiting.
    async fn awaits_setup_by(&self, token: &Token) -> Result<bool, RegistryError>;

    /// Makes an account with an id that nobody ever had, from [`FIRST_ACCOUNT`] upwards.
    /// `NameTaken` also if the name differs only by case, or if somebody has the identity.
    async fn add_account(
        &self,
        account: NewAccount,
        by: Attribution,
    ) -> Result<Account, RegistryError>;
    /// An account.
    async fn account(&self, id: OwnerId) -> Result<Option<Account>, RegistryError>;
    /// An account by its name, in any case.
    async fn user_named(&self, name: &AccountName) -> Result<Option<Account>, RegistryError>;
    /// An account by who it is elsewhere.
    async fn account_by_identity(
        &self,
        identity: &ForeignIdentity,
    ) -> Result<Option<Account>, RegistryError>;
    /// Up to `limit` accounts behind `after`, the oldest first.
    async fn accounts(
        &self,
        after: Option<OwnerId>,
        limit: usize,
    ) -> Result<Vec<Account>, RegistryError>;
    /// Changes an account and gives back what it is now. Never takes away the last admin who is not
    /// suspended (`LastAdmin`). A new password, a lesser role and a suspension end all its sessions
    /// in the same step. Suspending and reinstating have lines of their own in the audit log and
    /// change the version.
    async fn change_account(
        &self,
        change: ChangeAccount,
        by: Attribution,
    ) -> Result<Account, RegistryError>;
    /// Erases an account with its keys, sessions, invitations and webhooks; `LastAdmin` as above.
    /// Its id and the audit log's lines stay; its name is free again and is taken out of the lines
    /// about it. Its reports stay too, without its words and its id. Changes the version if it was
    /// suspended.
    async fn erase_account(&self, id: OwnerId, by: Attribution) -> Result<(), RegistryError>;
    /// All suspended accounts.
    async fn suspended(&self) -> Result<Vec<OwnerId>, RegistryError>;

    /// Makes a key. At most [`MAX_KEYS_PER_OWNER`] per owner: `TooMany`. `Missing` if there is no
    /// such owner.
    async fn add_key(&self, key: NewKey, by: Attribution) -> Result<ApiKey, RegistryError>;
    /// The key with this token and its owner. Expired keys and suspended owners are returned too:
    /// whether it opens anything is the caller's question.
    async fn key(&self, token: &Token) -> Result<Option<(ApiKey, Account)>, RegistryError>;
    /// An owner's keys, the oldest first.
    async fn keys(&self, owner: OwnerId) -> Result<Vec<ApiKey>, RegistryError>;
    /// Revokes a key of an owner; `Missing` if they have no such key.
    async fn revoke_key(
        &self,
        owner: OwnerId,
        id: KeyId,
        by: Attribution,
    ) -> Result<(), RegistryError>;
    /// Notes when keys were last used. An earlier moment than the one noted changes nothing, nor
    /// does a key that is gone.
    async fn touch_keys(&self, used: &[(KeyId, Timestamp)]) -> Result<(), RegistryError>;

    /// Begins a session, if the account is still at the revision whose password or identity was
    /// checked: else `Conflict`, so that no sign-in outlives a new password. `Missing` if there is
    /// no such account, or it is suspended. At most [`MAX_SESSIONS_PER_OWNER`] per owner: the
    /// oldest makes room.
    async fn add_session(&self, session: Session, seen: Revision) -> Result<(), RegistryError>;
    /// The session with this token, if it has not ended by `now`, and who it is.
    async fn session(
        &self,
        token: &Token,
        now: Timestamp,
    ) -> Result<Option<(Session, Account)>, RegistryError>;
    /// An owner's sessions that have not ended by `now`, the oldest first.
    async fn sessions(&self, owner: OwnerId, now: Timestamp)
    -> Result<Vec<Session>, RegistryError>;
    /// Ends a session. Ending it again is fine.
    async fn end_session(&self, token: &Token) -> Result<(), RegistryError>;
    /// Ends all sessions of an owner but one.
    async fn end_sessions(&self, owner: OwnerId, but: Option<&Token>) -> Result<(), RegistryError>;

    /// Writes an invitation. `Missing` if whoever writes it is neither the operator nor has an
    /// account.
    async fn invite(&self, invitation: Invitation, by: Attribution) -> Result<(), RegistryError>;
    /// Up to `limit` invitations that are neither used up nor over by `now`, the first to end
    /// first.
    async fn invitations(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Invitation>, RegistryError>;
    /// Takes an invitation back; `Missing` if there is no such one.
    async fn revoke_invitation(&self, token: &Token, by: Attribution) -> Result<(), RegistryError>;
    /// Makes an account by an invitation, which is used up by that; the role is the invitation's.
    /// `Missing` if it is used up or over by `account.created_at`, or while whoever wrote it is
    /// suspended or may do less than that role. The audit log says that they added themselves.
    async fn accept(&self, token: &Token, account: NewAccount) -> Result<Account, RegistryError>;

    /// Short domains that were added while running, by name.
    async fn domain_configs(&self) -> Result<Vec<DomainConfig>, RegistryError>;
    /// Adds or changes a short domain. Changes the version.
    async fn put_domain(&self, place: DomainConfig, by: Attribution) -> Result<(), RegistryError>;
    /// Removes a short domain; `Missing` if there is none. Changes the version.
    async fn remove_domain(&self, domain: &Domain, by: Attribution) -> Result<(), RegistryError>;

    /// Hosts that were blocked by hand, by name.
    async fn blocked_hosts(&self) -> Result<Vec<BlockedHost>, RegistryError>;
    /// Blocks a host. Blocking it again is fine, and leaves it as it is. Changes the version.
    async fn block_host(&self, host: BlockedHost, by: Attribution) -> Result<(), RegistryError>;
    /// Unblocks a host; `Missing` if it was not blocked. Changes the version.
    async fn unblock_host(&self, host: &str, by: Attribution) -> Result<(), RegistryError>;

    /// Keeps a report.
    async fn report(&self, report: NewReport) -> Result<Reported, RegistryError>;
    /// Up to `limit` reports in a state behind `after`, the oldest first.
    async fn reports(
        &self,
        state: ReportState,
        after: Option<ReportId>,
        limit: usize,
    ) -> Result<Vec<AbuseReport>, RegistryError>;
    /// Up to `limit` links that have reports in a state, those of one link together, ordered by the
    /// first of them, the oldest first; behind `after`.
    async fn reported(
        &self,
        state: ReportState,
        after: Option<ReportId>,
        limit: usize,
    ) -> Result<Vec<ReportedLink>, RegistryError>;
    /// Settles all open reports about a link, and says how many there were. A line is written if
    /// there were any.
    async fn settle_reports(
        &self,
        link: &LinkKey,
        state: ReportState,
        by: Attribution,
    ) -> Result<u64, RegistryError>;

    /// Makes a webhook. At most [`MAX_WEBHOOKS_PER_OWNER`](super::WEBHOOKS_EACH) per owner:
    /// `TooMany`. `Missing` if the owner is neither the operator nor has an account.
    async fn add_webhook(
        &self,
        webhook: NewWebhook,
        by: Attribution,
    ) -> Result<Webhook, RegistryError>;
    /// An owner's webhooks, the oldest first.
    async fn webhooks(&self, owner: OwnerId) -> Result<Vec<Webhook>, RegistryError>;
    /// Changes a webhook of an owner and gives back what it is now; `Missing` if they have no such
    /// webhook.
    async fn change_webhook(
        &self,
        owner: OwnerId,
        id: WebhookId,
        change: WebhookChange,
        by: Attribution,
    ) -> Result<Webhook, RegistryError>;
    /// Removes a webhook of an owner with all that waits for it; `Missing` if they have no such
    /// webhook.
    async fn remove_webhook(
        &self,
        owner: OwnerId,
        id: WebhookId,
        by: Attribution,
    ) -> Result<(), RegistryError>;
    /// Whoever has a webhook that is switched on.
    async fn owners_with_webhooks(&self) -> Result<Vec<OwnerId>, RegistryError>;
    /// Makes one delivery of an event for each webhook that it [concerns](NewEvent::concerns), and
    /// says for how many. Of more than [`MAX_WAITING_PER_WEBHOOK`](super::WAITING_EACH) that wait,
    /// the oldest go and are counted.
    async fn enqueue(&self, event: NewEvent) -> Result<u64, RegistryError>;
    /// Deliveries that are due: of each webhook the one that is longest due, and no other. A
    /// webhook is lent to one who asks, until that delivery is settled or the lease is over.
    /// Nothing is given of webhooks that are off and of owners who are suspended.
    async fn due(&self, claim: Claim) -> Result<Vec<Due>, RegistryError>;
    /// Writes what became of an attempt, and ends the loan. `false`, and nothing is written, if the
    /// loan is not the last one any more or the delivery is gone. Of those settled the last
    /// [`MAX_SETTLED_PER_WEBHOOK`](super::SETTLED_EACH) are kept.
    async fn settle(&self, settlement: Settlement) -> Result<bool, RegistryError>;
    /// Up to `limit` deliveries of a webhook of an owner, the latest first; `Missing` if they have
    /// no such webhook.
    async fn deliveries(
        &self,
        owner: OwnerId,
        id: WebhookId,
        limit: usize,
    ) -> Result<Vec<Delivery>, RegistryError>;

    /// Writes a line about something that happened elsewhere, such as to a link.
    async fn note(
        &self,
        act: AuditAction,
        subject: &str,
        change: (Option<String>, Option<String>),
        by: Attribution,
    ) -> Result<(), RegistryError>;
    /// Lines of the audit log.
    async fn audit(&self, query: &Audits) -> Result<Vec<AuditEntry>, RegistryError>;

    /// Deletes up to `limit` of what is over by `now`: sessions, invitations, keys that expired
    /// [`EXPIRED_KEY_RETENTION`] before, settled reports and deliveries and lines of the audit log
    /// older than `keep`. Says how many.
    async fn prune(
        &self,
        now: Timestamp,
        keep: Duration,
        limit: usize,
    ) -> Result<u64, RegistryError>;

    /// Whether writes can be expected to succeed right now.
    async fn check(&self) -> Result<(), RegistryError>;
}
