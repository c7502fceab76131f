-- Every answered mutation and its event (api/server/reconcile.h). NULL in rows from before these columns: not compared.
ALTER TABLE svc.idempotency_keys
    ADD COLUMN recorded text CHECK (recorded IN ('nothing', 'event', 'earlier', 'unchanged')),
    ADD COLUMN event_seq bigint CHECK (event_seq >= 0),  -- stream sequence of its last message; 0 = none
    ADD COLUMN trace_id text;                            -- of the run that was answered
-- The order in which answers are compared; grows at its right end.
CREATE INDEX idempotency_keys_answered ON svc.idempotency_keys (done_us) WHERE state = 'done' AND recorded IS NOT NULL;
-- The other way: which answer belongs to a message.
CREATE INDEX idempotency_keys_event ON svc.idempotency_keys (event_seq) WHERE event_seq > 0;
-- The comparison goes through the answers of all tenants.
UPDATE svc.tables SET worker_scope = 'all' WHERE name = 'idempotency_keys';
