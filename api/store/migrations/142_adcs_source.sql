-- A source of AD CS observations belongs to the subject that used it first in the tenant, whatever the domain.
CREATE INDEX adcs_observations_subject ON svc.adcs_observations (tenant_id, source_id, sequence) INCLUDE (recorded_by);
