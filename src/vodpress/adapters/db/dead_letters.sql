-- name: add
INSERT INTO dead_letters (asset_id, job_kind, job_args, kind, code, message, detail, attempts)
VALUES (%(asset_id)s, %(job_kind)s, %(job_args)s, %(kind)s, %(code)s, %(message)s, %(detail)s, %(attempts)s)
RETURNING *;

-- name: open_of
SELECT * FROM dead_letters WHERE asset_id = %(asset_id)s AND resolution IS NULL ORDER BY id;

-- name: resolve
UPDATE dead_letters SET resolution = %(resolution)s, resolved_at = now()
WHERE asset_id = %(asset_id)s AND resolution IS NULL
    AND (job_args ->> 'plan_id')::bigint IS NOT DISTINCT FROM %(plan_id)s::bigint
RETURNING *;
