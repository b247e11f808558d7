-- Rankings by clicks. The writer of the sums keeps them: of links of all time with every batch, of days when a day is folded.
-- A rank is less the more clicks there are.
ALTER TABLE subjects ADD COLUMN rank INTEGER AS (-(people + machines));
CREATE INDEX subjects_ranked ON subjects (rank, domain, code, born, owner) WHERE kind = 0;
ALTER TABLE days ADD COLUMN rank INTEGER AS (-(people + machines));
CREATE INDEX days_ranked ON days (day, rank);
