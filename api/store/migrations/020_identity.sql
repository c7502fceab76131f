-- Tenants and bearer tokens. A token is kept as the SHA-256 of its text only.

CREATE TABLE svc.tenants (
    tenant_id text PRIMARY KEY,
    created_us bigint NOT NULL,
    created_by text NOT NULL
);
SELECT svc.tenant_table('tenants', 'projection', 'all');

CREATE TABLE svc.tokens (
    tenant_id text NOT NULL,
    token_id text NOT NULL,
    token_hash bytea NOT NULL,
    last4 text NOT NULL,
    subject text NOT NULL,
    roles text NOT NULL, -- names in order, one space between
    created_us bigint NOT NULL,
    created_by text NOT NULL,
    expires_us bigint NOT NULL,
    revoked_us bigint,
    revoked_by text,
    revoke_reason text,
    PRIMARY KEY (tenant_id, token_id)
);
CREATE UNIQUE INDEX tokens_hash ON svc.tokens (tenant_id, token_hash);
CREATE INDEX tokens_newest ON svc.tokens (tenant_id, created_us DESC, token_id DESC);
SELECT svc.tenant_table('tokens', 'projection');
