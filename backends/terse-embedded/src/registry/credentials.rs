//! Writes credentials: keys, sessions, invitations.

use async_trait::async_trait;
use rusqlite::params;
use terse_core::registry::{
    Account, ApiKey, Attribution, AuditRecord, CredentialStore, Invitation, KeyId, KeyUsage,
    MAX_KEYS_PER_OWNER, MAX_SESSIONS_PER_OWNER, NewAccount, NewKey, RegistryError, Role,
    SecretHash, Session,
};
use terse_core::{OwnerId, Revision, Timestamp};

use crate::registry::accounts::END_SESSIONS;
use crate::registry::rows::{self, filed, key_columns};
use crate::registry::store::{Answer, BATCH, EmbeddedRegistry};
use crate::registry::writes::{RegistryWriteError, RegistryWrites};

pub(crate) const KEY_KNOWN: &str = "SELECT 1 FROM keys WHERE token = ?1";
pub(crate) const KEY_COUNT: &str = "SELECT count(*) FROM keys WHERE owner = ?1";
pub(crate) const KEY_BY_ID: &str =
    concat!("SELECT ", key_columns!(), " FROM keys k WHERE k.id = ?1 AND k.owner = ?2");
pub(crate) const ADD_USAGE: &str = "UPDATE keys SET requests = requests + ?3, \
    last_used_at = max(coalesce(last_used_at, ?2), ?2) WHERE id = ?1";
pub(crate) const SESSION_KNOWN: &str = "SELECT 1 FROM sessions WHERE token = ?1";
/// Deletes all sessions of an owner but the latest.
pub(crate) const CROWDED_OUT: &str = "DELETE FROM sessions WHERE token IN \
     (SELECT token FROM sessions WHERE owner = ?1 ORDER BY created_at DESC, token DESC LIMIT -1 \
     OFFSET ?2)";
pub(crate) const END_SESSIONS_BUT: &str = "DELETE FROM sessions WHERE owner = ?1 AND token <> ?2";
pub(crate) const INVITATION_KNOWN: &str = "SELECT 1 FROM invitations WHERE token = ?1";
pub(crate) const INVITATION: &str =
    "SELECT token, role, writer, expires_at FROM invitations WHERE token = ?1 AND expires_at > ?2";
pub(crate) const ANY_INVITATION: &str =
    "SELECT token, role, writer, expires_at FROM invitations WHERE token = ?1";
const ADD_KEY: &str = "INSERT INTO keys (token, owner, name, prefix, scope, created_at, \
    expires_at, plan) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

impl RegistryWrites {
    pub(crate) fn add_key(
        &self,
        key: &NewKey,
        by: &Attribution,
    ) -> Result<ApiKey, RegistryWriteError> {
        let NewKey { owner, name, prefix, token, scope, created_at, expires_at, plan } = key;
        self.account(*owner)?.ok_or(RegistryError::Missing)?;
        if self.any(KEY_KNOWN, [token.0])? {
            return Err(RegistryError::Conflict.into());
        }
        let count: i64 = self.one(KEY_COUNT, [filed(owner.0)], |row| Ok(row.get(0)?))?.unwrap_or(0);
        if count >= MAX_KEYS_PER_OWNER as i64 {
            return Err(RegistryError::TooMany.into());
        }
        let (made, ends) = (created_at.as_ms(), expires_at.map(Timestamp::as_ms));
        let id = self.insert(
            ADD_KEY,
            params![token.0, filed(owner.0), name, prefix, scope.as_str(), made, ends, plan],
        )?;
        let key = key.clone().into_key(KeyId(id));
        self.write(&AuditRecord::key_added(&key), by)?;
        Ok(key)
    }

    pub(crate) fn revoke_key(
        &self,
        owner: OwnerId,
        id: KeyId,
        by: &Attribution,
    ) -> Result<(), RegistryWriteError> {
        let key = self
            .one(KEY_BY_ID, [filed(id.0), filed(owner.0)], |row| rows::key(row, 0))?
            .ok_or(RegistryError::Missing)?;
        self.run("DELETE FROM keys WHERE id = ?1", [filed(id.0)])?;
        self.write(&AuditRecord::key_revoked(&key), by)?;
        Ok(())
    }

