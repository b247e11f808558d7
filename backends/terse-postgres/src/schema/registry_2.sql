-- The hash of the token in the account's reset link, and when the link expires: both or none.
ALTER TABLE accounts ADD COLUMN reset_token bytea;
ALTER TABLE accounts ADD COLUMN reset_expires_at timestamptz;
CREATE UNIQUE INDEX accounts_reset ON accounts (reset_token) WHERE reset_token IS NOT NULL;
