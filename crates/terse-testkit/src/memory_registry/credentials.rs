//! The set-up link, keys, sessions and invitations.

use async_trait::async_trait;
use terse_core::registry::{
    Account, ApiKey, Attribution, AuditRecord, CredentialStore, Invitation, KeyId, KeyUsage,
    MAX_KEYS_PER_OWNER, MAX_SESSIONS_PER_OWNER, NewAccount, NewKey, RegistryError, Role,
    SecretHash, Session,
};
use terse_core::{OwnerId, Revision, Timestamp};

use super::{Answer, MemoryRegistry};

#[async_trait]
impl CredentialStore for MemoryRegistry {
    async fn offer_setup(&self, token: SecretHash) -> Answer<bool> {
        let mut state = self.enter().await?;
        if !state.had_admin {
            state.setup = Some(token);
        }
        Ok(!state.had_admin)
    }

    async fn take_setup(&self, token: &SecretHash, account: NewAccount) -> Answer<Account> {
        let mut state = self.enter().await?;
        if state.setup != Some(*token) {
            return Err(RegistryError::Missing);
        }
        state.create_account(NewAccount { role: Role::Admin, ..account }, None)
    }

    async fn awaits_setup(&self) -> Answer<bool> {
        Ok(self.enter().await?.setup.is_some())
    }

    async fn awaits_setup_by(&self, token: &SecretHash) -> Answer<bool> {
        Ok(self.enter().await?.setup == Some(*token))
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

    async fn key(&self, token: &SecretHash) -> Answer<Option<(ApiKey, Account)>> {
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

    async fn add_key_usage(&self, used: &[KeyUsage]) -> Answer<()> {
        let mut state = self.enter().await?;
        for usage in used {
            if let Some((_, key)) = state.keys.get_mut(&usage.key) {
                key.last_used_at = key.last_used_at.max(Some(usage.last_at));
                key.requests += usage.requests;
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

    async fn session(
        &self,
        token: &SecretHash,
        now: Timestamp,
    ) -> Answer<Option<(Session, Account)>> {
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

    async fn end_session(&self, token: &SecretHash) -> Answer<()> {
        self.enter().await?.sessions.retain(|session| session.token != *token);
        Ok(())
    }

    async fn end_sessions(&self, owner: OwnerId, but: Option<&SecretHash>) -> Answer<()> {
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

    async fn revoke_invitation(&self, token: &SecretHash, by: Attribution) -> Answer<()> {
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

    async fn accept(&self, token: &SecretHash, account: NewAccount) -> Answer<Account> {
        let mut state = self.enter().await?;
        let found = state
            .invitations
            .iter()
            .find(|one| one.token == *token && one.expires_at > account.created_at);
        let invitation = found
            .filter(|invitation| state.stands(invitation))
            .cloned()
            .ok_or(RegistryError::Missing)?;
        let account = state
            .create_account(NewAccount { role: invitation.role, ..account }, Some(invitation.by))?;
        state.invitations.retain(|one| one.token != *token);
        Ok(account)
    }
}
