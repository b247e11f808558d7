//! A registry in memory: true to every promise, and breakable on command.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::registry::{
    Act, Actor, ApiKey, AuditEntry, Audits, BlockedHost, By, Change, Claim, Delivery, Due, FIRST_USER, ForeignIdentity,
    Invitation, KEPT_WHEN_EXPIRED, KEYS_EACH, KeyId, Line, NewEvent, NewKey, NewReport, NewUser, NewWebhook, Place, Registry,
    RegistryError, Report, ReportId, ReportState, Reported, ReportedLink, Role, SESSIONS_EACH, Session, Settlement, TEXTS_SHOWN,
    Token, User, UserName, Watermark, Webhook, WebhookChange, WebhookId, forget_person,
};
use terse_core::{Domain, LinkKey, Moment, OwnerId, Revision, StoreError};

mod outbox;

use outbox::Outbox;

type Answer<T> = Result<T, RegistryError>;

/// Keeps owners in memory and nowhere else. Tests can make it fail and make it slow.
#[derive(Debug, Default)]
pub struct MemoryRegistry {
    state: Mutex<State>,
    failing: AtomicBool,
    delay_ms: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    watermark: Watermark,
    setup: Option<Token>,
    had_admin: bool,
    /// How many there have ever been.
    users_made: u64,
    keys_made: u64,
    reports_made: u64,
    lines_made: u64,
    users: BTreeMap<OwnerId, User>,
    keys: BTreeMap<KeyId, (Token, ApiKey)>,
    /// In the order in which they began.
    sessions: Vec<Session>,
    invitations: Vec<Invitation>,
    places: BTreeMap<Domain, Place>,
    blocked: BTreeMap<String, BlockedHost>,
    reports: BTreeMap<ReportId, ([u8; 16], Report)>,
    outbox: Outbox,
    /// With the account each tells something of.
    audit: BTreeMap<u64, (Option<OwnerId>, AuditEntry)>,
}

impl MemoryRegistry {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
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
    fn write(&mut self, line: Line, by: By) {
        self.lines_made += 1;
        let Line { act, subject, about, before, after } = line;
        let By { actor, at, why } = by;
        let entry = AuditEntry { number: self.lines_made, at, actor, act, subject, why, before, after };
        self.audit.insert(self.lines_made, (about, entry));
    }

    fn move_watermark(&mut self) {
        self.watermark.0 += 1;
    }

    /// Whether another account than this one has the name or the identity.
    fn taken(&self, but: Option<OwnerId>, name: &UserName, identity: Option<&ForeignIdentity>) -> bool {
        let has = |user: &&User| user.name == *name || identity.is_some() && user.identity.as_ref() == identity;
        self.users.values().filter(|user| Some(user.id) != but).any(|user| has(&user))
    }

    fn keep(&mut self, user: User) {
        if user.role == Role::Admin {
            self.had_admin = true;
            self.setup = None;
        }
        self.users.insert(user.id, user);
    }

    fn make(&mut self, user: NewUser) -> Answer<User> {
        if self.taken(None, &user.name, user.identity.as_ref()) {
            return Err(RegistryError::NameTaken);
        }
        let user = user.into_user(OwnerId(FIRST_USER.0 + self.users_made));
        self.users_made += 1;
        self.keep(user.clone());
        Ok(user)
    }

    /// Makes an account whose owner is the one who makes it.
    fn come(&mut self, user: NewUser, invited_by: Option<OwnerId>) -> Answer<User> {
        let at = user.created_at;
        let user = self.make(user)?;
        self.write(Line::user_added(&user, invited_by), By { actor: Actor::Owner(user.id), at, why: None });
        Ok(user)
    }

    /// Whether nobody else could do everything.
    fn is_last_admin(&self, user: &User) -> bool {
        user.governs() && !self.users.values().any(|other| other.id != user.id && other.governs())
    }

    fn user(&self, id: OwnerId) -> Answer<&User> {
        self.users.get(&id).ok_or(RegistryError::Missing)
    }

    /// Whether an invitation is as good as on the day it was written.
    fn stands(&self, invitation: &Invitation) -> bool {
        let writer = self.users.get(&invitation.by);
        writer.map_or(invitation.by == OwnerId::ADMIN, |user| user.suspended.is_none() && user.role >= invitation.role)
    }
}

