-- Dead letters for operators: what the last attempt at an effect met, and how often a publication was taken up again.

-- The dispatcher's note on rows whose last attempt failed; a success takes it away. Nothing is decided from it.
CREATE TABLE svc.outbox_failures (
    tenant_id text NOT NULL,
    outbox_id bigint NOT NULL,
    code text NOT NULL,        -- of fault.def
    attempts bigint NOT NULL,  -- made when it was noted
    first_us bigint NOT NULL,
    last_us bigint NOT NULL,
    PRIMARY KEY (tenant_id, outbox_id)
);
SELECT svc.tenant_table('outbox_failures', 'bookkeeping', 'all');

-- Lists, counts and requeueing of dead letters, however many rows were delivered.
CREATE INDEX outbox_dead ON svc.outbox (tenant_id, destination, id) WHERE state = 'dead-lettered';

-- Part of the id of transparency.failed: each time a publication is taken up again, it may fail again.
ALTER TABLE svc.transparency_entries ADD COLUMN round bigint NOT NULL DEFAULT 0;

-- The reconciliation goes from tenant to tenant by their audit heads.
UPDATE svc.tables SET worker_scope = 'all' WHERE name = 'audit_heads';
