//! Credentials: the set-up link, keys, sessions, invitations and the admin key.

use async_trait::async_trait;
use terse_core::registry::{
    Account, AdminKeyStore, ApiKey, Attribution, AuditRecord, CredentialStore, Invitation, KeyId,
    KeyUsage, MAX_KEYS_PER_OWNER, MAX_SESSIONS_PER_OWNER, NewAccount, NewKey, RegistryError, Role,
    SecretHash, Session,
};
use terse_core::{OwnerId, Revision, Timestamp};

use super::accounts::END_SESSIONS;
use super::rows::{self, ACCOUNT, ACCOUNT_COLUMNS, KEY_COLUMNS, id};
use super::step::{Step, StepError, step};
use super::{Answer, BATCH, PostgresRegistry, all, at_most, first};
use crate::failure::Failure;
use crate::sql::{SqlTimestamp, params};

const SETUP: &str = "SELECT value FROM registry_facts WHERE name = 'setup'";
const ADMIN_KEY: &str = "SELECT value FROM registry_facts WHERE name = 'admin_key'";
const INVITATION: &str = "SELECT token, role, author, expires_at FROM invitations WHERE token = $1";

impl Step<'_> {
    async fn add_key(&self, key: &NewKey, by: &Attribution) -> Result<ApiKey, StepError> {
        let NewKey { owner, name, prefix, token, scope, created_at, expires_at, plan } = key;
        self.account(*owner).await?.ok_or(RegistryError::Missing)?;
        if self.any("SELECT true FROM api_keys WHERE token = $1", params![&token.0[..]]).await? {
            return Err(RegistryError::Conflict.into());
        }
        let owner = owner.0.cast_signed();
        let count = self
            .one("SELECT count(*) FROM api_keys WHERE owner = $1", params![owner], |row| id(row, 0))
            .await?;
        if count.unwrap_or(0) >= MAX_KEYS_PER_OWNER as u64 {
            return Err(RegistryError::TooMany.into());
        }
        let number = self
            .insert(
                "INSERT INTO api_keys (token, owner, name, prefix, scope, created_at, expires_at, \
                 plan) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id",
                params![
                    &token.0[..],
                    owner,
                    *name,
                    *prefix,
                    scope.as_str(),
                    SqlTimestamp(*created_at),
                    expires_at.map(SqlTimestamp),
                    *plan
                ],
            )
            .await?;
        let key = key.clone().into_key(KeyId(number));
        self.write(&AuditRecord::key_added(&key), by).await?;
        Ok(key)
    }

    async fn add_session(&self, session: &Session, seen: Revision) -> Result<(), StepError> {
        let Session { token, owner, created_at, expires_at, browser } = session;
        let account = self
            .account(*owner)
            .await?
            .filter(|account| account.suspended.is_none())
            .ok_or(RegistryError::Missing)?;
        let known = "SELECT true FROM sessions WHERE token = $1";
        if account.revision != seen || self.any(known, params![&token.0[..]]).await? {
            return Err(RegistryError::Conflict.into());
        }
        let owner = owner.0.cast_signed();
        let most = MAX_SESSIONS_PER_OWNER as i64 - 1;
        self.run(
            "DELETE FROM sessions WHERE token IN (SELECT token FROM sessions WHERE owner = $1 \
             ORDER BY created_at DESC, token DESC OFFSET $2)",
            params![owner, most],
        )
        .await?;
        self.run(
            "INSERT INTO sessions (token, owner, created_at, expires_at, browser) \
             VALUES ($1, $2, $3, $4, $5)",
            params![
                &token.0[..],
                owner,
                SqlTimestamp(*created_at),
                SqlTimestamp(*expires_at),
                *browser
            ],
        )
        .await?;
        Ok(())
    }

    /// The role of an account; `Some(None)` while it is suspended, `None` if it does not exist.
    async fn authority(&self, id: OwnerId) -> Result<Option<Option<Role>>, StepError> {
        if id == OwnerId::ADMIN {
            return Ok(Some(Some(Role::Admin)));
        }
        let account = self.account(id).await?;
        Ok(account.map(|account| account.suspended.is_none().then_some(account.role)))
    }

    async fn accept(&self, token: &SecretHash, account: &NewAccount) -> Result<Account, StepError> {
        let found = self.one(INVITATION, params![&token.0[..]], rows::invitation).await?;
        let Invitation { role, by, .. } = found
            .filter(|invitation| invitation.expires_at > account.created_at)
            .ok_or(RegistryError::Missing)?;
        // The inviter's present role must still cover the role of the invitation.
        match self.authority(by).await? {
            Some(Some(least)) if least >= role => {}
            _ => return Err(RegistryError::Missing.into()),
        }
        self.run("DELETE FROM invitations WHERE token = $1", params![&token.0[..]]).await?;
        self.create_account(NewAccount { role, ..account.clone() }, Some(by)).await
    }
}

