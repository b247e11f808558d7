-- All reports about a link, whatever became of them.
CREATE INDEX reports_of ON reports (domain, code, state, born);
-- Those that an account has written: who is erased is not named in them any more.
CREATE INDEX reports_by ON reports (account) WHERE account IS NOT NULL;
