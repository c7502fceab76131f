-- Whether the process that recorded a signature could claim approved mode for it. Of signatures that were recorded before
-- anybody asked, nothing is claimed; those of ML-DSA never are.

ALTER TABLE svc.codesign_operations ADD COLUMN approved_mode boolean NOT NULL DEFAULT false;
