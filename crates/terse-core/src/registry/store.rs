//! What a registry must promise.

use std::time::Duration;

use async_trait::async_trait;

use super::account::{ForeignIdentity, NewUser, User, UserChange, UserName};
use super::audit::{Act, AuditEntry, By};
use super::delivery::{Claim, Delivery, Due, NewEvent, Settlement};
use super::key::{ApiKey, Invitation, KeyId, NewKey, Session, Token};
use super::place::{BlockedHost, Place};
use super::report::{NewReport, Report, ReportId, ReportState, Reported, ReportedLink};
use super::webhook::{NewWebhook, Webhook, WebhookChange, WebhookId};
use crate::domain::Domain;
use crate::link::{LinkKey, OwnerId, Revision};
use crate::store::StoreError;
use crate::when::Moment;

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
    /// As with the links.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The id of the first account. Those below are nobody's, the operator's, and for what may come.
pub const FIRST_USER: OwnerId = OwnerId(1000);
/// How many keys an owner may have.
pub const KEYS_EACH: usize = 100;
/// How many sessions an owner may have.
pub const SESSIONS_EACH: usize = 50;
/// How long an expired key is kept, so that its owner sees why it stopped working.
pub const KEPT_WHEN_EXPIRED: Duration = Duration::from_secs(30 * 24 * 3600);

/// Which change of the registry was the last that those who answer visitors must know of: suspended owners, blocked hosts, short
/// domains. Whoever knows an older one reads these again.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Watermark(pub u64);

/// A change of an account, and what it must still be for the change to be made.
#[derive(Clone)]
pub struct Change {
    /// Whose.
    pub id: OwnerId,
    /// What.
    pub change: UserChange,
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
    pub act: Option<Act>,
    /// At most this many.
    pub limit: usize,
}

