-- Idempotency keys of the API (api/server/idempotency.h): which command a key belongs to, how far it is, its answer.
-- Rows are kept for ever, since a replay must give the same bytes for ever. A row is about the size of its answer (a
-- kilobyte for a signature): a million commands are about 1.5 GB with the index.
CREATE TABLE svc.idempotency_keys (
    tenant_id text NOT NULL,
    key text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    route text NOT NULL,
    fingerprint bytea NOT NULL CHECK (length(fingerprint) = 32),
    state text NOT NULL CHECK (state IN ('in_progress', 'done', 'indeterminate')),
    claim text NOT NULL,          -- of whoever runs the command now; a taken-over claim is void
    instance text NOT NULL,
    claimed_us bigint NOT NULL,
    done_us bigint,
    status bigint,
    content_type text,
    headers text,                 -- "Name: value" lines beyond the ordinary ones
    body bytea,                   -- NULL in state done: the answer held a secret and was not kept
    PRIMARY KEY (tenant_id, key),
    CHECK (state <> 'done' OR (status IS NOT NULL AND content_type IS NOT NULL AND headers IS NOT NULL))
);
SELECT svc.tenant_table('idempotency_keys', 'operational');
-- What an operator looks for: claims that nobody finished. Small, because done rows are not in it.
CREATE INDEX idempotency_keys_open ON svc.idempotency_keys (tenant_id, claimed_us) WHERE state = 'in_progress';
