-- How far the audit trail was exported over OTLP (api/otlp). Facts about this installation, not about the log: a
-- rebuild keeps them, and lost they cost records that are sent again.

-- The last message of the log all of whose records the receiver accepted.
CREATE TABLE svc.otlp_audit_stream (
    id bigint PRIMARY KEY CHECK (id = 1),
    stream_seq bigint NOT NULL,
    exported_us bigint NOT NULL      -- 0 = never
);
SELECT svc.system_table('otlp_audit_stream', 'bookkeeping');
INSERT INTO svc.otlp_audit_stream VALUES (1, 0, 0);

-- The last record of each tenant up to that message, so that the next ones are found by the trail's own key. Written in
-- the same transaction.
CREATE TABLE svc.otlp_audit_tenants (
    tenant_id text PRIMARY KEY,
    sequence bigint NOT NULL
);
SELECT svc.tenant_table('otlp_audit_tenants', 'bookkeeping', 'all');
