//! The registry, as everyone else sees it.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use terse_core::registry::{
    Act, ApiKey, AuditEntry, Audits, BlockedHost, By, Change, Claim, Delivery, Due, ForeignIdentity, Invitation, KeyId, NewEvent,
    NewKey, NewReport, NewUser, NewWebhook, Place, Registry, RegistryError, Report, ReportId, ReportState, Reported,
    ReportedLink, Session, Settlement, Token, User, UserName, Watermark, Webhook, WebhookChange, WebhookId,
};
use terse_core::{Domain, LinkKey, Moment, OwnerId, Revision};

use crate::backup::BackupError;
use crate::crew::{Crew, Hall};
use crate::engine::{self, Site};
use crate::failure::Failure;
use crate::options::OpenError;
use crate::registry::options::RegistryOptions;
use crate::registry::outbox::RECALL;
use crate::registry::schema::REGISTRY;
use crate::registry::scribe::{Scribe, Trouble};
use crate::registry::shelf::Shelf;
use crate::trade::Trade;

const PATIENCE: Duration = Duration::from_secs(5);
/// How many lookups may wait, and how many share one read transaction.
const LOOKUPS: usize = 4096;
const AT_ONCE: usize = 64;
/// How many lists may wait.
const LISTS: usize = 256;
const LOOK: usize = 0;
const LIST: usize = 1;
/// Chores are done in steps of this many rows, so that nobody waits long behind one.
const STEP: usize = 1000;

type Answer<T> = Result<T, RegistryError>;

/// Owners in one SQLite file. Dropping it finishes what is waiting.
pub struct EmbeddedRegistry {
    site: Site,
    crew: Crew<Owners>,
}

/// What the threads of this registry know.
#[derive(Clone)]
pub(crate) struct Owners {
    site: Site,
}

impl Trade for Owners {
    type Shelf = Shelf;
    type Scribe = Scribe;
    const NAME: &'static str = "registry";
    const WRITES_AT_ONCE: usize = 256;
    const CHECKPOINT_PAGES: u32 = 1000;

    fn site(&self) -> &Site {
        &self.site
    }

    fn shelf(&self, conn: Connection) -> Shelf {
        Shelf { conn }
    }

    fn scribe(&self, conn: Connection) -> rusqlite::Result<Scribe> {
        Scribe::new(self.shelf(conn))
    }
}

impl EmbeddedRegistry {
    /// Opens the registry, making it if it is missing. May take a moment; not for async threads.
    pub fn open(options: RegistryOptions) -> Result<Self, OpenError> {
        let site = options.site();
        let conn = REGISTRY.open(&site)?;
        engine::sync_folder_of(&site.path)?;
        // A file has one process at a time: whoever was to send something is gone.
        conn.execute(RECALL, [])?;
        // A long list never delays a key.
        let halls = [
            Hall { name: "look", threads: options.readers.max(1), bound: LOOKUPS, at_once: AT_ONCE },
            Hall { name: "list", threads: 1, bound: LISTS, at_once: 1 },
        ];
        let crew = Crew::start(&Owners { site: site.clone() }, options.queue, PATIENCE, &halls)?;
        // Only now, so that the log is never cleaned away between two connections.
        drop(conn);
        Ok(Self { site, crew })
    }

    /// Finishes what is waiting and lets go of the file. Later calls are answered `Unavailable`. Blocks meanwhile.
    pub fn close(&self) {
        self.crew.close();
    }

    /// How many writes are waiting.
    pub fn queue_depth(&self) -> usize {
        self.crew.queue_depth()
    }

    /// How many bytes the registry takes on the disk, its log included.
    pub fn disk_size(&self) -> u64 {
        self.site.disk_size()
    }

    /// Copies the registry as it is now into a new file, while everyone goes on working. Blocks for as long as it takes.
    pub fn backup(&self, to: &Path) -> Result<(), BackupError> {
        crate::backup::backup(&self.site.path, to)
    }

    async fn look<A: Send + 'static>(&self, work: impl FnOnce(&Shelf) -> Result<A, Failure> + Send + 'static) -> Answer<A> {
        Ok(self.crew.read(LOOK, work).await?)
    }

    async fn list<A: Send + 'static>(&self, work: impl FnOnce(&Shelf) -> Result<A, Failure> + Send + 'static) -> Answer<A> {
        Ok(self.crew.read(LIST, work).await?)
    }

    async fn write<A: Send + 'static>(&self, work: impl Fn(&Scribe) -> Result<A, Trouble> + Send + 'static) -> Answer<A> {
        self.crew.write(move |scribe| scribe.step(&work)).await?
    }
}

impl std::fmt::Debug for EmbeddedRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedRegistry").field("path", &self.site.path).finish_non_exhaustive()
    }
}

