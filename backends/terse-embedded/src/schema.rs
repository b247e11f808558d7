//! The schema of a file, and its migrations.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use terse_core::{Alphabet, CodeHash, StoreIdentity};

use crate::engine::{self, DbLocation};
use crate::fence;
use crate::options::EmbeddedOpenError;

/// The kind of a file.
pub(crate) struct FileSchema {
    /// The name of its content.
    pub(crate) name: &'static str,
    /// The application id by which terse and other tools recognise the file.
    pub(crate) application: i64,
    /// Each step leads from one version to the next. Steps are never changed, only added.
    pub(crate) steps: &'static [&'static str],
}

/// The links file: "trse".
pub(crate) const LINKS: FileSchema = FileSchema {
    name: "links",
    application: 0x7472_7365,
    steps: &[
        include_str!("schema.sql"),
        include_str!("schema_2.sql"),
        include_str!("schema_3.sql"),
        include_str!("schema_4.sql"),
        include_str!("schema_5.sql"),
        include_str!("schema_6.sql"),
        include_str!("schema_7.sql"),
        include_str!("schema_8.sql"),
        include_str!("schema_9.sql"),
        include_str!("schema_10.sql"),
        include_str!("schema_11.sql"),
        include_str!("schema_12.sql"),
        include_str!("schema_13.sql"),
        include_str!("schema_14.sql"),
        include_str!("schema_15.sql"),
        include_str!("schema_16.sql"),
    ],
};

impl FileSchema {
    /// Opens a file for writing, creates it if it is missing, and migrates it.
    pub(crate) fn open(&self, site: &DbLocation) -> Result<Connection, EmbeddedOpenError> {
        engine::create(&site.path)?;
        // Checked before anything is changed: a file of another program stays as it is.
        let bare = engine::connect_bare(site)?;
        let version = self.inspect(&bare, &site.path)?;
        if fence::is_up(&bare)? {
            return Err(EmbeddedOpenError::Moved(site.path.clone()));
        }
        drop(bare);
        let (mut conn, _) = engine::connect_writer(site)?;
        self.migrate(&mut conn, version)?;
        Ok(conn)
    }

    /// Checks that the file is terse's and not from a later version, without changing it. Returns
    /// its version.
    pub(crate) fn inspect(&self, conn: &Connection, path: &Path) -> Result<i64, EmbeddedOpenError> {
        let not_ours = |error: rusqlite::Error| match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => EmbeddedOpenError::NotTerse(path.to_owned()),
            _ => error.into(),
        };
        let application: i64 =
            conn.query_row("PRAGMA application_id", [], |row| row.get(0)).map_err(not_ours)?;
        let objects: i64 = conn
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(not_ours)?;
        // An empty file: its creation was interrupted, or an operator prepared it.
        if application != self.application && (application != 0 || objects > 0) {
            return Err(EmbeddedOpenError::NotTerse(path.to_owned()));
        }
        let version: i64 = conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        let known = self.steps.len() as i64;
        if version > known {
            return Err(EmbeddedOpenError::Newer { found: version, known });
        }
        Ok(version)
    }

    /// Migrates the file from `version` to the latest one.
    pub(crate) fn migrate(
        &self,
        conn: &mut Connection,
        version: i64,
    ) -> Result<(), EmbeddedOpenError> {
        let Self { name, application, steps } = self;
        let found = version;
        for (step, version) in steps.iter().zip(1..).skip(usize::try_from(version).unwrap_or(0)) {
            let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.execute_batch(step)?;
            transaction.execute_batch(&format!(
                "PRAGMA application_id = {application}; PRAGMA user_version = {version}"
            ))?;
            transaction.commit()?;
            // A new file needs no log line.
            if found > 0 {
                tracing::info!(version, "brought the {name} file to schema version {version}");
            }
        }
        Ok(())
    }
}

/// Reads the store's identity, or creates one if there is none yet.
pub(crate) fn identity(
    conn: &mut Connection,
    alphabet: Alphabet,
) -> Result<StoreIdentity, EmbeddedOpenError> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if let Some(identity) = stored_identity(&transaction)? {
        return if identity.alphabet == alphabet {
            Ok(identity)
        } else {
            Err(EmbeddedOpenError::Alphabet {
                stored: identity.alphabet.as_str(),
                wanted: alphabet.as_str(),
            })
        };
    }
    // Without its secret, links stored by number cannot be found: refuse instead of creating
    // another secret.
    let used: bool = transaction.query_row(
        "SELECT EXISTS (SELECT 1 FROM leases) OR EXISTS (SELECT 1 FROM links)",
        [],
        |row| row.get(0),
    )?;
    if used {
        return Err(EmbeddedOpenError::Damaged("its secret is missing".into()));
    }
    let identity =
        StoreIdentity::generate(alphabet).map_err(|error| EmbeddedOpenError::Io(error.into()))?;
    transaction.execute("INSERT INTO meta VALUES ('secret', ?1)", params![identity.secret()])?;
    transaction.execute("INSERT INTO meta VALUES ('alphabet', ?1)", params![alphabet.as_str()])?;
    let code_hash = identity.code_hash.as_str();
    transaction.execute("INSERT INTO meta VALUES ('code_hash', ?1)", params![code_hash])?;
    transaction.commit()?;
    Ok(identity)
}

