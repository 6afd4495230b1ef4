-- name: add
INSERT INTO assets (id, tenant, title, passthrough, source_sha256, source_bytes, source_key)
VALUES (%(id)s, %(tenant)s, %(title)s, %(passthrough)s, %(source_sha256)s, %(source_bytes)s, %(source_key)s)
ON CONFLICT DO NOTHING;

-- name: by_id
SELECT * FROM assets WHERE id = %(id)s;

-- name: by_id_locked
SELECT * FROM assets WHERE id = %(id)s FOR UPDATE;

-- name: by_source
SELECT * FROM assets
WHERE tenant = %(tenant)s AND source_sha256 = %(sha256)s AND passthrough = %(passthrough)s
FOR UPDATE;

-- name: move
-- `sources` comes from the transition table.
UPDATE assets
SET state = %(target)s,
    reason_code = %(reason_code)s,
    reason_message = %(reason_message)s,
    live_version = CASE WHEN %(target)s = 'ready' THEN %(live_version)s::integer ELSE live_version END,
    ready_at = CASE WHEN %(target)s = 'ready' THEN now() END,
    updated_at = now()
WHERE id = %(id)s AND state = ANY (%(sources)s);

-- name: set_probe
UPDATE assets SET probe = %(probe)s, updated_at = now() WHERE id = %(id)s;

-- name: set_live_version
-- An older plan that finishes late does not take the place of a newer one.
UPDATE assets SET live_version = %(version)s, updated_at = now()
WHERE id = %(id)s AND state = 'ready' AND live_version < %(version)s;

-- name: newest
SELECT * FROM assets ORDER BY created_at DESC, id LIMIT %(limit)s;

-- name: delete
DELETE FROM assets WHERE id = %(id)s;

-- name: source_is_used
SELECT EXISTS (SELECT FROM assets WHERE source_key = %(source_key)s) AS used;

-- name: starting_with
SELECT id FROM assets WHERE starts_with(id, %(beginning)s) ORDER BY (id = %(beginning)s) DESC, id LIMIT 2;