    pub(crate) fn add_key_usage(&self, used: &[KeyUsage]) -> Result<(), RegistryWriteError> {
        for KeyUsage { key, last_at, requests } in used {
            self.run(ADD_USAGE, [filed(key.0), last_at.as_ms(), filed(*requests)])?;
        }
        Ok(())
    }

    pub(crate) fn add_session(
        &self,
        session: &Session,
        seen: Revision,
    ) -> Result<(), RegistryWriteError> {
        let Session { token, owner, created_at, expires_at, browser } = session;
        let account = self
            .account(*owner)?
            .filter(|account| account.suspended.is_none())
            .ok_or(RegistryError::Missing)?;
        if account.revision != seen || self.any(SESSION_KNOWN, [token.0])? {
            return Err(RegistryError::Conflict.into());
        }
        self.run(CROWDED_OUT, [filed(owner.0), MAX_SESSIONS_PER_OWNER as i64 - 1])?;
        let times = (created_at.as_ms(), expires_at.as_ms());
        let row = params![token.0, filed(owner.0), times.0, times.1, browser];
        self.run("INSERT INTO sessions VALUES (?1, ?2, ?3, ?4, ?5)", row)?;
        Ok(())
    }

    pub(crate) fn end_session(&self, token: &SecretHash) -> Result<(), RegistryWriteError> {
        self.run("DELETE FROM sessions WHERE token = ?1", [token.0])?;
        Ok(())
    }

    pub(crate) fn end_sessions(
        &self,
        owner: OwnerId,
        but: Option<&SecretHash>,
    ) -> Result<(), RegistryWriteError> {
        match but {
            Some(token) => self.run(END_SESSIONS_BUT, params![filed(owner.0), token.0])?,
            None => self.run(END_SESSIONS, [filed(owner.0)])?,
        };
        Ok(())
    }

    pub(crate) fn invite(
        &self,
        invitation: &Invitation,
        by: &Attribution,
    ) -> Result<(), RegistryWriteError> {
        let Invitation { token, role, by: writer, expires_at } = invitation;
        self.authority(*writer)?.ok_or(RegistryError::Missing)?;
        if self.any(INVITATION_KNOWN, [token.0])? {
            return Err(RegistryError::Conflict.into());
        }
        let row = params![token.0, role.as_str(), filed(writer.0), expires_at.as_ms()];
        self.run("INSERT INTO invitations VALUES (?1, ?2, ?3, ?4)", row)?;
        self.write(&AuditRecord::invited(invitation), by)?;
        Ok(())
    }

    pub(crate) fn revoke_invitation(
        &self,
        token: &SecretHash,
        by: &Attribution,
    ) -> Result<(), RegistryWriteError> {
        let invitation =
            self.one(ANY_INVITATION, [token.0], rows::invitation)?.ok_or(RegistryError::Missing)?;
        self.run("DELETE FROM invitations WHERE token = ?1", [token.0])?;
        self.write(&AuditRecord::invitation_revoked(&invitation), by)?;
        Ok(())
    }

    pub(crate) fn accept(
        &self,
        token: &SecretHash,
        account: &NewAccount,
    ) -> Result<Account, RegistryWriteError> {
        let found =
            self.one(INVITATION, params![token.0, account.created_at.as_ms()], rows::invitation)?;
        let Invitation { role, by, .. } = found.ok_or(RegistryError::Missing)?;
        // The inviter's present role must still cover the role of the invitation.
        match self.authority(by)? {
            Some(Some(least)) if least >= role => {}
            _ => return Err(RegistryError::Missing.into()),
        }
        self.run("DELETE FROM invitations WHERE token = ?1", [token.0])?;
        self.create_account(NewAccount { role, ..account.clone() }, Some(by))
    }

