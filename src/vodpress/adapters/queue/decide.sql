-- name: cancel_of_asset
-- Locks first, so that a job which is being fetched or settled is seen as it is afterwards. A worker that runs one of
-- the jobs is told, and stops it.
WITH live AS MATERIALIZED (
    SELECT id, status, queue_name
    FROM procrastinate_jobs
    WHERE status IN ('todo', 'doing') AND args ->> 'asset_id' = %(asset_id)s
        AND (%(plan_id)s::bigint IS NULL OR (args ->> 'plan_id')::bigint = %(plan_id)s)
    ORDER BY id
    FOR UPDATE
), cancelled AS (
    UPDATE procrastinate_jobs AS job
    SET status = 'cancelled', claim_id = NULL, worker_id = NULL
    FROM live
    WHERE job.id = live.id
)
SELECT id,
    CASE status WHEN 'doing' THEN pg_notify(
        'procrastinate_queue_v1#' || queue_name,
        json_build_object('type', 'abort_job_requested', 'job_id', id)::text)
    END
FROM live;

-- name: is_live
-- A statement of its own, for a view of what was committed while the one above waited.
SELECT FROM procrastinate_jobs
WHERE status IN ('todo', 'doing') AND args ->> 'asset_id' = %(asset_id)s
    AND (%(plan_id)s::bigint IS NULL OR (args ->> 'plan_id')::bigint = %(plan_id)s)
LIMIT 1;

-- name: hasten_of_asset
WITH waiting AS (
    UPDATE procrastinate_jobs
    SET scheduled_at = NULL
    WHERE status = 'todo' AND scheduled_at > now() AND args ->> 'asset_id' = %(asset_id)s
    RETURNING id, queue_name
)
SELECT pg_notify(
    'procrastinate_queue_v1#' || queue_name, json_build_object('type', 'job_inserted', 'job_id', id)::text)
FROM waiting;

-- name: revive
UPDATE procrastinate_jobs AS job
SET status = 'todo', attempts = 0, scheduled_at = NULL
WHERE job.id = %(job_id)s AND job.status = 'failed' AND NOT EXISTS (
    SELECT FROM procrastinate_jobs AS other
    WHERE other.unique_key = job.unique_key AND other.status IN ('todo', 'doing'));
