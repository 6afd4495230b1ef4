-- Every statement here is fenced: it changes the job only under its live claim.

-- name: verify
SELECT id FROM procrastinate_jobs
WHERE id = %(job_id)s AND claim_id = %(claim_id)s AND status = 'doing'
FOR UPDATE;

-- name: complete
UPDATE procrastinate_jobs
SET status = 'succeeded', claim_id = NULL, worker_id = NULL
WHERE id = %(job_id)s AND claim_id = %(claim_id)s AND status = 'doing';

-- name: snooze
UPDATE procrastinate_jobs
SET status = 'todo', claim_id = NULL, worker_id = NULL, attempts = attempts - 1,
    scheduled_at = now() + make_interval(secs => %(seconds)s)
WHERE id = %(job_id)s AND claim_id = %(claim_id)s AND status = 'doing';

-- name: retry
UPDATE procrastinate_jobs
SET status = 'todo', claim_id = NULL, worker_id = NULL,
    scheduled_at = now() + make_interval(secs => %(seconds)s)
WHERE id = %(job_id)s AND claim_id = %(claim_id)s AND status = 'doing';

-- name: hand_back
UPDATE procrastinate_jobs
SET status = 'todo', claim_id = NULL, worker_id = NULL, attempts = attempts - 1, scheduled_at = NULL
WHERE id = %(job_id)s AND claim_id = %(claim_id)s AND status = 'doing';

-- name: bury
UPDATE procrastinate_jobs
SET status = 'failed', claim_id = NULL, worker_id = NULL
WHERE id = %(job_id)s AND claim_id = %(claim_id)s AND status = 'doing';

-- name: discard
UPDATE procrastinate_jobs
SET status = 'cancelled', claim_id = NULL, worker_id = NULL
WHERE id = %(job_id)s AND claim_id = %(claim_id)s AND status = 'doing';
