-- AD CS: what collectors saw of the tenant's domains, and how a domain changed between two complete looks at it.

CREATE TABLE svc.adcs_observations (
    tenant_id text NOT NULL,
    observation_id text NOT NULL,
    domain text COLLATE "C" NOT NULL, -- in order of bytes, whatever the database sorts by
    schema_version bigint NOT NULL,    -- 1: templates only, history; 2: with the services' evidence
    complete boolean NOT NULL,
    source_id text NOT NULL,
    run_id text NOT NULL,
    relay_id text NOT NULL,
    observed_us bigint NOT NULL,       -- as the collector says
    event_id text NOT NULL,
    sequence bigint NOT NULL,          -- audit sequence of its event: the order of rows
    recorded_us bigint NOT NULL,
    recorded_by text NOT NULL,
    observation text NOT NULL,         -- the event's data, canonical
    PRIMARY KEY (tenant_id, observation_id)
);
CREATE UNIQUE INDEX adcs_observations_order ON svc.adcs_observations (tenant_id, sequence);
CREATE INDEX adcs_observations_domain ON svc.adcs_observations (tenant_id, domain, sequence);
CREATE INDEX adcs_observations_latest ON svc.adcs_observations (tenant_id, domain, observed_us, sequence)
    WHERE complete AND schema_version = 2;
CREATE INDEX adcs_observations_source ON svc.adcs_observations (tenant_id, domain, source_id, observed_us);
SELECT svc.tenant_table('adcs_observations', 'projection');

CREATE TABLE svc.adcs_drift (
    tenant_id text NOT NULL,
    sequence bigint NOT NULL,          -- audit sequence of its event
    event_id text NOT NULL,
    domain text COLLATE "C" NOT NULL, -- in order of bytes, whatever the database sorts by
    observation_id text NOT NULL,      -- the later one
    source_id text NOT NULL,
    run_id text NOT NULL,
    relay_id text NOT NULL,
    observed_us bigint NOT NULL,
    recorded_us bigint NOT NULL,
    changes bigint NOT NULL,           -- all of them, listed or not
    drift text NOT NULL,               -- the event's data, canonical
    PRIMARY KEY (tenant_id, sequence)
);
CREATE INDEX adcs_drift_domain ON svc.adcs_drift (tenant_id, domain, sequence);
CREATE INDEX adcs_drift_time ON svc.adcs_drift (tenant_id, recorded_us);
SELECT svc.tenant_table('adcs_drift', 'projection');