#[async_trait]
impl Registry for MemoryRegistry {
    async fn watermark(&self) -> Answer<Watermark> {
        Ok(self.enter().await?.watermark)
    }

    async fn offer_setup(&self, token: Token) -> Answer<bool> {
        let mut state = self.enter().await?;
        if !state.had_admin {
            state.setup = Some(token);
        }
        Ok(!state.had_admin)
    }

    async fn take_setup(&self, token: &Token, user: NewUser) -> Answer<User> {
        let mut state = self.enter().await?;
        if state.setup != Some(*token) {
            return Err(RegistryError::Missing);
        }
        state.come(NewUser { role: Role::Admin, ..user }, None)
    }

    async fn awaits_setup(&self) -> Answer<bool> {
        Ok(self.enter().await?.setup.is_some())
    }

    async fn awaits_setup_by(&self, token: &Token) -> Answer<bool> {
        Ok(self.enter().await?.setup == Some(*token))
    }

    async fn add_user(&self, user: NewUser, by: By) -> Answer<User> {
        let mut state = self.enter().await?;
        let user = state.make(user)?;
        state.write(Line::user_added(&user, None), by);
        Ok(user)
    }

    async fn user(&self, id: OwnerId) -> Answer<Option<User>> {
        Ok(self.enter().await?.users.get(&id).cloned())
    }

    async fn user_named(&self, name: &UserName) -> Answer<Option<User>> {
        Ok(self.enter().await?.users.values().find(|user| user.name == *name).cloned())
    }

    async fn user_known_as(&self, identity: &ForeignIdentity) -> Answer<Option<User>> {
        Ok(self.enter().await?.users.values().find(|user| user.identity.as_ref() == Some(identity)).cloned())
    }

    async fn users(&self, after: Option<OwnerId>, limit: usize) -> Answer<Vec<User>> {
        let state = self.enter().await?;
        Ok(state.users.values().filter(|user| after.is_none_or(|after| user.id > after)).take(limit).cloned().collect())
    }

    async fn change_user(&self, change: Change, by: By) -> Answer<User> {
        let mut state = self.enter().await?;
        let Change { id, change, expected } = change;
        let before = state.user(id)?.clone();
        if expected.is_some_and(|expected| expected != before.revision) {
            return Err(RegistryError::Conflict);
        }
        let Some(effect) = change.effect(&before) else {
            return Ok(before);
        };
        if state.taken(Some(id), &effect.user.name, effect.user.identity.as_ref()) {
            return Err(RegistryError::NameTaken);
        }
        if !effect.user.governs() && state.is_last_admin(&before) {
            return Err(RegistryError::LastAdmin);
        }
        state.keep(effect.user.clone());
        if effect.ends_sessions {
            state.sessions.retain(|session| session.owner != id);
        }
        if effect.moves_watermark {
            state.move_watermark();
        }
        effect.lines.into_iter().for_each(|line| state.write(line, by.clone()));
        Ok(effect.user)
    }

    async fn erase_user(&self, id: OwnerId, by: By) -> Answer<()> {
        let mut state = self.enter().await?;
        let user = state.user(id)?.clone();
        if state.is_last_admin(&user) {
            return Err(RegistryError::LastAdmin);
        }
        state.users.remove(&id);
        state.keys.retain(|_, (_, key)| key.owner != id);
        state.sessions.retain(|session| session.owner != id);
        state.invitations.retain(|invitation| invitation.by != id);
        state.outbox.forget(id);
        for (_, report) in state.reports.values_mut().filter(|(_, report)| report.account == Some(id)) {
            (report.account, report.text) = (None, None);
        }
        state.write(Line::user_erased(&user), by);
        let about = state.audit.values().filter(|(about, _)| *about == Some(id));
        let mut lines: Vec<AuditEntry> = about.map(|(_, entry)| entry.clone()).collect();
        forget_person(&mut lines, &user.name);
        state.audit.extend(lines.into_iter().map(|entry| (entry.number, (Some(id), entry))));
        if user.suspended.is_some() {
            state.move_watermark();
        }
        Ok(())
    }

    async fn suspended(&self) -> Answer<Vec<OwnerId>> {
        let state = self.enter().await?;
        Ok(state.users.values().filter(|user| user.suspended.is_some()).map(|user| user.id).collect())
    }

