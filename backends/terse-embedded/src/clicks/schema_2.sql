-- The journals: the epoch of the last process that opened each, and the generation at which positions were last forgotten.
CREATE TABLE journals (
    id BLOB PRIMARY KEY,
    epoch INTEGER NOT NULL,
    generation INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How far each segment of each journal was counted. Positions from before journals had ids have an empty one, until the
-- first journal that is opened takes them over: a file of that time had one journal.
ALTER TABLE positions RENAME TO positions_1;
CREATE TABLE positions (
    journal BLOB NOT NULL,
    segment INTEGER NOT NULL,
    place INTEGER NOT NULL,
    PRIMARY KEY (journal, segment)
) STRICT, WITHOUT ROWID;
INSERT INTO positions SELECT x'', segment, place FROM positions_1;
DROP TABLE positions_1;

-- Tombstones: clicks made by `erased_at` of links created by `created_by` are not counted for the link any more.
CREATE TABLE erased_links (
    domain TEXT NOT NULL,
    code TEXT NOT NULL,
    created_by INTEGER NOT NULL,
    erased_at INTEGER NOT NULL,
    PRIMARY KEY (domain, code, created_by)
) STRICT, WITHOUT ROWID;
CREATE INDEX erased_links_by_age ON erased_links (erased_at);
CREATE TABLE erased_owners (owner INTEGER PRIMARY KEY, erased_at INTEGER NOT NULL) STRICT;
CREATE INDEX erased_owners_by_age ON erased_owners (erased_at);
