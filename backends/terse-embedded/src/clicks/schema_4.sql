-- Single clicks in compressed columns, a block for each batch; small blocks are merged. `subjects` lists whose clicks are in a
-- block, so that a block without clicks of a link need not be read. Times are milliseconds since 1970. The table `clicks` holds
-- the single clicks of earlier versions until their time is over.
CREATE TABLE blocks (
    id INTEGER PRIMARY KEY,
    first INTEGER NOT NULL,      -- the earliest click
    last INTEGER NOT NULL,       -- the latest click
    clicks INTEGER NOT NULL,     -- how many
    clean_to INTEGER NOT NULL,   -- erasures up to this one are applied
    subjects BLOB NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE INDEX blocks_by_time ON blocks (first, last);
CREATE INDEX blocks_small ON blocks (id, clicks) WHERE clicks < 16384;
CREATE INDEX blocks_by_erasure ON blocks (clean_to);

-- Links whose clicks are to be taken out of the blocks. Nothing reads them any more: their subjects are gone.
CREATE TABLE erased_subjects (id INTEGER PRIMARY KEY AUTOINCREMENT, subject INTEGER NOT NULL UNIQUE) STRICT;
