-- Report schedules and the reports that come of them.

-- A schedule as it stands. When its next report is due follows from counted_from_us, the time of the event that the
-- interval is counted from: the last configuration, or the last report's end.
CREATE TABLE svc.report_schedules (
    tenant_id text NOT NULL,
    schedule_id text NOT NULL,
    version bigint NOT NULL,          -- of the configuration; 1 = the first
    framework text NOT NULL,
    name text NOT NULL,
    report_type text NOT NULL,
    interval_us bigint NOT NULL,
    recipient_ref text NOT NULL,
    enabled boolean NOT NULL,
    created_us bigint NOT NULL,
    created_by text NOT NULL,
    configured_us bigint NOT NULL,
    configured_by text NOT NULL,
    made_sequence bigint NOT NULL,    -- audit sequence of its first version: the order of rows
    counted_from_us bigint NOT NULL,
    rounds bigint NOT NULL,           -- reports that were queued
    open_report text NOT NULL,        -- '' = none is on its way
    open_since_us bigint NOT NULL,
    last_report text,
    last_generated_us bigint,
    last_failure text,                -- of fault.def; gone with the next report
    last_failed_us bigint,
    PRIMARY KEY (tenant_id, schedule_id)
);
CREATE INDEX report_schedules_order ON svc.report_schedules (tenant_id, made_sequence DESC);
SELECT svc.tenant_table('report_schedules', 'projection', 'all');

-- Every configuration that a schedule ever had.
CREATE TABLE svc.report_schedule_versions (
    tenant_id text NOT NULL,
    schedule_id text NOT NULL,
    version bigint NOT NULL,
    definition text NOT NULL,         -- canonical JSON
    configured_us bigint NOT NULL,
    configured_by text NOT NULL,
    command_id text NOT NULL,
    event_id text NOT NULL,
    PRIMARY KEY (tenant_id, schedule_id, version)
);
SELECT svc.tenant_table('report_schedule_versions', 'projection');

-- The newest reports of each schedule: so many as the event of the newest one says.
CREATE TABLE svc.compliance_reports (
    tenant_id text NOT NULL,
    report_id text NOT NULL,
    schedule_id text NOT NULL,
    version bigint NOT NULL,          -- of the schedule
    framework text NOT NULL,
    report_type text NOT NULL,
    state text NOT NULL CHECK (state IN ('generated', 'failed')),
    failure text,                     -- of fault.def
    digest bytea CHECK (octet_length(digest) = 32), -- SHA-256 of the document
    size bigint NOT NULL,
    window_from_us bigint NOT NULL,
    window_to_us bigint NOT NULL,
    queued_us bigint NOT NULL,
    ended_us bigint NOT NULL,
    sequence bigint NOT NULL,         -- audit sequence of its end: the order of rows
    PRIMARY KEY (tenant_id, report_id)
);
CREATE INDEX compliance_reports_order ON svc.compliance_reports (tenant_id, sequence DESC);
CREATE INDEX compliance_reports_schedule ON svc.compliance_reports (tenant_id, schedule_id, state, sequence DESC);
SELECT svc.tenant_table('compliance_reports', 'projection');

-- The documents themselves, which the log has the digests of. Kept by a rebuild, and gone when no report stands for
-- them any more.
CREATE TABLE svc.compliance_documents (
    tenant_id text NOT NULL,
    report_id text NOT NULL,
    schedule_id text NOT NULL,
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    window_from_us bigint NOT NULL,
    window_to_us bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (tenant_id, report_id)
);
CREATE INDEX compliance_documents_schedule ON svc.compliance_documents (tenant_id, schedule_id);
SELECT svc.tenant_table('compliance_documents', 'bookkeeping');
