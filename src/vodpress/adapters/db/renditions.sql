-- name: claim_slices
-- The newest claim of the slice's job is the live one, so an older lease is superseded.
UPDATE slices
SET state = 'encoding', lease = %(lease)s::uuid, attempt = attempt + 1
FROM renditions
WHERE renditions.id = slices.rendition_id
  AND renditions.plan_id = %(plan_id)s AND renditions.name = ANY (%(names)s)
  AND renditions.state IN ('pending', 'encoding')
  AND slices.index = %(index)s AND slices.state IN ('pending', 'encoding')
RETURNING slices.rendition_id;

-- name: start_encoding
UPDATE renditions SET state = %(target)s WHERE id = ANY (%(ids)s) AND state = ANY (%(sources)s);

-- name: by_ids
SELECT * FROM renditions WHERE id = ANY (%(ids)s) ORDER BY ordinal;

-- name: complete_slice
UPDATE slices
SET state = 'completed', lease = NULL, key = %(key)s, bytes = %(bytes)s, sha256 = %(sha256)s, frames = %(frames)s,
    completed_at = now()
WHERE rendition_id = %(rendition_id)s AND index = %(index)s
  AND state = 'encoding' AND lease = %(lease)s::uuid;

-- name: count_down_slices
UPDATE renditions SET slices_open = slices_open - 1 WHERE id = %(rendition_id)s RETURNING slices_open;

-- name: release_slices
UPDATE slices SET state = 'pending', lease = NULL WHERE state = 'encoding' AND lease = %(lease)s::uuid;

-- name: slices
SELECT * FROM slices WHERE rendition_id = %(rendition_id)s ORDER BY index;

-- name: start_stitching
UPDATE renditions SET state = %(target)s WHERE id = %(rendition_id)s AND state = ANY (%(sources)s) AND slices_open = 0;

-- name: complete
UPDATE renditions
SET state = %(target)s, slices_open = 0, key = %(key)s, bytes = %(bytes)s, sha256 = %(sha256)s, frames = %(frames)s,
    completed_at = now()
WHERE id = %(rendition_id)s AND state = ANY (%(sources)s)
RETURNING plan_id;

-- name: count_down_renditions
-- The row lock is what makes exactly one of two simultaneous finishers see 0.
UPDATE plans SET renditions_open = renditions_open - 1 WHERE id = %(plan_id)s RETURNING renditions_open;

-- name: fail
UPDATE renditions
SET state = %(target)s, reason_code = %(reason_code)s, reason_message = %(reason_message)s
WHERE id = %(rendition_id)s AND state = ANY (%(sources)s);

-- name: reopen
-- Back to where it failed: one whose slices are all recorded only has to be stitched.
UPDATE renditions
SET state = CASE slices_open WHEN 0 THEN 'stitching' ELSE 'encoding' END, reason_code = NULL, reason_message = NULL
WHERE plan_id = %(plan_id)s AND state = 'failed' AND (%(names)s::text[] IS NULL OR name = ANY (%(names)s));

-- name: waive
UPDATE renditions SET state = %(target)s WHERE id = %(rendition_id)s AND state = ANY (%(sources)s) RETURNING plan_id;

-- name: reusable
SELECT renditions.key, renditions.bytes, renditions.sha256, renditions.frames
FROM renditions
JOIN plans ON plans.id = renditions.plan_id
JOIN assets ON assets.id = plans.asset_id
WHERE renditions.rung_hash = %(rung_hash)s AND renditions.state = 'completed'
  AND assets.tenant = %(tenant)s AND plans.source_sha256 = %(source_sha256)s
ORDER BY renditions.id
LIMIT 1;
