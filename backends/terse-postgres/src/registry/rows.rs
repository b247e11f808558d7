//! Converts rows into values. A row that cannot be read is an error, never a guess.

use terse_core::registry::{
    AbuseReport, Account, AccountName, AccountPreferences, Actor, ApiKey, AuditEntry, BlockedHost,
    Deactivation, Delivery, DeliveryId, DeliveryState, DomainConfig, EventKind, Invitation, KeyId,
    OidcIdentity, PasswordReset, ReportId, ReportState, Role, Scope, SecretHash, Session,
    SubscribedEvents, Suspension, TwoFactor, Webhook, WebhookId,
};
use terse_core::{Code, Domain, LinkKey, OwnerId, Revision, StoreError, Target, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::failure::{Failure, corrupt};
use crate::sql::SqlTimestamp;

type Read<T> = Result<T, Failure>;

/// The number of columns of an account.
pub(super) const ACCOUNT: usize = 17;
/// The number of columns of a webhook.
pub(super) const WEBHOOK: usize = 13;

/// The columns of accounts, as [`account`] reads them.
pub(super) const ACCOUNT_COLUMNS: &str = "a.id, a.name, a.role, a.created_at, a.password, \
     a.issuer, a.subject, a.suspended_at, a.suspended_why, a.revision, a.plan, a.reset_token, \
     a.reset_expires_at, a.totp_seed, a.totp_step, a.recovery_codes, a.preferences";
/// The columns of keys, as [`key`] reads them.
pub(super) const KEY_COLUMNS: &str = "k.id, k.owner, k.name, k.prefix, k.scope, k.created_at, \
     k.expires_at, k.plan, k.last_used_at, k.requests";
/// The columns of reports, as [`report`] reads them.
pub(super) const REPORT_COLUMNS: &str =
    "r.id, r.domain, r.code, r.link_created_at, r.account, r.reason, r.text, r.at, r.state";
/// The columns of the audit log, as [`entry`] reads them.
pub(super) const AUDIT_COLUMNS: &str = "number, at, actor, act, subject, why, before, after";
/// The columns of webhooks, as [`webhook`] reads them.
pub(super) const WEBHOOK_COLUMNS: &str = "w.id, w.owner, w.url, w.events, w.created_at, \
     w.generation, w.rotated_at, w.disabled_at, w.disabled_why, w.waiting, w.dropped, \
     w.delivered_at, w.active_since";
/// The columns of deliveries, as [`delivery`] reads them.
pub(super) const DELIVERY_COLUMNS: &str = "d.id, d.webhook, d.event, d.kind, d.body, \
     d.created_at, d.state, d.attempts, d.next_at, d.tried_at, d.status, d.problem";

/// A column.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Read<T> {
    row.try_get(at).map_err(|error| StoreError::Corrupt(Box::new(error)).into())
}

/// A number that is never negative.
pub(super) fn id(row: &Row, at: usize) -> Read<u64> {
    Ok(get::<i64>(row, at)?.cast_unsigned())
}

fn time(row: &Row, at: usize) -> Read<Timestamp> {
    Ok(get::<SqlTimestamp>(row, at)?.0)
}

fn maybe_time(row: &Row, at: usize) -> Read<Option<Timestamp>> {
    Ok(get::<Option<SqlTimestamp>>(row, at)?.map(|at| at.0))
}

pub(super) fn token(row: &Row, at: usize) -> Read<SecretHash> {
    let bytes: &[u8] = get(row, at)?;
    Ok(SecretHash(bytes.try_into().map_err(|_| corrupt("a token has the wrong length"))?))
}

/// A text that must be one of a fixed set of words.
fn word<T>(row: &Row, at: usize, what: &str, parse: impl Fn(&str) -> Option<T>) -> Read<T> {
    // The error leaves out the text itself: it may be anything.
    parse(get(row, at)?).ok_or_else(|| corrupt(format!("a {what} cannot be read")).into())
}

/// Reads [`ACCOUNT_COLUMNS`], beginning at column `at`.
pub(super) fn account(row: &Row, at: usize) -> Read<Account> {
    let number = id(row, at)?;
    let half = || corrupt(format!("account {number} is half written"));
    let identity = match (get(row, at + 5)?, get(row, at + 6)?) {
        (Some(issuer), Some(subject)) => Some(OidcIdentity { issuer, subject }),
        (None, None) => None,
        _ => return Err(half().into()),
    };
    let suspended = match (maybe_time(row, at + 7)?, get(row, at + 8)?) {
        (Some(at), Some(why)) => Some(Suspension { at, why }),
        (None, None) => None,
        _ => return Err(half().into()),
    };
    let reset = match maybe_time(row, at + 12)? {
        Some(expires_at) => Some(PasswordReset { token: token(row, at + 11)?, expires_at }),
        None => None,
    };
    let two_factor = match (get(row, at + 13)?, get(row, at + 14)?, get(row, at + 15)?) {
        (Some(seed), Some(step), Some(recovery)) => {
            Some(TwoFactor::from_stored(seed, step, recovery).ok_or_else(half)?)
        }
        (None, None, None) => None,
        _ => return Err(half().into()),
    };
    Ok(Account {
        id: OwnerId(number),
        name: word(row, at + 1, "name of an account", AccountName::parse)?,
        role: word(row, at + 2, "role of an account", Role::parse)?,
        created_at: time(row, at + 3)?,
        password: get(row, at + 4)?,
        identity,
        suspended,
        revision: Revision(id(row, at + 9)?),
        plan: get(row, at + 10)?,
        reset,
        two_factor,
        preferences: AccountPreferences::from_stored(get(row, at + 16)?),
    })
}

