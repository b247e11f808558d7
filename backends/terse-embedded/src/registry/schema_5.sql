-- An event has at most one delivery per webhook. Where a crash left two, the first stays.
DELETE FROM deliveries WHERE id NOT IN (SELECT min(id) FROM deliveries GROUP BY webhook, event);
UPDATE webhooks SET waiting =
    (SELECT count(*) FROM deliveries d WHERE d.webhook = webhooks.id AND d.state = 'waiting');
CREATE UNIQUE INDEX deliveries_of_event ON deliveries (webhook, event);
