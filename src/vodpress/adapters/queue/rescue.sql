-- name: abandoned
-- Jobs of other releases' kinds are left to rescuers that know how often they may be tried.
SELECT job.id
FROM procrastinate_jobs AS job
LEFT JOIN procrastinate_workers AS worker ON worker.id = job.worker_id
WHERE job.status = 'doing' AND job.task_name = ANY (%(kinds)s::text[])
    AND (worker.id IS NULL OR worker.last_heartbeat < now() - make_interval(secs => %(lease_seconds)s))
ORDER BY job.id
LIMIT %(limit)s;

-- name: lock
-- SKIP LOCKED: another rescuer, or the worker itself with its result, has the job right now.
SELECT FROM procrastinate_jobs WHERE id = %(job_id)s AND status = 'doing' FOR UPDATE SKIP LOCKED;

-- name: look_again
-- A statement of its own, for a fresh view under the lock: since the job was found, another rescuer may have given it
-- to a worker that lives. A lock and a join in one statement would pair the job as it is now with its old worker.
SELECT job.task_name, job.attempts, job.args
FROM procrastinate_jobs AS job
LEFT JOIN procrastinate_workers AS worker ON worker.id = job.worker_id
WHERE job.id = %(job_id)s
    AND (worker.id IS NULL OR worker.last_heartbeat < now() - make_interval(secs => %(lease_seconds)s));

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
