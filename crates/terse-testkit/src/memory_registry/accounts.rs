//! Accounts.

use async_trait::async_trait;
use terse_core::OwnerId;
use terse_core::registry::{
    Account, AccountName, AccountStore, Attribution, AuditEntry, AuditRecord,
    ConditionalAccountChange, NewAccount, OidcIdentity, RegistryError, SecretHash, redact_account,
};

use super::{Answer, MemoryRegistry};

#[async_trait]
impl AccountStore for MemoryRegistry {
    async fn add_account(&self, account: NewAccount, by: Attribution) -> Answer<Account> {
        let mut state = self.enter().await?;
        let account = state.make(account)?;
        state.write(AuditRecord::user_added(&account, None), by);
        Ok(account)
    }

    async fn account(&self, id: OwnerId) -> Answer<Option<Account>> {
        Ok(self.enter().await?.accounts.get(&id).cloned())
    }

    async fn account_by_name(&self, name: &AccountName) -> Answer<Option<Account>> {
        Ok(self.enter().await?.accounts.values().find(|account| account.name == *name).cloned())
    }

    async fn account_by_identity(&self, identity: &OidcIdentity) -> Answer<Option<Account>> {
        Ok(self
            .enter()
            .await?
            .accounts
            .values()
            .find(|account| account.identity.as_ref() == Some(identity))
            .cloned())
    }

    async fn account_by_reset(&self, token: &SecretHash) -> Answer<Option<Account>> {
        let state = self.enter().await?;
        let has =
            |account: &&Account| account.reset.as_ref().is_some_and(|one| one.token == *token);
        Ok(state.accounts.values().find(has).cloned())
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

    async fn change_account(
        &self,
        change: ConditionalAccountChange,
        by: Attribution,
    ) -> Answer<Account> {
        let mut state = self.enter().await?;
        let ConditionalAccountChange { id, change, expected } = change;
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
        if !effect.account.is_active_admin() && state.is_last_admin(&before) {
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
}
