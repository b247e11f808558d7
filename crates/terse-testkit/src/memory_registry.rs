//! A registry in memory: true to every promise, and breakable on command.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::registry::{
    AbuseReport, Account, AccountName, Actor, ApiKey, Attribution, AuditAction, AuditEntry,
    AuditRecord, Audits, BlockedHost, ChangeAccount, Claim, Delivery, DomainConfig, Due,
    EXPIRED_KEY_RETENTION, FIRST_ACCOUNT, ForeignIdentity, Invitation, KeyId, MAX_KEYS_PER_OWNER,
    MAX_SESSIONS_PER_OWNER, NewAccount, NewEvent, NewKey, NewReport, NewWebhook, Registry,
    RegistryError, ReportId, ReportState, Reported, ReportedLink, Role, Session, Settlement,
    TEXTS_SHOWN, Token, Webhook, WebhookChange, WebhookId, redact_account,
};
use terse_core::{Domain, LinkKey, OwnerId, Revision, StoreError, Timestamp};

mod jobs;
mod outbox;
mod snapshot;

use jobs::Jobs;
use outbox::Outbox;

type Answer<T> = Result<T, RegistryError>;

/// Keeps owners in memory and nowhere else. Tests can make it fail and make it slow.
#[derive(Debug, Default)]
pub struct MemoryRegistry {
    state: Arc<Mutex<State>>,
    failing: AtomicBool,
    delay_ms: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// The version without its incarnation: memory is never restored.
    version: u64,
    setup: Option<Token>,
    had_admin: bool,
    /// How many there have ever been.
    users_made: u64,
    keys_made: u64,
    reports_made: u64,
    lines_made: u64,
    accounts: BTreeMap<OwnerId, Account>,
    keys: BTreeMap<KeyId, (Token, ApiKey)>,
    /// In the order in which they began.
    sessions: Vec<Session>,
    invitations: Vec<Invitation>,
    domain_configs: BTreeMap<Domain, DomainConfig>,
    blocked: BTreeMap<String, BlockedHost>,
    reports: BTreeMap<ReportId, ([u8; 16], AbuseReport)>,
    outbox: Outbox,
    jobs: Jobs,
    /// With the account each tells something of.
    audit: BTreeMap<u64, (Option<OwnerId>, AuditEntry)>,
}

impl MemoryRegistry {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Another handle on the same registry, as another node has one. Failures and delays are each
    /// handle's own.
    pub fn another_handle(&self) -> Self {
        Self { state: Arc::clone(&self.state), ..Self::default() }
    }

    /// From now on every call answers `Unavailable` and does nothing, or no longer.
    pub fn fail(&self, failing: bool) {
        self.failing.store(failing, Ordering::SeqCst);
    }

