-- Code-signing operations, one for each digest. The sealed command stands in the event and in the outbox only; what it
-- says of the digest is shown here once it was signed.

CREATE TABLE svc.codesign_operations (
    tenant_id text NOT NULL,
    operation_id text NOT NULL,
    command_id text NOT NULL,    -- of the request: its first operation has the same id
    position bigint NOT NULL,    -- within the command
    count bigint NOT NULL,       -- operations of the command
    mode text NOT NULL,          -- key, keyless
    key_id text,                 -- of mode key
    identity_method text,        -- of mode keyless
    artifact_type text NOT NULL,
    digest_algorithm text NOT NULL,
    signature_scheme text NOT NULL,
    principal text NOT NULL,
    request_fingerprint text NOT NULL, -- of the preview
    command_fingerprint text NOT NULL, -- keyed, over what the sealed command asks
    transparency_destination text NOT NULL,
    state text NOT NULL,   -- commanded, refused, signed, completed, failed
    failure_code text,     -- of fault.def; set when refused or failed
    resource text,         -- what an approver has to approve, when it was refused for that
    algorithm text,
    digest bytea,
    signature bytea,       -- ECDSA: DER; RSA: the octets
    spki bytea,            -- of an ephemeral key
    chain bytea,           -- its certificates, leaf first, DER one behind the other
    fulcio_san text,
    fulcio_issuer text,
    ephemeral_destroyed_us bigint,
    created_us bigint NOT NULL,
    ended_us bigint,
    made_seq bigint NOT NULL, -- stream sequence of codesign.commanded: the order of operations
    PRIMARY KEY (tenant_id, operation_id)
);
CREATE INDEX codesign_operations_order ON svc.codesign_operations (tenant_id, made_seq DESC, operation_id DESC);
CREATE INDEX codesign_operations_command ON svc.codesign_operations (tenant_id, command_id, position);
SELECT svc.tenant_table('codesign_operations', 'projection');