/// The stored identity, if there is one.
pub(crate) fn stored_identity(
    conn: &Connection,
) -> Result<Option<StoreIdentity>, EmbeddedOpenError> {
    let read = |name: &str| {
        conn.query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0))
            .optional()
    };
    let Some(rusqlite::types::Value::Blob(secret)) = read("secret")? else {
        return Ok(None);
    };
    let damaged = |what: &str| EmbeddedOpenError::Damaged(format!("its {what} cannot be read"));
    let secret: [u8; 32] = secret.try_into().map_err(|_| damaged("secret"))?;
    let Some(rusqlite::types::Value::Text(alphabet)) = read("alphabet")? else {
        return Err(damaged("alphabet"));
    };
    let code_hash = match read("code_hash")? {
        // Files from before there was a choice.
        None => CodeHash::Sha256,
        Some(rusqlite::types::Value::Text(name)) => {
            CodeHash::parse(&name).ok_or_else(|| damaged("code hash"))?
        }
        Some(_) => return Err(damaged("code hash")),
    };
    Ok(Some(StoreIdentity::from_stored(
        secret,
        Alphabet::parse(&alphabet).ok_or_else(|| damaged("alphabet"))?,
        code_hash,
    )))
}

#[cfg(test)]
pub(crate) mod tests {
    use terse_core::{LinkStatus, ListQuery, OwnerId, Sort, Timestamp};

    use super::*;
    use crate::changes::{CHANGES, OUTDATED};
    use crate::expiry::{DELETED, MARKED, MARKED_ANONYMOUS};
    use crate::history::TOO_OLD;
    use crate::list::{IndexScan, ListPosition, NEWEST_UNINDEXED, OLDEST_UNINDEXED, sources};
    use crate::outbox::WAITING;
    use crate::quarantined_aliases::{OVER, QUARANTINED_ALIAS, QUARANTINED_CODE};
    use crate::search::NEXT_OF_THE_SAME_TIME;
    use crate::tags::TAGS;
    use crate::writes::ALIAS_ALIKE;

    #[test]
    fn a_new_store_keys_its_hashed_codes_and_an_old_one_keeps_its_function() {
        let mut conn = Connection::open_in_memory().unwrap();
        LINKS.migrate(&mut conn, 0).unwrap();
        let made = identity(&mut conn, Alphabet::Base62).unwrap();
        let read = identity(&mut conn, Alphabet::Base62).unwrap();
        assert_eq!((made.code_hash, read.code_hash), (CodeHash::Hmac, CodeHash::Hmac));
        conn.execute("DELETE FROM meta WHERE name = 'code_hash'", []).unwrap();
        assert_eq!(identity(&mut conn, Alphabet::Base62).unwrap().code_hash, CodeHash::Sha256);
    }

    /// Every query that could read millions of rows.
    #[test]
    fn every_query_finds_its_index() {
        let mut conn = Connection::open_in_memory().unwrap();
        LINKS.migrate(&mut conn, 0).unwrap();
        for (sql, index) in [
            ("SELECT target FROM links WHERE id = ?1", "INTEGER PRIMARY KEY"),
            ("SELECT target FROM links WHERE reuse = ?1", "links_to_reuse"),
            (
                "SELECT target FROM links WHERE expires_at IS NOT NULL AND marked IS NULL AND \
                 expires_at <= ?1 \
                 ORDER BY expires_at",
                "links_to_mark",
            ),
            (&format!("SELECT target FROM links WHERE {MARKED}"), "links_marked"),
            (
                &format!("SELECT target FROM links WHERE {MARKED_ANONYMOUS}"),
                "links_marked_anonymous",
            ),
            (&format!("SELECT target FROM links WHERE {DELETED}"), "links_deleted"),
            ("SELECT max(id) FROM links WHERE id >= ?1 AND id < ?2", "INTEGER PRIMARY KEY"),
            ("SELECT id FROM aliases WHERE domain = ?1 AND code = ?2", "PRIMARY KEY"),
            (
                "SELECT id FROM aliases INDEXED BY aliases_folded WHERE domain = ?1 AND \
                 lower(code) = ?2 AND owner IS NOT NULL",
                "aliases_folded (domain=? AND <expr>=?)",
            ),
            (TAGS, "COVERING INDEX links_tagged (owner=?"),
            (QUARANTINED_CODE, "PRIMARY KEY (domain=? AND code=?)"),
            (QUARANTINED_ALIAS, "held_folded (domain=? AND <expr>=?)"),
            (ALIAS_ALIKE, "aliases_folded (domain=? AND <expr>=?)"),
            (OVER, "held_ending (until<?)"),
            (NEXT_OF_THE_SAME_TIME, "links_by_age (created_at=? AND rowid>?)"),
            (NEWEST_UNINDEXED, "PRIMARY KEY"),
            (OLDEST_UNINDEXED, "PRIMARY KEY"),
            (WAITING, "INTEGER PRIMARY KEY (rowid>?)"),
            (CHANGES, "INTEGER PRIMARY KEY (rowid>?)"),
            (&format!("SELECT id FROM changes WHERE {OUTDATED}"), "INTEGER PRIMARY KEY (rowid<?)"),
            ("SELECT id FROM requests WHERE at < ?1 ORDER BY at LIMIT ?2", "requests_by_age"),
            (
                "SELECT target FROM revisions WHERE id = ?1 ORDER BY n DESC LIMIT ?2",
                "revisions_of_a_link",
            ),
            (&format!("SELECT n FROM revisions WHERE {TOO_OLD}"), "revisions_of_a_link"),
        ] {
            assert_plan(&conn, sql, index);
        }
    }

