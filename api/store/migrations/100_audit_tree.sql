-- The Merkle tree over each tenant's audit records (RFC 6962 2.1), stored as complete tiles: tile k of level l holds the
-- roots of 256 complete subtrees of 256^l records each, of which the first begins behind record k * 256^(l + 1). Level 0
-- holds the leaf hashes. `root` is the tile's own: one node of the level above. The records behind the last complete tile
-- are hashed again whenever they are needed, so the last 255 records of a tenant must not go before their tile is there.
CREATE TABLE svc.audit_tiles (
    tenant_id text NOT NULL,
    level bigint NOT NULL CHECK (level >= 0),
    tile bigint NOT NULL CHECK (tile >= 0),
    hashes bytea NOT NULL CHECK (octet_length(hashes) = 8192),
    root bytea NOT NULL CHECK (octet_length(root) = 32),
    PRIMARY KEY (tenant_id, level, tile)
);
SELECT svc.tenant_table('audit_tiles', 'projection');
ALTER TABLE svc.audit_tiles ALTER COLUMN hashes SET STORAGE EXTERNAL; -- hashes do not shrink

-- The tiles of records that are there already: from here on the projector adds each in the transaction of its last
-- record. Row-level security is forced on the owner as well, and put aside for this one look at all tenants.
CREATE FUNCTION svc.audit_tile_root(hashes bytea) RETURNS bytea
LANGUAGE plpgsql SET search_path = svc, pg_temp AS $$
DECLARE
    nodes bytea := hashes;
BEGIN
    WHILE octet_length(nodes) > 32 LOOP
        SELECT string_agg(sha256(decode('01', 'hex') || substr(nodes, 64 * i + 1, 64)), ''::bytea ORDER BY i) INTO nodes
            FROM generate_series(0, octet_length(nodes) / 64 - 1) AS i;
    END LOOP;
    RETURN nodes;
END $$;

ALTER TABLE svc.audit_records NO FORCE ROW LEVEL SECURITY;
ALTER TABLE svc.audit_tiles NO FORCE ROW LEVEL SECURITY;

INSERT INTO svc.audit_tiles (tenant_id, level, tile, hashes, root)
    SELECT tenant_id, 0, tile, hashes, svc.audit_tile_root(hashes) FROM (
        SELECT tenant_id, (sequence - 1) / 256 AS tile,
            string_agg(sha256(decode('00', 'hex') || record), ''::bytea ORDER BY sequence) AS hashes
        FROM svc.audit_records GROUP BY 1, 2 HAVING count(*) = 256) AS complete;

DO $$
DECLARE
    above bigint := 1;
BEGIN
    LOOP
        INSERT INTO svc.audit_tiles (tenant_id, level, tile, hashes, root)
            SELECT tenant_id, above, tile, hashes, svc.audit_tile_root(hashes) FROM (
                SELECT tenant_id, t.tile / 256 AS tile, string_agg(root, ''::bytea ORDER BY t.tile) AS hashes
                FROM svc.audit_tiles AS t WHERE level = above - 1 GROUP BY 1, 2 HAVING count(*) = 256) AS complete;
        EXIT WHEN NOT FOUND;
        above := above + 1;
    END LOOP;
END $$;

ALTER TABLE svc.audit_tiles FORCE ROW LEVEL SECURITY;
ALTER TABLE svc.audit_records FORCE ROW LEVEL SECURITY;
DROP FUNCTION svc.audit_tile_root(bytea);
