-- Privacy erasure: the generations of tenants' histories, the erasures that made them, and what is attested of archives.

-- One row for each generation that was activated; generation 1 is the history as it was first written and has none.
CREATE TABLE svc.audit_generations (
    tenant_id text NOT NULL,
    generation bigint NOT NULL,
    erasure_id text NOT NULL,
    stream_seq bigint NOT NULL,        -- of privacy.generation.activated
    boundary_seq bigint NOT NULL,      -- stream sequence up to which messages were looked through
    boundary_sequence bigint NOT NULL, -- audit sequence of the tenant there
    replaced bigint NOT NULL,          -- messages
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    superseded_head bytea NOT NULL CHECK (octet_length(superseded_head) = 32), -- chain at boundary_sequence before
    new_head bytea NOT NULL CHECK (octet_length(new_head) = 32),               -- and after
    statement text NOT NULL,           -- compact JWS over these
    activated_us bigint NOT NULL,
    PRIMARY KEY (tenant_id, generation)
);
SELECT svc.tenant_table('audit_generations', 'projection', 'all');

CREATE TABLE svc.privacy_erasures (
    tenant_id text NOT NULL,
    erasure_id text NOT NULL,
    state text NOT NULL CHECK (state IN ('requested', 'activated', 'completed', 'failed')),
    requested_by text NOT NULL,
    requested_us bigint NOT NULL,
    requested_seq bigint NOT NULL,     -- stream sequence: the boundary
    sealed_subject bytea NOT NULL,     -- opens with the tenant's seal key only
    generation bigint NOT NULL,        -- that it makes
    reason text NOT NULL,
    replaced bigint,
    activated_us bigint,
    ended_us bigint,
    failure_code text,                 -- of fault.def
    failure text,
    rows_blanked bigint,               -- of tables that are no projection
    later bigint,                      -- messages behind the boundary that held the subject at the end
    PRIMARY KEY (tenant_id, erasure_id)
);
CREATE INDEX privacy_erasures_order ON svc.privacy_erasures (tenant_id, requested_seq DESC);
SELECT svc.tenant_table('privacy_erasures', 'projection', 'all');

CREATE TABLE svc.privacy_attestations (
    tenant_id text NOT NULL,
    attestation_id text NOT NULL,
    erasure_id text NOT NULL,
    archive_locator text NOT NULL,
    archive_sha256 bytea NOT NULL CHECK (octet_length(archive_sha256) = 32),
    action text NOT NULL,              -- destroyed, rewritten, retained
    note text NOT NULL,
    performed_by text NOT NULL,
    performed_us bigint NOT NULL,
    attested_by text NOT NULL,
    attested_us bigint NOT NULL,
    sequence bigint NOT NULL,          -- audit sequence of its event: the order of rows
    PRIMARY KEY (tenant_id, attestation_id)
);
CREATE INDEX privacy_attestations_order ON svc.privacy_attestations (tenant_id, sequence DESC);
SELECT svc.tenant_table('privacy_attestations', 'projection');

-- Replacements on their way from the log into the copies: filled in pieces, used and emptied in one transaction.
CREATE TABLE svc.history_staging (
    tenant_id text NOT NULL,
    stream_seq bigint NOT NULL,
    body bytea NOT NULL,
    sha256 bytea NOT NULL CHECK (octet_length(sha256) = 32),
    PRIMARY KEY (tenant_id, stream_seq)
);
SELECT svc.tenant_table('history_staging', 'bookkeeping');

-- Takes away at most `most` of the present tenant's rows of whatever projections write, and says how many: 0 = none is
-- left. The projector alone calls it, in the transaction in which it writes them again.
CREATE FUNCTION svc.clear_tenant(most bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = svc, pg_temp AS $$
DECLARE
    t record;
    gone bigint;
BEGIN
    FOR t IN SELECT name FROM svc.tables WHERE kind = 'projection' AND worker_scope <> 'none' ORDER BY name LOOP
        EXECUTE format('DELETE FROM svc.%I WHERE ctid = ANY (ARRAY(SELECT ctid FROM svc.%I WHERE tenant_id ='
                       ' current_setting(''svc.tenant'', true) LIMIT %s))', t.name, t.name, most);
        GET DIAGNOSTICS gone = ROW_COUNT;
        IF gone > 0 THEN
            RETURN gone;
        END IF;
    END LOOP;
    RETURN 0;
END $$;

-- As before, and the worker may call svc.clear_tenant.
CREATE OR REPLACE FUNCTION svc.grant_tables(app text, worker text) RETURNS void
LANGUAGE plpgsql SET search_path = svc, pg_temp AS $$
DECLARE
    t record;
BEGIN
    EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA svc FROM PUBLIC, %I, %I', app, worker);
    EXECUTE format('REVOKE ALL ON SCHEMA svc FROM PUBLIC, %I, %I', app, worker);
    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA svc FROM PUBLIC;
    EXECUTE format('GRANT USAGE ON SCHEMA svc TO %I, %I', app, worker);
    EXECUTE format('GRANT EXECUTE ON FUNCTION svc.clear_tenant(bigint) TO %I', worker);
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
