-- Facts about the registry itself: its version, the token of the set-up link, and whether there ever was an admin.
CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;

-- Accounts. Ids are never reused; those below 1000 are reserved. Times are milliseconds since 1970.
CREATE TABLE users (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL COLLATE NOCASE,
    role TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    password TEXT,             -- Argon2id, in the PHC format
    issuer TEXT,               -- who they are elsewhere: both or none
    subject TEXT,
    suspended_at INTEGER,      -- both or none
    suspended_why TEXT,
    revision INTEGER NOT NULL
) STRICT;
INSERT INTO sqlite_sequence VALUES ('users', 999);
CREATE UNIQUE INDEX users_names ON users (name);
CREATE UNIQUE INDEX users_identities ON users (issuer, subject) WHERE issuer IS NOT NULL;
CREATE INDEX users_governing ON users (id) WHERE role = 'admin' AND suspended_at IS NULL;
CREATE INDEX users_suspended ON users (id) WHERE suspended_at IS NOT NULL;

-- Keys for programs. A token is the SHA-256 of the key; the key itself is nowhere.
CREATE TABLE keys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    token BLOB NOT NULL,
    owner INTEGER NOT NULL,
    name TEXT NOT NULL,
    prefix TEXT NOT NULL,
    scope TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    plan TEXT,
    last_used_at INTEGER
) STRICT;
CREATE UNIQUE INDEX keys_tokens ON keys (token);
CREATE INDEX keys_of ON keys (owner);
CREATE INDEX keys_expiring ON keys (expires_at) WHERE expires_at IS NOT NULL;

-- Browsers that are signed in.
CREATE TABLE sessions (
    token BLOB PRIMARY KEY,
    owner INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_of ON sessions (owner, created_at);
CREATE INDEX sessions_ending ON sessions (expires_at);

-- Invitations, each of which creates one account.
CREATE TABLE invitations (
    token BLOB PRIMARY KEY,
    role TEXT NOT NULL,
    writer INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX invitations_of ON invitations (writer);
CREATE INDEX invitations_ending ON invitations (expires_at);

-- Short domains that were added at run time, and hosts that moderators blocked.
CREATE TABLE places (domain TEXT PRIMARY KEY, root TEXT, not_found TEXT, expired TEXT) STRICT, WITHOUT ROWID;
CREATE TABLE blocked_hosts (host TEXT PRIMARY KEY, at INTEGER NOT NULL, why TEXT) STRICT, WITHOUT ROWID;

-- Abuse reports by visitors.
CREATE TABLE reports (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    domain TEXT NOT NULL,
    code TEXT NOT NULL,
    born INTEGER NOT NULL,
    reporter BLOB NOT NULL,
    account INTEGER,
    reason TEXT NOT NULL,
    text TEXT,
    at INTEGER NOT NULL,
    state TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX reports_open ON reports (domain, code, born, reporter) WHERE state = 'open';
CREATE INDEX reports_by_state ON reports (state);
CREATE INDEX reports_settled ON reports (at) WHERE state <> 'open';

-- Who did what, when and why. `actor` is NULL where terse did it; `about` is the account that the record is about.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    actor INTEGER,
    act TEXT NOT NULL,
    subject TEXT NOT NULL,
    about INTEGER,
    why TEXT,
    before TEXT,
    after TEXT
) STRICT;
CREATE INDEX audit_by_subject ON audit (subject);
CREATE INDEX audit_by_act ON audit (act);
CREATE INDEX audit_about ON audit (about) WHERE about IS NOT NULL;
CREATE INDEX audit_by_age ON audit (at);