impl PostgresRegistry {
    async fn setup(&self) -> Result<Option<SecretHash>, Failure> {
        first(&self.query(SETUP, &[]).await?, |row| rows::token(row, 0))
    }
}

#[async_trait]
impl CredentialStore for PostgresRegistry {
    async fn offer_setup(&self, token: SecretHash) -> Answer<bool> {
        step!(self, Registry, |step| {
            let had = "SELECT true FROM registry_facts WHERE name = 'had_admin'";
            if step.any(had, &[]).await? {
                return Ok(false);
            }
            step.run(
                "INSERT INTO registry_facts VALUES ('setup', $1) \
                 ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                params![&token.0[..]],
            )
            .await?;
            Ok(true)
        })
    }

    async fn take_setup(&self, token: &SecretHash, account: NewAccount) -> Answer<Account> {
        step!(self, Registry, |step| {
            if step.one(SETUP, &[], |row| rows::token(row, 0)).await? != Some(*token) {
                return Err(RegistryError::Missing.into());
            }
            step.create_account(NewAccount { role: Role::Admin, ..account.clone() }, None).await
        })
    }

    async fn awaits_setup(&self) -> Answer<bool> {
        Ok(self.setup().await?.is_some())
    }

    async fn awaits_setup_by(&self, token: &SecretHash) -> Answer<bool> {
        Ok(self.setup().await? == Some(*token))
    }

    async fn add_key(&self, key: NewKey, by: Attribution) -> Answer<ApiKey> {
        step!(self, Registry, |step| { step.add_key(&key, &by).await })
    }

    async fn key(&self, token: &SecretHash) -> Answer<Option<(ApiKey, Account)>> {
        let sql = format!(
            "SELECT {ACCOUNT_COLUMNS}, {KEY_COLUMNS} FROM api_keys k \
             JOIN accounts a ON a.id = k.owner WHERE k.token = $1"
        );
        let rows = self.query(&sql, params![&token.0[..]]).await?;
        Ok(first(&rows, |row| Ok((rows::key(row, ACCOUNT)?, rows::account(row, 0)?)))?)
    }

    async fn keys(&self, owner: OwnerId) -> Answer<Vec<ApiKey>> {
        let sql = format!("SELECT {KEY_COLUMNS} FROM api_keys k WHERE k.owner = $1 ORDER BY k.id");
        let rows = self.query(&sql, params![owner.0.cast_signed()]).await?;
        Ok(all(&rows, |row| rows::key(row, 0))?)
    }

    async fn revoke_key(&self, owner: OwnerId, id: KeyId, by: Attribution) -> Answer<()> {
        step!(self, Registry, |step| {
            let sql = format!(
                "DELETE FROM api_keys k WHERE k.id = $1 AND k.owner = $2 RETURNING {KEY_COLUMNS}"
            );
            let key = step
                .one(&sql, params![id.0.cast_signed(), owner.0.cast_signed()], |row| {
                    rows::key(row, 0)
                })
                .await?
                .ok_or(RegistryError::Missing)?;
            step.write(&AuditRecord::key_revoked(&key), &by).await?;
            Ok(())
        })
    }

    async fn add_key_usage(&self, used: &[KeyUsage]) -> Answer<()> {
        // Each batch is atomic; the batches together need not be. In the order of ids, so that two
        // nodes do not wait for each other.
        let mut used = used.to_vec();
        used.sort_unstable_by_key(|usage| usage.key);
        for some in used.chunks(BATCH) {
            let ids: Vec<i64> = some.iter().map(|usage| usage.key.0.cast_signed()).collect();
            let times: Vec<SqlTimestamp> =
                some.iter().map(|usage| SqlTimestamp(usage.last_at)).collect();
            let requests: Vec<i64> =
                some.iter().map(|usage| usage.requests.cast_signed()).collect();
            step!(self, Rows, |step| {
                step.run(
                    "UPDATE api_keys k SET requests = k.requests + u.requests, \
                     last_used_at = greatest(k.last_used_at, u.at) \
                     FROM (SELECT id, max(at) AS at, sum(requests)::bigint AS requests \
                     FROM unnest($1, $2, $3) AS t (id, at, requests) \
                     GROUP BY id ORDER BY id) AS u WHERE k.id = u.id",
                    params![ids, times, requests],
                )
                .await?;
                Ok(())
            })?;
        }
        Ok(())
    }

