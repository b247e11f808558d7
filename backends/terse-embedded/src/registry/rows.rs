//! Converts rows into values. A row that cannot be read is an error, never a guess.

use rusqlite::Row;
use terse_core::registry::{
    AbuseReport, Account, AccountName, AccountPreferences, Actor, ApiKey, AuditEntry, BlockedHost,
    Deactivation, Delivery, DeliveryId, DeliveryState, DomainConfig, EventKind, Invitation, KeyId,
    OidcIdentity, PasswordReset, ReportId, ReportState, Role, Scope, SecretHash, Session,
    SubscribedEvents, Suspension, TwoFactor, Webhook, WebhookId,
};
use terse_core::{Code, Domain, LinkKey, OwnerId, Revision, Target, Timestamp};

use crate::failure::{Failure, corrupt};

type Read<T> = Result<T, Failure>;

/// The number of columns of a user.
pub(crate) const ACCOUNT: usize = 17;
/// The number of columns of a webhook.
pub(crate) const WEBHOOK: usize = 13;

/// The columns of accounts, as [`account`] reads them.
macro_rules! user_columns {
    () => {
        "u.id, u.name, u.role, u.created_at, u.password, u.issuer, u.subject, u.suspended_at, \
         u.suspended_why, u.revision, u.plan, u.reset_token, u.reset_expires_at, \
         u.totp_seed, u.totp_step, u.recovery_codes, u.preferences"
    };
}
/// The columns of keys, as [`key`] reads them.
macro_rules! key_columns {
    () => {
        "k.id, k.owner, k.name, k.prefix, k.scope, k.created_at, k.expires_at, k.plan, \
         k.last_used_at, k.requests"
    };
}
/// The columns of reports, as [`report`] reads them.
macro_rules! report_columns {
    () => {
        "id, domain, code, born, account, reason, text, at, state"
    };
}
/// The columns of the audit log, as [`entry`] reads them.
macro_rules! audit_columns {
    () => {
        "number, at, actor, act, subject, why, before, after"
    };
}
/// The columns of webhooks, as [`webhook`] reads them.
macro_rules! webhook_columns {
    () => {
        "w.id, w.owner, w.url, w.events, w.created_at, w.generation, w.rotated_at, w.disabled_at, \
         w.disabled_why, w.waiting, \
         w.dropped, w.delivered_at, w.active_since"
    };
}
/// The columns of deliveries, as [`delivery`] reads them.
macro_rules! delivery_columns {
    () => {
        "d.id, d.webhook, d.event, d.kind, d.body, d.created_at, d.state, d.attempts, d.next_at, \
         d.tried_at, d.status, d.problem"
    };
}
pub(crate) use {
    audit_columns, delivery_columns, key_columns, report_columns, user_columns, webhook_columns,
};

/// A number as a row stores it. Numbers beyond `i64::MAX` become negative and match no row.
pub(crate) fn filed(number: u64) -> i64 {
    number.cast_signed()
}

