-- From this version on `search` also has the targets of redirect rules. search_reset.rs builds it again if there are any.
INSERT INTO meta SELECT 'search_outdated', '1' WHERE EXISTS (SELECT 1 FROM links WHERE rules IS NOT NULL);
