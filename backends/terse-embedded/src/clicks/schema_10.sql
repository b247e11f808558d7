-- Links are found by name and by owner in sorted lists of keys (`key_runs`, in chunks), no longer by indexes: a batch with many new links
-- changed nearly every page of those. A key is 27 bits of a hash, of the name or of the owner, and the id of the subject. `kind`: 0 names,
-- 1 owners. Everything in these tables can be made again from `subjects`.
-- In `meta`: `names_seed`: of the hashes of names. `keys_missing`: a file of an earlier version, whose keys are not made yet.
DROP INDEX subjects_links;
DROP INDEX subjects_links_of;
CREATE TABLE key_runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind INTEGER NOT NULL,
    keys INTEGER NOT NULL,       -- how many there were when it was written
    chunks BLOB NOT NULL         -- as in `runs`
) STRICT;
CREATE TABLE key_chunks (id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
INSERT INTO meta VALUES ('names_seed', random());
INSERT INTO meta SELECT 'keys_missing', 1 WHERE EXISTS (SELECT 1 FROM subjects WHERE kind = 0);
