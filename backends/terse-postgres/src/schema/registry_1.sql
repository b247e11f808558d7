-- One row: the version counts the changes that the redirect plane must know of, and means nothing
-- without its incarnation. A write of accounts, credentials or domains locks it first.
CREATE TABLE registry_store (
    one         boolean PRIMARY KEY DEFAULT true CHECK (one),
    incarnation bigint NOT NULL,
    version     bigint NOT NULL
);

-- The token of the set-up link, whether there ever was an admin, the admin key, the last alarm.
CREATE TABLE registry_facts (
    name  text PRIMARY KEY,
    value bytea NOT NULL
);

-- Ids are never reused; those below 1000 are reserved.
CREATE TABLE accounts (
    id            bigint GENERATED ALWAYS AS IDENTITY (START WITH 1000) PRIMARY KEY,
    name          text COLLATE "C" NOT NULL,
    role          text NOT NULL,
    created_at    timestamptz NOT NULL,
    -- Argon2id, in the PHC format.
    password      text,
    -- At another provider: both or none.
    issuer        text,
    subject       text,
    -- Both or none.
    suspended_at  timestamptz,
    suspended_why text,
    revision      bigint NOT NULL,
    plan          text
);
-- `lower` of a column with this collation folds ASCII only.
CREATE UNIQUE INDEX accounts_name ON accounts (lower(name));
CREATE UNIQUE INDEX accounts_identity ON accounts (issuer, subject) WHERE issuer IS NOT NULL;
CREATE INDEX accounts_admins ON accounts (id) WHERE role = 'admin' AND suspended_at IS NULL;
CREATE INDEX accounts_suspended ON accounts (id) WHERE suspended_at IS NOT NULL;

-- A token is the SHA-256 of the key; the key itself is nowhere.
CREATE TABLE api_keys (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    token        bytea NOT NULL UNIQUE,
    owner        bigint NOT NULL,
    name         text NOT NULL,
    prefix       text NOT NULL,
    scope        text NOT NULL,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,
    plan         text,
    last_used_at timestamptz
);
CREATE INDEX api_keys_owner ON api_keys (owner);
CREATE INDEX api_keys_expiring ON api_keys (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE sessions (
    token      bytea PRIMARY KEY,
    owner      bigint NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX sessions_owner ON sessions (owner, created_at);
CREATE INDEX sessions_ending ON sessions (expires_at);

CREATE TABLE invitations (
    token      bytea PRIMARY KEY,
    role       text NOT NULL,
    author     bigint NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX invitations_author ON invitations (author);
CREATE INDEX invitations_ending ON invitations (expires_at);

-- Short domains that were added at run time, and hosts that moderators blocked.
CREATE TABLE domains (
    domain    text COLLATE "C" PRIMARY KEY,
    root      text,
    not_found text,
    expired   text
);
CREATE TABLE blocked_hosts (
    host text COLLATE "C" PRIMARY KEY,
    at   timestamptz NOT NULL,
    why  text
);

CREATE TABLE reports (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    domain          text COLLATE "C" NOT NULL,
    code            text COLLATE "C" NOT NULL,
    link_created_at timestamptz NOT NULL,
    reporter        bytea NOT NULL,
    account         bigint,
    reason          text COLLATE "C" NOT NULL,
    text            text,
    at              timestamptz NOT NULL,
    state           text NOT NULL
);
CREATE UNIQUE INDEX reports_open ON reports (domain, code, link_created_at, reporter)
    WHERE state = 'open';
CREATE INDEX reports_link ON reports (domain, code, state, link_created_at);
CREATE INDEX reports_state ON reports (state, id);
CREATE INDEX reports_settled ON reports (at) WHERE state <> 'open';
CREATE INDEX reports_account ON reports (account) WHERE account IS NOT NULL;

-- `actor` is NULL where terse acted; `about` is the account that the record is about.
CREATE TABLE audit (
    number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL,
    actor   bigint,
    act     text NOT NULL,
    subject text NOT NULL,
    about   bigint,
    why     text,
    before  text,
    after   text
);
CREATE INDEX audit_subject ON audit (subject, number);
CREATE INDEX audit_act ON audit (act, number);
CREATE INDEX audit_about ON audit (about) WHERE about IS NOT NULL;
CREATE INDEX audit_at ON audit (at);

-- `waiting` counts the deliveries that wait; `loan` is the number of the last claim by a sender,
-- which lasts until `lent_until`.
CREATE TABLE webhooks (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner        bigint NOT NULL,
    url          text NOT NULL,
    events       text NOT NULL,
    created_at   timestamptz NOT NULL,
    generation   integer NOT NULL,
    rotated_at   timestamptz,
    -- Both or none.
    disabled_at  timestamptz,
    disabled_why text,
    waiting      bigint NOT NULL,
    dropped      bigint NOT NULL,
    delivered_at timestamptz,
    loan         bigint NOT NULL,
    lent_until   timestamptz
);
CREATE INDEX webhooks_owner ON webhooks (owner);
CREATE INDEX webhooks_waiting ON webhooks (id) WHERE waiting > 0 AND disabled_at IS NULL;

-- A settled delivery keeps its body, so that it can be sent again.
CREATE TABLE deliveries (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    webhook    bigint NOT NULL,
    event      text NOT NULL,
    kind       text NOT NULL,
    body       text NOT NULL,
    created_at timestamptz NOT NULL,
    state      text NOT NULL,
    attempts   integer NOT NULL,
    next_at    timestamptz NOT NULL,
    tried_at   timestamptz,
    status     integer,
    problem    text,
    UNIQUE (webhook, event)
);
CREATE INDEX deliveries_webhook ON deliveries (webhook, id);
CREATE INDEX deliveries_due ON deliveries (webhook, next_at) WHERE state = 'waiting';
CREATE INDEX deliveries_settled ON deliveries (created_at) WHERE state <> 'waiting';

-- Which node runs a job. `token` only grows; `node` is NULL after a release.
CREATE TABLE job_leases (
    name       text PRIMARY KEY,
    node       text,
    token      bigint NOT NULL,
    expires_at timestamptz NOT NULL
);

-- How far each job has come, in the job's own format.
CREATE TABLE job_progress (
    job      text PRIMARY KEY,
    progress bytea NOT NULL
);

-- The salt of each day's visitor hashes. `day` counts days since 1970.
CREATE TABLE salts (
    day  bigint PRIMARY KEY,
    salt bytea NOT NULL
);