    async fn add_key(&self, key: NewKey, by: By) -> Answer<ApiKey> {
        let mut state = self.enter().await?;
        state.user(key.owner)?;
        if state.keys.values().any(|(token, _)| *token == key.token) {
            return Err(RegistryError::Conflict);
        }
        if state.keys.values().filter(|(_, one)| one.owner == key.owner).count() >= KEYS_EACH {
            return Err(RegistryError::TooMany);
        }
        state.keys_made += 1;
        let (token, key) = (key.token, key.into_key(KeyId(state.keys_made)));
        state.keys.insert(key.id, (token, key.clone()));
        state.write(Line::key_added(&key), by);
        Ok(key)
    }

    async fn key(&self, token: &Token) -> Answer<Option<(ApiKey, User)>> {
        let state = self.enter().await?;
        let found = state.keys.values().find(|(one, _)| one == token);
        Ok(found.and_then(|(_, key)| Some((key.clone(), state.users.get(&key.owner)?.clone()))))
    }

    async fn keys(&self, owner: OwnerId) -> Answer<Vec<ApiKey>> {
        let state = self.enter().await?;
        Ok(state.keys.values().map(|(_, key)| key).filter(|key| key.owner == owner).cloned().collect())
    }

    async fn revoke_key(&self, owner: OwnerId, id: KeyId, by: By) -> Answer<()> {
        let mut state = self.enter().await?;
        if state.keys.get(&id).is_none_or(|(_, key)| key.owner != owner) {
            return Err(RegistryError::Missing);
        }
        if let Some((_, key)) = state.keys.remove(&id) {
            state.write(Line::key_revoked(&key), by);
        }
        Ok(())
    }

    async fn touch_keys(&self, used: &[(KeyId, Moment)]) -> Answer<()> {
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
        let owner = state.user(session.owner)?;
        if owner.suspended.is_some() {
            return Err(RegistryError::Missing);
        }
        if owner.revision != seen || state.sessions.iter().any(|one| one.token == session.token) {
            return Err(RegistryError::Conflict);
        }
        let of_owner = |one: &Session| one.owner == session.owner;
        if state.sessions.iter().filter(|one| of_owner(one)).count() >= SESSIONS_EACH {
            let oldest = (0..).zip(&state.sessions).filter(|(_, one)| of_owner(one)).min_by_key(|(_, one)| one.created_at);
            if let Some(oldest) = oldest.map(|(n, _)| n) {
                state.sessions.remove(oldest);
            }
        }
        state.sessions.push(session);
        Ok(())
    }

    async fn session(&self, token: &Token, now: Moment) -> Answer<Option<(Session, User)>> {
        let state = self.enter().await?;
        let found = state.sessions.iter().find(|one| one.token == *token && one.expires_at > now);
        Ok(found.and_then(|session| Some((session.clone(), state.users.get(&session.owner)?.clone()))))
    }

    async fn sessions(&self, owner: OwnerId, now: Moment) -> Answer<Vec<Session>> {
        let state = self.enter().await?;
        let of_owner = state.sessions.iter().filter(|one| one.owner == owner && one.expires_at > now);
        let mut sessions: Vec<Session> = of_owner.cloned().collect();
        sessions.sort_by_key(|session| session.created_at);
        Ok(sessions)
    }

    async fn end_session(&self, token: &Token) -> Answer<()> {
        self.enter().await?.sessions.retain(|session| session.token != *token);
        Ok(())
    }

    async fn end_sessions(&self, owner: OwnerId, but: Option<&Token>) -> Answer<()> {
        self.enter().await?.sessions.retain(|session| session.owner != owner || Some(&session.token) == but);
        Ok(())
    }

    async fn invite(&self, invitation: Invitation, by: By) -> Answer<()> {
        let mut state = self.enter().await?;
        if invitation.by != OwnerId::ADMIN {
            state.user(invitation.by)?;
        }
        if state.invitations.iter().any(|one| one.token == invitation.token) {
            return Err(RegistryError::Conflict);
        }
        state.write(Line::invited(&invitation), by);
        state.invitations.push(invitation);
        Ok(())
    }

    async fn invitations(&self, now: Moment, limit: usize) -> Answer<Vec<Invitation>> {
        let state = self.enter().await?;
        let mut open: Vec<Invitation> = state.invitations.iter().filter(|one| one.expires_at > now).cloned().collect();
        open.sort_by_key(|one| one.expires_at);
        open.truncate(limit);
        Ok(open)
    }

