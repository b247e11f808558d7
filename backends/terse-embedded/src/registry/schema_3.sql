-- All reports about a link, whatever became of them.
CREATE INDEX reports_of ON reports (domain, code, state, born);
