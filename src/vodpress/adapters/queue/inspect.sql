-- name: newest
SELECT id, task_name, queue_name, status, attempts, args
FROM procrastinate_jobs
WHERE (%(queue)s::text IS NULL OR queue_name = %(queue)s) AND (%(state)s::text IS NULL OR status::text = %(state)s)
ORDER BY id DESC
LIMIT %(limit)s;

-- name: counts
SELECT queue_name, status, count(*) AS jobs FROM procrastinate_jobs GROUP BY queue_name, status;
