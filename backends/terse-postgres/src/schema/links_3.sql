-- Which tables these are. A dump that is restored brings the value along, but its tables have other
-- numbers: so terse notices that leases may be missing.
ALTER TABLE link_store ADD COLUMN tables_id text;
UPDATE link_store SET tables_id =
    (SELECT d.oid::text || '.' || 'link_leases'::regclass::oid::text
     FROM pg_database d WHERE d.datname = current_database());