    fn listed(
        owner: Option<OwnerId>,
        status: Option<LinkStatus>,
        archived: bool,
    ) -> Vec<IndexScan> {
        let all = ListQuery::all(Sort::Newest, 1, Timestamp::from_ms(0));
        let archived = archived.then_some(true);
        sources(&ListQuery { owner, status, archived, ..all })
    }

    #[test]
    fn every_page_of_a_list_begins_where_the_last_one_ended() {
        let mut conn = Connection::open_in_memory().unwrap();
        LINKS.migrate(&mut conn, 0).unwrap();
        let all_of_7 = listed(Some(OwnerId(7)), None, false);
        for (source, index, columns) in [
            (&listed(None, None, false)[0], "links_by_age", ""),
            (&listed(Some(OwnerId::ANONYMOUS), None, false)[0], "links_by_age", ""),
            (&listed(None, None, true)[0], "links_in_state", "state=? AND "),
            (&all_of_7[0], "links_of_owner", "owner=? AND state=? AND "),
        ] {
            for sort in [Sort::Newest, Sort::Oldest] {
                let [(first, _)] = &source.steps(sort, None)[..] else { panic!("one step") };
                assert_plan(&conn, first, index);
                let after = Some(ListPosition { created_at: 1, id: 1 });
                let [(rest, _), (beyond, _)] = &source.steps(sort, after)[..] else {
                    panic!("two steps")
                };
                let compare = if sort == Sort::Newest { "<" } else { ">" };
                assert_plan(
                    &conn,
                    rest,
                    &format!("{index} ({columns}created_at=? AND rowid{compare}?)"),
                );
                assert_plan(&conn, beyond, &format!("{index} ({columns}created_at{compare}?)"));
            }
        }
    }

    #[test]
    fn a_list_of_a_rare_state_reads_the_links_in_it() {
        let mut conn = Connection::open_in_memory().unwrap();
        LINKS.migrate(&mut conn, 0).unwrap();
        for (status, of_all) in [
            (LinkStatus::Expired, &["links_in_state", "links_to_mark"][..]),
            (LinkStatus::UsedUp, &["links_in_state"]),
            (LinkStatus::Scheduled, &["links_scheduled"]),
            (LinkStatus::Suspicious, &["links_in_state"; 2]),
            (LinkStatus::Blocked, &["links_in_state"]),
            (LinkStatus::Deleted, &["links_in_state"]),
        ] {
            for owner in [None, Some(OwnerId(7))] {
                let found = listed(owner, Some(status), true);
                assert_eq!(found.len(), of_all.len(), "{status:?}");
                for (source, index) in found.iter().zip(of_all) {
                    let owned = owner.is_some() && *index == "links_in_state";
                    let index = if owned { "links_of_owner" } else { index };
                    for sort in [Sort::Newest, Sort::Oldest] {
                        let (sql, _) = &source.steps(sort, None)[0];
                        // Only a list of what is due is sorted: it is short.
                        let sql = if source.is_in_order() {
                            sql
                        } else {
                            sql.split_once(" ORDER").unwrap().0
                        };
                        assert_plan(&conn, sql, &format!("INDEX {index}"));
                    }
                }
            }
        }
    }

    pub(crate) fn assert_plan(conn: &Connection, sql: &str, index: &str) {
        let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let count = statement.parameter_count();
        let plan: Vec<String> = statement
            .query_map(rusqlite::params_from_iter(vec![1; count]), |row| row.get(3))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        let plan = plan.join("; ");
        assert!(plan.contains(index) && !plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
    }
}
