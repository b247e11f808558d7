-- The hash of the link's password, the owner's notes, and when the link was archived.
ALTER TABLE links ADD COLUMN password TEXT;
ALTER TABLE links ADD COLUMN notes TEXT;
ALTER TABLE links ADD COLUMN archived_at INTEGER;

-- Links as they were before each of their last changes: whole rows, with their checksums. A column that is added to `links` is added
-- here, too.
CREATE TABLE revisions (
    n INTEGER PRIMARY KEY,  -- in the order of the changes
    until INTEGER NOT NULL, -- when it was changed
    id INTEGER NOT NULL,    -- the link's
    domain INTEGER NOT NULL,
    code TEXT,
    owner INTEGER NOT NULL,
    target TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER,
    flags INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    reuse INTEGER,
    revision INTEGER,
    expires_at INTEGER,
    valid_from INTEGER,
    max_clicks INTEGER,
    spent_clicks INTEGER,
    title TEXT,
    tags TEXT,
    deleted_at INTEGER,
    signs TEXT,
    password TEXT,
    notes TEXT,
    archived_at INTEGER
) STRICT;
CREATE INDEX revisions_of_a_link ON revisions (id, n);