    async fn revoke_invitation(&self, token: &Token, by: By) -> Answer<()> {
        let mut state = self.enter().await?;
        let place = state.invitations.iter().position(|one| one.token == *token).ok_or(RegistryError::Missing)?;
        let invitation = state.invitations.remove(place);
        state.write(Line::invitation_revoked(&invitation), by);
        Ok(())
    }

    async fn accept(&self, token: &Token, user: NewUser) -> Answer<User> {
        let mut state = self.enter().await?;
        let found = state.invitations.iter().find(|one| one.token == *token && one.expires_at > user.created_at);
        let invitation = found.filter(|invitation| state.stands(invitation)).cloned().ok_or(RegistryError::Missing)?;
        let user = state.come(NewUser { role: invitation.role, ..user }, Some(invitation.by))?;
        state.invitations.retain(|one| one.token != *token);
        Ok(user)
    }

    async fn places(&self) -> Answer<Vec<Place>> {
        Ok(self.enter().await?.places.values().cloned().collect())
    }

    async fn put_place(&self, place: Place, by: By) -> Answer<()> {
        let mut state = self.enter().await?;
        let before = state.places.insert(place.domain.clone(), place.clone());
        if before.as_ref() != Some(&place) {
            state.move_watermark();
            state.write(Line::domain_changed(before.as_ref(), &place), by);
        }
        Ok(())
    }

    async fn remove_place(&self, domain: &Domain, by: By) -> Answer<()> {
        let mut state = self.enter().await?;
        let place = state.places.remove(domain).ok_or(RegistryError::Missing)?;
        state.move_watermark();
        state.write(Line::domain_removed(&place), by);
        Ok(())
    }

    async fn blocked_hosts(&self) -> Answer<Vec<BlockedHost>> {
        Ok(self.enter().await?.blocked.values().cloned().collect())
    }

    async fn block_host(&self, host: BlockedHost, by: By) -> Answer<()> {
        let mut state = self.enter().await?;
        if !state.blocked.contains_key(&host.host) {
            state.move_watermark();
            state.write(Line::host_blocked(&host), by);
            state.blocked.insert(host.host.clone(), host);
        }
        Ok(())
    }

    async fn unblock_host(&self, host: &str, by: By) -> Answer<()> {
        let mut state = self.enter().await?;
        let host = state.blocked.remove(host).ok_or(RegistryError::Missing)?;
        state.move_watermark();
        state.write(Line::host_unblocked(&host), by);
        Ok(())
    }

    async fn report(&self, report: NewReport) -> Answer<Reported> {
        let mut state = self.enter().await?;
        let NewReport { link, born, reporter, account, reason, text, at } = report;
        let about = |one: &Report| one.state == ReportState::Open && one.link == link && one.born == born;
        let earlier = state.reports.values().find(|(by, one)| *by == reporter && about(one)).map(|(_, one)| one.id);
        let reporters = state.reports.values().filter(|(_, one)| about(one)).count() as u64 + u64::from(earlier.is_none());
        let id = earlier.unwrap_or_else(|| {
            state.reports_made += 1;
            let id = ReportId(state.reports_made);
            let report = Report { id, link, born, account, reason, text, at, state: ReportState::Open };
            state.reports.insert(id, (reporter, report));
            id
        });
        Ok(Reported { id, reporters })
    }

    async fn reports(&self, wanted: ReportState, after: Option<ReportId>, limit: usize) -> Answer<Vec<Report>> {
        let state = self.enter().await?;
        let reports = state.reports.values().map(|(_, report)| report).filter(|report| report.state == wanted);
        Ok(reports.filter(|report| after.is_none_or(|after| report.id > after)).take(limit).cloned().collect())
    }

