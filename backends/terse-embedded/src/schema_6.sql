-- Aliases of links that no longer exist. Until `until`, only their former owner gets them; an alias of owner 0 had no owner.
CREATE TABLE held (
    domain INTEGER NOT NULL,
    code TEXT NOT NULL,
    owner INTEGER NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (domain, code)
) STRICT, WITHOUT ROWID;
CREATE INDEX held_folded ON held (domain, lower(code));
CREATE INDEX held_ending ON held (until);
