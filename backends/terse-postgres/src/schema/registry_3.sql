-- Two-factor sign-in: the seed of the secret (which also needs a key of the store), the time step of
-- the last accepted code, and the hashes of the recovery codes, 32 octets each. All or none.
ALTER TABLE accounts ADD COLUMN totp_seed bytea;
ALTER TABLE accounts ADD COLUMN totp_step bigint;
ALTER TABLE accounts ADD COLUMN recovery_codes bytea;
