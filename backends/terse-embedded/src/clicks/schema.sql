-- Facts about the file itself: the number of the next raw click.
CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;

-- The subjects whose clicks are summed up, and their sums of all time. A `sum` is a checksum, a sketch of the visitors and a tally, all
-- dimensions together: a click on a quiet link changes few rows. Times are milliseconds since 1970.
CREATE TABLE subjects (
    id INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,     -- 0 a link, 1 an owner, 2 everything, 3 orphans
    domain TEXT NOT NULL,
    code TEXT NOT NULL,
    born INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    people INTEGER NOT NULL,
    machines INTEGER NOT NULL,
    sum BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX subjects_links ON subjects (domain, code, born) WHERE kind = 0;
CREATE UNIQUE INDEX subjects_others ON subjects (kind, owner) WHERE kind <> 0;
CREATE INDEX subjects_links_of ON subjects (owner) WHERE kind = 0;

-- Sums by the hour. The id holds day, subject and hour. It begins with the day, so that the rows of today lie together and
-- old days are deleted from one end. (With a key of several columns, SQLite would read the sums to find a row.)
CREATE TABLE hours (
    id INTEGER PRIMARY KEY,
    people INTEGER NOT NULL,
    machines INTEGER NOT NULL,
    sum BLOB NOT NULL,
    day INTEGER AS ((id >> 41) - 719528),          -- since 1970
    subject INTEGER AS ((id >> 5) & 68719476735),
    hour INTEGER AS (id & 31)                      -- of the day, in UTC
) STRICT;

-- Sums of days whose hours are no longer kept. Late clicks of such a day are in `hours` until they are merged into this table.
CREATE TABLE days (
    id INTEGER PRIMARY KEY,
    people INTEGER NOT NULL,
    machines INTEGER NOT NULL,
    sum BLOB NOT NULL,
    subject INTEGER AS (id >> 22),
    day INTEGER AS ((id & 4194303) - 719528)
) STRICT;

-- Every click on a link, for as long as it is kept. The hour comes first, for the same reasons.
CREATE TABLE clicks (
    hour INTEGER NOT NULL,     -- since 1970
    subject INTEGER NOT NULL,
    at INTEGER NOT NULL,
    number INTEGER NOT NULL,   -- tells clicks of one millisecond apart
    took INTEGER NOT NULL,     -- microseconds
    visitor INTEGER,
    address TEXT,
    machine TEXT,
    referrer TEXT,
    country TEXT,
    city TEXT,
    device TEXT,
    browser TEXT,
    system TEXT,
    language TEXT,
    utm_source TEXT,
    utm_medium TEXT,
    utm_campaign TEXT,
    utm_term TEXT,
    utm_content TEXT,
    PRIMARY KEY (hour, subject, at, number)
) STRICT, WITHOUT ROWID;

-- How far each segment of the journal was counted.
CREATE TABLE positions (segment INTEGER PRIMARY KEY, place INTEGER NOT NULL) STRICT;

-- The secrets of the last days.
CREATE TABLE salts (day INTEGER PRIMARY KEY, salt BLOB NOT NULL) STRICT;
