-- The event log's footprint in the read model: verified copies, audit trail, checkpoint, outbox.

-- A copy of every message that was applied, so that the log is never believed blindly. Kept by a rebuild, which
-- compares the log with it. Looked through without a tenant by the projector.
CREATE TABLE svc.event_envelopes (
    stream_seq bigint PRIMARY KEY,
    tenant_id text NOT NULL,
    lane text NOT NULL,
    message_id text NOT NULL,
    body bytea NOT NULL,
    sha256 bytea NOT NULL CHECK (octet_length(sha256) = 32)
);
CREATE INDEX event_envelopes_lane ON svc.event_envelopes (tenant_id, lane, stream_seq);
CREATE INDEX event_envelopes_message ON svc.event_envelopes (message_id);
SELECT svc.tenant_table('event_envelopes', 'bookkeeping', 'all');

-- One record for each event, numbered within its tenant and chained by hash. `record` is the canonical JSON that the
-- chain is over; the other columns repeat from it what is searched for.
CREATE TABLE svc.audit_records (
    tenant_id text NOT NULL,
    sequence bigint NOT NULL,
    event_id text NOT NULL,
    type text NOT NULL,
    actor_subject text NOT NULL,
    time_us bigint NOT NULL,
    stream_seq bigint NOT NULL,
    record bytea NOT NULL,
    chain bytea NOT NULL CHECK (octet_length(chain) = 32),
    PRIMARY KEY (tenant_id, sequence)
);
CREATE INDEX audit_records_type ON svc.audit_records (tenant_id, type, sequence);
CREATE INDEX audit_records_actor ON svc.audit_records (tenant_id, actor_subject, sequence);
CREATE INDEX audit_records_time ON svc.audit_records (tenant_id, time_us);
SELECT svc.tenant_table('audit_records', 'projection');

CREATE TABLE svc.audit_heads (
    tenant_id text PRIMARY KEY,
    sequence bigint NOT NULL,
    chain bytea NOT NULL CHECK (octet_length(chain) = 32)
);
SELECT svc.tenant_table('audit_heads', 'projection');

-- How far the log is applied, and the hash over all copies up to there.
CREATE TABLE svc.projection_checkpoint (
    id bigint PRIMARY KEY CHECK (id = 1),
    stream_seq bigint NOT NULL,
    rolling bytea NOT NULL CHECK (octet_length(rolling) = 32)
);
SELECT svc.system_table('projection_checkpoint', 'projection');

-- The message that the projector stands at, if any. A fact about this installation, not about the log.
CREATE TABLE svc.projection_failure (
    id bigint PRIMARY KEY CHECK (id = 1),
    stream_seq bigint NOT NULL,
    code text NOT NULL,
    first_us bigint NOT NULL,
    attempts bigint NOT NULL
);
SELECT svc.system_table('projection_failure', 'bookkeeping');

-- Effects that wait for a worker. Rows come from projections and are settled by projections. While a row is open,
-- worker_id, lease_until_us, attempts and due_us are the dispatcher's; a settled row has them at their zero, and a
-- delivered one has given its payload back, so that a rebuild gives the same bytes.
CREATE TABLE svc.outbox (
    id bigint PRIMARY KEY,
    tenant_id text NOT NULL,
    destination text NOT NULL,
    key text NOT NULL,
    trace_id text NOT NULL,
    payload bytea NOT NULL,
    state text NOT NULL CHECK (state IN ('pending', 'processing', 'delivered', 'dead-lettered')),
    worker_id text NOT NULL,
    lease_until_us bigint NOT NULL,
    attempts bigint NOT NULL,
    due_us bigint NOT NULL,
    created_us bigint NOT NULL,
    UNIQUE (tenant_id, destination, key)
);
CREATE INDEX outbox_pending ON svc.outbox (destination, tenant_id, due_us, id) WHERE state = 'pending';
CREATE INDEX outbox_leased ON svc.outbox (lease_until_us) WHERE state = 'processing';
SELECT svc.tenant_table('outbox', 'projection', 'all');
