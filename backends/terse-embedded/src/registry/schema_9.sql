-- Certificates that terse orders itself, with their private keys, and what ordering needs. A record
-- that was removed stays without a value, so that the largest revision tells of it.
CREATE TABLE acme_records (
    kind     TEXT NOT NULL,
    name     TEXT NOT NULL,
    revision INTEGER NOT NULL,
    value    TEXT,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX acme_records_revision ON acme_records (revision);
