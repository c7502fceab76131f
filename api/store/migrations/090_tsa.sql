-- Time-stamping units: each has one key (svc.managed_keys) for all of its life. Kept for ever: retired units' certificates
-- still verify.

CREATE TABLE svc.tsa_units (
    tenant_id text NOT NULL,
    unit_id text NOT NULL,         -- of its key
    number bigint NOT NULL,        -- from 1, in the order of their making
    algorithm text NOT NULL,
    issuance text NOT NULL,        -- own, external
    state text NOT NULL,           -- prepared, certified, active, replaced, retired
    version bigint NOT NULL,       -- one for each event of the unit
    chain bytea NOT NULL,          -- certificates, leaf first, root last, DER one behind the other; may be empty
    not_before_us bigint,          -- of the leaf
    not_after_us bigint,
    usage_end_us bigint,           -- the key stamps until here
    prepared_us bigint NOT NULL,
    certified_us bigint,
    activated_us bigint,
    replaced_us bigint,
    retired_us bigint,
    replaced_by text,
    retire_reason text,
    command text,                  -- the user's last command that moved it: its retry is no second one
    prepare_command text,
    PRIMARY KEY (tenant_id, unit_id)
);
SELECT svc.tenant_table('tsa_units', 'projection');
