-- What is odd about the target: words joined by commas. In `flags`, 128: the moderation status does not come from its usual source.
ALTER TABLE links ADD COLUMN signs TEXT;