    async fn reported(&self, wanted: ReportState, after: Option<ReportId>, limit: usize) -> Answer<Vec<ReportedLink>> {
        let state = self.enter().await?;
        let mut links: Vec<ReportedLink> = Vec::new();
        for (_, report) in state.reports.values().filter(|(_, report)| report.state == wanted) {
            let at = match links.iter().position(|link| link.link == report.link && link.born == report.born) {
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
            (link.count, link.since, link.last) = (link.count + 1, link.since.min(report.at), link.last.max(report.at));
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

    async fn settle_reports(&self, link: &LinkKey, settled: ReportState, by: By) -> Answer<u64> {
        let mut state = self.enter().await?;
        let mut count = 0;
        let open = state.reports.values_mut().map(|(_, report)| report).filter(|report| report.state == ReportState::Open);
        for report in open.filter(|report| settled != ReportState::Open && report.link == *link) {
            report.state = settled;
            count += 1;
        }
        if count > 0 {
            state.write(Line::reports_settled(link, count, settled), by);
        }
        Ok(count)
    }

    async fn add_webhook(&self, webhook: NewWebhook, by: By) -> Answer<Webhook> {
        let mut state = self.enter().await?;
        if webhook.owner != OwnerId::ADMIN {
            state.user(webhook.owner)?;
        }
        let webhook = state.outbox.add(webhook)?;
        state.write(Line::webhook_added(&webhook), by);
        Ok(webhook)
    }

    async fn webhooks(&self, owner: OwnerId) -> Answer<Vec<Webhook>> {
        Ok(self.enter().await?.outbox.of(owner))
    }

    async fn change_webhook(&self, owner: OwnerId, id: WebhookId, change: WebhookChange, by: By) -> Answer<Webhook> {
        let mut state = self.enter().await?;
        let webhook = state.outbox.find(owner, id)?;
        let before = webhook.clone();
        *webhook = change.apply(&before);
        let after = webhook.clone();
        if let Some(line) = Line::webhook_changed(&before, &after) {
            state.write(line, by);
        }
        Ok(after)
    }

    async fn remove_webhook(&self, owner: OwnerId, id: WebhookId, by: By) -> Answer<()> {
        let mut state = self.enter().await?;
        let webhook = state.outbox.remove(owner, id)?;
        state.write(Line::webhook_removed(&webhook), by);
        Ok(())
    }

    async fn hooked_owners(&self) -> Answer<Vec<OwnerId>> {
        Ok(self.enter().await?.outbox.owners())
    }

    async fn enqueue(&self, event: NewEvent) -> Answer<u64> {
        Ok(self.enter().await?.outbox.enqueue(&event))
    }

    async fn due(&self, claim: Claim) -> Answer<Vec<Due>> {
        let State { outbox, users, .. } = &mut *self.enter().await?;
        Ok(outbox.due(claim, |owner| users.get(&owner).is_some_and(|user| user.suspended.is_some())))
    }

    async fn settle(&self, settlement: Settlement) -> Answer<bool> {
        let mut state = self.enter().await?;
        let Some(settled) = state.outbox.settle(settlement) else { return Ok(false) };
        if let Some((line, by)) = settled {
            state.write(line, by);
        }
        Ok(true)
    }

    async fn deliveries(&self, owner: OwnerId, id: WebhookId, limit: usize) -> Answer<Vec<Delivery>> {
        self.enter().await?.outbox.deliveries(owner, id, limit)
    }

    async fn note(&self, act: Act, subject: &str, change: (Option<String>, Option<String>), by: By) -> Answer<()> {
        self.enter().await?.write(Line::noted(act, subject, change), by);
        Ok(())
    }

    async fn audit(&self, query: &Audits) -> Answer<Vec<AuditEntry>> {
        let state = self.enter().await?;
        let wanted = |entry: &&AuditEntry| {
            query.before.is_none_or(|before| entry.number < before)
                && query.subject.as_ref().is_none_or(|subject| entry.subject == *subject)
                && query.act.is_none_or(|act| entry.act == act)
        };
        Ok(state.audit.values().rev().map(|(_, entry)| entry).filter(wanted).take(query.limit).cloned().collect())
    }

    async fn tidy(&self, now: Moment, keep: Duration, limit: usize) -> Answer<u64> {
        let mut state = self.enter().await?;
        let old = now.saturating_sub(keep);
        let expired = now.saturating_sub(KEPT_WHEN_EXPIRED);
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
        state.reports.retain(|_, (_, report)| is_kept(report.state != ReportState::Open && report.at < old));
        state.outbox.tidy(old, &mut is_kept);
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

    async fn fresh() -> Option<MemoryRegistry> {
        Some(MemoryRegistry::new())
    }
    crate::registry!(fresh);

    #[tokio::test]
    async fn it_breaks_on_command() {
        let registry = MemoryRegistry::new();
        registry.fail(true);
        assert!(registry.offer_setup(Token([1; 32])).await.is_err() && registry.check().await.is_err());
        registry.fail(false);
        assert!(!registry.awaits_setup().await.unwrap());
        registry.check().await.unwrap();
    }
}
