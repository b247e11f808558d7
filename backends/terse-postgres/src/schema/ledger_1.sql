-- The ledger of a click store without transactions, and of a bus: which batches count. `ledger` says
-- whose: 1 the click store's, 2 the bus'.
CREATE TABLE ledger_state (
    ledger smallint PRIMARY KEY,
    -- The highest number that was given out.
    last   bigint NOT NULL
);
INSERT INTO ledger_state (ledger, last) VALUES (1, 0), (2, 0);

CREATE TABLE ledger_journals (
    ledger     smallint NOT NULL,
    id         bytea NOT NULL,
    epoch      bigint NOT NULL,
    generation bigint NOT NULL,
    PRIMARY KEY (ledger, id)
);

CREATE TABLE ledger_positions (
    ledger  smallint NOT NULL,
    journal bytea NOT NULL,
    segment bigint NOT NULL,
    counted bigint NOT NULL,
    PRIMARY KEY (ledger, journal, segment)
);

-- Batches that were begun and not finished. Of an abandoned one, no row ever counts.
CREATE TABLE ledger_batches (
    ledger       smallint NOT NULL,
    sequence     bigint NOT NULL,
    id           bytea NOT NULL,
    journals     bytea[] NOT NULL,
    spans        bytea NOT NULL,
    begun_at     timestamptz NOT NULL DEFAULT now(),
    abandoned_at timestamptz,
    PRIMARY KEY (ledger, sequence)
);

-- Merges of rows, until what they replaced is deleted.
CREATE TABLE ledger_merges (
    sequence    bigint PRIMARY KEY,
    up_to       bigint NOT NULL,
    begun_at    timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    -- Another merge was begun before this one was finished: its rows never count.
    is_abandoned boolean NOT NULL DEFAULT false
);

-- Erasures whose rows may still be in the click store. Either a key or an owner.
CREATE TABLE ledger_erasures (
    sequence   bigint NOT NULL,
    domain     text COLLATE "C",
    code       text COLLATE "C",
    created_by bigint,
    owner      bigint
);
CREATE INDEX ledger_erasures_sequence ON ledger_erasures (sequence);

-- Tombstones: clicks made by `erased_at` are not counted for what was erased.
CREATE TABLE ledger_erased_links (
    domain     text COLLATE "C" NOT NULL,
    code       text COLLATE "C" NOT NULL,
    created_by bigint NOT NULL,
    erased_at  bigint NOT NULL,
    PRIMARY KEY (domain, code, created_by)
);
CREATE TABLE ledger_erased_owners (
    owner     bigint PRIMARY KEY,
    erased_at bigint NOT NULL
);
