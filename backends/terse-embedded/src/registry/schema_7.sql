-- The hash of the token in the account's reset link, and when the link expires: both or none.
ALTER TABLE users ADD COLUMN reset_token BLOB;
ALTER TABLE users ADD COLUMN reset_expires_at INTEGER;
CREATE UNIQUE INDEX users_resets ON users (reset_token) WHERE reset_token IS NOT NULL;
