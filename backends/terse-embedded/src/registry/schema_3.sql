-- All reports about a link, in any state.
CREATE INDEX reports_of ON reports (domain, code, state, born);
-- The reports that an account has written. The erasure of the account removes its id from them.
CREATE INDEX reports_by ON reports (account) WHERE account IS NOT NULL;
