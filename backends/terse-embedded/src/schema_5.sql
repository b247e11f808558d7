-- An owner's tags are counted without looking at their links. `deleted_at` is in it so that SQLite need not look either.
CREATE INDEX links_tagged ON links (owner, tags, deleted_at) WHERE tags IS NOT NULL AND deleted_at IS NULL AND owner <> 0;
