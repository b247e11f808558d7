-- Lists of links in a state that few links are in. Later states of a link depend on the time, so these have all links that can be in one.
CREATE INDEX IF NOT EXISTS links_with_expiry ON links (created_at) WHERE expires_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS links_with_limits ON links (created_at) WHERE max_clicks IS NOT NULL OR valid_from IS NOT NULL;
CREATE INDEX IF NOT EXISTS links_moderated ON links (created_at) WHERE (flags & 48) <> 0;
CREATE INDEX IF NOT EXISTS links_deleted_by_age ON links (created_at) WHERE deleted_at IS NOT NULL;
