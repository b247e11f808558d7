-- The version counts the changes that the redirect plane must know of. It means nothing without its incarnation, a
-- random number that changes when a backup is restored.
UPDATE meta SET name = 'version' WHERE name = 'watermark';
INSERT INTO meta VALUES ('version', 0) ON CONFLICT DO NOTHING;
INSERT INTO meta VALUES ('incarnation', random() & 0x7fffffffffffffff);

-- Which node runs a job. `token` only grows; `node` is NULL after a release.
CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    node TEXT,
    token INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How far each job has come, in the job's own format.
CREATE TABLE job_progress (job TEXT PRIMARY KEY, progress BLOB NOT NULL) STRICT, WITHOUT ROWID;

-- The salt of each day's visitor hashes. `day` counts days since 1970.
CREATE TABLE salts (day INTEGER PRIMARY KEY, salt BLOB NOT NULL) STRICT;
