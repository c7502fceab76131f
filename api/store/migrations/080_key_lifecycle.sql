-- The life of a key: prepared, active, retiring, retired, destroyed; its limits, its uses, its token, and its probe.

ALTER TABLE svc.managed_keys
    ADD COLUMN token text NOT NULL DEFAULT '',     -- name of the token that holds it; '' = the first one
    ADD COLUMN max_uses bigint,                    -- NULL = without limit
    ADD COLUMN claimed bigint NOT NULL DEFAULT 0,  -- of a limited key: uses that commands were granted
    ADD COLUMN not_after_us bigint,                -- signs for what is accepted before; NULL = without end
    ADD COLUMN activated_us bigint,
    ADD COLUMN retires_us bigint,                  -- end of its overlap
    ADD COLUMN retired_us bigint,
    ADD COLUMN retire_reason text,
    ADD COLUMN replaced_by text,                   -- key that took its place
    ADD COLUMN move_command text,                  -- the last command that moved it: its retry is no second move
    ADD COLUMN certificate_not_after_us bigint,    -- of the leaf of its chain
    ADD COLUMN probe_code text,                    -- of fault.def, while its probe fails
    ADD COLUMN probe_us bigint;                    -- when the probe began to fail, or was good again
CREATE INDEX managed_keys_name ON svc.managed_keys (tenant_id, purpose, name);

-- Apart from the keys, and narrow: it is written for every batch of signatures.
CREATE TABLE svc.key_uses (
    tenant_id text NOT NULL,
    key_id text NOT NULL,
    uses bigint NOT NULL,          -- digests signed for callers
    last_used_us bigint NOT NULL,
    PRIMARY KEY (tenant_id, key_id)
) WITH (fillfactor = 50);
SELECT svc.tenant_table('key_uses', 'projection');

-- What commands were granted of limited keys. The log's order decides who gets the last use.
CREATE TABLE svc.key_claims (
    tenant_id text NOT NULL,
    command_id text NOT NULL,
    key_id text NOT NULL,
    count bigint NOT NULL,
    granted boolean NOT NULL,      -- false: there were not so many left, or the command ended without signing
    PRIMARY KEY (tenant_id, command_id)
);
SELECT svc.tenant_table('key_claims', 'projection');

-- What a rebuild would find for the rows that are here already. The owner sees no tenant's rows while row-level security
-- is forced upon it.
ALTER TABLE svc.managed_keys NO FORCE ROW LEVEL SECURITY;
ALTER TABLE svc.codesign_operations NO FORCE ROW LEVEL SECURITY;
ALTER TABLE svc.audit_records NO FORCE ROW LEVEL SECURITY;
ALTER TABLE svc.key_uses NO FORCE ROW LEVEL SECURITY;

-- The notAfter of the first certificate in `der` (RFC 5280 4.1), in microseconds; NULL where it is not one.
CREATE FUNCTION svc.first_not_after(der bytea) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    at int := 0;        -- of the element at hand
    body int;           -- of its contents
    size bigint;
    octets int;
    field int := 0;
    digits text;
BEGIN
    -- Certificate, tbsCertificate; [0] version, serialNumber, signature, issuer; validity, notBefore, notAfter
    LOOP
        size := get_byte(der, at + 1);
        body := at + 2;
        IF size > 127 THEN
            octets := size - 128;
            size := 0;
            FOR i IN 0 .. octets - 1 LOOP
                size := size * 256 + get_byte(der, body + i);
            END LOOP;
            body := body + octets;
        END IF;
        IF field = 2 AND get_byte(der, at) <> 160 THEN
            field := 3; -- a certificate of version 1 says so by saying nothing
        END IF;
        EXIT WHEN field = 8;
        at := CASE WHEN field IN (0, 1, 6) THEN body ELSE body + size END;
        field := field + 1;
    END LOOP;
    digits := convert_from(substring(der FROM body + 1 FOR size::int), 'SQL_ASCII');
    IF get_byte(der, at) = 23 THEN -- UTCTime
        digits := CASE WHEN left(digits, 2) < '50' THEN '20' ELSE '19' END || digits;
    END IF;
    RETURN extract(epoch FROM to_timestamp(left(digits, 14) || '+00', 'YYYYMMDDHH24MISSTZH')) * 1000000;
EXCEPTION WHEN others THEN
    RETURN NULL;
END $$;

UPDATE svc.managed_keys SET activated_us = created_us,
    certificate_not_after_us = CASE WHEN length(chain) > 0 THEN svc.first_not_after(chain) END;
DROP FUNCTION svc.first_not_after(bytea);

INSERT INTO svc.key_uses (tenant_id, key_id, uses, last_used_us)
    SELECT tenant_id, key_id, count(*), max(coalesce(ended_us, created_us)) FROM svc.codesign_operations
    WHERE key_id IS NOT NULL AND state IN ('signed', 'completed') GROUP BY tenant_id, key_id;
INSERT INTO svc.key_uses (tenant_id, key_id, uses, last_used_us)
    SELECT tenant_id, convert_from(record, 'UTF8')::json #>> '{data,key_id}', count(*), max(time_us)
    FROM svc.audit_records WHERE type = 'tsa.timestamp.issued' GROUP BY 1, 2
    ON CONFLICT (tenant_id, key_id) DO NOTHING;

ALTER TABLE svc.managed_keys FORCE ROW LEVEL SECURITY;
ALTER TABLE svc.codesign_operations FORCE ROW LEVEL SECURITY;
ALTER TABLE svc.audit_records FORCE ROW LEVEL SECURITY;
ALTER TABLE svc.key_uses FORCE ROW LEVEL SECURITY;
