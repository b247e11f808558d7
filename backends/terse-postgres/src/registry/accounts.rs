//! Accounts: created, changed, erased.

use async_trait::async_trait;
use terse_core::OwnerId;
use terse_core::registry::{
    Account, AccountName, AccountStore, Actor, Attribution, AuditRecord, ConditionalAccountChange,
    NewAccount, OidcIdentity, RegistryError, Role, SecretHash, TwoFactor, redact_account,
};

use super::rows::{self, ACCOUNT_COLUMNS, AUDIT_COLUMNS, id};
use super::step::{Step, StepError, step};
use super::{Answer, PostgresRegistry, all, at_most, bound, first};
use crate::failure::Failure;
use crate::sql::{SqlTimestamp, params};

/// Deletes what belongs to an account.
const ERASE: [&str; 7] = [
    "DELETE FROM accounts WHERE id = $1",
    "DELETE FROM api_keys WHERE owner = $1",
    END_SESSIONS,
    "DELETE FROM invitations WHERE author = $1",
    "DELETE FROM deliveries WHERE webhook IN (SELECT id FROM webhooks WHERE owner = $1)",
    "DELETE FROM webhooks WHERE owner = $1",
    "UPDATE reports SET account = NULL, text = NULL WHERE account = $1",
];
pub(super) const END_SESSIONS: &str = "DELETE FROM sessions WHERE owner = $1";

impl Step<'_> {
    pub(super) async fn account(&self, account: OwnerId) -> Result<Option<Account>, Failure> {
        let sql = format!("SELECT {ACCOUNT_COLUMNS} FROM accounts a WHERE a.id = $1");
        self.one(&sql, params![account.0.cast_signed()], |row| rows::account(row, 0)).await
    }

    /// Creates an account by sign-up; the audit log names the account itself as actor.
    pub(super) async fn create_account(
        &self,
        account: NewAccount,
        invited_by: Option<OwnerId>,
    ) -> Result<Account, StepError> {
        let at = account.created_at;
        let account = self.make(account).await?;
        let by = Attribution { actor: Actor::Owner(account.id), at, why: None };
        self.write(&AuditRecord::user_added(&account, invited_by), &by).await?;
        Ok(account)
    }

    async fn make(&self, account: NewAccount) -> Result<Account, StepError> {
        self.refuse_taken(None, &account.name, account.identity.as_ref()).await?;
        let NewAccount { name, role, password, identity, created_at } = &account;
        let (issuer, subject) = OidcIdentity::columns(identity.as_ref());
        let number = self
            .insert(
                "INSERT INTO accounts (name, role, created_at, password, issuer, subject, \
                 revision) VALUES ($1, $2, $3, $4, $5, $6, 1) RETURNING id",
                params![
                    name.as_str(),
                    role.as_str(),
                    SqlTimestamp(*created_at),
                    *password,
                    issuer,
                    subject
                ],
            )
            .await?;
        let account = account.clone().into_account(OwnerId(number));
        self.note_admin(&account).await?;
        Ok(account)
    }

    async fn refuse_taken(
        &self,
        but: Option<OwnerId>,
        name: &AccountName,
        identity: Option<&OidcIdentity>,
    ) -> Result<(), StepError> {
        let but = but.map_or(-1, |id| id.0.cast_signed());
        let sql = "SELECT true FROM accounts \
             WHERE lower(name) = lower($1 COLLATE \"C\") AND id <> $2";
        let mut taken = self.any(sql, params![name.as_str(), but]).await?;
        if let Some(OidcIdentity { issuer, subject }) = identity {
            let sql = "SELECT true FROM accounts WHERE issuer = $1 AND subject = $2 AND id <> $3";
            taken |= self.any(sql, params![issuer.as_str(), subject.as_str(), but]).await?;
        }
        if taken { Err(RegistryError::NameTaken.into()) } else { Ok(()) }
    }

    /// Records that there was an admin. From then on, the set-up of the first admin is closed.
    async fn note_admin(&self, account: &Account) -> Result<(), Failure> {
        if account.role == Role::Admin {
            self.run(
                "INSERT INTO registry_facts VALUES ('had_admin', '') ON CONFLICT DO NOTHING",
                &[],
            )
            .await?;
            self.run("DELETE FROM registry_facts WHERE name = 'setup'", &[]).await?;
        }
        Ok(())
    }

    async fn refuse_last_admin(&self, account: &Account) -> Result<(), StepError> {
        let other = "SELECT true FROM accounts \
             WHERE role = 'admin' AND suspended_at IS NULL AND id <> $1 LIMIT 1";
        if account.is_active_admin()
            && !self.any(other, params![account.id.0.cast_signed()]).await?
        {
            return Err(RegistryError::LastAdmin.into());
        }
        Ok(())
    }

    async fn change_account(
        &self,
        change: &ConditionalAccountChange,
        by: &Attribution,
    ) -> Result<Account, StepError> {
        let ConditionalAccountChange { id, change, expected } = change;
        let before = self.account(*id).await?.ok_or(RegistryError::Missing)?;
        if expected.is_some_and(|expected| expected != before.revision) {
            return Err(RegistryError::Conflict.into());
        }
        let Some(effect) = change.effect(&before) else {
            return Ok(before);
        };
        let Account { name, role, password, identity, suspended, plan, reset, revision, .. } =
            &effect.account;
        self.refuse_taken(Some(*id), name, identity.as_ref()).await?;
        if !effect.account.is_active_admin() {
            self.refuse_last_admin(&before).await?;
        }
        let (issuer, subject) = OidcIdentity::columns(identity.as_ref());
        let since = suspended.as_ref().map(|suspension| SqlTimestamp(suspension.at));
        let two_factor = effect.account.two_factor.as_ref();
        let recovery = two_factor.map(TwoFactor::stored_recovery);
        let why = suspended.as_ref().map(|suspension| suspension.why.as_str());
        self.run(
            "UPDATE accounts SET name = $2, role = $3, password = $4, issuer = $5, subject = $6, \
             suspended_at = $7, suspended_why = $8, revision = $9, plan = $10, reset_token = $11, \
             reset_expires_at = $12, totp_seed = $13, totp_step = $14, recovery_codes = $15, \
             preferences = $16 WHERE id = $1",
            params![
                id.0.cast_signed(),
                name.as_str(),
                role.as_str(),
                *password,
                issuer,
                subject,
                since,
                why,
                revision.0.cast_signed(),
                *plan,
                reset.as_ref().map(|reset| &reset.token.0[..]),
                reset.as_ref().map(|reset| SqlTimestamp(reset.expires_at)),
                two_factor.map(|state| &state.seed.0[..]),
                two_factor.map(|state| state.last_step.cast_signed()),
                recovery.as_deref(),
                effect.account.preferences.to_stored()
            ],
        )
        .await?;
        self.note_admin(&effect.account).await?;
        if effect.ends_sessions {
            self.run(END_SESSIONS, params![id.0.cast_signed()]).await?;
        }
        if effect.bumps_version {
            self.change_version();
        }
        for line in &effect.lines {
            self.write(line, by).await?;
        }
        Ok(effect.account)
    }

    async fn erase_account(&self, id: OwnerId, by: &Attribution) -> Result<(), StepError> {
        let account = self.account(id).await?.ok_or(RegistryError::Missing)?;
        self.refuse_last_admin(&account).await?;
        for sql in ERASE {
            self.run(sql, params![id.0.cast_signed()]).await?;
        }
        self.write(&AuditRecord::user_erased(&account), by).await?;
        let sql = format!("SELECT {AUDIT_COLUMNS} FROM audit WHERE about = $1");
        let mut lines = all(&self.query(&sql, params![id.0.cast_signed()]).await?, rows::entry)?;
        redact_account(&mut lines, &account.name);
        for line in &lines {
            self.run(
                "UPDATE audit SET why = $2, before = $3, after = $4 WHERE number = $1",
                params![line.number.cast_signed(), line.why, line.before, line.after],
            )
            .await?;
        }
        if account.suspended.is_some() {
            self.change_version();
        }
        Ok(())
    }
}