/// A number as the bound of a range of ids.
pub(crate) fn bound(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The largest number of rows that one query returns.
pub(crate) fn at_most(limit: usize) -> i64 {
    limit.min(10_000) as i64
}

pub(crate) fn number(row: &Row<'_>, at: usize) -> Read<u64> {
    Ok(row.get::<_, i64>(at)?.cast_unsigned())
}

fn timestamp(row: &Row<'_>, at: usize) -> Read<Timestamp> {
    Ok(Timestamp::from_ms(row.get(at)?))
}

fn maybe_timestamp(row: &Row<'_>, at: usize) -> Read<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(at)?.map(Timestamp::from_ms))
}

/// A text that must be one of a fixed set of words.
fn word<T>(row: &Row<'_>, at: usize, what: &str, parse: impl Fn(&str) -> Option<T>) -> Read<T> {
    let text = row.get_ref(at)?.as_str().map_err(|error| corrupt(error.to_string()))?;
    // The error leaves out the text itself: it may be anything.
    parse(text).ok_or_else(|| corrupt(format!("a {what} cannot be read")).into())
}

/// Reads [`user_columns`], beginning at column `at`.
pub(crate) fn account(row: &Row<'_>, at: usize) -> Read<Account> {
    let id = number(row, at)?;
    let half = || corrupt(format!("user {id} is half written"));
    let identity = match (row.get(at + 5)?, row.get(at + 6)?) {
        (Some(issuer), Some(subject)) => Some(OidcIdentity { issuer, subject }),
        (None, None) => None,
        _ => return Err(half().into()),
    };
    let suspended = match (maybe_timestamp(row, at + 7)?, row.get(at + 8)?) {
        (Some(at), Some(why)) => Some(Suspension { at, why }),
        (None, None) => None,
        _ => return Err(half().into()),
    };
    let reset = match (row.get(at + 11)?, maybe_timestamp(row, at + 12)?) {
        (Some(token), Some(expires_at)) => {
            Some(PasswordReset { token: SecretHash(token), expires_at })
        }
        (None, None) => None,
        _ => return Err(half().into()),
    };
    let two_factor = match (row.get(at + 13)?, row.get(at + 14)?, row.get(at + 15)?) {
        (Some(seed), Some(step), Some(recovery)) => {
            let (seed, recovery): (Vec<u8>, Vec<u8>) = (seed, recovery);
            Some(TwoFactor::from_stored(&seed, step, &recovery).ok_or_else(half)?)
        }
        (None, None, None) => None,
        _ => return Err(half().into()),
    };
    Ok(Account {
        id: OwnerId(id),
        name: word(row, at + 1, "user's name", AccountName::parse)?,
        role: word(row, at + 2, "user's role", Role::parse)?,
        created_at: timestamp(row, at + 3)?,
        password: row.get(at + 4)?,
        identity,
        suspended,
        revision: Revision(number(row, at + 9)?),
        plan: row.get(at + 10)?,
        reset,
        two_factor,
        preferences: AccountPreferences::from_stored(
            row.get::<_, Option<String>>(at + 16)?.as_deref(),
        ),
    })
}

/// Reads [`key_columns`], beginning at column `at`.
pub(crate) fn key(row: &Row<'_>, at: usize) -> Read<ApiKey> {
    Ok(ApiKey {
        id: KeyId(number(row, at)?),
        owner: OwnerId(number(row, at + 1)?),
        name: row.get(at + 2)?,
        prefix: row.get(at + 3)?,
        scope: word(row, at + 4, "key's scope", Scope::parse)?,
        created_at: timestamp(row, at + 5)?,
        expires_at: maybe_timestamp(row, at + 6)?,
        plan: row.get(at + 7)?,
        last_used_at: maybe_timestamp(row, at + 8)?,
        requests: number(row, at + 9)?,
    })
}

/// Reads token, owner, created_at, expires_at, browser, beginning at column `at`.
pub(crate) fn session(row: &Row<'_>, at: usize) -> Read<Session> {
    Ok(Session {
        token: SecretHash(row.get(at)?),
        owner: OwnerId(number(row, at + 1)?),
        created_at: timestamp(row, at + 2)?,
        expires_at: timestamp(row, at + 3)?,
        browser: row.get(at + 4)?,
    })
}

/// Reads token, role, writer, expires_at.
pub(crate) fn invitation(row: &Row<'_>) -> Read<Invitation> {
    Ok(Invitation {
        token: SecretHash(row.get(0)?),
        role: word(row, 1, "role of an invitation", Role::parse)?,
        by: OwnerId(number(row, 2)?),
        expires_at: timestamp(row, 3)?,
    })
}

/// Reads domain, root, not_found, expired.
pub(crate) fn place(row: &Row<'_>) -> Read<DomainConfig> {
    let target = |at| Ok::<_, Failure>(row.get::<_, Option<String>>(at)?.map(Target::from_stored));
    Ok(DomainConfig {
        domain: word(row, 0, "domain", |name| Some(Domain::from_stored(name)))?,
        root: target(1)?,
        not_found: target(2)?,
        expired: target(3)?,
    })
}

/// Reads host, at, why.
pub(crate) fn blocked_host(row: &Row<'_>) -> Read<BlockedHost> {
    Ok(BlockedHost { host: row.get(0)?, at: timestamp(row, 1)?, why: row.get(2)? })
}

/// Reads [`report_columns`].
pub(crate) fn report(row: &Row<'_>) -> Read<AbuseReport> {
    let domain = word(row, 1, "reported link's domain", |name| Some(Domain::from_stored(name)))?;
    Ok(AbuseReport {
        id: ReportId(number(row, 0)?),
        link: LinkKey { domain, code: word(row, 2, "reported link's code", Code::parse)? },
        created_at: timestamp(row, 3)?,
        account: row.get::<_, Option<i64>>(4)?.map(|id| OwnerId(id.cast_unsigned())),
        reason: row.get(5)?,
        text: row.get(6)?,
        at: timestamp(row, 7)?,
        state: word(row, 8, "report's state", ReportState::parse)?,
    })
}

/// Reads [`webhook_columns`].
pub(crate) fn webhook(row: &Row<'_>) -> Read<Webhook> {
    let id = number(row, 0)?;
    let created_at = timestamp(row, 4)?;
    let disabled = match (maybe_timestamp(row, 7)?, row.get(8)?) {
        (Some(at), Some(why)) => Some(Deactivation { at, why }),
        (None, None) => None,
        _ => return Err(corrupt(format!("webhook {id} is half written")).into()),
    };
    Ok(Webhook {
        id: WebhookId(id),
        owner: OwnerId(number(row, 1)?),
        url: Target::from_stored(row.get(2)?),
        events: word(row, 3, "webhook's events", SubscribedEvents::from_stored)?,
        created_at,
        active_since: maybe_timestamp(row, 12)?.unwrap_or(created_at),
        generation: row.get(5)?,
        rotated_at: maybe_timestamp(row, 6)?,
        disabled,
        waiting: number(row, 9)?,
        dropped: number(row, 10)?,
        delivered_at: maybe_timestamp(row, 11)?,
    })
}

/// Reads [`delivery_columns`].
pub(crate) fn delivery(row: &Row<'_>) -> Read<Delivery> {
    Ok(Delivery {
        id: DeliveryId(number(row, 0)?),
        webhook: WebhookId(number(row, 1)?),
        event: row.get(2)?,
        kind: word(row, 3, "delivery's kind", EventKind::parse)?,
        body: row.get(4)?,
        created_at: timestamp(row, 5)?,
        state: word(row, 6, "delivery's state", DeliveryState::parse)?,
        attempts: row.get(7)?,
        next_at: timestamp(row, 8)?,
        tried_at: maybe_timestamp(row, 9)?,
        status: row.get(10)?,
        problem: row.get(11)?,
    })
}

/// Reads [`audit_columns`].
pub(crate) fn entry(row: &Row<'_>) -> Read<AuditEntry> {
    let act = row.get_ref(3)?.as_str().map_err(|error| corrupt(error.to_string()))?;
    let (act, unknown_act) = AuditEntry::stored_act(act);
    Ok(AuditEntry {
        number: number(row, 0)?,
        at: timestamp(row, 1)?,
        actor: row
            .get::<_, Option<i64>>(2)?
            .map_or(Actor::Terse, |id| Actor::Owner(OwnerId(id.cast_unsigned()))),
        act,
        unknown_act,
        subject: row.get(4)?,
        why: row.get(5)?,
        before: row.get(6)?,
        after: row.get(7)?,
    })
}
