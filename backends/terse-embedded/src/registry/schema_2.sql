-- Receivers of events. `waiting` counts the deliveries that wait; `loan` is the number of the last claim by a sender, which lasts until `lent_until`.
CREATE TABLE webhooks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner INTEGER NOT NULL,
    url TEXT NOT NULL,
    events TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    rotated_at INTEGER,
    disabled_at INTEGER,       -- both or none
    disabled_why TEXT,
    waiting INTEGER NOT NULL,
    dropped INTEGER NOT NULL,
    delivered_at INTEGER,
    loan INTEGER NOT NULL,
    lent_until INTEGER
) STRICT;
CREATE INDEX webhooks_of ON webhooks (owner);
CREATE INDEX webhooks_on ON webhooks (owner) WHERE disabled_at IS NULL;
CREATE INDEX webhooks_waiting ON webhooks (id) WHERE waiting > 0 AND disabled_at IS NULL;

-- Events on their way to one receiver each. Earlier versions emptied the body of a settled delivery.
CREATE TABLE deliveries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    webhook INTEGER NOT NULL,
    event TEXT NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    next_at INTEGER NOT NULL,
    tried_at INTEGER,
    status INTEGER,
    problem TEXT
) STRICT;
CREATE INDEX deliveries_of ON deliveries (webhook);
CREATE INDEX deliveries_waiting ON deliveries (webhook, next_at) WHERE state = 'waiting';
CREATE INDEX deliveries_settled ON deliveries (webhook) WHERE state <> 'waiting';
CREATE INDEX deliveries_by_age ON deliveries (created_at) WHERE state <> 'waiting';