#[async_trait]
impl AccountStore for PostgresRegistry {
    async fn add_account(&self, account: NewAccount, by: Attribution) -> Answer<Account> {
        step!(self, Registry, |step| {
            let account = step.make(account.clone()).await?;
            step.write(&AuditRecord::user_added(&account, None), &by).await?;
            Ok(account)
        })
    }

    async fn account(&self, id: OwnerId) -> Answer<Option<Account>> {
        let sql = format!("SELECT {ACCOUNT_COLUMNS} FROM accounts a WHERE a.id = $1");
        let rows = self.query(&sql, params![id.0.cast_signed()]).await?;
        Ok(first(&rows, |row| rows::account(row, 0))?)
    }

    async fn account_by_name(&self, name: &AccountName) -> Answer<Option<Account>> {
        let sql = format!(
            "SELECT {ACCOUNT_COLUMNS} FROM accounts a \
             WHERE lower(a.name) = lower($1 COLLATE \"C\")"
        );
        let rows = self.query(&sql, params![name.as_str()]).await?;
        Ok(first(&rows, |row| rows::account(row, 0))?)
    }

    async fn account_by_identity(&self, identity: &OidcIdentity) -> Answer<Option<Account>> {
        let sql = format!(
            "SELECT {ACCOUNT_COLUMNS} FROM accounts a WHERE a.issuer = $1 AND a.subject = $2"
        );
        let params = params![identity.issuer.as_str(), identity.subject.as_str()];
        let rows = self.query(&sql, params).await?;
        Ok(first(&rows, |row| rows::account(row, 0))?)
    }

    async fn account_by_reset(&self, token: &SecretHash) -> Answer<Option<Account>> {
        let sql = format!("SELECT {ACCOUNT_COLUMNS} FROM accounts a WHERE a.reset_token = $1");
        let rows = self.query(&sql, params![&token.0[..]]).await?;
        Ok(first(&rows, |row| rows::account(row, 0))?)
    }

    async fn accounts(&self, after: Option<OwnerId>, limit: usize) -> Answer<Vec<Account>> {
        let sql = format!(
            "SELECT {ACCOUNT_COLUMNS} FROM accounts a WHERE a.id > $1 ORDER BY a.id LIMIT $2"
        );
        let after = after.map_or(i64::MIN, |id| bound(id.0));
        let rows = self.pool.list(&sql, params![after, at_most(limit)]).await?;
        Ok(all(&rows, |row| rows::account(row, 0))?)
    }

    async fn change_account(
        &self,
        change: ConditionalAccountChange,
        by: Attribution,
    ) -> Answer<Account> {
        step!(self, Registry, |step| { step.change_account(&change, &by).await })
    }

    async fn erase_account(&self, id: OwnerId, by: Attribution) -> Answer<()> {
        step!(self, Registry, |step| { step.erase_account(id, &by).await })
    }

    async fn suspended(&self) -> Answer<Vec<OwnerId>> {
        let rows = self.query(SUSPENDED, &[]).await?;
        Ok(all(&rows, |row| Ok(OwnerId(id(row, 0)?)))?)
    }
}

pub(super) const SUSPENDED: &str =
    "SELECT id FROM accounts WHERE suspended_at IS NOT NULL ORDER BY id";
