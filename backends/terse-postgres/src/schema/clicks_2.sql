-- Every batch of clicks updates rows of these tables. By default a fifth of a table must be dead rows before PostgreSQL vacuums it.
ALTER TABLE click_subjects SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
ALTER TABLE click_buckets SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
ALTER TABLE click_positions SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
