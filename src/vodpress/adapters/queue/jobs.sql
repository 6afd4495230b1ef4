-- name: record_failure
INSERT INTO job_failures (job_id, attempt, kind, code, message, detail, traceback)
VALUES (%(job_id)s, %(attempt)s, %(kind)s, %(code)s, %(message)s, %(detail)s, %(traceback)s)
ON CONFLICT (job_id, attempt) DO UPDATE
SET kind = excluded.kind, code = excluded.code, message = excluded.message, detail = excluded.detail,
    traceback = excluded.traceback, at = now();

-- name: live_of_asset
SELECT
    count(*) FILTER (WHERE status = 'doing') AS running,
    count(*) FILTER (WHERE status = 'todo' AND (scheduled_at IS NULL OR scheduled_at <= now())) AS waiting,
    count(*) FILTER (WHERE status = 'todo' AND scheduled_at > now()) AS delayed
FROM procrastinate_jobs
WHERE status IN ('todo', 'doing') AND args ->> 'asset_id' = %(asset_id)s;

-- name: last_failure_of_asset
SELECT failure.kind, failure.code, failure.message
FROM job_failures AS failure
JOIN procrastinate_jobs AS job ON job.id = failure.job_id
WHERE job.status IN ('todo', 'doing') AND job.args ->> 'asset_id' = %(asset_id)s
ORDER BY failure.at DESC, failure.id DESC
LIMIT 1;
