//! The registry, as everyone else sees it.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use terse_core::registry::{
    AbuseReport, Account, AccountName, ApiKey, Attribution, AuditAction, AuditEntry, Audits,
    BlockedHost, ChangeAccount, Claim, Delivery, DomainConfig, Due, ForeignIdentity, Invitation,
    KeyId, NewAccount, NewEvent, NewKey, NewReport, NewWebhook, Registry, RegistryError, ReportId,
    ReportState, Reported, ReportedLink, Session, Settlement, Token, Webhook, WebhookChange,
    WebhookId,
};
use terse_core::{Domain, LinkKey, OwnerId, Revision, Timestamp};

use crate::backup::BackupError;
use crate::database::Database;
use crate::engine::{self, DbLocation};
use crate::failure::Failure;
use crate::options::OpenError;
use crate::registry::options::RegistryOptions;
use crate::registry::outbox::RECALL;
use crate::registry::queries::RegistryQueries;
use crate::registry::schema::REGISTRY;
use crate::registry::writes::{RegistryWrites, WriteError};
use crate::threads::{ReadPool, StoreThreads};

const TIMEOUT: Duration = Duration::from_secs(5);
/// How many lookups may wait, and how many share one read transaction.
const LOOKUPS: usize = 4096;
const AT_ONCE: usize = 64;
/// How many lists may wait.
const LISTS: usize = 256;
const LOOKUP_CONNECTION: usize = 0;
const LIST: usize = 1;
/// Chores are done in steps of this many rows, so that nobody waits long behind one.
const BATCH: usize = 1000;

pub(crate) type Answer<T> = Result<T, RegistryError>;

/// Owners in one SQLite file. Dropping it finishes what is waiting.
pub struct EmbeddedRegistry {
    site: DbLocation,
    threads: StoreThreads<Owners>,
}

/// What the threads of this registry know.
#[derive(Clone)]
pub(crate) struct Owners {
    site: DbLocation,
}

impl Database for Owners {
    type Queries = RegistryQueries;
    type Writes = RegistryWrites;
    const NAME: &'static str = "registry";
    const MAX_WRITES_PER_COMMIT: usize = 256;
    const CHECKPOINT_PAGES: u32 = 1000;

    fn site(&self) -> &DbLocation {
        &self.site
    }

    fn queries(&self, conn: Connection) -> RegistryQueries {
        RegistryQueries { conn }
    }

    fn writes(&self, conn: Connection) -> rusqlite::Result<RegistryWrites> {
        RegistryWrites::new(self.queries(conn))
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
        let pools = [
            ReadPool {
                name: "look",
                threads: options.readers.max(1),
                bound: LOOKUPS,
                at_once: AT_ONCE,
            },
            ReadPool { name: "list", threads: 1, bound: LISTS, at_once: 1 },
        ];
        let threads =
            StoreThreads::start(&Owners { site: site.clone() }, options.queue, TIMEOUT, &pools)?;
        // Only now, so that the log is never cleaned away between two connections.
        drop(conn);
        Ok(Self { site, threads })
    }

    /// Finishes what is waiting and lets go of the file. Later calls are answered `Unavailable`.
    /// Blocks meanwhile.
    pub fn close(&self) {
        self.threads.close();
    }

    /// How many writes are waiting.
    pub fn queue_depth(&self) -> usize {
        self.threads.queue_depth()
    }

    /// How many bytes the registry takes on the disk, its log included.
    pub fn disk_size(&self) -> u64 {
        self.site.disk_size()
    }

    /// Copies the registry as it is now into a new file, while everyone goes on working. Blocks for
    /// as long as it takes.
    pub fn backup(&self, to: &Path) -> Result<(), BackupError> {
        crate::backup::backup(&self.site.path, to)
    }

    pub(crate) async fn look<A: Send + 'static>(
        &self,
        work: impl FnOnce(&RegistryQueries) -> Result<A, Failure> + Send + 'static,
    ) -> Answer<A> {
        Ok(self.threads.read(LOOKUP_CONNECTION, work).await?)
    }

    pub(crate) async fn list<A: Send + 'static>(
        &self,
        work: impl FnOnce(&RegistryQueries) -> Result<A, Failure> + Send + 'static,
    ) -> Answer<A> {
        Ok(self.threads.read(LIST, work).await?)
    }

    pub(crate) async fn write<A: Send + 'static>(
        &self,
        work: impl Fn(&RegistryWrites) -> Result<A, WriteError> + Send + 'static,
    ) -> Answer<A> {
        self.threads.write(move |writes| writes.step(&work)).await?
    }
}

impl std::fmt::Debug for EmbeddedRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedRegistry").field("path", &self.site.path).finish_non_exhaustive()
    }
}

