-- The redirect rules: JSON, as the core writes it.
ALTER TABLE links ADD COLUMN rules TEXT;
ALTER TABLE revisions ADD COLUMN rules TEXT;
