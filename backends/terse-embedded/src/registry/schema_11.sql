-- When a webhook was last enabled again; NULL: never since it was created. It receives no event from before.
ALTER TABLE webhooks ADD COLUMN active_since INTEGER;