#[async_trait]
impl Registry for EmbeddedRegistry {
    async fn watermark(&self) -> Answer<Watermark> {
        self.look(Shelf::watermark).await
    }

    async fn offer_setup(&self, token: Token) -> Answer<bool> {
        self.write(move |scribe| scribe.offer_setup(&token)).await
    }

    async fn take_setup(&self, token: &Token, user: NewUser) -> Answer<User> {
        let token = *token;
        self.write(move |scribe| scribe.take_setup(&token, &user)).await
    }

    async fn awaits_setup(&self) -> Answer<bool> {
        self.look(|shelf| Ok(shelf.setup()?.is_some())).await
    }

    async fn awaits_setup_by(&self, token: &Token) -> Answer<bool> {
        let token = *token;
        self.look(move |shelf| Ok(shelf.setup()? == Some(token))).await
    }

    async fn add_user(&self, user: NewUser, by: By) -> Answer<User> {
        self.write(move |scribe| scribe.add_user(&user, &by)).await
    }

    async fn user(&self, id: OwnerId) -> Answer<Option<User>> {
        self.look(move |shelf| shelf.user(id)).await
    }

    async fn user_named(&self, name: &UserName) -> Answer<Option<User>> {
        let name = name.clone();
        self.look(move |shelf| shelf.user_named(&name)).await
    }

    async fn user_known_as(&self, identity: &ForeignIdentity) -> Answer<Option<User>> {
        let identity = identity.clone();
        self.look(move |shelf| shelf.user_known_as(&identity)).await
    }

    async fn users(&self, after: Option<OwnerId>, limit: usize) -> Answer<Vec<User>> {
        self.list(move |shelf| shelf.users(after, limit)).await
    }

    async fn change_user(&self, change: Change, by: By) -> Answer<User> {
        self.write(move |scribe| scribe.change_user(&change, &by)).await
    }

    async fn erase_user(&self, id: OwnerId, by: By) -> Answer<()> {
        self.write(move |scribe| scribe.erase_user(id, &by)).await
    }

    async fn suspended(&self) -> Answer<Vec<OwnerId>> {
        self.list(Shelf::suspended).await
    }

    async fn add_key(&self, key: NewKey, by: By) -> Answer<ApiKey> {
        self.write(move |scribe| scribe.add_key(&key, &by)).await
    }

    async fn key(&self, token: &Token) -> Answer<Option<(ApiKey, User)>> {
        let token = *token;
        self.look(move |shelf| shelf.key(&token)).await
    }

    async fn keys(&self, owner: OwnerId) -> Answer<Vec<ApiKey>> {
        self.list(move |shelf| shelf.keys(owner)).await
    }

    async fn revoke_key(&self, owner: OwnerId, id: KeyId, by: By) -> Answer<()> {
        self.write(move |scribe| scribe.revoke_key(owner, id, &by)).await
    }

    async fn touch_keys(&self, used: &[(KeyId, Moment)]) -> Answer<()> {
        // Each step is whole; that some were noted before others matters to nobody.
        for some in used.chunks(STEP) {
            let some = some.to_vec();
            self.write(move |scribe| scribe.touch_keys(&some)).await?;
        }
        Ok(())
    }

    async fn add_session(&self, session: Session, seen: Revision) -> Answer<()> {
        self.write(move |scribe| scribe.add_session(&session, seen)).await
    }

    async fn session(&self, token: &Token, now: Moment) -> Answer<Option<(Session, User)>> {
        let token = *token;
        self.look(move |shelf| shelf.session(&token, now)).await
    }

    async fn sessions(&self, owner: OwnerId, now: Moment) -> Answer<Vec<Session>> {
        self.list(move |shelf| shelf.sessions(owner, now)).await
    }

    async fn end_session(&self, token: &Token) -> Answer<()> {
        let token = *token;
        self.write(move |scribe| scribe.end_session(&token)).await
    }

    async fn end_sessions(&self, owner: OwnerId, but: Option<&Token>) -> Answer<()> {
        let but = but.copied();
        self.write(move |scribe| scribe.end_sessions(owner, but.as_ref())).await
    }

    async fn invite(&self, invitation: Invitation, by: By) -> Answer<()> {
        self.write(move |scribe| scribe.invite(&invitation, &by)).await
    }

    async fn invitations(&self, now: Moment, limit: usize) -> Answer<Vec<Invitation>> {
        self.list(move |shelf| shelf.invitations(now, limit)).await
    }

    async fn revoke_invitation(&self, token: &Token, by: By) -> Answer<()> {
        let token = *token;
        self.write(move |scribe| scribe.revoke_invitation(&token, &by)).await
    }

