-- What an account chose for itself: JSON, as the core writes it.
ALTER TABLE accounts ADD COLUMN preferences text;
