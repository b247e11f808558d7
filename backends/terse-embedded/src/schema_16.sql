-- The state of a link as far as it does not depend on the time, for lists: list.rs names the numbers. 8 more if the link is archived.
ALTER TABLE links ADD COLUMN state INTEGER AS (
    CASE
        WHEN deleted_at IS NOT NULL THEN 6
        WHEN (flags & 32) <> 0 THEN 5
        WHEN marked IS NOT NULL THEN 4
        WHEN spent_clicks >= max_clicks THEN 3
        WHEN (flags & 16) <> 0 THEN CASE WHEN valid_from IS NULL THEN 1 ELSE 7 END
        WHEN valid_from IS NOT NULL THEN 2
        ELSE 0
    END + CASE WHEN archived_at IS NOT NULL THEN 8 ELSE 0 END
) VIRTUAL;
-- The indexes of version 13 had all links that could be in a state, among them those that were not in it.
DROP INDEX IF EXISTS links_with_expiry;
DROP INDEX IF EXISTS links_with_limits;
DROP INDEX IF EXISTS links_moderated;
DROP INDEX IF EXISTS links_deleted_by_age;
DROP INDEX IF EXISTS links_by_owner;
CREATE INDEX links_of_owner ON links (owner, state, created_at) WHERE owner <> 0;
CREATE INDEX links_in_state ON links (state, created_at) WHERE state <> 0;
CREATE INDEX links_scheduled ON links (valid_from) WHERE valid_from IS NOT NULL;
