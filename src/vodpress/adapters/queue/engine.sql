-- name: fetch
SELECT *
FROM vodpress_fetch_job(%(queue)s, %(kinds)s::text[], %(worker_id)s::bigint, %(claim_id)s::uuid);

-- name: heartbeat
SELECT vodpress_heartbeat(%(worker_ids)s::bigint[], %(claim_ids)s::uuid[]) AS worker_id;

-- name: live_claims
SELECT claim_id FROM procrastinate_jobs WHERE status = 'doing' AND claim_id = ANY (%(claim_ids)s::uuid[]);
