-- How many requests a key has made, and which browser a session belongs to.
ALTER TABLE api_keys ADD COLUMN requests bigint NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN browser text;
-- The nodes that run, and the latest version of links that each can read.
CREATE TABLE nodes (
    node    text PRIMARY KEY,
    version bigint NOT NULL,
    seen_at timestamptz NOT NULL
);