#[async_trait]
impl Registry for EmbeddedRegistry {
    async fn offer_setup(&self, token: Token) -> Answer<bool> {
        self.write(move |writes| writes.offer_setup(&token)).await
    }

    async fn take_setup(&self, token: &Token, account: NewAccount) -> Answer<Account> {
        let token = *token;
        self.write(move |writes| writes.take_setup(&token, &account)).await
    }

    async fn awaits_setup(&self) -> Answer<bool> {
        self.look(|queries| Ok(queries.setup()?.is_some())).await
    }

    async fn awaits_setup_by(&self, token: &Token) -> Answer<bool> {
        let token = *token;
        self.look(move |queries| Ok(queries.setup()? == Some(token))).await
    }

    async fn add_account(&self, account: NewAccount, by: Attribution) -> Answer<Account> {
        self.write(move |writes| writes.add_account(&account, &by)).await
    }

    async fn account(&self, id: OwnerId) -> Answer<Option<Account>> {
        self.look(move |queries| queries.account(id)).await
    }

    async fn user_named(&self, name: &AccountName) -> Answer<Option<Account>> {
        let name = name.clone();
        self.look(move |queries| queries.user_named(&name)).await
    }

    async fn account_by_identity(&self, identity: &ForeignIdentity) -> Answer<Option<Account>> {
        let identity = identity.clone();
        self.look(move |queries| queries.account_by_identity(&identity)).await
    }

    async fn accounts(&self, after: Option<OwnerId>, limit: usize) -> Answer<Vec<Account>> {
        self.list(move |queries| queries.accounts(after, limit)).await
    }

    async fn change_account(&self, change: ChangeAccount, by: Attribution) -> Answer<Account> {
        self.write(move |writes| writes.change_account(&change, &by)).await
    }

    async fn erase_account(&self, id: OwnerId, by: Attribution) -> Answer<()> {
        self.write(move |writes| writes.erase_account(id, &by)).await
    }

    async fn suspended(&self) -> Answer<Vec<OwnerId>> {
        self.list(RegistryQueries::suspended).await
    }

    async fn add_key(&self, key: NewKey, by: Attribution) -> Answer<ApiKey> {
        self.write(move |writes| writes.add_key(&key, &by)).await
    }

    async fn key(&self, token: &Token) -> Answer<Option<(ApiKey, Account)>> {
        let token = *token;
        self.look(move |queries| queries.key(&token)).await
    }

    async fn keys(&self, owner: OwnerId) -> Answer<Vec<ApiKey>> {
        self.list(move |queries| queries.keys(owner)).await
    }

    async fn revoke_key(&self, owner: OwnerId, id: KeyId, by: Attribution) -> Answer<()> {
        self.write(move |writes| writes.revoke_key(owner, id, &by)).await
    }

    async fn touch_keys(&self, used: &[(KeyId, Timestamp)]) -> Answer<()> {
        // Each step is whole; that some were noted before others matters to nobody.
        for some in used.chunks(BATCH) {
            let some = some.to_vec();
            self.write(move |writes| writes.touch_keys(&some)).await?;
        }
        Ok(())
    }

    async fn add_session(&self, session: Session, seen: Revision) -> Answer<()> {
        self.write(move |writes| writes.add_session(&session, seen)).await
    }

    async fn session(&self, token: &Token, now: Timestamp) -> Answer<Option<(Session, Account)>> {
        let token = *token;
        self.look(move |queries| queries.session(&token, now)).await
    }

    async fn sessions(&self, owner: OwnerId, now: Timestamp) -> Answer<Vec<Session>> {
        self.list(move |queries| queries.sessions(owner, now)).await
    }

    async fn end_session(&self, token: &Token) -> Answer<()> {
        let token = *token;
        self.write(move |writes| writes.end_session(&token)).await
    }

    async fn end_sessions(&self, owner: OwnerId, but: Option<&Token>) -> Answer<()> {
        let but = but.copied();
        self.write(move |writes| writes.end_sessions(owner, but.as_ref())).await
    }

    async fn invite(&self, invitation: Invitation, by: Attribution) -> Answer<()> {
        self.write(move |writes| writes.invite(&invitation, &by)).await
    }

    async fn invitations(&self, now: Timestamp, limit: usize) -> Answer<Vec<Invitation>> {
        self.list(move |queries| queries.invitations(now, limit)).await
    }

    async fn revoke_invitation(&self, token: &Token, by: Attribution) -> Answer<()> {
        let token = *token;
        self.write(move |writes| writes.revoke_invitation(&token, &by)).await
    }

    async fn accept(&self, token: &Token, account: NewAccount) -> Answer<Account> {
        let token = *token;
        self.write(move |writes| writes.accept(&token, &account)).await
    }

    async fn domain_configs(&self) -> Answer<Vec<DomainConfig>> {
        self.list(RegistryQueries::domain_configs).await
    }