    async fn add_session(&self, session: Session, seen: Revision) -> Answer<()> {
        step!(self, Registry, |step| { step.add_session(&session, seen).await })
    }

    async fn session(
        &self,
        token: &SecretHash,
        now: Timestamp,
    ) -> Answer<Option<(Session, Account)>> {
        let sql = format!(
            "SELECT {ACCOUNT_COLUMNS}, s.token, s.owner, s.created_at, s.expires_at, s.browser \
             FROM sessions s JOIN accounts a ON a.id = s.owner \
             WHERE s.token = $1 AND s.expires_at > $2"
        );
        let rows = self.query(&sql, params![&token.0[..], SqlTimestamp(now)]).await?;
        Ok(first(&rows, |row| Ok((rows::session(row, ACCOUNT)?, rows::account(row, 0)?)))?)
    }

    async fn sessions(&self, owner: OwnerId, now: Timestamp) -> Answer<Vec<Session>> {
        let sql = "SELECT token, owner, created_at, expires_at, browser FROM sessions \
             WHERE owner = $1 AND expires_at > $2 ORDER BY created_at, token";
        let rows = self.query(sql, params![owner.0.cast_signed(), SqlTimestamp(now)]).await?;
        Ok(all(&rows, |row| rows::session(row, 0))?)
    }

    async fn end_session(&self, token: &SecretHash) -> Answer<()> {
        step!(self, Rows, |step| {
            step.run("DELETE FROM sessions WHERE token = $1", params![&token.0[..]]).await?;
            Ok(())
        })
    }

    async fn end_sessions(&self, owner: OwnerId, but: Option<&SecretHash>) -> Answer<()> {
        let owner = owner.0.cast_signed();
        step!(self, Registry, |step| {
            match but {
                Some(token) => {
                    let sql = "DELETE FROM sessions WHERE owner = $1 AND token <> $2";
                    step.run(sql, params![owner, &token.0[..]]).await?
                }
                None => step.run(END_SESSIONS, params![owner]).await?,
            };
            Ok(())
        })
    }

    async fn invite(&self, invitation: Invitation, by: Attribution) -> Answer<()> {
        step!(self, Registry, |step| {
            let Invitation { token, role, by: author, expires_at } = &invitation;
            step.authority(*author).await?.ok_or(RegistryError::Missing)?;
            if step.any(INVITATION, params![&token.0[..]]).await? {
                return Err(RegistryError::Conflict.into());
            }
            step.run(
                "INSERT INTO invitations (token, role, author, expires_at) \
                 VALUES ($1, $2, $3, $4)",
                params![
                    &token.0[..],
                    role.as_str(),
                    author.0.cast_signed(),
                    SqlTimestamp(*expires_at)
                ],
            )
            .await?;
            step.write(&AuditRecord::invited(&invitation), &by).await?;
            Ok(())
        })
    }

    async fn invitations(&self, now: Timestamp, limit: usize) -> Answer<Vec<Invitation>> {
        let sql = "SELECT token, role, author, expires_at FROM invitations \
             WHERE expires_at > $1 ORDER BY expires_at LIMIT $2";
        let rows = self.query(sql, params![SqlTimestamp(now), at_most(limit)]).await?;
        Ok(all(&rows, rows::invitation)?)
    }

    async fn revoke_invitation(&self, token: &SecretHash, by: Attribution) -> Answer<()> {
        step!(self, Registry, |step| {
            let sql = "DELETE FROM invitations WHERE token = $1 \
                 RETURNING token, role, author, expires_at";
            let invitation = step
                .one(sql, params![&token.0[..]], rows::invitation)
                .await?
                .ok_or(RegistryError::Missing)?;
            step.write(&AuditRecord::invitation_revoked(&invitation), &by).await?;
            Ok(())
        })
    }

    async fn accept(&self, token: &SecretHash, account: NewAccount) -> Answer<Account> {
        step!(self, Registry, |step| { step.accept(token, &account).await })
    }
}

#[async_trait]
impl AdminKeyStore for PostgresRegistry {
    async fn admin_key(&self) -> Answer<Option<SecretHash>> {
        Ok(first(&self.query(ADMIN_KEY, &[]).await?, |row| rows::token(row, 0))?)
    }

    async fn create_admin_key(&self, hash: SecretHash) -> Answer<SecretHash> {
        step!(self, Registry, |step| {
            step.run(
                "INSERT INTO registry_facts VALUES ('admin_key', $1) ON CONFLICT DO NOTHING",
                params![&hash.0[..]],
            )
            .await?;
            Ok(step.one(ADMIN_KEY, &[], |row| rows::token(row, 0)).await?.unwrap_or(hash))
        })
    }
}
