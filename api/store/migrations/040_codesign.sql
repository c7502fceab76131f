-- Code-signing operations. The sealed command stands in the event and in the outbox only; what it says of the digest is
-- shown here once it was signed.

CREATE TABLE svc.codesign_operations (
    tenant_id text NOT NULL,
    operation_id text NOT NULL,
    key_id text NOT NULL,
    artifact_type text NOT NULL,
    signature_scheme text NOT NULL,
    principal text NOT NULL,
    request_fingerprint text NOT NULL, -- of the preview
    command_fingerprint text NOT NULL, -- keyed, over the sealed command
    transparency_destination text NOT NULL,
    state text NOT NULL,   -- commanded, signed, completed, failed
    failure_code text,     -- of fault.def; set when failed
    algorithm text,
    digest bytea,
    signature bytea,       -- ECDSA: DER; RSA: the octets
    created_us bigint NOT NULL,
    ended_us bigint,
    made_seq bigint NOT NULL, -- stream sequence of codesign.commanded: the order of operations
    PRIMARY KEY (tenant_id, operation_id)
);
CREATE INDEX codesign_operations_order ON svc.codesign_operations (tenant_id, made_seq DESC, operation_id DESC);
SELECT svc.tenant_table('codesign_operations', 'projection');
