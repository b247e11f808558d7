//! Writes accounts: created, changed, erased.

use async_trait::async_trait;
use rusqlite::params;
use terse_core::OwnerId;
use terse_core::registry::{
    Account, AccountName, AccountStore, Actor, Attribution, AuditRecord, ConditionalAccountChange,
    NewAccount, OidcIdentity, RegistryError, Role, SecretHash, TwoFactor, redact_account,
};

use crate::failure::Failure;
use crate::registry::outbox::{EMPTY_OF, REMOVE_OF};
use crate::registry::queries::RegistryQueries;
use crate::registry::rows::{self, audit_columns, filed};
use crate::registry::store::{Answer, EmbeddedRegistry};
use crate::registry::writes::{RegistryWriteError, RegistryWrites};

pub(crate) const NAME_TAKEN: &str = "SELECT 1 FROM users WHERE name = ?1 AND id <> ?2";
pub(crate) const IDENTITY_TAKEN: &str =
    "SELECT 1 FROM users WHERE issuer = ?1 AND subject = ?2 AND id <> ?3";
pub(crate) const OTHER_ADMIN: &str = "SELECT 1 FROM users INDEXED BY users_governing WHERE role = \
    'admin' AND suspended_at IS NULL AND id <> ?1 LIMIT 1";
pub(crate) const LINES_ABOUT: &str =
    concat!("SELECT ", audit_columns!(), " FROM audit WHERE about = ?1");
const ADD: &str = "INSERT INTO users (name, role, created_at, password, issuer, subject, revision) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1)";
const CHANGE: &str = "UPDATE users SET name = ?2, role = ?3, password = ?4, issuer = ?5, subject \
    = ?6, \
     suspended_at = ?7, suspended_why = ?8, revision = ?9, plan = ?10, reset_token = ?11, \
     reset_expires_at = ?12, totp_seed = ?13, totp_step = ?14, recovery_codes = ?15, \
     preferences = ?16 WHERE id = ?1";
pub(crate) const ERASE: [&str; 7] = [
    "DELETE FROM users WHERE id = ?1",
    "DELETE FROM keys WHERE owner = ?1",
    END_SESSIONS,
    "DELETE FROM invitations WHERE writer = ?1",
    EMPTY_OF,
    REMOVE_OF,
    "UPDATE reports SET account = NULL, text = NULL WHERE account = ?1",
];
pub(crate) const END_SESSIONS: &str = "DELETE FROM sessions WHERE owner = ?1";

impl RegistryWrites {
    pub(crate) fn offer_setup(&self, token: &SecretHash) -> Result<bool, RegistryWriteError> {
        if self.any("SELECT 1 FROM meta WHERE name = 'had_admin'", [])? {
            return Ok(false);
        }
        self.run("INSERT OR REPLACE INTO meta VALUES ('setup', ?1)", [token.0])?;
        Ok(true)
    }

    pub(crate) fn take_setup(
        &self,
        token: &SecretHash,
        account: &NewAccount,
    ) -> Result<Account, RegistryWriteError> {
        if self.setup()? != Some(*token) {
            return Err(RegistryError::Missing.into());
        }
        self.create_account(NewAccount { role: Role::Admin, ..account.clone() }, None)
    }

    pub(crate) fn add_account(
        &self,
        account: &NewAccount,
        by: &Attribution,
    ) -> Result<Account, RegistryWriteError> {
        let account = self.make(account.clone())?;
        self.write(&AuditRecord::user_added(&account, None), by)?;
        Ok(account)
    }

    /// Creates an account by sign-up; the audit log names the account itself as actor.
    pub(crate) fn create_account(
        &self,
        account: NewAccount,
        invited_by: Option<OwnerId>,
    ) -> Result<Account, RegistryWriteError> {
        let at = account.created_at;
        let account = self.make(account)?;
        self.write(
            &AuditRecord::user_added(&account, invited_by),
            &Attribution { actor: Actor::Owner(account.id), at, why: None },
        )?;
        Ok(account)
    }

    fn make(&self, account: NewAccount) -> Result<Account, RegistryWriteError> {
        self.refuse_taken(None, &account.name, account.identity.as_ref())?;
        let NewAccount { name, role, password, identity, created_at } = &account;
        let (issuer, subject) = OidcIdentity::columns(identity.as_ref());
        let row =
            params![name.as_str(), role.as_str(), created_at.as_ms(), password, issuer, subject];
        let account = account.clone().into_account(OwnerId(self.insert(ADD, row)?));
        self.create_first_admin(&account)?;
        Ok(account)
    }

    fn refuse_taken(
        &self,
        but: Option<OwnerId>,
        name: &AccountName,
        identity: Option<&OidcIdentity>,
    ) -> Result<(), RegistryWriteError> {
        let but = but.map_or(-1, |id| filed(id.0));
        let mut taken = self.any(NAME_TAKEN, params![name.as_str(), but])?;
        if let Some(OidcIdentity { issuer, subject }) = identity {
            taken |= self.any(IDENTITY_TAKEN, params![issuer, subject, but])?;
        }
        if taken { Err(RegistryError::NameTaken.into()) } else { Ok(()) }
    }

