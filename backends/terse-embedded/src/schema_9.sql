-- Expired links without an owner are deleted long before those of owners: the two have indexes of their own.
DROP INDEX IF EXISTS links_marked;
DROP INDEX IF EXISTS links_marked_anonymous;
CREATE INDEX links_marked ON links (expires_at) WHERE expires_at IS NOT NULL AND marked IS NOT NULL AND (flags & 32) = 0 AND owner <> 0;
CREATE INDEX links_marked_anonymous ON links (expires_at) WHERE expires_at IS NOT NULL AND marked IS NOT NULL AND (flags & 32) = 0 AND owner = 0;
