-- Audit feeds: each sends a tenant's audit records to one log collector, a batch at a time.

-- A feed as it stands. While a batch is open its range is recorded here: at each attempt the records are read again and
-- compared with it.
CREATE TABLE svc.audit_feeds (
    tenant_id text NOT NULL,
    feed_id text NOT NULL,
    version bigint NOT NULL,          -- of the configuration; 1 = the first
    kind text NOT NULL,
    host text NOT NULL,
    credential text NOT NULL,         -- "env:NAME", or ''
    config text NOT NULL,             -- canonical JSON, without any secret
    enabled boolean NOT NULL,
    saved_us bigint NOT NULL,
    saved_by text NOT NULL,
    next_sequence bigint NOT NULL,    -- where the next batch begins
    next_seed bytea,                  -- chain before it, where the batch before ended there
    delivered_sequence bigint NOT NULL, -- highest record that the collector has accepted; 0 = none
    delivered_us bigint,
    delivered_request_id text,
    state text NOT NULL CHECK (state IN ('idle', 'queued', 'delivered', 'failed')),
    error_code text,                  -- when failed
    failed_us bigint,
    failed_attempts bigint,
    collector_request_id text,        -- when failed
    batch_id text NOT NULL,           -- '' = no batch is open
    batch_round bigint NOT NULL,      -- how often its outbox row was made again
    batch_first bigint NOT NULL,
    batch_last bigint NOT NULL,
    batch_seed bytea,                 -- chain before the first record
    batch_head bytea,                 -- chain at the last one
    batch_ids bytea,                  -- SHA-256 over the event ids
    batch_body bytea,                 -- SHA-256 over what is sent
    PRIMARY KEY (tenant_id, feed_id)
);
SELECT svc.tenant_table('audit_feeds', 'projection', 'all');

-- Every configuration that a feed ever had.
CREATE TABLE svc.audit_feed_versions (
    tenant_id text NOT NULL,
    feed_id text NOT NULL,
    version bigint NOT NULL,
    config text NOT NULL,
    enabled boolean NOT NULL,
    from_sequence bigint NOT NULL,
    saved_us bigint NOT NULL,
    saved_by text NOT NULL,
    PRIMARY KEY (tenant_id, feed_id, version)
);
SELECT svc.tenant_table('audit_feed_versions', 'projection');

-- What the latest attempts met: a fact about this installation, not about the log. Lost, it costs a batch sent twice.
CREATE TABLE svc.audit_feed_attempts (
    tenant_id text NOT NULL,
    feed_id text NOT NULL,
    version bigint NOT NULL,
    batch_id text NOT NULL,
    attempted_us bigint NOT NULL,
    not_before_us bigint NOT NULL,    -- what the collector asked for; 0 = nothing
    error_code text NOT NULL,
    collector_request_id text,
    receipt text,                     -- the collector has the batch and is still to confirm it
    receipt_us bigint NOT NULL,
    PRIMARY KEY (tenant_id, feed_id)
);
SELECT svc.tenant_table('audit_feed_attempts', 'bookkeeping');
