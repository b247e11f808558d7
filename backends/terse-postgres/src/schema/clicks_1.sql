-- The journals: the epoch of the last process that opened each, and the generation at which
-- positions were last forgotten.
CREATE TABLE click_journals (
    id         bytea PRIMARY KEY,
    epoch      bigint NOT NULL,
    generation bigint NOT NULL
);

-- How far each segment of each journal was counted.
CREATE TABLE click_positions (
    journal bytea NOT NULL,
    segment bigint NOT NULL,
    counted bigint NOT NULL,
    PRIMARY KEY (journal, segment)
);

-- The subjects whose clicks are summed up, and their sums of all time. Times are milliseconds since 1970. A `sum`
-- is in terse's own format: a checksum, a sketch of the visitors, and all dimensions.
CREATE TABLE click_subjects (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- 0 a link, 1 an owner, 2 everything, 3 visits that led to no link.
    kind            smallint NOT NULL,
    domain          text COLLATE "C" NOT NULL,
    code            text COLLATE "C" NOT NULL,
    link_created_at bigint NOT NULL,
    -- Of an owner's sum: the owner. Else 0.
    sum_of          bigint NOT NULL,
    -- Of a link's sum: the link's owner. Else 0.
    owner           bigint NOT NULL,
    humans          bigint NOT NULL,
    bots            bigint NOT NULL,
    sum             bytea NOT NULL,
    UNIQUE (kind, domain, code, link_created_at, sum_of)
) WITH (fillfactor = 80);
CREATE INDEX click_subjects_owner ON click_subjects (owner) WHERE kind = 0;

-- Sums by the hour (unit 1), and by the day (unit 2) where hours are no longer kept.
CREATE TABLE click_buckets (
    subject bigint NOT NULL,
    unit    smallint NOT NULL,
    start   bigint NOT NULL,
    humans  bigint NOT NULL,
    bots    bigint NOT NULL,
    sum     bytea NOT NULL,
    PRIMARY KEY (subject, unit, start)
) WITH (fillfactor = 80);
CREATE INDEX click_buckets_hours ON click_buckets (start) WHERE unit = 1;

-- Single clicks on links, for as long as they are kept, each in terse's own format. A table per
-- month, which terse creates ahead and drops whole; other times are in the default table.
CREATE SEQUENCE click_raw_number;
CREATE TABLE click_raw (
    subject bigint NOT NULL,
    at      bigint NOT NULL,
    number  bigint NOT NULL DEFAULT nextval('click_raw_number'),
    click   bytea NOT NULL,
    PRIMARY KEY (subject, at, number)
) PARTITION BY RANGE (at);
CREATE INDEX click_raw_at ON click_raw (at);
CREATE TABLE click_raw_default PARTITION OF click_raw DEFAULT;

-- How many single clicks each day has, and how many octets they take.
CREATE TABLE click_raw_days (
    day    bigint PRIMARY KEY,
    clicks bigint NOT NULL,
    octets bigint NOT NULL
) WITH (fillfactor = 50);

-- Tombstones: clicks made by `erased_at` are not counted for what was erased.
CREATE TABLE click_erased_links (
    domain     text COLLATE "C" NOT NULL,
    code       text COLLATE "C" NOT NULL,
    created_by bigint NOT NULL,
    erased_at  bigint NOT NULL,
    PRIMARY KEY (domain, code, created_by)
);
CREATE TABLE click_erased_owners (
    owner     bigint PRIMARY KEY,
    erased_at bigint NOT NULL
);
