-- The id of each event, stored with it: it stays the same after a restore. Entries of earlier versions get one here.
ALTER TABLE outbox ADD COLUMN event BLOB;
UPDATE outbox SET event = randomblob(16);
