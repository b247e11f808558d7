//! A registry in memory that keeps every promise and fails on command.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use acme::Acme;
use jobs::Jobs;
use outbox::Outbox;
use terse_core::clicks::Salt;
use terse_core::registry::{
    AbuseReport, Account, AccountName, Actor, ApiKey, Attribution, AuditEntry, AuditRecord,
    BlockedHost, DomainConfig, FIRST_ACCOUNT, Invitation, KeyId, NewAccount, OidcIdentity,
    RegistryError, ReportId, Role, SecretHash, Session,
};
use terse_core::{Branding, Domain, OwnerId, StoreError};

mod accounts;
mod acme;
mod credentials;
mod jobs;
mod maintenance;
mod moderation;
mod node_versions;
mod outbox;
mod salts;
mod snapshot;
mod webhooks;

type Answer<T> = Result<T, RegistryError>;

/// Stores owners only in memory. Tests can make it fail and make it slow.
#[derive(Debug, Default)]
pub struct MemoryRegistry {
    state: Arc<Mutex<State>>,
    failing: AtomicBool,
    delay_ms: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// The version without its incarnation, because memory is never restored from a backup.
    version: u64,
    setup: Option<SecretHash>,
    had_admin: bool,
    /// The number of accounts ever created.
    users_made: u64,
    keys_made: u64,
    reports_made: u64,
    lines_made: u64,
    accounts: BTreeMap<OwnerId, Account>,
    keys: BTreeMap<KeyId, (SecretHash, ApiKey)>,
    /// In the order of their beginning.
    sessions: Vec<Session>,
    invitations: Vec<Invitation>,
    domain_configs: BTreeMap<Domain, DomainConfig>,
    blocked: BTreeMap<String, BlockedHost>,
    branding: Branding,
    reports: BTreeMap<ReportId, ([u8; 16], AbuseReport)>,
    outbox: Outbox,
    jobs: Jobs,
    acme: Acme,
    salts: BTreeMap<i64, Salt>,
    /// The versions that nodes read, by their names.
    nodes: BTreeMap<String, u8>,
    admin_key: Option<SecretHash>,
    /// Each entry with the account that it is about.
    audit: BTreeMap<u64, (Option<OwnerId>, AuditEntry)>,
}

impl MemoryRegistry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Another handle on the same registry, as another node has one. Each handle has its own
    /// failures and delays.
    pub fn another_handle(&self) -> Self {
        Self { state: Arc::clone(&self.state), ..Self::default() }
    }

    /// Sets whether every call answers `Unavailable` and does nothing.
    pub fn fail(&self, failing: bool) {
        self.failing.store(failing, Ordering::SeqCst);
    }

    /// Delays every call by at least this long.
    pub fn delay(&self, by: Duration) {
        self.delay_ms.store(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Every call runs this first; it delays or fails the call on command.
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
        let entry = AuditEntry {
            number: self.lines_made,
            at,
            actor,
            act,
            unknown_act: None,
            subject,
            why,
            before,
            after,
        };
        self.audit.insert(self.lines_made, (about, entry));
    }

    /// Records a change of data that the redirect plane caches.
    fn change_version(&mut self) {
        self.version += 1;
    }

    /// Whether another account than this one has the name or the identity.
    fn taken(
        &self,
        but: Option<OwnerId>,
        name: &AccountName,
        identity: Option<&OidcIdentity>,
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

    /// Creates an account by sign-up; the audit log names the account itself as actor.
    fn create_account(
        &mut self,
        account: NewAccount,
        invited_by: Option<OwnerId>,
    ) -> Answer<Account> {
        let at = account.created_at;
        let account = self.make(account)?;
        self.write(
            AuditRecord::user_added(&account, invited_by),
            Attribution { actor: Actor::Owner(account.id), at, why: None },
        );
        Ok(account)
    }

    /// Whether this account is the only active admin.
    fn is_last_admin(&self, account: &Account) -> bool {
        account.is_active_admin()
            && !self
                .accounts
                .values()
                .any(|other| other.id != account.id && other.is_active_admin())
    }

    fn account(&self, id: OwnerId) -> Answer<&Account> {
        self.accounts.get(&id).ok_or(RegistryError::Missing)
    }

    /// Whether the inviter's present role still covers the invitation.
    fn stands(&self, invitation: &Invitation) -> bool {
        let writer = self.accounts.get(&invitation.by);
        writer.map_or(invitation.by == OwnerId::ADMIN, |account| {
            account.suspended.is_none() && account.role >= invitation.role
        })
    }
}

#[cfg(test)]
mod tests {
    use terse_core::registry::{CredentialStore as _, RegistryMaintenance as _};

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
            registry.offer_setup(SecretHash([1; 32])).await.is_err()
                && registry.check().await.is_err()
        );
        registry.fail(false);
        assert!(!registry.awaits_setup().await.unwrap());
        registry.check().await.unwrap();
    }
}
