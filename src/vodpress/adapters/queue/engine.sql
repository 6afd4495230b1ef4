-- name: fetch
SELECT *
FROM vodpress_fetch_job(%(queue)s, %(kinds)s::text[], %(worker_id)s::bigint, %(claim_id)s::uuid);

-- name: fetch_yielding
SELECT *
FROM vodpress_fetch_yielding_job(
    %(queue)s, %(before)s, %(kinds)s::text[], %(worker_id)s::bigint, %(claim_id)s::uuid);

-- name: put_on_record
INSERT INTO workers (worker_id, node, process_id, queue, concurrency)
VALUES (%(worker_id)s, %(node)s, %(process_id)s, %(queue)s, %(concurrency)s);

-- name: heartbeat
UPDATE procrastinate_workers SET last_heartbeat = now() WHERE id = ANY (%(worker_ids)s::bigint[]) RETURNING id;

-- name: on_record
SELECT claim_id FROM procrastinate_jobs WHERE status = 'doing' AND worker_id = ANY (%(worker_ids)s::bigint[]);

-- name: disown
UPDATE procrastinate_jobs SET worker_id = NULL WHERE status = 'doing' AND claim_id = ANY (%(claim_ids)s::uuid[]);

-- name: live_claims
SELECT claim_id FROM procrastinate_jobs WHERE status = 'doing' AND claim_id = ANY (%(claim_ids)s::uuid[]);
