-- The request budget of each tenant, shared by all instances (api/server/rate.h): millionths of a request that are
-- left, as of a moment of the database's clock. One row a tenant, changed in place.
CREATE TABLE svc.rate_buckets (
    tenant_id text PRIMARY KEY,
    tokens bigint NOT NULL CHECK (tokens >= 0),
    refilled_us bigint NOT NULL
) WITH (fillfactor = 20);
SELECT svc.tenant_table('rate_buckets', 'operational');
