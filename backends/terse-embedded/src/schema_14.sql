-- The link's own preview for chats and social networks: JSON, as the core writes it.
ALTER TABLE links ADD COLUMN preview TEXT;
ALTER TABLE revisions ADD COLUMN preview TEXT;
