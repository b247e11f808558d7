-- The trigrams of every link's code, target and title, and one trigram each for its owner, its domain and its tags: search.rs writes it. The
-- number of a row says when its link was created. The texts themselves are not in it.
CREATE VIRTUAL TABLE search USING fts5(code, target, title, owner, domain, tags, content = '', columnsize = 0, detail = none, tokenize = 'trigram');
-- Links that are not in `search` yet. Neither are all links before `search_floor` in `meta`, as (created_at, id); absent: there are none.
CREATE TABLE unindexed (created_at INTEGER NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (created_at, id)) STRICT, WITHOUT ROWID;
INSERT INTO meta SELECT 'search_floor', '9223372036854775807 9223372036854775807' WHERE EXISTS (SELECT 1 FROM links);