    /// The role of an account; `Some(None)` while it is suspended, `None` if it does not exist.
    fn authority(&self, id: OwnerId) -> Result<Option<Option<Role>>, RegistryWriteError> {
        if id == OwnerId::ADMIN {
            return Ok(Some(Some(Role::Admin)));
        }
        Ok(self.account(id)?.map(|account| account.suspended.is_none().then_some(account.role)))
    }
}

#[async_trait]
impl CredentialStore for EmbeddedRegistry {
    async fn offer_setup(&self, token: SecretHash) -> Answer<bool> {
        self.write(move |writes| writes.offer_setup(&token)).await
    }

    async fn take_setup(&self, token: &SecretHash, account: NewAccount) -> Answer<Account> {
        let token = *token;
        self.write(move |writes| writes.take_setup(&token, &account)).await
    }

    async fn awaits_setup(&self) -> Answer<bool> {
        self.read(|queries| Ok(queries.setup()?.is_some())).await
    }

    async fn awaits_setup_by(&self, token: &SecretHash) -> Answer<bool> {
        let token = *token;
        self.read(move |queries| Ok(queries.setup()? == Some(token))).await
    }

    async fn add_key(&self, key: NewKey, by: Attribution) -> Answer<ApiKey> {
        self.write(move |writes| writes.add_key(&key, &by)).await
    }

    async fn key(&self, token: &SecretHash) -> Answer<Option<(ApiKey, Account)>> {
        let token = *token;
        self.read(move |queries| queries.key(&token)).await
    }

    async fn keys(&self, owner: OwnerId) -> Answer<Vec<ApiKey>> {
        self.list(move |queries| queries.keys(owner)).await
    }

    async fn revoke_key(&self, owner: OwnerId, id: KeyId, by: Attribution) -> Answer<()> {
        self.write(move |writes| writes.revoke_key(owner, id, &by)).await
    }

    async fn add_key_usage(&self, used: &[KeyUsage]) -> Answer<()> {
        // Each batch is atomic; the batches together need not be.
        for some in used.chunks(BATCH) {
            let some = some.to_vec();
            self.write(move |writes| writes.add_key_usage(&some)).await?;
        }
        Ok(())
    }

    async fn add_session(&self, session: Session, seen: Revision) -> Answer<()> {
        self.write(move |writes| writes.add_session(&session, seen)).await
    }

    async fn session(
        &self,
        token: &SecretHash,
        now: Timestamp,
    ) -> Answer<Option<(Session, Account)>> {
        let token = *token;
        self.read(move |queries| queries.session(&token, now)).await
    }

    async fn sessions(&self, owner: OwnerId, now: Timestamp) -> Answer<Vec<Session>> {
        self.list(move |queries| queries.sessions(owner, now)).await
    }

    async fn end_session(&self, token: &SecretHash) -> Answer<()> {
        let token = *token;
        self.write(move |writes| writes.end_session(&token)).await
    }

    async fn end_sessions(&self, owner: OwnerId, but: Option<&SecretHash>) -> Answer<()> {
        let but = but.copied();
        self.write(move |writes| writes.end_sessions(owner, but.as_ref())).await
    }

    async fn invite(&self, invitation: Invitation, by: Attribution) -> Answer<()> {
        self.write(move |writes| writes.invite(&invitation, &by)).await
    }

    async fn invitations(&self, now: Timestamp, limit: usize) -> Answer<Vec<Invitation>> {
        self.list(move |queries| queries.invitations(now, limit)).await
    }

    async fn revoke_invitation(&self, token: &SecretHash, by: Attribution) -> Answer<()> {
        let token = *token;
        self.write(move |writes| writes.revoke_invitation(&token, &by)).await
    }

    async fn accept(&self, token: &SecretHash, account: NewAccount) -> Answer<Account> {
        let token = *token;
        self.write(move |writes| writes.accept(&token, &account)).await
    }
}