    async fn put_domain(&self, place: DomainConfig, by: Attribution) -> Answer<()> {
        self.write(move |writes| writes.put_domain(&place, &by)).await
    }

    async fn remove_domain(&self, domain: &Domain, by: Attribution) -> Answer<()> {
        let domain = domain.clone();
        self.write(move |writes| writes.remove_domain(&domain, &by)).await
    }

    async fn blocked_hosts(&self) -> Answer<Vec<BlockedHost>> {
        self.list(RegistryQueries::blocked_hosts).await
    }

    async fn block_host(&self, host: BlockedHost, by: Attribution) -> Answer<()> {
        self.write(move |writes| writes.block_host(&host, &by)).await
    }

    async fn unblock_host(&self, host: &str, by: Attribution) -> Answer<()> {
        let host = host.to_owned();
        self.write(move |writes| writes.unblock_host(&host, &by)).await
    }

    async fn report(&self, report: NewReport) -> Answer<Reported> {
        self.write(move |writes| writes.report(&report)).await
    }

    async fn reports(
        &self,
        state: ReportState,
        after: Option<ReportId>,
        limit: usize,
    ) -> Answer<Vec<AbuseReport>> {
        self.list(move |queries| queries.reports(state, after, limit)).await
    }

    async fn reported(
        &self,
        state: ReportState,
        after: Option<ReportId>,
        limit: usize,
    ) -> Answer<Vec<ReportedLink>> {
        self.list(move |queries| queries.reported(state, after, limit)).await
    }

    async fn settle_reports(
        &self,
        link: &LinkKey,
        state: ReportState,
        by: Attribution,
    ) -> Answer<u64> {
        let link = link.clone();
        self.write(move |writes| writes.settle_reports(&link, state, &by)).await
    }

    async fn add_webhook(&self, webhook: NewWebhook, by: Attribution) -> Answer<Webhook> {
        self.write(move |writes| writes.add_webhook(&webhook, &by)).await
    }

    async fn webhooks(&self, owner: OwnerId) -> Answer<Vec<Webhook>> {
        self.list(move |queries| queries.webhooks(owner)).await
    }

    async fn change_webhook(
        &self,
        owner: OwnerId,
        id: WebhookId,
        change: WebhookChange,
        by: Attribution,
    ) -> Answer<Webhook> {
        self.write(move |writes| writes.change_webhook(owner, id, &change, &by)).await
    }

    async fn remove_webhook(&self, owner: OwnerId, id: WebhookId, by: Attribution) -> Answer<()> {
        self.write(move |writes| writes.remove_webhook(owner, id, &by)).await
    }

    async fn owners_with_webhooks(&self) -> Answer<Vec<OwnerId>> {
        self.list(RegistryQueries::owners_with_webhooks).await
    }

    async fn enqueue(&self, event: NewEvent) -> Answer<u64> {
        self.write(move |writes| writes.enqueue(&event)).await
    }

    async fn due(&self, claim: Claim) -> Answer<Vec<Due>> {
        // Asked all the time, and mostly in vain: that is not worth a place among the writes.
        let any = self
            .list(move |queries| queries.ready(&Claim { limit: claim.limit.min(1), ..claim }))
            .await?;
        match any.is_empty() {
            true => Ok(Vec::new()),
            false => self.write(move |writes| writes.due(&claim)).await,
        }
    }

    async fn settle(&self, settlement: Settlement) -> Answer<bool> {
        self.write(move |writes| writes.settle(&settlement)).await
    }

    async fn deliveries(
        &self,
        owner: OwnerId,
        id: WebhookId,
        limit: usize,
    ) -> Answer<Vec<Delivery>> {
        self.list(move |queries| queries.deliveries(owner, id, limit))
            .await?
            .ok_or(RegistryError::Missing)
    }

    async fn note(
        &self,
        act: AuditAction,
        subject: &str,
        change: (Option<String>, Option<String>),
        by: Attribution,
    ) -> Answer<()> {
        let subject = subject.to_owned();
        self.write(move |writes| writes.note(act, &subject, change.clone(), &by)).await
    }

    async fn audit(&self, query: &Audits) -> Answer<Vec<AuditEntry>> {
        let query = query.clone();
        self.list(move |queries| queries.audit(&query)).await
    }

    async fn prune(&self, now: Timestamp, keep: Duration, limit: usize) -> Answer<u64> {
        let mut left = limit;
        while left > 0 {
            let step = left.min(BATCH);
            let done = self.write(move |writes| writes.prune(now, keep, step)).await?;
            left -= done;
            if done < step {
                break;
            }
        }
        Ok((limit - left) as u64)
    }

    async fn check(&self) -> Answer<()> {
        Ok(self.threads.check()?)
    }
}
