-- Evidence of publication in transparency logs: one row for each signing that is to be published, in the log that was
-- planned for it. What was published was verified before it was recorded.

CREATE TABLE svc.transparency_entries (
    tenant_id text NOT NULL,
    operation_id text NOT NULL,
    log text NOT NULL,            -- "rekor-v1:https://rekor.example.com"
    state text NOT NULL CHECK (state IN ('pending', 'published', 'failed')),
    failure_code text,            -- of fault.def; set when failed
    entry_id text,                -- hex: hash of the leaf, perhaps with the tree's id in front
    kind text,
    version text,
    log_id bytea,
    log_index bigint,             -- of the log as a whole
    integrated_time bigint,       -- seconds; NULL when the log signs no time
    entry_timestamp bytea,        -- signed entry timestamp; NULL when there is none
    body bytea,
    proof_index bigint,           -- within the tree of the proof
    tree_size bigint,
    root_hash bytea,
    hashes bytea,                 -- 32 bytes each, from the leaf up
    checkpoint text,
    queued_us bigint NOT NULL,
    ended_us bigint,
    sequence bigint NOT NULL,     -- audit sequence of the event that queued it: the order of rows
    PRIMARY KEY (tenant_id, operation_id),
    CHECK (state <> 'published' OR (entry_id IS NOT NULL AND body IS NOT NULL AND checkpoint IS NOT NULL))
);
CREATE INDEX transparency_entries_order ON svc.transparency_entries (tenant_id, sequence DESC, operation_id DESC);
-- What an operator looks for: what is not published.
CREATE INDEX transparency_entries_open ON svc.transparency_entries (tenant_id, sequence DESC, operation_id DESC)
    WHERE state <> 'published';
SELECT svc.tenant_table('transparency_entries', 'projection');