    async fn accept(&self, token: &Token, user: NewUser) -> Answer<User> {
        let token = *token;
        self.write(move |scribe| scribe.accept(&token, &user)).await
    }

    async fn places(&self) -> Answer<Vec<Place>> {
        self.list(Shelf::places).await
    }

    async fn put_place(&self, place: Place, by: By) -> Answer<()> {
        self.write(move |scribe| scribe.put_place(&place, &by)).await
    }

    async fn remove_place(&self, domain: &Domain, by: By) -> Answer<()> {
        let domain = domain.clone();
        self.write(move |scribe| scribe.remove_place(&domain, &by)).await
    }

    async fn blocked_hosts(&self) -> Answer<Vec<BlockedHost>> {
        self.list(Shelf::blocked_hosts).await
    }

    async fn block_host(&self, host: BlockedHost, by: By) -> Answer<()> {
        self.write(move |scribe| scribe.block_host(&host, &by)).await
    }

    async fn unblock_host(&self, host: &str, by: By) -> Answer<()> {
        let host = host.to_owned();
        self.write(move |scribe| scribe.unblock_host(&host, &by)).await
    }

    async fn report(&self, report: NewReport) -> Answer<Reported> {
        self.write(move |scribe| scribe.report(&report)).await
    }

    async fn reports(&self, state: ReportState, after: Option<ReportId>, limit: usize) -> Answer<Vec<Report>> {
        self.list(move |shelf| shelf.reports(state, after, limit)).await
    }

    async fn reported(&self, state: ReportState, after: Option<ReportId>, limit: usize) -> Answer<Vec<ReportedLink>> {
        self.list(move |shelf| shelf.reported(state, after, limit)).await
    }

    async fn settle_reports(&self, link: &LinkKey, state: ReportState, by: By) -> Answer<u64> {
        let link = link.clone();
        self.write(move |scribe| scribe.settle_reports(&link, state, &by)).await
    }

    async fn add_webhook(&self, webhook: NewWebhook, by: By) -> Answer<Webhook> {
        self.write(move |scribe| scribe.add_webhook(&webhook, &by)).await
    }

    async fn webhooks(&self, owner: OwnerId) -> Answer<Vec<Webhook>> {
        self.list(move |shelf| shelf.webhooks(owner)).await
    }

    async fn change_webhook(&self, owner: OwnerId, id: WebhookId, change: WebhookChange, by: By) -> Answer<Webhook> {
        self.write(move |scribe| scribe.change_webhook(owner, id, &change, &by)).await
    }

    async fn remove_webhook(&self, owner: OwnerId, id: WebhookId, by: By) -> Answer<()> {
        self.write(move |scribe| scribe.remove_webhook(owner, id, &by)).await
    }

    async fn hooked_owners(&self) -> Answer<Vec<OwnerId>> {
        self.list(Shelf::hooked_owners).await
    }

    async fn enqueue(&self, event: NewEvent) -> Answer<u64> {
        self.write(move |scribe| scribe.enqueue(&event)).await
    }

    async fn due(&self, claim: Claim) -> Answer<Vec<Due>> {
        // Asked all the time, and mostly in vain: that is not worth a place among the writes.
        let any = self.list(move |shelf| shelf.ready(&Claim { limit: claim.limit.min(1), ..claim })).await?;
        match any.is_empty() {
            true => Ok(Vec::new()),
            false => self.write(move |scribe| scribe.due(&claim)).await,
        }
    }

    async fn settle(&self, settlement: Settlement) -> Answer<bool> {
        self.write(move |scribe| scribe.settle(&settlement)).await
    }

    async fn deliveries(&self, owner: OwnerId, id: WebhookId, limit: usize) -> Answer<Vec<Delivery>> {
        self.list(move |shelf| shelf.deliveries(owner, id, limit)).await?.ok_or(RegistryError::Missing)
    }

    async fn note(&self, act: Act, subject: &str, change: (Option<String>, Option<String>), by: By) -> Answer<()> {
        let subject = subject.to_owned();
        self.write(move |scribe| scribe.note(act, &subject, change.clone(), &by)).await
    }

    async fn audit(&self, query: &Audits) -> Answer<Vec<AuditEntry>> {
        let query = query.clone();
        self.list(move |shelf| shelf.audit(&query)).await
    }

    async fn tidy(&self, now: Moment, keep: Duration, limit: usize) -> Answer<u64> {
        let mut left = limit;
        while left > 0 {
            let step = left.min(STEP);
            let done = self.write(move |scribe| scribe.tidy(now, keep, step)).await?;
            left -= done;
            if done < step {
                break;
            }
        }
        Ok((limit - left) as u64)
    }

    async fn check(&self) -> Answer<()> {
        Ok(self.crew.check()?)
    }
}
