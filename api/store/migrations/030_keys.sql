-- Managed keys: public halves, certificates and state. The private halves are in the token only.

CREATE TABLE svc.managed_keys (
    tenant_id text NOT NULL,
    key_id text NOT NULL,
    purpose text NOT NULL,
    algorithm text NOT NULL,
    name text NOT NULL,
    state text NOT NULL,          -- active, destroyed
    version bigint NOT NULL,      -- one for each event of the key
    system boolean NOT NULL,
    spki bytea NOT NULL,          -- PKIX DER; empty for a sealing key
    chain bytea NOT NULL,         -- certificates, leaf first, DER one behind the other; may be empty
    created_us bigint NOT NULL,
    created_by text NOT NULL,
    destroyed_us bigint,
    destroyed_by text,
    destroy_reason text,
    destroy_command text,         -- the command that destroyed it: its retry is no second destruction
    erased_us bigint,             -- the token has confirmed that its object is gone
    PRIMARY KEY (tenant_id, key_id)
);
CREATE INDEX managed_keys_purpose ON svc.managed_keys (tenant_id, purpose, created_us DESC, key_id DESC);
CREATE INDEX managed_keys_newest ON svc.managed_keys (tenant_id, created_us DESC, key_id DESC);
SELECT svc.tenant_table('managed_keys', 'projection');