    /// Records that there was an admin. From then on, the setup of the first admin is closed.
    fn create_first_admin(&self, account: &Account) -> Result<(), Failure> {
        if account.role == Role::Admin {
            self.run("INSERT OR REPLACE INTO meta VALUES ('had_admin', 1)", [])?;
            self.run("DELETE FROM meta WHERE name = 'setup'", [])?;
        }
        Ok(())
    }

    pub(crate) fn change_account(
        &self,
        change: &ConditionalAccountChange,
        by: &Attribution,
    ) -> Result<Account, RegistryWriteError> {
        let ConditionalAccountChange { id, change, expected } = change;
        let before = self.account(*id)?.ok_or(RegistryError::Missing)?;
        if expected.is_some_and(|expected| expected != before.revision) {
            return Err(RegistryError::Conflict.into());
        }
        let Some(effect) = change.effect(&before) else {
            return Ok(before);
        };
        let Account { name, role, password, identity, suspended, plan, reset, revision, .. } =
            &effect.account;
        self.refuse_taken(Some(*id), name, identity.as_ref())?;
        if !effect.account.is_active_admin() {
            self.refuse_last_admin(&before)?;
        }
        let (issuer, subject) = OidcIdentity::columns(identity.as_ref());
        let (at, why) = (
            suspended.as_ref().map(|since| since.at.as_ms()),
            suspended.as_ref().map(|since| &since.why),
        );
        let revision = filed(revision.0);
        let two_factor = effect.account.two_factor.as_ref();
        let row = params![
            filed(id.0),
            name.as_str(),
            role.as_str(),
            password,
            issuer,
            subject,
            at,
            why,
            revision,
            plan,
            reset.as_ref().map(|reset| reset.token.0),
            reset.as_ref().map(|reset| reset.expires_at.as_ms()),
            two_factor.map(|state| state.seed.0),
            two_factor.map(|state| filed(state.last_step)),
            two_factor.map(TwoFactor::stored_recovery),
            effect.account.preferences.to_stored()
        ];
        self.run(CHANGE, row)?;
        self.create_first_admin(&effect.account)?;
        if effect.ends_sessions {
            self.run(END_SESSIONS, [filed(id.0)])?;
        }
        if effect.bumps_version {
            self.change_version();
        }
        for line in &effect.lines {
            self.write(line, by)?;
        }
        Ok(effect.account)
    }

    fn refuse_last_admin(&self, account: &Account) -> Result<(), RegistryWriteError> {
        if account.is_active_admin() && !self.any(OTHER_ADMIN, [filed(account.id.0)])? {
            return Err(RegistryError::LastAdmin.into());
        }
        Ok(())
    }

    pub(crate) fn erase_account(
        &self,
        id: OwnerId,
        by: &Attribution,
    ) -> Result<(), RegistryWriteError> {
        let account = self.account(id)?.ok_or(RegistryError::Missing)?;
        self.refuse_last_admin(&account)?;
        for sql in ERASE {
            self.run(sql, [filed(id.0)])?;
        }
        self.write(&AuditRecord::user_erased(&account), by)?;
        let mut lines = self.all(LINES_ABOUT, [filed(id.0)], rows::entry)?;
        redact_account(&mut lines, &account.name);
        for line in &lines {
            let row = params![filed(line.number), line.why, line.before, line.after];
            self.run("UPDATE audit SET why = ?2, before = ?3, after = ?4 WHERE number = ?1", row)?;
        }
        if account.suspended.is_some() {
            self.change_version();
        }
        Ok(())
    }
}

#[async_trait]
impl AccountStore for EmbeddedRegistry {
    async fn add_account(&self, account: NewAccount, by: Attribution) -> Answer<Account> {
        self.write(move |writes| writes.add_account(&account, &by)).await
    }

    async fn account(&self, id: OwnerId) -> Answer<Option<Account>> {
        self.read(move |queries| queries.account(id)).await
    }

    async fn account_by_name(&self, name: &AccountName) -> Answer<Option<Account>> {
        let name = name.clone();
        self.read(move |queries| queries.account_by_name(&name)).await
    }

    async fn account_by_identity(&self, identity: &OidcIdentity) -> Answer<Option<Account>> {
        let identity = identity.clone();
        self.read(move |queries| queries.account_by_identity(&identity)).await
    }

    async fn account_by_reset(&self, token: &SecretHash) -> Answer<Option<Account>> {
        let token = *token;
        self.read(move |queries| queries.account_by_reset(&token)).await
    }

    async fn accounts(&self, after: Option<OwnerId>, limit: usize) -> Answer<Vec<Account>> {
        self.list(move |queries| queries.accounts(after, limit)).await
    }

    async fn change_account(
        &self,
        change: ConditionalAccountChange,
        by: Attribution,
    ) -> Answer<Account> {
        self.write(move |writes| writes.change_account(&change, &by)).await
    }

    async fn erase_account(&self, id: OwnerId, by: Attribution) -> Answer<()> {
        self.write(move |writes| writes.erase_account(id, &by)).await
    }

    async fn suspended(&self) -> Answer<Vec<OwnerId>> {
        self.list(RegistryQueries::suspended).await
    }
}
