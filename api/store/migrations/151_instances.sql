-- Which instances were seen when, by this database's clock (api/server/presence.h). A row is written every second by
-- the instance itself, and is nobody's a day after its last.
CREATE TABLE svc.instances (
    instance text PRIMARY KEY,
    server_us bigint NOT NULL,  -- when the database server that wrote the row had been started
    since_us bigint NOT NULL,   -- since when it is seen by that server without a gap
    seen_us bigint NOT NULL
) WITH (fillfactor = 20);
SELECT svc.system_table('instances', 'bookkeeping');
