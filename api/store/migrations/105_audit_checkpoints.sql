-- Checkpoints of the audit archive: each says that a tenant's records up to last_sequence stand in files that were
-- verified, and that the served view begins behind them. The records themselves and their events are kept.
CREATE TABLE svc.audit_checkpoints (
    tenant_id text NOT NULL,
    last_sequence bigint NOT NULL,   -- of the segment; also the cumulative count of the tenant's records
    first_sequence bigint NOT NULL,
    number bigint NOT NULL,          -- 1 = the tenant's first segment
    generation bigint NOT NULL,      -- of the history that was archived
    stream_seq bigint NOT NULL,      -- of the event log: the message that the last record is from
    event_seq bigint NOT NULL,       -- of the event log: the message of this checkpoint
    chain_seed bytea NOT NULL CHECK (octet_length(chain_seed) = 32),
    chain_head bytea NOT NULL CHECK (octet_length(chain_head) = 32),
    archive text NOT NULL,           -- file, relative to the archive folder
    archive_bytes bigint NOT NULL,
    archive_sha256 bytea NOT NULL CHECK (octet_length(archive_sha256) = 32),
    archived_us bigint NOT NULL,
    PRIMARY KEY (tenant_id, last_sequence)
);
SELECT svc.tenant_table('audit_checkpoints', 'projection', 'all');
