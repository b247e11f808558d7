-- How many requests a key has made, and which browser a session belongs to.
ALTER TABLE keys ADD COLUMN requests INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN browser TEXT;
-- The nodes that run, and the latest version of links that each can read.
CREATE TABLE nodes (node TEXT PRIMARY KEY, version INTEGER NOT NULL, seen_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