/// Reads [`KEY_COLUMNS`], beginning at column `at`.
pub(super) fn key(row: &Row, at: usize) -> Read<ApiKey> {
    Ok(ApiKey {
        id: KeyId(id(row, at)?),
        owner: OwnerId(id(row, at + 1)?),
        name: get(row, at + 2)?,
        prefix: get(row, at + 3)?,
        scope: word(row, at + 4, "scope of a key", Scope::parse)?,
        created_at: time(row, at + 5)?,
        expires_at: maybe_time(row, at + 6)?,
        plan: get(row, at + 7)?,
        last_used_at: maybe_time(row, at + 8)?,
        requests: id(row, at + 9)?,
    })
}

/// Reads token, owner, created_at, expires_at, browser, beginning at column `at`.
pub(super) fn session(row: &Row, at: usize) -> Read<Session> {
    Ok(Session {
        token: token(row, at)?,
        owner: OwnerId(id(row, at + 1)?),
        created_at: time(row, at + 2)?,
        expires_at: time(row, at + 3)?,
        browser: get(row, at + 4)?,
    })
}

/// Reads token, role, author, expires_at.
pub(super) fn invitation(row: &Row) -> Read<Invitation> {
    Ok(Invitation {
        token: token(row, 0)?,
        role: word(row, 1, "role of an invitation", Role::parse)?,
        by: OwnerId(id(row, 2)?),
        expires_at: time(row, 3)?,
    })
}

/// Reads domain, root, not_found, expired.
pub(super) fn domain_config(row: &Row) -> Read<DomainConfig> {
    let target = |at| Ok::<_, Failure>(get::<Option<String>>(row, at)?.map(Target::from_stored));
    Ok(DomainConfig {
        domain: Domain::from_stored(get(row, 0)?),
        root: target(1)?,
        not_found: target(2)?,
        expired: target(3)?,
    })
}

/// Reads host, at, why.
pub(super) fn blocked_host(row: &Row) -> Read<BlockedHost> {
    Ok(BlockedHost { host: get(row, 0)?, at: time(row, 1)?, why: get(row, 2)? })
}

/// Reads [`REPORT_COLUMNS`].
pub(super) fn report(row: &Row) -> Read<AbuseReport> {
    let domain = Domain::from_stored(get(row, 1)?);
    Ok(AbuseReport {
        id: ReportId(id(row, 0)?),
        link: LinkKey { domain, code: word(row, 2, "code of a reported link", Code::parse)? },
        created_at: time(row, 3)?,
        account: get::<Option<i64>>(row, 4)?.map(|id| OwnerId(id.cast_unsigned())),
        reason: get(row, 5)?,
        text: get(row, 6)?,
        at: time(row, 7)?,
        state: word(row, 8, "state of a report", ReportState::parse)?,
    })
}

/// Reads [`WEBHOOK_COLUMNS`].
pub(super) fn webhook(row: &Row) -> Read<Webhook> {
    let number = id(row, 0)?;
    let created_at = time(row, 4)?;
    let disabled = match (maybe_time(row, 7)?, get(row, 8)?) {
        (Some(at), Some(why)) => Some(Deactivation { at, why }),
        (None, None) => None,
        _ => return Err(corrupt(format!("webhook {number} is half written")).into()),
    };
    Ok(Webhook {
        id: WebhookId(number),
        owner: OwnerId(id(row, 1)?),
        url: Target::from_stored(get(row, 2)?),
        events: word(row, 3, "webhook's events", SubscribedEvents::from_stored)?,
        created_at,
        active_since: maybe_time(row, 12)?.unwrap_or(created_at),
        generation: get::<i32>(row, 5)?.cast_unsigned(),
        rotated_at: maybe_time(row, 6)?,
        disabled,
        waiting: id(row, 9)?,
        dropped: id(row, 10)?,
        delivered_at: maybe_time(row, 11)?,
    })
}

/// Reads [`WEBHOOK_COLUMNS`] and the number of the last claim.
pub(super) fn webhook_with_claim_number(row: &Row) -> Read<(Webhook, u64)> {
    Ok((webhook(row)?, id(row, WEBHOOK)?))
}

/// Reads [`DELIVERY_COLUMNS`].
pub(super) fn delivery(row: &Row) -> Read<Delivery> {
    let status = get::<Option<i32>>(row, 10)?.map(u16::try_from).transpose();
    Ok(Delivery {
        id: DeliveryId(id(row, 0)?),
        webhook: WebhookId(id(row, 1)?),
        event: get(row, 2)?,
        kind: word(row, 3, "kind of a delivery", EventKind::parse)?,
        body: get(row, 4)?,
        created_at: time(row, 5)?,
        state: word(row, 6, "state of a delivery", DeliveryState::parse)?,
        attempts: get::<i32>(row, 7)?.cast_unsigned(),
        next_at: time(row, 8)?,
        tried_at: maybe_time(row, 9)?,
        status: status.map_err(|_| corrupt("the status of a delivery cannot be read"))?,
        problem: get(row, 11)?,
    })
}

/// Reads [`AUDIT_COLUMNS`].
pub(super) fn entry(row: &Row) -> Read<AuditEntry> {
    let (act, unknown_act) = AuditEntry::stored_act(get(row, 3)?);
    Ok(AuditEntry {
        number: id(row, 0)?,
        at: time(row, 1)?,
        actor: get::<Option<i64>>(row, 2)?
            .map_or(Actor::Terse, |id| Actor::Owner(OwnerId(id.cast_unsigned()))),
        act,
        unknown_act,
        subject: get(row, 4)?,
        why: get(row, 5)?,
        before: get(row, 6)?,
        after: get(row, 7)?,
    })
}
