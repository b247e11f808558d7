-- Sums of hours that are not in `hours` yet: a block for each batch with many links, merged later. `first` and `last` are ids of
-- `hours`, `chunks` lists the ids of its chunks, whose own ids begin with that of the block.
-- `erased_block` (in `meta`): blocks up to this one may have sums of erased subjects.
-- `merge_last` and `merged_to` (in `meta`): of blocks up to the former, sums below the latter are in `hours` already.
CREATE TABLE delta_blocks (
    id INTEGER PRIMARY KEY,
    entries INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    chunks BLOB NOT NULL
) STRICT;
CREATE TABLE delta_chunks (id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
-- The blocks of single clicks that `clicks.max_raw` deletes first.
CREATE INDEX blocks_by_end ON blocks (last);
