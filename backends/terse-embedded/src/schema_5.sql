-- Counts an owner's tags without reading their links. `deleted_at` is in the index so that SQLite need not read the rows.
CREATE INDEX links_tagged ON links (owner, tags, deleted_at) WHERE tags IS NOT NULL AND deleted_at IS NULL AND owner <> 0;
