//! Backup and verification of the registry file.

use std::path::Path;

use rusqlite::{Row, TransactionBehavior};

use crate::backup::{self, BackupError};
use crate::engine::{DbLocation, connect_bare, connect_reader};
use crate::failure::Failure;
use crate::options::EmbeddedOpenError;
use crate::registry::queries::RegistryQueries;
use crate::registry::rows::{
    self, audit_columns, delivery_columns, key_columns, report_columns, user_columns,
    webhook_columns,
};
use crate::registry::schema::REGISTRY;
use crate::verify::{Problems, check_pages};

/// Also skips ids of a table that never had a row: it may have had one since the copy. Other nodes
/// know versions and fencing tokens, so these continue beyond all that may have been issued since.
const SKIP: &str = "
    INSERT INTO sqlite_sequence SELECT name, 0 FROM sqlite_schema
        WHERE name IN ('keys', 'reports', 'audit', 'webhooks', 'deliveries') AND name NOT IN \
        (SELECT name FROM sqlite_sequence);
    UPDATE sqlite_sequence SET seq = seq + 1000000;
    UPDATE meta SET value = value + 1000000 WHERE name = 'version';
    UPDATE meta SET value = random() & 0x7fffffffffffffff WHERE name = 'incarnation';
    UPDATE leases SET node = NULL, token = token + 1000000;
    DELETE FROM sessions;
    DELETE FROM invitations;
    UPDATE users SET reset_token = NULL, reset_expires_at = NULL;";

/// The result of a verification.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RegistryFileCheck {
    /// The number of readable accounts.
    pub accounts: u64,
    /// The number of readable keys.
    pub keys: u64,
    /// The number of readable audit records.
    pub lines: u64,
    /// The problems that were found.
    pub problems: Problems,
}

impl RegistryFileCheck {
    /// Whether there are no problems.
    pub fn is_clean(&self) -> bool {
        self.problems.count == 0
    }
}

/// Copies a registry file as it is now into a new file, even while another process has it open. The
/// copy may be kept for years, so it leaves out the salts, which could identify the visitors of
/// those days, and the records of certificates, which have private keys: terse orders new ones.
pub fn backup_registry(db: &Path, to: &Path) -> Result<(), BackupError> {
    let conn = connect_reader(&DbLocation::at(db))?;
    let mut without = String::from("PRAGMA secure_delete = ON;");
    for table in ["salts", "acme_records"] {
        // A file of an earlier version does not have them.
        let exists = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = ?1)";
        if conn.query_row(exists, [table], |row| row.get(0))? {
            without += &format!("DELETE FROM {table};");
        }
    }
    drop(conn);
    backup::backup_without(db, to, &without)
}

/// Makes an old copy safe to use again. It skips a million ids of each kind, because links and logs
/// elsewhere may refer to ids issued since. It deletes sessions, invitations and reset links,
/// because some may have been ended or used since. Keys revoked since are valid again; the copy
/// cannot know them. No other process may have the file open.
pub fn skip_ahead_registry(db: &Path) -> Result<(), EmbeddedOpenError> {
    inspect_registry(db)?;
    let mut conn = connect_bare(&DbLocation::at(db))?;
    // One file before and after, without a log file beside it.
    conn.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))?;
    conn.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA secure_delete = FAST",
    )?;
    let version = REGISTRY.inspect(&conn, db)?;
    REGISTRY.migrate(&mut conn, version)?;
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(SKIP)?;
    Ok(transaction.commit()?)
}

/// Checks that this is a registry file of terse, of a known version. Works while the registry is in
/// use.
pub fn inspect_registry(db: &Path) -> Result<(), EmbeddedOpenError> {
    match REGISTRY.inspect(&connect_reader(&DbLocation::at(db))?, db)? {
        0 => Err(EmbeddedOpenError::NotTerse(db.to_owned())),
        _ => Ok(()),
    }
}

