-- `marked` is now the time at which a link was marked as expired: the time until it is deleted begins there. Marks of earlier versions begin now.
DROP INDEX links_marked;
DROP INDEX links_marked_anonymous;
UPDATE links SET marked = CAST(unixepoch('subsec') * 1000 AS INTEGER) WHERE marked IS NOT NULL;
-- Without blocked links, which stay for ever, so that a purge does not read them each time.
CREATE INDEX links_marked ON links (marked) WHERE marked IS NOT NULL AND (flags & 32) = 0 AND owner <> 0;
CREATE INDEX links_marked_anonymous ON links (marked) WHERE marked IS NOT NULL AND (flags & 32) = 0 AND owner = 0;
