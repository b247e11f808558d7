-- Which links changed, in the order of the commits, for nodes that cache links. Numbers are never used twice, so that a reader knows where it
-- was. Rows are kept for ten minutes.
CREATE TABLE changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    domain INTEGER NOT NULL,
    code TEXT NOT NULL,
    revision INTEGER NOT NULL, -- that the write stored, or the last one of a link that was removed
    at INTEGER NOT NULL
) STRICT;

-- In `meta`, `incarnation`: raised when the store is restored from a copy; 1 if absent.

-- Events that a write must not lose: written with it, deleted once the registry has their deliveries.
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    link BLOB NOT NULL   -- as it was after the write, in the core's link codec
) STRICT;