/// Where owners live. Every implementation runs `terse_testkit::registry!`.
///
/// Every write is one atomic, durable step, together with its line in the audit log where it takes a [`By`]. A write that returns
/// an error other than `Unavailable` changed nothing, and wrote no line; nor does one that finds all as it should be already.
/// What a line says is [`Line`](super::Line)'s.
#[async_trait]
pub trait Registry: Send + Sync + 'static {
    /// The last change that those who answer visitors must know of. Cheap: asked every few seconds by everyone.
    async fn watermark(&self) -> Result<Watermark, RegistryError>;

    /// Remembers the token of the one-time set-up link, in place of an earlier one. `false`, and nothing is done, if there has
    /// ever been an admin.
    async fn offer_setup(&self, token: Token) -> Result<bool, RegistryError>;
    /// Makes the first admin, if the token is the one that was offered. After that, and as soon as anybody has become an admin
    /// in another way, there is no such token any more: `Missing`. The audit log says that they added themselves.
    async fn take_setup(&self, token: &Token, user: NewUser) -> Result<User, RegistryError>;
    /// Whether a set-up link is waiting to be used.
    async fn awaits_setup(&self) -> Result<bool, RegistryError>;
    /// Whether the set-up link with this token is the one that is waiting.
    async fn awaits_setup_by(&self, token: &Token) -> Result<bool, RegistryError>;

    /// Makes an account with an id that nobody ever had, from [`FIRST_USER`] upwards. `NameTaken` also if the name differs only by case, or if somebody has the identity.
    async fn add_user(&self, user: NewUser, by: By) -> Result<User, RegistryError>;
    /// An account.
    async fn user(&self, id: OwnerId) -> Result<Option<User>, RegistryError>;
    /// An account by its name, in any case.
    async fn user_named(&self, name: &UserName) -> Result<Option<User>, RegistryError>;
    /// An account by who it is elsewhere.
    async fn user_known_as(&self, identity: &ForeignIdentity) -> Result<Option<User>, RegistryError>;
    /// Up to `limit` accounts behind `after`, the oldest first.
    async fn users(&self, after: Option<OwnerId>, limit: usize) -> Result<Vec<User>, RegistryError>;
    /// Changes an account and gives back what it is now. Never takes away the last admin who is not suspended (`LastAdmin`). A
    /// new password, a lesser role and a suspension end all its sessions in the same step. Suspending and reinstating have
    /// lines of their own in the audit log and move the watermark.
    async fn change_user(&self, change: Change, by: By) -> Result<User, RegistryError>;
    /// Erases an account with its keys, sessions, invitations and webhooks; `LastAdmin` as above. Its id and the audit log's lines stay; its
    /// name is free again and is taken out of the lines about it. Its reports stay too, without its words and its id. Moves the watermark if it was suspended.
    async fn erase_user(&self, id: OwnerId, by: By) -> Result<(), RegistryError>;
    /// All suspended accounts.
    async fn suspended(&self) -> Result<Vec<OwnerId>, RegistryError>;

    /// Makes a key. At most [`KEYS_EACH`] per owner: `TooMany`. `Missing` if there is no such owner.
    async fn add_key(&self, key: NewKey, by: By) -> Result<ApiKey, RegistryError>;
    /// The key with this token and its owner. Expired keys and suspended owners are returned too: whether it opens anything is the
    /// caller's question.
    async fn key(&self, token: &Token) -> Result<Option<(ApiKey, User)>, RegistryError>;
    /// An owner's keys, the oldest first.
    async fn keys(&self, owner: OwnerId) -> Result<Vec<ApiKey>, RegistryError>;
    /// Revokes a key of an owner; `Missing` if they have no such key.
    async fn revoke_key(&self, owner: OwnerId, id: KeyId, by: By) -> Result<(), RegistryError>;
    /// Notes when keys were last used. An earlier moment than the one noted changes nothing, nor does a key that is gone.
    async fn touch_keys(&self, used: &[(KeyId, Moment)]) -> Result<(), RegistryError>;

    /// Begins a session, if the account is still at the revision whose password or identity was checked: else `Conflict`, so that
    /// no sign-in outlives a new password. `Missing` if there is no such account, or it is suspended. At most
    /// [`SESSIONS_EACH`] per owner: the oldest makes room.
    async fn add_session(&self, session: Session, seen: Revision) -> Result<(), RegistryError>;
    /// The session with this token, if it has not ended by `now`, and who it is.
    async fn session(&self, token: &Token, now: Moment) -> Result<Option<(Session, User)>, RegistryError>;
    /// An owner's sessions that have not ended by `now`, the oldest first.
    async fn sessions(&self, owner: OwnerId, now: Moment) -> Result<Vec<Session>, RegistryError>;
    /// Ends a session. Ending it again is fine.
    async fn end_session(&self, token: &Token) -> Result<(), RegistryError>;
    /// Ends all sessions of an owner but one.
    async fn end_sessions(&self, owner: OwnerId, but: Option<&Token>) -> Result<(), RegistryError>;

    /// Writes an invitation. `Missing` if whoever writes it is neither the operator nor has an account.
    async fn invite(&self, invitation: Invitation, by: By) -> Result<(), RegistryError>;
    /// Up to `limit` invitations that are neither used up nor over by `now`, the first to end first.
    async fn invitations(&self, now: Moment, limit: usize) -> Result<Vec<Invitation>, RegistryError>;
    /// Takes an invitation back; `Missing` if there is no such one.
    async fn revoke_invitation(&self, token: &Token, by: By) -> Result<(), RegistryError>;
    /// Makes an account by an invitation, which is used up by that; the role is the invitation's. `Missing` if it is used up or
    /// over by `user.created_at`, or while whoever wrote it is suspended or may do less than that role. The audit log says
    /// that they added themselves.
    async fn accept(&self, token: &Token, user: NewUser) -> Result<User, RegistryError>;

    /// Short domains that were added while running, by name.
    async fn places(&self) -> Result<Vec<Place>, RegistryError>;
    /// Adds or changes a short domain. Moves the watermark.
    async fn put_place(&self, place: Place, by: By) -> Result<(), RegistryError>;
    /// Removes a short domain; `Missing` if there is none. Moves the watermark.
    async fn remove_place(&self, domain: &Domain, by: By) -> Result<(), RegistryError>;

    /// Hosts that were blocked by hand, by name.
    async fn blocked_hosts(&self) -> Result<Vec<BlockedHost>, RegistryError>;
    /// Blocks a host. Blocking it again is fine, and leaves it as it is. Moves the watermark.
    async fn block_host(&self, host: BlockedHost, by: By) -> Result<(), RegistryError>;
    /// Unblocks a host; `Missing` if it was not blocked. Moves the watermark.
    async fn unblock_host(&self, host: &str, by: By) -> Result<(), RegistryError>;

    /// Keeps a report.
    async fn report(&self, report: NewReport) -> Result<Reported, RegistryError>;
    /// Up to `limit` reports in a state behind `after`, the oldest first.
    async fn reports(&self, state: ReportState, after: Option<ReportId>, limit: usize) -> Result<Vec<Report>, RegistryError>;
    /// Up to `limit` links that have reports in a state, those of one link together, ordered by the first of them, the oldest
    /// first; behind `after`.
    async fn reported(
        &self,
        state: ReportState,
        after: Option<ReportId>,
        limit: usize,
    ) -> Result<Vec<ReportedLink>, RegistryError>;
    /// Settles all open reports about a link, and says how many there were. A line is written if there were any.
    async fn settle_reports(&self, link: &LinkKey, state: ReportState, by: By) -> Result<u64, RegistryError>;

    /// Makes a webhook. At most [`WEBHOOKS_EACH`](super::WEBHOOKS_EACH) per owner: `TooMany`. `Missing` if the owner is neither the
    /// operator nor has an account.
    async fn add_webhook(&self, webhook: NewWebhook, by: By) -> Result<Webhook, RegistryError>;
    /// An owner's webhooks, the oldest first.
    async fn webhooks(&self, owner: OwnerId) -> Result<Vec<Webhook>, RegistryError>;
    /// Changes a webhook of an owner and gives back what it is now; `Missing` if they have no such webhook.
    async fn change_webhook(
        &self,
        owner: OwnerId,
        id: WebhookId,
        change: WebhookChange,
        by: By,
    ) -> Result<Webhook, RegistryError>;
    /// Removes a webhook of an owner with all that waits for it; `Missing` if they have no such webhook.
    async fn remove_webhook(&self, owner: OwnerId, id: WebhookId, by: By) -> Result<(), RegistryError>;
    /// Whoever has a webhook that is switched on.
    async fn hooked_owners(&self) -> Result<Vec<OwnerId>, RegistryError>;
    /// Makes one delivery of an event for each webhook that it [concerns](NewEvent::concerns), and says for how many. Of more than
    /// [`WAITING_EACH`](super::WAITING_EACH) that wait, the oldest go and are counted.
    async fn enqueue(&self, event: NewEvent) -> Result<u64, RegistryError>;
    /// Deliveries that are due: of each webhook the one that is longest due, and no other. A webhook is lent to one who asks, until
    /// that delivery is settled or the lease is over. Nothing is given of webhooks that are off and of owners who are suspended.
    async fn due(&self, claim: Claim) -> Result<Vec<Due>, RegistryError>;
    /// Writes what became of an attempt, and ends the loan. `false`, and nothing is written, if the loan is not the last one any
    /// more or the delivery is gone. Of those settled the last [`SETTLED_EACH`](super::SETTLED_EACH) are kept.
    async fn settle(&self, settlement: Settlement) -> Result<bool, RegistryError>;
    /// Up to `limit` deliveries of a webhook of an owner, the latest first; `Missing` if they have no such webhook.
    async fn deliveries(&self, owner: OwnerId, id: WebhookId, limit: usize) -> Result<Vec<Delivery>, RegistryError>;

    /// Writes a line about something that happened elsewhere, such as to a link.
    async fn note(&self, act: Act, subject: &str, change: (Option<String>, Option<String>), by: By) -> Result<(), RegistryError>;
    /// Lines of the audit log.
    async fn audit(&self, query: &Audits) -> Result<Vec<AuditEntry>, RegistryError>;

    /// Deletes up to `limit` of what is over by `now`: sessions, invitations, keys that expired [`KEPT_WHEN_EXPIRED`] before,
    /// settled reports and deliveries and lines of the audit log older than `keep`. Says how many.
    async fn tidy(&self, now: Moment, keep: Duration, limit: usize) -> Result<u64, RegistryError>;

    /// Whether writes can be expected to succeed right now.
    async fn check(&self) -> Result<(), RegistryError>;
}
