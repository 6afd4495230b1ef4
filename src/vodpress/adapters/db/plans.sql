-- name: add
INSERT INTO plans (
    asset_id, plan_hash, source_sha256, source_key, ladder_name, ladder, document, publish, early_rung, bulk,
    renditions_open)
VALUES (
    %(asset_id)s, %(plan_hash)s, %(source_sha256)s, %(source_key)s, %(ladder_name)s, %(ladder)s, %(document)s,
    %(publish)s, %(early_rung)s, %(bulk)s, %(renditions)s)
ON CONFLICT (asset_id, source_sha256, plan_hash) DO NOTHING
RETURNING id;

-- name: add_rendition
INSERT INTO renditions (plan_id, name, kind, ordinal, required, rung_hash, slices_open, weight)
VALUES (%(plan_id)s, %(name)s, %(kind)s, %(ordinal)s, %(required)s, %(rung_hash)s, %(slices)s, %(weight)s)
RETURNING id;

-- name: add_slices
INSERT INTO slices (rendition_id, index) SELECT %(rendition_id)s, generate_series(0, %(slices)s - 1);

-- name: by_id
SELECT plans.*, assets.tenant
FROM plans JOIN assets ON assets.id = plans.asset_id
WHERE plans.id = %(plan_id)s;

-- name: by_id_locked
SELECT plans.*, assets.tenant
FROM plans JOIN assets ON assets.id = plans.asset_id
WHERE plans.id = %(plan_id)s
FOR UPDATE OF plans;

-- name: by_hash
SELECT plans.*, assets.tenant
FROM plans JOIN assets ON assets.id = plans.asset_id
WHERE plans.asset_id = %(asset_id)s AND plans.source_sha256 = %(source_sha256)s AND plans.plan_hash = %(plan_hash)s;

-- name: by_hash_locked
SELECT plans.*, assets.tenant
FROM plans JOIN assets ON assets.id = plans.asset_id
WHERE plans.asset_id = %(asset_id)s AND plans.source_sha256 = %(source_sha256)s AND plans.plan_hash = %(plan_hash)s
FOR UPDATE OF plans;

-- name: of_asset
SELECT plans.*, assets.tenant
FROM plans JOIN assets ON assets.id = plans.asset_id
WHERE plans.asset_id = %(asset_id)s
ORDER BY plans.id;

-- name: move
UPDATE plans SET state = %(target)s WHERE id = %(plan_id)s AND state = ANY (%(sources)s);

-- name: set_publish
UPDATE plans SET publish = %(publish)s WHERE id = %(plan_id)s;

-- name: set_images
UPDATE plans SET images_state = %(state)s, images = %(images)s WHERE id = %(plan_id)s;

-- name: renditions
SELECT * FROM renditions WHERE plan_id = %(plan_id)s ORDER BY ordinal;

-- name: progress
-- A rendition's fraction: its finished slices, plus the moving parts of those that run now.
SELECT renditions.name, renditions.state, renditions.kind, renditions.weight,
       count(slices.*) AS slices,
       count(slices.*) FILTER (WHERE slices.state = 'completed') AS slices_done,
       coalesce(sum(progress.done_seconds / nullif(progress.total_seconds, 0))
                FILTER (WHERE slices.state = 'encoding'), 0) AS slices_moving,
       coalesce(sum(progress.speed) FILTER (WHERE slices.state = 'encoding'), 0) AS speed
FROM renditions
LEFT JOIN slices ON slices.rendition_id = renditions.id
LEFT JOIN progress ON progress.rendition_id = slices.rendition_id AND progress.slice_index = slices.index
WHERE renditions.plan_id = %(plan_id)s
GROUP BY renditions.id
ORDER BY renditions.ordinal;

-- name: report_progress
-- Only under the live lease: a worker that lost it learns so here and stops its tool.
INSERT INTO progress (rendition_id, slice_index, done_seconds, total_seconds, speed)
SELECT rendition_id, index, %(done)s, %(total)s, %(speed)s
FROM slices
WHERE rendition_id = ANY (%(rendition_ids)s) AND index = %(index)s AND state = 'encoding' AND lease = %(lease)s::uuid
ON CONFLICT (rendition_id, slice_index) DO UPDATE
SET done_seconds = excluded.done_seconds, total_seconds = excluded.total_seconds,
    speed = excluded.speed, updated_at = now();

-- name: slices_since
SELECT count(*)
FROM slices
JOIN renditions ON renditions.id = slices.rendition_id
WHERE renditions.plan_id = %(plan_id)s AND slices.completed_at >= %(moment)s::timestamptz;
