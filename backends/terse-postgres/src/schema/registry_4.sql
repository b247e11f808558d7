-- Certificates that terse orders itself, with their private keys, and what ordering needs. A record
-- that was removed stays without a value, so that the largest revision tells of it.
CREATE TABLE acme_records (
    kind     text NOT NULL,
    name     text NOT NULL,
    revision bigint NOT NULL,
    value    text,
    PRIMARY KEY (kind, name)
);
CREATE INDEX acme_records_revision ON acme_records (revision);
