-- What is odd about the target: words joined by commas. In `flags`, 128: the standing is not the word of whoever it usually is.
ALTER TABLE links ADD COLUMN signs TEXT;
