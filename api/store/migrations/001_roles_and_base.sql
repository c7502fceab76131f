-- The ground that feature migrations stand on: one schema, a registry of tables, and grants made from it.
--
-- HOW A FEATURE ADDS TABLES (its file: api/store/migrations/NNN_<feature>.sql, applied in file name order, each in one
-- transaction; once released a file never changes again: its SHA-256 is recorded and compared at every start)
--
--   CREATE TABLE svc.managed_keys (
--       tenant_id text NOT NULL,
--       key_id text NOT NULL,
--       created_us bigint NOT NULL,
--       PRIMARY KEY (tenant_id, key_id)        -- the tenant leads every key and index
--   );
--   SELECT svc.tenant_table('managed_keys', 'projection');
--
-- svc.tenant_table(name, kind, worker_scope) enables and forces row-level security, adds the policy tenant_isolation
-- (tenant_id = current_setting('svc.tenant', true), for reading and writing, for every role), and registers the table.
-- svc.system_table(name, kind) registers a table without tenant_id (checkpoint, serial block).
--
--   kind           svc_app may     svc_worker may   rebuild
--   'projection'   read            read and write   empties it: only projection functions write it
--   'bookkeeping'  read            read and write   keeps it
--   'operational'  read and write  read and write   keeps it
--
-- worker_scope 'all' (third argument; 'tenant' otherwise) lets svc_worker see and write rows of every tenant of that
-- table: for a table that workers must look through without knowing the tenant (outbox, list of tenants).
--
-- Types: times are bigint microseconds of UTC, integers bigint, binary bytea, flags boolean, JSON as its canonical text.
-- Never name a role in a feature migration: roles have configurable names, and svc.grant_tables, which svc-api migrate
-- runs last, grants by the registry.

CREATE TABLE svc.tables (
    name text PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('projection', 'bookkeeping', 'operational')),
    worker_scope text NOT NULL CHECK (worker_scope IN ('tenant', 'all', 'none'))
);

CREATE VIEW svc.projection_tables AS SELECT name FROM svc.tables WHERE kind = 'projection';

CREATE FUNCTION svc.tenant_table(table_name text, kind text, worker_scope text DEFAULT 'tenant') RETURNS void
LANGUAGE plpgsql SET search_path = svc, pg_temp AS $$
BEGIN
    EXECUTE format('ALTER TABLE svc.%I ENABLE ROW LEVEL SECURITY', table_name);
    EXECUTE format('ALTER TABLE svc.%I FORCE ROW LEVEL SECURITY', table_name);
    EXECUTE format('CREATE POLICY tenant_isolation ON svc.%I'
                   ' USING (tenant_id = current_setting(''svc.tenant'', true))'
                   ' WITH CHECK (tenant_id = current_setting(''svc.tenant'', true))', table_name);
    INSERT INTO svc.tables VALUES (table_name, kind, worker_scope);
END $$;

CREATE FUNCTION svc.system_table(table_name text, kind text) RETURNS void
LANGUAGE plpgsql SET search_path = svc, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM pg_attribute
               WHERE attrelid = format('svc.%I', table_name)::regclass AND attname = 'tenant_id') THEN
        RAISE EXCEPTION 'table % has tenant_id: use svc.tenant_table', table_name;
    END IF;
    INSERT INTO svc.tables VALUES (table_name, kind, 'none');
END $$;

-- Brings every grant to what the registry says, and takes away all else: repeatable.
CREATE FUNCTION svc.grant_tables(app text, worker text) RETURNS void
LANGUAGE plpgsql SET search_path = svc, pg_temp AS $$
DECLARE
    t record;
BEGIN
    EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA svc FROM PUBLIC, %I, %I', app, worker);
    EXECUTE format('REVOKE ALL ON SCHEMA svc FROM PUBLIC, %I, %I', app, worker);
    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA svc FROM PUBLIC;
    EXECUTE format('GRANT USAGE ON SCHEMA svc TO %I, %I', app, worker);
    EXECUTE format('GRANT SELECT ON svc.schema_migrations, svc.tables, svc.projection_tables TO %I, %I', app, worker);
    EXECUTE format('GRANT USAGE ON ALL SEQUENCES IN SCHEMA svc TO %I', worker);
    FOR t IN SELECT * FROM svc.tables LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON svc.%I TO %I', t.name, worker);
        EXECUTE format('GRANT SELECT ON svc.%I TO %I', t.name, app);
        IF t.kind = 'operational' THEN
            EXECUTE format('GRANT INSERT, UPDATE, DELETE ON svc.%I TO %I', t.name, app);
        END IF;
        EXECUTE format('DROP POLICY IF EXISTS worker_all_tenants ON svc.%I', t.name);
        IF t.worker_scope = 'all' THEN
            EXECUTE format('CREATE POLICY worker_all_tenants ON svc.%I TO %I USING (true) WITH CHECK (true)',
                           t.name, worker);
        END IF;
    END LOOP;
END $$;

-- Rebuild, as the owner: TRUNCATE is not subject to row-level security.
CREATE FUNCTION svc.empty_projections() RETURNS void
LANGUAGE plpgsql SET search_path = svc, pg_temp AS $$
DECLARE
    names text;
BEGIN
    SELECT string_agg(format('svc.%I', name), ', ' ORDER BY name) INTO names FROM svc.tables WHERE kind = 'projection';
    IF names IS NOT NULL THEN
        EXECUTE 'TRUNCATE ' || names || ' RESTART IDENTITY';
    END IF;
END $$;
