-- Takes from a links file what the first version of terse did not have.
DROP TABLE search;
DROP TABLE unindexed;
DROP TABLE changes;
DROP TABLE outbox;
DROP TABLE held;
DROP INDEX links_tagged;
DROP TABLE revisions;
ALTER TABLE links DROP COLUMN rules;
ALTER TABLE links DROP COLUMN archived_at;
ALTER TABLE links DROP COLUMN notes;
ALTER TABLE links DROP COLUMN password;
ALTER TABLE links DROP COLUMN signs;
ALTER TABLE links DROP COLUMN imported_clicks;
ALTER TABLE links DROP COLUMN preview;
DELETE FROM meta WHERE name = 'code_hash';
PRAGMA user_version = 1;
