-- What an account chose for itself: JSON, as the core writes it.
ALTER TABLE users ADD COLUMN preferences TEXT;
