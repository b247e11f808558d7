-- When a day is over, its hours are added to the sum of the day and to the sum of all time, and stay until their time is over.
-- `folded_to`: rows of `hours` below this id are in `days`. `totals_to`: those below this id are in `subjects.sum`, which earlier versions
-- wrote with every batch. `hours_from`: of days before this one (since 1970) only `days` counts.
-- An empty `subjects.sum` is a sum of nothing.
INSERT INTO meta VALUES ('folded_to', 0);
INSERT INTO meta SELECT 'totals_to', coalesce(max(id), -1) + 1 FROM hours;
INSERT INTO meta SELECT 'hours_from', max(
    coalesce((SELECT (min(id) >> 41) - 719528 FROM hours), -719528),
    coalesce((SELECT max(day) + 1 FROM days), -719528));