/// Checks every page, every index and every row, and that every row's owner exists. Works while the
/// registry is in use.
pub fn verify_registry(db: &Path) -> Result<RegistryFileCheck, EmbeddedOpenError> {
    inspect_registry(db)?;
    let queries = RegistryQueries { conn: connect_reader(&DbLocation::at(db))? };
    // One transaction, so that all queries read the same state.
    queries.conn.execute_batch("BEGIN")?;
    let mut report = RegistryFileCheck::default();
    check_pages(&queries.conn, &mut |problem| report.problems.add(problem))?;
    if let Err(failure) = queries.version().and(queries.setup()) {
        report.problems.add(failure.to_string());
    }
    let accounts = concat!("SELECT ", user_columns!(), " FROM users u");
    report.accounts =
        check_rows(&queries, &mut report, accounts, |row| rows::account(row, 0).map(|_| ()))?;
    let keys = concat!("SELECT ", key_columns!(), " FROM keys k");
    report.keys = check_rows(&queries, &mut report, keys, |row| rows::key(row, 0).map(|_| ()))?;
    let audit = concat!("SELECT ", audit_columns!(), " FROM audit");
    report.lines = check_rows(&queries, &mut report, audit, |row| rows::entry(row).map(|_| ()))?;
    let sessions = "SELECT token, owner, created_at, expires_at, browser FROM sessions";
    check_rows(&queries, &mut report, sessions, |row| rows::session(row, 0).map(|_| ()))?;
    let invitations = "SELECT token, role, writer, expires_at FROM invitations";
    check_rows(&queries, &mut report, invitations, |row| rows::invitation(row).map(|_| ()))?;
    let reports = concat!("SELECT ", report_columns!(), " FROM reports");
    check_rows(&queries, &mut report, reports, |row| rows::report(row).map(|_| ()))?;
    let webhooks = concat!("SELECT ", webhook_columns!(), " FROM webhooks w");
    check_rows(&queries, &mut report, webhooks, |row| rows::webhook(row).map(|_| ()))?;
    let deliveries = concat!("SELECT ", delivery_columns!(), " FROM deliveries d");
    check_rows(&queries, &mut report, deliveries, |row| rows::delivery(row).map(|_| ()))?;
    check_rows(&queries, &mut report, crate::registry::lists::PLACES, |row| {
        rows::place(row).map(|_| ())
    })?;
    check_rows(&queries, &mut report, crate::registry::lists::BLOCKED_HOSTS, |row| {
        rows::blocked_host(row).map(|_| ())
    })?;
    let strays = ["keys", "sessions", "webhooks"].map(|what| {
        // The operator has webhooks but no account.
        let sql = format!(
            "SELECT count(*) FROM {what} WHERE owner NOT IN (SELECT id FROM users) AND owner <> 1"
        );
        (what, sql)
    });
    let stray = "SELECT count(*) FROM deliveries WHERE webhook NOT IN (SELECT id FROM webhooks)";
    for (what, sql) in strays.into_iter().chain([("deliveries", stray.to_owned())]) {
        match queries.conn.query_row(&sql, [], |row| row.get::<_, i64>(0)) {
            Ok(0) => {}
            Ok(count) => report.problems.add(format!("{count} {what} belong to no account")),
            Err(error) => report.problems.add(error.to_string()),
        }
    }
    Ok(report)
}

/// Reads every row of a table and returns how many are readable.
fn check_rows(
    queries: &RegistryQueries,
    report: &mut RegistryFileCheck,
    sql: &str,
    read: impl Fn(&Row<'_>) -> Result<(), Failure>,
) -> rusqlite::Result<u64> {
    let mut statement = queries.conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut count = 0;
    loop {
        match rows.next() {
            Ok(None) => return Ok(count),
            Ok(Some(row)) => match read(row) {
                Ok(()) => count += 1,
                Err(Failure::Engine(error)) => return Err(error),
                Err(failure) => report.problems.add(failure.to_string()),
            },
            Err(error) => {
                // The rest of the table is unreachable.
                report.problems.add(error.to_string());
                return Ok(count);
            }
        }
    }
}
