-- What `took` leaves out: nanoseconds below a microsecond.
ALTER TABLE clicks ADD COLUMN took_nanos INTEGER NOT NULL DEFAULT 0;
