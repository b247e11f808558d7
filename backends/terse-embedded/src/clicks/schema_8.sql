-- Runs: sums of hours of many links, sorted by the ids of `hours`. A batch with many links writes one of level 0; several of one
-- level are merged into one of the next. A run is cut into chunks, whose ids begin with that of the run: `run_heads` has the ids and
-- the numbers of clicks, `run_bodies` everything else. `chunks` lists the first and the last id of each. The numbers of clicks in runs are
-- not in `subjects`. When a day is over, its sums become rows of `hours`. `delta_blocks` are of earlier versions.
-- In `meta`: `settled_to`: sums of runs below this id of `hours` are rows. `run_merge_level`, `run_merge_last`, `run_merge_out`,
-- `run_merge_to`: runs of this level up to this one are being merged into that run, which has their sums below this id.
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    level INTEGER NOT NULL,
    sums INTEGER NOT NULL,       -- how many
    clean_to INTEGER NOT NULL,   -- erasures up to this one are applied
    chunks BLOB NOT NULL
) STRICT;
CREATE TABLE run_heads (id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
CREATE TABLE run_bodies (id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
-- Links whose clicks are all in runs have no rank yet.
DROP INDEX subjects_ranked;
CREATE INDEX subjects_ranked ON subjects (rank, domain, code, born, owner) WHERE kind = 0 AND rank < 0;
