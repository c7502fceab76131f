-- Requests for approval, what approvers decided, and the signings made under approvals that limit them. How a request
-- stands is a function of its row and the time: nothing is written when a window ends.

CREATE TABLE svc.approval_requests (
    tenant_id text NOT NULL,
    request_id text NOT NULL,
    resource text NOT NULL,       -- what is bound: tenant, requester, key or identity, digests
    action text NOT NULL,
    requester text NOT NULL,
    rule text NOT NULL,
    about text NOT NULL,          -- canonical JSON that approvers are shown
    operation_id text NOT NULL,   -- what was refused
    needed bigint NOT NULL,       -- distinct approvers
    window_us bigint NOT NULL,
    max_signings bigint NOT NULL, -- 0 = without limit
    state text NOT NULL,          -- pending, approved, denied, replaced
    approvals bigint NOT NULL,
    uses bigint NOT NULL,
    denied_by text,
    created_us bigint NOT NULL,
    decided_us bigint,            -- when it became approved, denied or replaced
    expires_us bigint NOT NULL,   -- one window after the request, then after the approval or denial
    made_seq bigint NOT NULL,     -- stream sequence of approval.requested: the newest of a resource counts
    PRIMARY KEY (tenant_id, request_id)
);
CREATE INDEX approval_requests_order ON svc.approval_requests (tenant_id, made_seq DESC, request_id DESC);
CREATE INDEX approval_requests_resource
    ON svc.approval_requests (tenant_id, resource, made_seq DESC, request_id DESC);
CREATE INDEX approval_requests_pending
    ON svc.approval_requests (tenant_id, made_seq DESC, request_id DESC) WHERE state = 'pending';
SELECT svc.tenant_table('approval_requests', 'projection');

-- One decision of each kind for each approver: somebody who approved may still deny.
CREATE TABLE svc.approval_decisions (
    tenant_id text NOT NULL,
    request_id text NOT NULL,
    approver text NOT NULL,
    verdict text NOT NULL,        -- granted, denied
    reason text NOT NULL,
    decided_us bigint NOT NULL,
    decided_seq bigint NOT NULL,  -- stream sequence
    PRIMARY KEY (tenant_id, request_id, approver, verdict)
);
SELECT svc.tenant_table('approval_decisions', 'projection');

CREATE TABLE svc.approval_uses (
    tenant_id text NOT NULL,
    operation_id text NOT NULL,
    request_id text NOT NULL,
    resource text NOT NULL,
    used_us bigint NOT NULL,
    PRIMARY KEY (tenant_id, operation_id, request_id)
);
SELECT svc.tenant_table('approval_uses', 'projection');
