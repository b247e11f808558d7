-- Aliases of links that are gone, and until when nobody but their former owner gets them. Nobody was the owner of those of owner 0.
CREATE TABLE held (
    domain INTEGER NOT NULL,
    code TEXT NOT NULL,
    owner INTEGER NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (domain, code)
) STRICT, WITHOUT ROWID;
CREATE INDEX held_folded ON held (domain, lower(code));
CREATE INDEX held_ending ON held (until);
