-- One row: the secret of the store, and how often it was restored.
CREATE TABLE link_store (
    one         boolean PRIMARY KEY DEFAULT true CHECK (one),
    secret      bytea NOT NULL,
    alphabet    text NOT NULL,
    code_hash   text NOT NULL,
    incarnation bigint NOT NULL
);

CREATE TABLE links (
    domain          text COLLATE "C" NOT NULL,
    code            text COLLATE "C" NOT NULL,
    generated       boolean NOT NULL,
    owner           bigint NOT NULL,
    target          text NOT NULL,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    expires_at      timestamptz,
    valid_from      timestamptz,
    max_clicks      bigint,
    spent_clicks    bigint NOT NULL,
    imported_clicks bigint NOT NULL,
    redirect        smallint NOT NULL,
    title           text,
    tags            text[] NOT NULL,
    notes           text,
    password        text,
    archived_at     timestamptz,
    rules           text,
    forward_query   boolean NOT NULL,
    crawlable       boolean NOT NULL,
    -- 0 clear, 1 suspicious, 2 blocked.
    moderation      smallint NOT NULL,
    -- 0 the screening, 1 a moderator.
    moderated_by    smallint NOT NULL,
    flags           text NOT NULL,
    deleted_at      timestamptz,
    -- A hash of owner, domain and target, if the link is reusable.
    reuse           bigint,
    revision        bigint NOT NULL,
    -- Of all columns above but spent_clicks.
    checksum        bigint NOT NULL,
    -- When its expiry was noticed.
    marked          timestamptz,
    PRIMARY KEY (domain, code)
) WITH (fillfactor = 95, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);

-- Aliases that differ only by case. `lower` of a column with this collation folds ASCII only.
CREATE INDEX links_folded ON links (domain, lower(code)) WHERE NOT generated;
CREATE INDEX links_reuse ON links (reuse) WHERE reuse IS NOT NULL;
CREATE INDEX links_newest ON links (created_at, domain, code);
CREATE INDEX links_owner ON links (owner, created_at, domain, code) WHERE owner <> 0;
CREATE INDEX links_expiring ON links (expires_at) WHERE expires_at IS NOT NULL AND marked IS NULL;
CREATE INDEX links_marked ON links (marked) WHERE marked IS NOT NULL AND moderation <> 2;
CREATE INDEX links_deleted ON links (deleted_at) WHERE deleted_at IS NOT NULL AND moderation <> 2;

-- Earlier versions of links, each in terse's own format.
CREATE TABLE link_revisions (
    domain text COLLATE "C" NOT NULL,
    code   text COLLATE "C" NOT NULL,
    n      bigint GENERATED ALWAYS AS IDENTITY,
    until  timestamptz NOT NULL,
    link   bytea NOT NULL,
    PRIMARY KEY (domain, code, n)
);

-- Which link answered a request.
CREATE TABLE link_requests (
    id              bytea PRIMARY KEY,
    fingerprint     bytea NOT NULL,
    domain          text COLLATE "C" NOT NULL,
    code            text COLLATE "C" NOT NULL,
    link_created_at timestamptz NOT NULL,
    -- Whether the request created the link; else it existed before.
    created         boolean NOT NULL,
    at              timestamptz NOT NULL
);
CREATE INDEX link_requests_at ON link_requests (at);

-- Aliases of purged links, which only their former owners may take for a while.
CREATE TABLE link_quarantine (
    domain text COLLATE "C" NOT NULL,
    code   text COLLATE "C" NOT NULL,
    owner  bigint NOT NULL,
    until  timestamptz NOT NULL,
    PRIMARY KEY (domain, code)
);
CREATE INDEX link_quarantine_folded ON link_quarantine (domain, lower(code));
CREATE INDEX link_quarantine_until ON link_quarantine (until);

-- How many numbers of each code length were leased.
CREATE TABLE link_leases (
    length smallint PRIMARY KEY,
    next   bigint NOT NULL
);
INSERT INTO link_leases SELECT length, 0 FROM generate_series(4, 10) AS length;

-- Which links changed. A node reads the rows that its last snapshot did not see.
CREATE TABLE link_changes (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xid      xid8 NOT NULL DEFAULT pg_current_xact_id(),
    domain   text NOT NULL,
    code     text NOT NULL,
    revision bigint NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX link_changes_xid ON link_changes (xid);
CREATE INDEX link_changes_at ON link_changes (at);

-- Events that wait for their deliveries, with the link as it was then in terse's own format.
CREATE TABLE link_outbox (
    id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind  text NOT NULL,
    at    timestamptz NOT NULL,
    event bytea NOT NULL,
    link  bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
