-- Inventory: the tenant's certificates and who keeps their keys, owners of credentials, access reviews.

-- One row for each certificate, under an id that is its fingerprint's. Those of managed keys are written with the key's
-- own events: key_id says so, and their custody follows from the key's row and is nobody's statement.
CREATE TABLE svc.certificates (
    tenant_id text NOT NULL,
    certificate_id text NOT NULL,
    fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32), -- SHA-256 of der
    der bytea NOT NULL,
    not_after_us bigint,               -- NULL where it does not decode
    key_id text,                       -- of a managed key; NULL = recorded by a user
    origin text,                       -- custody facts as recorded: NULL = not recorded
    storage_class text,
    exportability text,
    holder text,
    locus text,
    recorded_us bigint NOT NULL,
    recorded_by text NOT NULL,         -- '' = by the key's own events
    version bigint NOT NULL,
    custody_us bigint,                 -- when the custody facts were recorded
    custody_by text,
    custody_command text,              -- the command that recorded them: its retry is no second one
    PRIMARY KEY (tenant_id, certificate_id)
);
CREATE INDEX certificates_newest ON svc.certificates (tenant_id, recorded_us DESC, certificate_id DESC);
SELECT svc.tenant_table('certificates', 'projection');

CREATE TABLE svc.credential_owners (
    tenant_id text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('certificate', 'key', 'token')),
    credential_id text NOT NULL,
    owner_id text NOT NULL,
    contact text NOT NULL,             -- '' = not recorded, for the next two as well
    application_id text NOT NULL,
    environment text NOT NULL,
    attested_us bigint NOT NULL,
    attested_by text NOT NULL,
    PRIMARY KEY (tenant_id, kind, credential_id)
);
SELECT svc.tenant_table('credential_owners', 'projection');

CREATE TABLE svc.access_reviews (
    tenant_id text NOT NULL,
    review_id text NOT NULL,
    state text NOT NULL CHECK (state IN ('open', 'completed')),
    title text NOT NULL,
    kinds text NOT NULL,               -- kinds of credentials in it, in order, one space between
    owner_id text NOT NULL,            -- only of this owner; '' = of all
    digest bytea NOT NULL CHECK (octet_length(digest) = 32), -- over the list that was opened
    total bigint NOT NULL,
    opened_us bigint NOT NULL,
    opened_by text NOT NULL,
    opened_sequence bigint NOT NULL,   -- audit sequence of its event: the order of rows
    completed_us bigint,
    completed_by text,
    kept bigint,
    revoked bigint,
    last_command text NOT NULL,        -- the last command that changed it: its retry is no second one
    PRIMARY KEY (tenant_id, review_id)
);
CREATE INDEX access_reviews_order ON svc.access_reviews (tenant_id, opened_sequence DESC);
SELECT svc.tenant_table('access_reviews', 'projection');

CREATE TABLE svc.access_review_items (
    tenant_id text NOT NULL,
    review_id text NOT NULL,
    position bigint NOT NULL,          -- in the list that was opened, from 1
    kind text NOT NULL,
    credential_id text NOT NULL,
    decision text CHECK (decision IN ('keep', 'revoke')), -- NULL = undecided
    reason text,
    decided_us bigint,
    decided_by text,
    PRIMARY KEY (tenant_id, review_id, position),
    UNIQUE (tenant_id, review_id, kind, credential_id)
);
SELECT svc.tenant_table('access_review_items', 'projection');

-- What a rebuild would find for the certificates that keys and time-stamping units have had so far. The owner sees no
-- tenant's rows while row-level security is forced upon it.
ALTER TABLE svc.audit_records NO FORCE ROW LEVEL SECURITY;
ALTER TABLE svc.certificates NO FORCE ROW LEVEL SECURITY;

-- The first DER element of `der`, its header with it; NULL where there is none.
CREATE FUNCTION svc.first_element(der bytea) RETURNS bytea LANGUAGE plpgsql AS $$
DECLARE
    size bigint := get_byte(der, 1);
    head int := 2;
BEGIN
    IF size > 127 THEN
        head := head + (size - 128)::int;
        size := 0;
        FOR i IN 2 .. head - 1 LOOP
            size := size * 256 + get_byte(der, i);
        END LOOP;
    END IF;
    IF head + size > octet_length(der) THEN
        RETURN NULL;
    END IF;
    RETURN substring(der FROM 1 FOR (head + size)::int);
EXCEPTION WHEN others THEN
    RETURN NULL;
END $$;

-- The notAfter of a certificate (RFC 5280 4.1), in microseconds; NULL where it is not one.
CREATE FUNCTION svc.not_after(der bytea) RETURNS bigint LANGUAGE plpgsql AS $$
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

-- An id made of the first 16 bytes of a fingerprint (keys_certificate_id).
CREATE FUNCTION svc.certificate_id(fingerprint bytea) RETURNS text LANGUAGE sql AS $$
    SELECT substr(hex, 1, 8) || '-' || substr(hex, 9, 4) || '-8' || substr(hex, 14, 3) || '-'
        || substr('89ab', (get_byte(fingerprint, 8) >> 4) % 4 + 1, 1) || substr(hex, 18, 3) || '-' || substr(hex, 21, 12)
    FROM (SELECT encode(fingerprint, 'hex') AS hex) AS text;
$$;

INSERT INTO svc.certificates (tenant_id, certificate_id, fingerprint, der, not_after_us, key_id, recorded_us,
                              recorded_by, version)
    SELECT tenant_id, svc.certificate_id(sha256(leaf)), sha256(leaf), leaf, svc.not_after(leaf), key_id, time_us, '', 1
    FROM (SELECT tenant_id, sequence, time_us, data ->> CASE type WHEN 'key.certified' THEN 'key_id' ELSE 'unit_id' END
              AS key_id, svc.first_element(decode(data ->> 'certificate_chain', 'base64')) AS leaf
          FROM (SELECT tenant_id, sequence, time_us, type, convert_from(record, 'UTF8')::json -> 'data' AS data
                FROM svc.audit_records WHERE type IN ('key.certified', 'tsa.unit.certified')) AS records) AS leaves
    WHERE leaf IS NOT NULL AND key_id IS NOT NULL ORDER BY tenant_id, sequence
    ON CONFLICT (tenant_id, certificate_id) DO NOTHING;

ALTER TABLE svc.certificates FORCE ROW LEVEL SECURITY;
ALTER TABLE svc.audit_records FORCE ROW LEVEL SECURITY;
DROP FUNCTION svc.first_element(bytea);
DROP FUNCTION svc.not_after(bytea);
DROP FUNCTION svc.certificate_id(bytea);