    /// From now on every call takes at least this long.
    pub fn delay(&self, by: Duration) {
        self.delay_ms.store(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// The gate every call passes before it does anything.
    async fn enter(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let delay = self.delay_ms.load(Ordering::SeqCst);
        if delay > 0 {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
        if self.failing.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("told to fail".into()));
        }
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn write(&mut self, line: AuditRecord, by: Attribution) {
        self.lines_made += 1;
        let AuditRecord { act, subject, about, before, after } = line;
        let Attribution { actor, at, why } = by;
        let entry =
            AuditEntry { number: self.lines_made, at, actor, act, subject, why, before, after };
        self.audit.insert(self.lines_made, (about, entry));
    }

    /// Says that what the redirect plane must know has changed.
    fn change_version(&mut self) {
        self.version += 1;
    }

    /// Whether another account than this one has the name or the identity.
    fn taken(
        &self,
        but: Option<OwnerId>,
        name: &AccountName,
        identity: Option<&ForeignIdentity>,
    ) -> bool {
        let has = |account: &&Account| {
            account.name == *name || identity.is_some() && account.identity.as_ref() == identity
        };
        self.accounts
            .values()
            .filter(|account| Some(account.id) != but)
            .any(|account| has(&account))
    }

    fn keep(&mut self, account: Account) {
        if account.role == Role::Admin {
            self.had_admin = true;
            self.setup = None;
        }
        self.accounts.insert(account.id, account);
    }

    fn make(&mut self, account: NewAccount) -> Answer<Account> {
        if self.taken(None, &account.name, account.identity.as_ref()) {
            return Err(RegistryError::NameTaken);
        }
        let account = account.into_account(OwnerId(FIRST_ACCOUNT.0 + self.users_made));
        self.users_made += 1;
        self.keep(account.clone());
        Ok(account)
    }

    /// Makes an account whose owner is the one who makes it.
    fn come(&mut self, account: NewAccount, invited_by: Option<OwnerId>) -> Answer<Account> {
        let at = account.created_at;
        let account = self.make(account)?;
        self.write(
            AuditRecord::user_added(&account, invited_by),
            Attribution { actor: Actor::Owner(account.id), at, why: None },
        );
        Ok(account)
    }

    /// Whether nobody else could do everything.
    fn is_last_admin(&self, account: &Account) -> bool {
        account.governs()
            && !self.accounts.values().any(|other| other.id != account.id && other.governs())
    }

    fn account(&self, id: OwnerId) -> Answer<&Account> {
        self.accounts.get(&id).ok_or(RegistryError::Missing)
    }

    /// Whether an invitation is as good as on the day it was written.
    fn stands(&self, invitation: &Invitation) -> bool {
        let writer = self.accounts.get(&invitation.by);
        writer.map_or(invitation.by == OwnerId::ADMIN, |account| {
            account.suspended.is_none() && account.role >= invitation.role
        })
    }
}

#[async_trait]
impl Registry for MemoryRegistry {
    async fn offer_setup(&self, token: Token) -> Answer<bool> {
        let mut state = self.enter().await?;
        if !state.had_admin {
            state.setup = Some(token);
        }
        Ok(!state.had_admin)
    }

    async fn take_setup(&self, token: &Token, account: NewAccount) -> Answer<Account> {
        let mut state = self.enter().await?;
        if state.setup != Some(*token) {
            return Err(RegistryError::Missing);
        }
        state.come(NewAccount { role: Role::Admin, ..account }, None)
    }

    async fn awaits_setup(&self) -> Answer<bool> {
        Ok(self.enter().await?.setup.is_some())
    }

    async fn awaits_setup_by(&self, token: &Token) -> Answer<bool> {
        Ok(self.enter().await?.setup == Some(*token))
    }

    async fn add_account(&self, account: NewAccount, by: Attribution) -> Answer<Account> {
        let mut state = self.enter().await?;
        let account = state.make(account)?;
        state.write(AuditRecord::user_added(&account, None), by);
        Ok(account)
    }

    async fn account(&self, id: OwnerId) -> Answer<Option<Account>> {
        Ok(self.enter().await?.accounts.get(&id).cloned())
    }

    async fn user_named(&self, name: &AccountName) -> Answer<Option<Account>> {
        Ok(self.enter().await?.accounts.values().find(|account| account.name == *name).cloned())
    }

    async fn account_by_identity(&self, identity: &ForeignIdentity) -> Answer<Option<Account>> {
        Ok(self
            .enter()
            .await?
            .accounts
            .values()
            .find(|account| account.identity.as_ref() == Some(identity))
            .cloned())
    }

    async fn accounts(&self, after: Option<OwnerId>, limit: usize) -> Answer<Vec<Account>> {
        let state = self.enter().await?;
        Ok(state
            .accounts
            .values()
            .filter(|account| after.is_none_or(|after| account.id > after))
            .take(limit)
            .cloned()
            .collect())
    }

    async fn change_account(&self, change: ChangeAccount, by: Attribution) -> Answer<Account> {
        let mut state = self.enter().await?;
        let ChangeAccount { id, change, expected } = change;
        let before = state.account(id)?.clone();
        if expected.is_some_and(|expected| expected != before.revision) {
            return Err(RegistryError::Conflict);
        }
        let Some(effect) = change.effect(&before) else {
            return Ok(before);
        };
        if state.taken(Some(id), &effect.account.name, effect.account.identity.as_ref()) {
            return Err(RegistryError::NameTaken);
        }
        if !effect.account.governs() && state.is_last_admin(&before) {
            return Err(RegistryError::LastAdmin);
        }
        state.keep(effect.account.clone());
        if effect.ends_sessions {
            state.sessions.retain(|session| session.owner != id);
        }
        if effect.bumps_version {
            state.change_version();
        }
        effect.lines.into_iter().for_each(|line| state.write(line, by.clone()));
        Ok(effect.account)
    }

    async fn erase_account(&self, id: OwnerId, by: Attribution) -> Answer<()> {
        let mut state = self.enter().await?;
        let account = state.account(id)?.clone();
        if state.is_last_admin(&account) {
            return Err(RegistryError::LastAdmin);
        }
        state.accounts.remove(&id);
        state.keys.retain(|_, (_, key)| key.owner != id);
        state.sessions.retain(|session| session.owner != id);
        state.invitations.retain(|invitation| invitation.by != id);
        state.outbox.forget(id);
        for (_, report) in
            state.reports.values_mut().filter(|(_, report)| report.account == Some(id))
        {
            (report.account, report.text) = (None, None);
        }
        state.write(AuditRecord::user_erased(&account), by);
        let about = state.audit.values().filter(|(about, _)| *about == Some(id));
        let mut lines: Vec<AuditEntry> = about.map(|(_, entry)| entry.clone()).collect();
        redact_account(&mut lines, &account.name);
        state.audit.extend(lines.into_iter().map(|entry| (entry.number, (Some(id), entry))));
        if account.suspended.is_some() {
            state.change_version();
        }
        Ok(())
    }

    async fn suspended(&self) -> Answer<Vec<OwnerId>> {
        Ok(self.enter().await?.suspended())
    }

    async fn add_key(&self, key: NewKey, by: Attribution) -> Answer<ApiKey> {
        let mut state = self.enter().await?;
        state.account(key.owner)?;
        if state.keys.values().any(|(token, _)| *token == key.token) {
            return Err(RegistryError::Conflict);
        }
        if state.keys.values().filter(|(_, one)| one.owner == key.owner).count()
            >= MAX_KEYS_PER_OWNER
        {
            return Err(RegistryError::TooMany);
        }
        state.keys_made += 1;
        let (token, key) = (key.token, key.into_key(KeyId(state.keys_made)));
        state.keys.insert(key.id, (token, key.clone()));
        state.write(AuditRecord::key_added(&key), by);
        Ok(key)
    }

    async fn key(&self, token: &Token) -> Answer<Option<(ApiKey, Account)>> {
        let state = self.enter().await?;
        let found = state.keys.values().find(|(one, _)| one == token);
        Ok(found.and_then(|(_, key)| Some((key.clone(), state.accounts.get(&key.owner)?.clone()))))
    }

    async fn keys(&self, owner: OwnerId) -> Answer<Vec<ApiKey>> {
        let state = self.enter().await?;
        Ok(state
            .keys
            .values()
            .map(|(_, key)| key)
            .filter(|key| key.owner == owner)
            .cloned()
            .collect())
    }

    async fn revoke_key(&self, owner: OwnerId, id: KeyId, by: Attribution) -> Answer<()> {
        let mut state = self.enter().await?;
        if state.keys.get(&id).is_none_or(|(_, key)| key.owner != owner) {
            return Err(RegistryError::Missing);
        }
        if let Some((_, key)) = state.keys.remove(&id) {
            state.write(AuditRecord::key_revoked(&key), by);
        }
        Ok(())
    }

    async fn touch_keys(&self, used: &[(KeyId, Timestamp)]) -> Answer<()> {
        let mut state = self.enter().await?;
        for (id, at) in used {
            if let Some((_, key)) = state.keys.get_mut(id) {
                key.last_used_at = key.last_used_at.max(Some(*at));
            }
        }
        Ok(())
    }

    async fn add_session(&self, session: Session, seen: Revision) -> Answer<()> {
        let mut state = self.enter().await?;
        let owner = state.account(session.owner)?;
        if owner.suspended.is_some() {
            return Err(RegistryError::Missing);
        }
        if owner.revision != seen || state.sessions.iter().any(|one| one.token == session.token) {
            return Err(RegistryError::Conflict);
        }
        let of_owner = |one: &Session| one.owner == session.owner;
        if state.sessions.iter().filter(|one| of_owner(one)).count() >= MAX_SESSIONS_PER_OWNER {
            let oldest = (0..)
                .zip(&state.sessions)
                .filter(|(_, one)| of_owner(one))
                .min_by_key(|(_, one)| one.created_at);
            if let Some(oldest) = oldest.map(|(n, _)| n) {
                state.sessions.remove(oldest);
            }
        }
        state.sessions.push(session);
        Ok(())
    }

    async fn session(&self, token: &Token, now: Timestamp) -> Answer<Option<(Session, Account)>> {
        let state = self.enter().await?;
        let found = state.sessions.iter().find(|one| one.token == *token && one.expires_at > now);
        Ok(found.and_then(|session| {
            Some((session.clone(), state.accounts.get(&session.owner)?.clone()))
        }))
    }

    async fn sessions(&self, owner: OwnerId, now: Timestamp) -> Answer<Vec<Session>> {
        let state = self.enter().await?;
        let of_owner =
            state.sessions.iter().filter(|one| one.owner == owner && one.expires_at > now);
        let mut sessions: Vec<Session> = of_owner.cloned().collect();
        sessions.sort_by_key(|session| session.created_at);
        Ok(sessions)
    }

    async fn end_session(&self, token: &Token) -> Answer<()> {
        self.enter().await?.sessions.retain(|session| session.token != *token);
        Ok(())
    }

    async fn end_sessions(&self, owner: OwnerId, but: Option<&Token>) -> Answer<()> {
        self.enter()
            .await?
            .sessions
            .retain(|session| session.owner != owner || Some(&session.token) == but);
        Ok(())
    }

    async fn invite(&self, invitation: Invitation, by: Attribution) -> Answer<()> {
        let mut state = self.enter().await?;
        if invitation.by != OwnerId::ADMIN {
            state.account(invitation.by)?;
        }
        if state.invitations.iter().any(|one| one.token == invitation.token) {
            return Err(RegistryError::Conflict);
        }
        state.write(AuditRecord::invited(&invitation), by);
        state.invitations.push(invitation);
        Ok(())
    }

    async fn invitations(&self, now: Timestamp, limit: usize) -> Answer<Vec<Invitation>> {
        let state = self.enter().await?;
        let mut open: Vec<Invitation> =
            state.invitations.iter().filter(|one| one.expires_at > now).cloned().collect();
        open.sort_by_key(|one| one.expires_at);
        open.truncate(limit);
        Ok(open)
    }

    async fn revoke_invitation(&self, token: &Token, by: Attribution) -> Answer<()> {
        let mut state = self.enter().await?;
        let place = state
            .invitations
            .iter()
            .position(|one| one.token == *token)
            .ok_or(RegistryError::Missing)?;
        let invitation = state.invitations.remove(place);
        state.write(AuditRecord::invitation_revoked(&invitation), by);
        Ok(())
    }

    async fn accept(&self, token: &Token, account: NewAccount) -> Answer<Account> {
        let mut state = self.enter().await?;
        let found = state
            .invitations
            .iter()
            .find(|one| one.token == *token && one.expires_at > account.created_at);
        let invitation = found
            .filter(|invitation| state.stands(invitation))
            .cloned()
            .ok_or(RegistryError::Missing)?;
        let account =
            state.come(NewAccount { role: invitation.role, ..account }, Some(invitation.by))?;
        state.invitations.retain(|one| one.token != *token);
        Ok(account)
    }

    async fn domain_configs(&self) -> Answer<Vec<DomainConfig>> {
        Ok(self.enter().await?.domain_configs.values().cloned().collect())
    }

    async fn put_domain(&self, place: DomainConfig, by: Attribution) -> Answer<()> {
        let mut state = self.enter().await?;
        let before = state.domain_configs.insert(place.domain.clone(), place.clone());
        if before.as_ref() != Some(&place) {
            state.change_version();
            state.write(AuditRecord::domain_changed(before.as_ref(), &place), by);
        }
        Ok(())
    }

    async fn remove_domain(&self, domain: &Domain, by: Attribution) -> Answer<()> {
        let mut state = self.enter().await?;
        let place = state.domain_configs.remove(domain).ok_or(RegistryError::Missing)?;
        state.change_version();
        state.write(AuditRecord::domain_removed(&place), by);
        Ok(())
    }

    async fn blocked_hosts(&self) -> Answer<Vec<BlockedHost>> {
        Ok(self.enter().await?.blocked.values().cloned().collect())
    }

    async fn block_host(&self, host: BlockedHost, by: Attribution) -> Answer<()> {
        let mut state = self.enter().await?;
        if !state.blocked.contains_key(&host.host) {
            state.change_version();
            state.write(AuditRecord::host_blocked(&host), by);
            state.blocked.insert(host.host.clone(), host);
        }
        Ok(())
    }

    async fn unblock_host(&self, host: &str, by: Attribution) -> Answer<()> {
        let mut state = self.enter().await?;
        let host = state.blocked.remove(host).ok_or(RegistryError::Missing)?;
        state.change_version();
        state.write(AuditRecord::host_unblocked(&host), by);
        Ok(())
    }

    async fn report(&self, report: NewReport) -> Answer<Reported> {
        let mut state = self.enter().await?;
        let NewReport { link, born, reporter, account, reason, text, at } = report;
        let about = |one: &AbuseReport| {
            one.state == ReportState::Open && one.link == link && one.born == born
        };
        let earlier = state
            .reports
            .values()
            .find(|(by, one)| *by == reporter && about(one))
            .map(|(_, one)| one.id);
        let reporters = state.reports.values().filter(|(_, one)| about(one)).count() as u64
            + u64::from(earlier.is_none());
        let id = earlier.unwrap_or_else(|| {
            state.reports_made += 1;
            let id = ReportId(state.reports_made);
            let report =
                AbuseReport { id, link, born, account, reason, text, at, state: ReportState::Open };
            state.reports.insert(id, (reporter, report));
            id
        });
        Ok(Reported { id, reporters })
    }

    async fn reports(
        &self,
        wanted: ReportState,
        after: Option<ReportId>,
        limit: usize,
    ) -> Answer<Vec<AbuseReport>> {
        let state = self.enter().await?;
        let reports = state
            .reports
            .values()
            .map(|(_, report)| report)
            .filter(|report| report.state == wanted);
        Ok(reports
            .filter(|report| after.is_none_or(|after| report.id > after))
            .take(limit)
            .cloned()
            .collect())
    }

    async fn reported(
        &self,
        wanted: ReportState,
        after: Option<ReportId>,
        limit: usize,
    ) -> Answer<Vec<ReportedLink>> {
        let state = self.enter().await?;
        let mut links: Vec<ReportedLink> = Vec::new();
        for (_, report) in state.reports.values().filter(|(_, report)| report.state == wanted) {
            let at = match links
                .iter()
                .position(|link| link.link == report.link && link.born == report.born)
            {
                Some(at) => at,
                None => {
                    links.push(ReportedLink {
                        link: report.link.clone(),
                        born: report.born,
                        first: report.id,
                        count: 0,
                        reasons: Vec::new(),
                        since: report.at,
                        last: report.at,
                        texts: Vec::new(),
                    });
                    links.len() - 1
                }
            };
            let link = &mut links[at];
            (link.count, link.since, link.last) =
                (link.count + 1, link.since.min(report.at), link.last.max(report.at));
            match link.reasons.binary_search_by(|(reason, _)| reason.cmp(&report.reason)) {
                Ok(at) => link.reasons[at].1 += 1,
                Err(at) => link.reasons.insert(at, (report.reason.clone(), 1)),
            }
            link.texts.splice(0..0, report.text.clone());
            link.texts.truncate(TEXTS_SHOWN);
        }
        links.retain(|link| after.is_none_or(|after| link.first > after));
        links.truncate(limit);
        Ok(links)
    }

    async fn settle_reports(
        &self,
        link: &LinkKey,
        settled: ReportState,
        by: Attribution,
    ) -> Answer<u64> {
        let mut state = self.enter().await?;
        let mut count = 0;
        let open = state
            .reports
            .values_mut()
            .map(|(_, report)| report)
            .filter(|report| report.state == ReportState::Open);
        for report in open.filter(|report| settled != ReportState::Open && report.link == *link) {
            report.state = settled;
            count += 1;
        }
        if count > 0 {
            state.write(AuditRecord::reports_settled(link, count, settled), by);
        }
        Ok(count)
    }

    async fn add_webhook(&self, webhook: NewWebhook, by: Attribution) -> Answer<Webhook> {
        let mut state = self.enter().await?;
        if webhook.owner != OwnerId::ADMIN {
            state.account(webhook.owner)?;
        }
        let webhook = state.outbox.add(webhook)?;
        state.write(AuditRecord::webhook_added(&webhook), by);
        Ok(webhook)
    }

    async fn webhooks(&self, owner: OwnerId) -> Answer<Vec<Webhook>> {
        Ok(self.enter().await?.outbox.of(owner))
    }

    async fn change_webhook(
        &self,
        owner: OwnerId,
        id: WebhookId,
        change: WebhookChange,
        by: Attribution,
    ) -> Answer<Webhook> {
        let mut state = self.enter().await?;
        let webhook = state.outbox.find(owner, id)?;
        let before = webhook.clone();
        *webhook = change.apply(&before);
        let after = webhook.clone();
        if let Some(line) = AuditRecord::webhook_changed(&before, &after) {
            state.write(line, by);
        }
        Ok(after)
    }

    async fn remove_webhook(&self, owner: OwnerId, id: WebhookId, by: Attribution) -> Answer<()> {
        let mut state = self.enter().await?;
        let webhook = state.outbox.remove(owner, id)?;
        state.write(AuditRecord::webhook_removed(&webhook), by);
        Ok(())
    }

    async fn owners_with_webhooks(&self) -> Answer<Vec<OwnerId>> {
        Ok(self.enter().await?.outbox.owners())
    }

    async fn enqueue(&self, event: NewEvent) -> Answer<u64> {
        Ok(self.enter().await?.outbox.enqueue(&event))
    }

    async fn due(&self, claim: Claim) -> Answer<Vec<Due>> {
        let State { outbox, accounts, .. } = &mut *self.enter().await?;
        Ok(outbox.due(claim, |owner| {
            accounts.get(&owner).is_some_and(|account| account.suspended.is_some())
        }))
    }

    async fn settle(&self, settlement: Settlement) -> Answer<bool> {
        let mut state = self.enter().await?;
        let Some(settled) = state.outbox.settle(settlement) else { return Ok(false) };
        if let Some((line, by)) = settled {
            state.write(line, by);
        }
        Ok(true)
    }

    async fn deliveries(
        &self,
        owner: OwnerId,
        id: WebhookId,
        limit: usize,
    ) -> Answer<Vec<Delivery>> {
        self.enter().await?.outbox.deliveries(owner, id, limit)
    }

    async fn note(
        &self,
        act: AuditAction,
        subject: &str,
        change: (Option<String>, Option<String>),
        by: Attribution,
    ) -> Answer<()> {
        self.enter().await?.write(AuditRecord::noted(act, subject, change), by);
        Ok(())
    }

    async fn audit(&self, query: &Audits) -> Answer<Vec<AuditEntry>> {
        let state = self.enter().await?;
        let wanted = |entry: &&AuditEntry| {
            query.before.is_none_or(|before| entry.number < before)
                && query.subject.as_ref().is_none_or(|subject| entry.subject == *subject)
                && query.act.is_none_or(|act| entry.act == act)
        };
        Ok(state
            .audit
            .values()
            .rev()
            .map(|(_, entry)| entry)
            .filter(wanted)
            .take(query.limit)
            .cloned()
            .collect())
    }

    async fn prune(&self, now: Timestamp, keep: Duration, limit: usize) -> Answer<u64> {
        let mut state = self.enter().await?;
        let old = now.saturating_sub(keep);
        let expired = now.saturating_sub(EXPIRED_KEY_RETENTION);
        let mut count = 0;
        // Whether one that is over may be deleted too.
        let mut is_kept = |over: bool| {
            let goes = over && count < limit as u64;
            count += u64::from(goes);
            !goes
        };
        state.sessions.retain(|one| is_kept(one.expires_at <= now));
        state.invitations.retain(|one| is_kept(one.expires_at <= now));
        state.keys.retain(|_, (_, key)| is_kept(key.expires_at.is_some_and(|at| at <= expired)));
        state
            .reports
            .retain(|_, (_, report)| is_kept(report.state != ReportState::Open && report.at < old));
        state.outbox.prune(old, &mut is_kept);
        state.audit.retain(|_, (_, entry)| is_kept(entry.at < old));
        Ok(count)
    }

    async fn check(&self) -> Answer<()> {
        Ok(self.enter().await.map(|_| ())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn fresh() -> Option<(MemoryRegistry, MemoryRegistry)> {
        let registry = MemoryRegistry::new();
        let other = registry.another_handle();
        Some((registry, other))
    }
    crate::registry!(fresh);

    #[tokio::test]
    async fn it_breaks_on_command() {
        let registry = MemoryRegistry::new();
        registry.fail(true);
        assert!(
            registry.offer_setup(Token([1; 32])).await.is_err() && registry.check().await.is_err()
        );
        registry.fail(false);
        assert!(!registry.awaits_setup().await.unwrap());
        registry.check().await.unwrap();
    }
}
