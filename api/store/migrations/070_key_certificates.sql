-- Certificates that users bring for their keys.

ALTER TABLE svc.managed_keys
    ADD COLUMN certify_command text; -- the user's command that brought the present chain: its retry is no second one
