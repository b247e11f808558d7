-- Facts about the store itself: its secret, its alphabet, the next free id of a named link.
CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;

-- Short domains by a small number; 0 is the primary one.
CREATE TABLE domains (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
INSERT INTO domains VALUES (0, '');

-- The numbers of each code length below `next` were leased.
CREATE TABLE leases (length INTEGER PRIMARY KEY, next INTEGER NOT NULL) STRICT;

-- A link whose code is a leased number has that number as its id, and no code here. All others ("named") have ids from 2^61 on.
CREATE TABLE links (
    id INTEGER PRIMARY KEY,
    domain INTEGER NOT NULL,
    code TEXT,
    owner INTEGER NOT NULL,
    target TEXT NOT NULL,
    created_at INTEGER NOT NULL, -- milliseconds since 1970, like all moments
    updated_at INTEGER,          -- NULL: never
    flags INTEGER NOT NULL,      -- redirect kind | 4 forward query | 8 crawlable | 16 suspicious | 32 blocked | 64 generated
    checksum INTEGER NOT NULL,   -- of everything but spent_clicks and marked
    reuse INTEGER,               -- if reusable: a hash of owner, domain and target
    revision INTEGER,            -- NULL: 1
    expires_at INTEGER,
    valid_from INTEGER,
    max_clicks INTEGER,
    spent_clicks INTEGER,        -- NULL: 0
    title TEXT,
    tags TEXT,                   -- joined by commas
    deleted_at INTEGER,
    marked INTEGER               -- 1 once it was reported as expired
) STRICT;
CREATE INDEX links_by_age ON links (created_at);
CREATE INDEX links_by_owner ON links (owner, created_at) WHERE owner <> 0;
CREATE INDEX links_to_reuse ON links (reuse) WHERE reuse IS NOT NULL;
CREATE INDEX links_to_mark ON links (expires_at) WHERE expires_at IS NOT NULL AND marked IS NULL;
-- Blocked links stay for ever, and are not looked at again at every purge.
CREATE INDEX links_marked ON links (expires_at) WHERE expires_at IS NOT NULL AND marked IS NOT NULL AND (flags & 32) = 0;
CREATE INDEX links_deleted ON links (deleted_at) WHERE deleted_at IS NOT NULL AND (flags & 32) = 0;

-- Where the named links are. `owner` is NULL where the code was generated: such codes never look too much alike.
CREATE TABLE aliases (
    domain INTEGER NOT NULL,
    code TEXT NOT NULL,
    id INTEGER NOT NULL,
    owner INTEGER,
    PRIMARY KEY (domain, code)
) STRICT, WITHOUT ROWID;
CREATE INDEX aliases_folded ON aliases (domain, lower(code)) WHERE owner IS NOT NULL;

-- Which requests were answered with which link, and when. An id can come to belong to a later link: the moment of its making
-- tells which one is meant.
CREATE TABLE requests (
    id BLOB PRIMARY KEY,
    fingerprint BLOB NOT NULL,
    link INTEGER NOT NULL,
    link_created_at INTEGER NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX requests_by_age ON requests (at);
