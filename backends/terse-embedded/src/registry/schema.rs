//! The shape of the registry file.

use crate::schema::Shape;

/// "trsr".
pub(crate) const REGISTRY: Shape = Shape {
    name: "registry",
    application: 0x7472_7372,
    steps: &[include_str!("schema.sql"), include_str!("schema_2.sql"), include_str!("schema_3.sql")],
};

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::registry::{doors, judging, lists, outbox, people, shelf, tidy};
    use crate::schema::tests::assert_plan;

    #[test]
    fn every_query_finds_its_index() {
        let mut conn = Connection::open_in_memory().unwrap();
        REGISTRY.migrate(&mut conn, 0).unwrap();
        for (sql, index) in [
            (shelf::USER_BY_ID, "INTEGER PRIMARY KEY (rowid=?)"),
            (shelf::USER_BY_NAME, "users_names (name=?)"),
            (shelf::USER_BY_IDENTITY, "users_identities (issuer=? AND subject=?)"),
            (shelf::USERS, "INTEGER PRIMARY KEY (rowid>?)"),
            (shelf::SUSPENDED, "users_suspended"),
            (shelf::KEY_BY_TOKEN, "keys_tokens (token=?)"),
            (shelf::KEY_BY_TOKEN, "u USING INTEGER PRIMARY KEY (rowid=?)"),
            (shelf::KEYS_OF, "keys_of (owner=?)"),
            (shelf::SESSION, "s USING PRIMARY KEY (token=?)"),
            (shelf::SESSION, "u USING INTEGER PRIMARY KEY (rowid=?)"),
            (shelf::SESSIONS_OF, "sessions_of (owner=?)"),
            (shelf::INVITATIONS, "invitations_ending (expires_at>?)"),
            (lists::REPORTS, "reports_by_state (state=? AND rowid>?)"),
            (lists::REPORTED, "reports_by_state (state=? AND rowid>?)"),
            (lists::REPORTED, "reports_of (domain=? AND code=? AND state=? AND born=? AND rowid<?)"),
            (lists::TEXTS, "reports_of (domain=? AND code=? AND state=? AND born=?)"),
            (lists::AUDIT, "INTEGER PRIMARY KEY (rowid<?)"),
            (lists::AUDIT_BY_ACT, "audit_by_act (act=? AND rowid<?)"),
            (lists::AUDIT_BY_SUBJECT, "audit_by_subject (subject=? AND rowid<?)"),
            (people::NAME_TAKEN, "users_names (name=?)"),
            (people::IDENTITY_TAKEN, "users_identities (issuer=? AND subject=?)"),
            (people::OTHER_ADMIN, "users_governing"),
            (people::LINES_ABOUT, "audit_about (about=?)"),
            (people::END_SESSIONS, "sessions_of (owner=?)"),
            (doors::KEY_KNOWN, "keys_tokens (token=?)"),
            (doors::KEY_COUNT, "keys_of (owner=?)"),
            (doors::KEY_BY_ID, "INTEGER PRIMARY KEY (rowid=?)"),
            (doors::TOUCH, "INTEGER PRIMARY KEY (rowid=?)"),
            (doors::SESSION_KNOWN, "PRIMARY KEY (token=?)"),
            (doors::CROWDED_OUT, "sessions_of (owner=?)"),
            (doors::END_SESSIONS_BUT, "sessions_of (owner=?)"),
            (doors::ANY_INVITATION, "PRIMARY KEY (token=?)"),
            (doors::INVITATION, "PRIMARY KEY (token=?)"),
            (doors::INVITATION_KNOWN, "PRIMARY KEY (token=?)"),
            (judging::PLACE, "PRIMARY KEY (domain=?)"),
            (judging::BLOCKED_HOST, "PRIMARY KEY (host=?)"),
            (judging::EARLIER, "reports_open (domain=? AND code=? AND born=? AND reporter=?)"),
            (outbox::WEBHOOKS_OF, "webhooks_of (owner=?)"),
            (outbox::WEBHOOK, "INTEGER PRIMARY KEY (rowid=?)"),
            (outbox::HOOKED, "webhooks_on"),
            (outbox::DELIVERIES, "deliveries_of (webhook=?)"),
            (outbox::DELIVERY, "INTEGER PRIMARY KEY (rowid=?)"),
            (outbox::READY, "webhooks_waiting (id>? AND id<?)"),
            (outbox::READY, "deliveries_waiting (webhook=? AND next_at<?)"),
            (outbox::NEXT, "deliveries_waiting (webhook=? AND next_at<?)"),
            (outbox::LEND, "INTEGER PRIMARY KEY (rowid=?)"),
            (outbox::DROP_OLDEST, "deliveries_of (webhook=?)"),
            (outbox::TRIM, "deliveries_settled (webhook=?)"),
            (outbox::EMPTY, "deliveries_of (webhook=?)"),
            (outbox::EMPTY_OF, "webhooks_of (owner=?)"),
            (tidy::DELIVERIES, "deliveries_by_age (created_at<?)"),
            (judging::REPORTERS, "reports_of (domain=? AND code=? AND state=? AND born=?)"),
            (judging::SETTLE, "reports_of (domain=? AND code=? AND state=?)"),
            (tidy::SESSIONS, "sessions_ending (expires_at<?)"),
            (tidy::INVITATIONS, "invitations_ending (expires_at<?)"),
            (tidy::KEYS, "keys_expiring (expires_at>? AND expires_at<?)"),
            (tidy::REPORTS, "reports_settled (at<?)"),
            (tidy::AUDIT, "audit_by_age (at<?)"),
        ] {
            assert_plan(&conn, sql, index);
        }
        for sql in people::ERASE {
            assert_plan(&conn, sql, "SEARCH");
        }
    }
}
