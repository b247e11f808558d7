-- The clicks that another shortener had counted when the link was imported.
ALTER TABLE links ADD COLUMN imported_clicks INTEGER;
ALTER TABLE revisions ADD COLUMN imported_clicks INTEGER;
