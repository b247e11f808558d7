CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE INDEX links_search ON links USING gin (
    lower((code || E'\n' || target || E'\n' || coalesce(title, '')) COLLATE "C") gin_trgm_ops
);
