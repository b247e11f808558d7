-- How many links an account may create with all its keys; the usual limit if absent.
ALTER TABLE users ADD COLUMN plan TEXT;
