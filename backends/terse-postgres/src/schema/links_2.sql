-- Links without an owner are purged soon, those of owners after a year: one index for both would
-- be read to its end.
CREATE INDEX IF NOT EXISTS links_marked_anonymous ON links (marked)
    WHERE marked IS NOT NULL AND moderation <> 2 AND owner = 0;
CREATE INDEX IF NOT EXISTS links_tags ON links USING gin (tags);
