-- Finished days stay in runs: of level 100 and above, whose ids begin with the subject (36 bits), then have the day (22 bits) and the hour
-- (5 bits; in merged runs, 23 stands for the whole day if it is before `hours_from`). The numbers of their clicks are in `subjects`.
-- In `meta`: `settled_to`: sums of other runs below this id of `hours` are in these runs, or are rows. `last_run`: the highest id that a run had.
-- The busiest links of each finished day, as far as its sums are in runs.
CREATE TABLE day_ranks (day INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
