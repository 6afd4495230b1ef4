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
-- An older version that comes late does not take the place of a newer one, nor one of a plan that a person left.
UPDATE assets SET live_version = %(version)s, held_at_plan = NULL, updated_at = now()
WHERE id = %(id)s AND state = 'ready'
    AND CASE WHEN held_at_plan IS NULL THEN live_version < %(version)s ELSE held_at_plan < %(plan_id)s END;

-- name: hold_version
UPDATE assets
SET live_version = %(version)s,
    held_at_plan = CASE WHEN %(hold)s THEN (SELECT max(plans.id) FROM plans WHERE plans.asset_id = assets.id) END,
    updated_at = now()
WHERE id = %(id)s AND state = 'ready';

-- name: replace_source
-- Unless another asset is made from these bytes with the same passthrough.
UPDATE assets AS asset
SET source_sha256 = %(sha256)s, source_bytes = %(size)s, source_key = %(key)s, probe = NULL, updated_at = now()
WHERE id = %(id)s AND NOT EXISTS (
    SELECT FROM assets AS other
    WHERE other.tenant = asset.tenant AND other.source_sha256 = %(sha256)s AND other.passthrough = asset.passthrough
        AND other.id <> asset.id);

-- name: newest
SELECT * FROM assets ORDER BY created_at DESC, id LIMIT %(limit)s;

-- name: delete
DELETE FROM assets WHERE id = %(id)s;

-- name: source_is_used
SELECT EXISTS (SELECT FROM assets WHERE source_key = %(source_key)s) AS used;

-- name: starting_with
SELECT id FROM assets WHERE starts_with(id, %(beginning)s) ORDER BY (id = %(beginning)s) DESC, id LIMIT 2;
