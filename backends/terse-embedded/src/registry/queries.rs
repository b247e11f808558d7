//! Finds owners and their credentials through a connection.

use rusqlite::{Connection, Params, Row, params};
use terse_core::registry::{
    Account, AccountName, ApiKey, Invitation, OidcIdentity, SecretHash, Session,
};
use terse_core::{OwnerId, Timestamp};

use crate::failure::Failure;
use crate::registry::rows::{self, ACCOUNT, at_most, bound, filed, key_columns, user_columns};

pub(crate) const ACCOUNT_BY_ID: &str =
    concat!("SELECT ", user_columns!(), " FROM users u WHERE u.id = ?1");
pub(crate) const ACCOUNT_BY_NAME: &str =
    concat!("SELECT ", user_columns!(), " FROM users u WHERE u.name = ?1");
pub(crate) const ACCOUNT_BY_IDENTITY: &str =
    concat!("SELECT ", user_columns!(), " FROM users u WHERE u.issuer = ?1 AND u.subject = ?2");
pub(crate) const ACCOUNT_BY_RESET: &str =
    concat!("SELECT ", user_columns!(), " FROM users u WHERE u.reset_token = ?1");
pub(crate) const ACCOUNTS: &str =
    concat!("SELECT ", user_columns!(), " FROM users u WHERE u.id > ?1 ORDER BY u.id LIMIT ?2");
pub(crate) const SUSPENDED: &str =
    "SELECT id FROM users WHERE suspended_at IS NOT NULL ORDER BY id";
pub(crate) const KEY_BY_TOKEN: &str = concat!(
    "SELECT ",
    user_columns!(),
    ", ",
    key_columns!(),
    " FROM keys k JOIN users u ON u.id = k.owner WHERE k.token = ?1"
);
pub(crate) const KEYS_OF: &str =
    concat!("SELECT ", key_columns!(), " FROM keys k WHERE k.owner = ?1 ORDER BY k.id");
pub(crate) const SESSION: &str = concat!(
    "SELECT ",
    user_columns!(),
    ", s.token, s.owner, s.created_at, s.expires_at, s.browser FROM sessions s \
     JOIN users u ON u.id = s.owner WHERE s.token = ?1 AND s.expires_at > ?2"
);
pub(crate) const SESSIONS_OF: &str = "SELECT token, owner, created_at, expires_at, browser FROM sessions \
     WHERE owner = ?1 AND expires_at > ?2 ORDER BY created_at, token";
pub(crate) const INVITATIONS: &str = "SELECT token, role, writer, expires_at FROM invitations \
     WHERE expires_at > ?1 ORDER BY expires_at LIMIT ?2";

/// A connection. Belongs to one thread.
pub(crate) struct RegistryQueries {
    pub(crate) conn: Connection,
}

impl AsRef<Connection> for RegistryQueries {
    fn as_ref(&self) -> &Connection {
        &self.conn
    }
}

impl RegistryQueries {
    /// The first row, if there is one.
    pub(crate) fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        rows.next()?.map(read).transpose()
    }

    /// All rows.
    pub(crate) fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl Fn(&Row<'_>) -> Result<T, Failure>,
    ) -> Result<Vec<T>, Failure> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(read(row)?);
        }
        Ok(found)
    }

    /// Whether the query returns any row.
    pub(crate) fn any(&self, sql: &str, params: impl Params) -> Result<bool, Failure> {
        Ok(self.conn.prepare_cached(sql)?.exists(params)?)
    }

    pub(crate) fn setup(&self) -> Result<Option<SecretHash>, Failure> {
        self.one("SELECT value FROM meta WHERE name = 'setup'", [], |row| {
            Ok(SecretHash(row.get(0)?))
        })
    }

    pub(crate) fn account(&self, id: OwnerId) -> Result<Option<Account>, Failure> {
        self.one(ACCOUNT_BY_ID, [filed(id.0)], |row| rows::account(row, 0))
    }

    pub(crate) fn account_by_name(&self, name: &AccountName) -> Result<Option<Account>, Failure> {
        self.one(ACCOUNT_BY_NAME, [name.as_str()], |row| rows::account(row, 0))
    }

    pub(crate) fn account_by_identity(
        &self,
        identity: &OidcIdentity,
    ) -> Result<Option<Account>, Failure> {
        self.one(ACCOUNT_BY_IDENTITY, [&identity.issuer, &identity.subject], |row| {
            rows::account(row, 0)
        })
    }

    pub(crate) fn account_by_reset(&self, token: &SecretHash) -> Result<Option<Account>, Failure> {
        self.one(ACCOUNT_BY_RESET, [token.0], |row| rows::account(row, 0))
    }

    pub(crate) fn accounts(
        &self,
        after: Option<OwnerId>,
        limit: usize,
    ) -> Result<Vec<Account>, Failure> {
        let after = after.map_or(i64::MIN, |id| bound(id.0));
        self.all(ACCOUNTS, [after, at_most(limit)], |row| rows::account(row, 0))
    }

    pub(crate) fn suspended(&self) -> Result<Vec<OwnerId>, Failure> {
        self.all(SUSPENDED, [], |row| Ok(OwnerId(row.get::<_, i64>(0)?.cast_unsigned())))
    }

    pub(crate) fn key(&self, token: &SecretHash) -> Result<Option<(ApiKey, Account)>, Failure> {
        self.one(KEY_BY_TOKEN, [token.0], |row| {
            Ok((rows::key(row, ACCOUNT)?, rows::account(row, 0)?))
        })
    }

    pub(crate) fn keys(&self, owner: OwnerId) -> Result<Vec<ApiKey>, Failure> {
        self.all(KEYS_OF, [filed(owner.0)], |row| rows::key(row, 0))
    }

    pub(crate) fn sessions(&self, owner: OwnerId, now: Timestamp) -> Result<Vec<Session>, Failure> {
        self.all(SESSIONS_OF, [filed(owner.0), now.as_ms()], |row| rows::session(row, 0))
    }

    pub(crate) fn invitations(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Invitation>, Failure> {
        self.all(INVITATIONS, [now.as_ms(), at_most(limit)], rows::invitation)
    }

    pub(crate) fn session(
        &self,
        token: &SecretHash,
        now: Timestamp,
    ) -> Result<Option<(Session, Account)>, Failure> {
        let read = |row: &Row<'_>| Ok((rows::session(row, ACCOUNT)?, rows::account(row, 0)?));
        self.one(SESSION, params![token.0, now.as_ms()], read)
    }
}
