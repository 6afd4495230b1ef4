-- name: enqueue
-- Waits for a transaction that inserted the same key and has not ended; leaves out what waits or runs already.
INSERT INTO procrastinate_jobs (queue_name, task_name, args, unique_key, priority)
SELECT queue_name, task_name, args, unique_key, priority
FROM unnest(
    %(queues)s::text[], %(kinds)s::text[], %(args)s::jsonb[], %(unique_keys)s::text[], %(priorities)s::integer[]
) WITH ORDINALITY AS request (queue_name, task_name, args, unique_key, priority, position)
ORDER BY position
ON CONFLICT (unique_key) WHERE status IN ('todo', 'doing') DO NOTHING;
