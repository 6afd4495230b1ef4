-- name: add
INSERT INTO dead_letters (asset_id, job_kind, job_args, kind, code, message, detail, traceback, attempts)
VALUES (
    %(asset_id)s, %(job_kind)s, %(job_args)s, %(kind)s, %(code)s, %(message)s, %(detail)s, %(traceback)s, %(attempts)s)
RETURNING *;

-- name: open_of
SELECT * FROM dead_letters WHERE asset_id = %(asset_id)s AND resolution IS NULL ORDER BY id;

-- name: by_id
SELECT * FROM dead_letters WHERE id = %(id)s;

-- name: by_id_locked
SELECT * FROM dead_letters WHERE id = %(id)s FOR UPDATE;

-- name: list
SELECT * FROM dead_letters
WHERE id > %(after)s AND (%(decided)s OR resolution IS NULL)
    AND (%(code)s::text IS NULL OR code = %(code)s) AND (%(asset_id)s::text IS NULL OR asset_id = %(asset_id)s)
ORDER BY id
LIMIT %(limit)s;

-- name: causes
SELECT code, count(*) AS count, count(DISTINCT asset_id) AS assets, min(created_at) AS oldest_at
FROM dead_letters
WHERE resolution IS NULL
GROUP BY code
ORDER BY count(*) DESC, code;

-- name: decide
UPDATE dead_letters
SET resolution = %(resolution)s, resolved_at = now(), decided_by = %(who)s, decided_why = %(why)s
WHERE id = %(id)s AND resolution IS NULL;
