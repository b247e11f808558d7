//! The schema of the registry file.

use crate::schema::FileSchema;

/// "trsr".
pub(crate) const REGISTRY: FileSchema = FileSchema {
    name: "registry",
    application: 0x7472_7372,
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
    ],
};

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::registry::{
        accounts, acme, credentials, jobs, lists, moderation, outbox, prune, queries, salts,
        snapshot,
    };
    use crate::schema::tests::assert_plan;

    #[test]
    fn every_query_finds_its_index() {
        let mut conn = Connection::open_in_memory().unwrap();
        REGISTRY.migrate(&mut conn, 0).unwrap();
        for (sql, index) in [
            (queries::ACCOUNT_BY_ID, "INTEGER PRIMARY KEY (rowid=?)"),
            (queries::ACCOUNT_BY_NAME, "users_names (name=?)"),
            (queries::ACCOUNT_BY_IDENTITY, "users_identities (issuer=? AND subject=?)"),
            (queries::ACCOUNT_BY_RESET, "users_resets (reset_token=?)"),
            (queries::ACCOUNTS, "INTEGER PRIMARY KEY (rowid>?)"),
            (queries::SUSPENDED, "users_suspended"),
            (queries::KEY_BY_TOKEN, "keys_tokens (token=?)"),
            (queries::KEY_BY_TOKEN, "u USING INTEGER PRIMARY KEY (rowid=?)"),
            (queries::KEYS_OF, "keys_of (owner=?)"),
            (queries::SESSION, "s USING PRIMARY KEY (token=?)"),
            (queries::SESSION, "u USING INTEGER PRIMARY KEY (rowid=?)"),
            (queries::SESSIONS_OF, "sessions_of (owner=?)"),
            (queries::INVITATIONS, "invitations_ending (expires_at>?)"),
            (lists::REPORTS, "reports_by_state (state=? AND rowid>?)"),
            (lists::REPORTED, "reports_by_state (state=? AND rowid>?)"),
            (
                lists::REPORTED,
                "reports_of (domain=? AND code=? AND state=? AND born=? AND rowid<?)",
            ),
            (lists::TEXTS, "reports_of (domain=? AND code=? AND state=? AND born=?)"),
            (lists::AUDIT, "INTEGER PRIMARY KEY (rowid<?)"),
            (lists::AUDIT_BY_ACT, "audit_by_act (act=? AND rowid<?)"),
            (lists::AUDIT_BY_SUBJECT, "audit_by_subject (subject=? AND rowid<?)"),
            (accounts::NAME_TAKEN, "users_names (name=?)"),
            (accounts::IDENTITY_TAKEN, "users_identities (issuer=? AND subject=?)"),
            (accounts::OTHER_ADMIN, "users_governing"),
            (accounts::LINES_ABOUT, "audit_about (about=?)"),
            (accounts::END_SESSIONS, "sessions_of (owner=?)"),
            (credentials::KEY_KNOWN, "keys_tokens (token=?)"),
            (credentials::KEY_COUNT, "keys_of (owner=?)"),
            (credentials::KEY_BY_ID, "INTEGER PRIMARY KEY (rowid=?)"),
            (credentials::ADD_USAGE, "INTEGER PRIMARY KEY (rowid=?)"),
            (credentials::SESSION_KNOWN, "PRIMARY KEY (token=?)"),
            (credentials::CROWDED_OUT, "sessions_of (owner=?)"),
            (credentials::END_SESSIONS_BUT, "sessions_of (owner=?)"),
            (credentials::ANY_INVITATION, "PRIMARY KEY (token=?)"),
            (credentials::INVITATION, "PRIMARY KEY (token=?)"),
            (credentials::INVITATION_KNOWN, "PRIMARY KEY (token=?)"),
            (moderation::PLACE, "PRIMARY KEY (domain=?)"),
            (moderation::BLOCKED_HOST, "PRIMARY KEY (host=?)"),
            (moderation::EARLIER, "reports_open (domain=? AND code=? AND born=? AND reporter=?)"),
            (jobs::RENEW, "PRIMARY KEY (name=?)"),
            (jobs::RELEASE, "PRIMARY KEY (name=?)"),
            (jobs::IS_CURRENT, "PRIMARY KEY (name=?)"),
            (jobs::PROGRESS, "PRIMARY KEY (job=?)"),
            (acme::REVISION, "acme_records_revision"),
            (salts::SALT, "INTEGER PRIMARY KEY (rowid=?)"),
            (snapshot::META_NUMBER, "PRIMARY KEY (name=?)"),
            (outbox::WEBHOOKS_OF, "webhooks_of (owner=?)"),
            (outbox::WEBHOOK, "INTEGER PRIMARY KEY (rowid=?)"),
            (outbox::WEBHOOK_OWNERS, "webhooks_on"),
            (outbox::DELIVERIES, "deliveries_of (webhook=?)"),
            (outbox::DELIVERY_OF_EVENT, "deliveries_of_event (webhook=? AND event=?)"),
            (outbox::DELIVERY, "INTEGER PRIMARY KEY (rowid=?)"),
            (outbox::READY, "webhooks_waiting (id>? AND id<?)"),
            (outbox::READY, "deliveries_waiting (webhook=? AND next_at<?)"),
            (outbox::READY, "deliveries_waiting (webhook=? AND next_at>?)"),
            (outbox::NEXT, "deliveries_waiting (webhook=? AND next_at<?)"),
            (outbox::TOO_LATE, "deliveries_waiting (webhook=? AND next_at>?)"),
            (outbox::CLAIM_WEBHOOK, "INTEGER PRIMARY KEY (rowid=?)"),
            (outbox::DROP_OLDEST, "deliveries_of (webhook=?)"),
            (outbox::TRIM, "deliveries_settled (webhook=?)"),
            (outbox::EMPTY, "deliveries_of (webhook=?)"),
            (outbox::EMPTY_OF, "webhooks_of (owner=?)"),
            (prune::DELIVERIES, "deliveries_by_age (created_at<?)"),
            (moderation::REPORTERS, "reports_of (domain=? AND code=? AND state=? AND born=?)"),
            (moderation::SETTLE, "reports_of (domain=? AND code=? AND state=? AND born=?)"),
            (prune::SESSIONS, "sessions_ending (expires_at<?)"),
            (prune::INVITATIONS, "invitations_ending (expires_at<?)"),
            (prune::KEYS, "keys_expiring (expires_at>? AND expires_at<?)"),
            (prune::REPORTS, "reports_settled (at<?)"),
            (prune::AUDIT, "audit_by_age (at<?)"),
        ] {
            assert_plan(&conn, sql, index);
        }
        for sql in accounts::ERASE {
            assert_plan(&conn, sql, "SEARCH");
        }
    }
}
