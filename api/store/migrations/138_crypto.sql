-- Operator attestations, and the actions that people bound to objects of the crypto-readiness dataset.

CREATE TABLE svc.operator_attestations (
    tenant_id text NOT NULL,
    attestation_id text NOT NULL,
    sequence bigint NOT NULL,          -- audit sequence of its event: the order of rows
    event_id text NOT NULL,
    statement text COLLATE "C" NOT NULL,
    title text NOT NULL,
    note text NOT NULL,
    locator text NOT NULL,
    evidence_sha256 bytea NOT NULL CHECK (octet_length(evidence_sha256) = 32),
    media_type text NOT NULL,
    valid_from_us bigint NOT NULL,
    expires_us bigint,                 -- NULL = without end
    attested_by text NOT NULL,
    attested_us bigint NOT NULL,
    withdrawn_us bigint,
    withdrawn_by text,
    withdraw_reason text,
    withdraw_command text,             -- the command that withdrew it: its retry is no second one
    PRIMARY KEY (tenant_id, attestation_id)
);
CREATE INDEX operator_attestations_order ON svc.operator_attestations (tenant_id, sequence DESC);
CREATE INDEX operator_attestations_statement ON svc.operator_attestations (tenant_id, statement, sequence DESC)
    WHERE withdrawn_us IS NULL;
SELECT svc.tenant_table('operator_attestations', 'projection');

-- The newest of each kind for each object; the ones before stand in the audit trail.
CREATE TABLE svc.readiness_actions (
    tenant_id text NOT NULL,
    object text COLLATE "C" NOT NULL,  -- "key:<id>", "certificate:<id>", "listener:https"
    action text COLLATE "C" NOT NULL,  -- migrate, retire, accept, investigate
    state text NOT NULL,               -- planned, in_progress, done, cancelled
    due_us bigint,
    note text NOT NULL,
    recorded_by text NOT NULL,
    recorded_us bigint NOT NULL,
    sequence bigint NOT NULL,          -- audit sequence of its event
    event_id text NOT NULL,
    revision bigint NOT NULL,          -- 1, and one more with each later one
    PRIMARY KEY (tenant_id, object, action)
);
SELECT svc.tenant_table('readiness_actions', 'projection');

-- The certificates that hang on a key, for the dataset.
CREATE INDEX certificates_key ON svc.certificates (tenant_id, key_id) WHERE key_id IS NOT NULL;
