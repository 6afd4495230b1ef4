-- name: next_abandoned
-- SKIP LOCKED: another rescuer, or the worker itself with its result, has the job right now.
SELECT job.id, job.task_name, job.attempts, job.args
FROM procrastinate_jobs AS job
LEFT JOIN procrastinate_workers AS worker ON worker.id = job.worker_id
WHERE job.status = 'doing'
    AND (worker.id IS NULL OR worker.last_heartbeat < now() - make_interval(secs => %(lease_seconds)s))
ORDER BY job.id
LIMIT 1
FOR UPDATE OF job SKIP LOCKED;

-- name: give_to_others
UPDATE procrastinate_jobs
SET status = 'todo', claim_id = NULL, worker_id = NULL, scheduled_at = NULL
WHERE id = %(job_id)s;

-- name: bury
UPDATE procrastinate_jobs
SET status = 'failed', claim_id = NULL, worker_id = NULL
WHERE id = %(job_id)s;

-- name: forget_workers
DELETE FROM procrastinate_workers AS worker
WHERE last_heartbeat < now() - make_interval(secs => %(lease_seconds)s)
    AND NOT EXISTS (SELECT FROM procrastinate_jobs AS job WHERE job.worker_id = worker.id);
