-- The targets of redirect rules are searched, too.
CREATE INDEX IF NOT EXISTS links_search_rules ON links USING gin (lower(rules COLLATE "C") gin_trgm_ops)
    WHERE rules IS NOT NULL;
