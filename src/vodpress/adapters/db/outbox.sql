-- name: emit
INSERT INTO outbox (type, tenant, asset_id, data)
VALUES (%(type)s, coalesce((SELECT tenant FROM assets WHERE id = %(asset_id)s), %(tenant)s), %(asset_id)s, %(data)s);

-- name: list
SELECT position, id, type, tenant, asset_id, data, occurred_at
FROM outbox
WHERE position > %(after)s AND (%(asset_id)s::text IS NULL OR asset_id = %(asset_id)s)
ORDER BY position
LIMIT %(limit)s;
