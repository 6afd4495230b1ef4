-- What the queue engine lacks: see docs/decisions/0001-queue-engine.md.

-- claim_id: new at every fetch; only its holder may settle the job.
-- unique_key: while a job with the key waits or runs, a second one is not enqueued.
ALTER TABLE procrastinate_jobs
    ADD COLUMN claim_id uuid,
    ADD COLUMN unique_key text NOT NULL,
    ADD CONSTRAINT vodpress_jobs_doing_is_claimed CHECK ((status = 'doing') = (claim_id IS NOT NULL)),
    ADD CONSTRAINT vodpress_jobs_only_doing_has_worker CHECK (status = 'doing' OR worker_id IS NULL),
    ADD CONSTRAINT vodpress_jobs_attempt_is_counted CHECK (attempts >= CASE status WHEN 'doing' THEN 1 ELSE 0 END),
    ADD CONSTRAINT vodpress_jobs_has_known_state CHECK (status NOT IN ('aborting', 'aborted')),
    -- Our fetch does not look at the engine's locks; so that they are not passed over quietly, they are refused.
    ADD CONSTRAINT vodpress_jobs_has_no_engine_lock CHECK (lock IS NULL AND queueing_lock IS NULL);

CREATE UNIQUE INDEX vodpress_jobs_unique_key ON procrastinate_jobs (unique_key) WHERE status IN ('todo', 'doing');
-- The next job of a queue is the first entry of its stretch of this index.
CREATE INDEX vodpress_jobs_next ON procrastinate_jobs (queue_name, priority DESC, id) WHERE status = 'todo';
CREATE INDEX vodpress_jobs_doing ON procrastinate_jobs (id) WHERE status = 'doing';
CREATE INDEX vodpress_jobs_live_of_asset ON procrastinate_jobs ((args ->> 'asset_id'))
    WHERE status IN ('todo', 'doing');
-- For the engine's foreign key: a worker that leaves would otherwise cost a scan of all jobs.
CREATE INDEX vodpress_jobs_worker ON procrastinate_jobs (worker_id) WHERE worker_id IS NOT NULL;

-- What happened in each attempt that failed, for the operator.
CREATE TABLE job_failures (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id     bigint NOT NULL REFERENCES procrastinate_jobs ON DELETE CASCADE,
    attempt    integer NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('infrastructure', 'content', 'not_yet')),
    code       text NOT NULL,
    message    text NOT NULL,
    detail     text NOT NULL,
    traceback  text NOT NULL,
    at         timestamptz NOT NULL DEFAULT now(),
    UNIQUE (job_id, attempt)
);

-- The engine notifies at INSERT only; a job that comes back should be picked up as quickly as a new one.
CREATE TRIGGER vodpress_jobs_notify_waiting
    AFTER UPDATE OF status ON procrastinate_jobs
    FOR EACH ROW WHEN (
        OLD.status <> 'todo' AND NEW.status = 'todo' AND (NEW.scheduled_at IS NULL OR NEW.scheduled_at <= now()))
    EXECUTE FUNCTION procrastinate_notify_queue_job_inserted_v1();

-- Take the next job of a queue: highest priority, then oldest. The attempt is counted here, before any work.
-- Two statements, and no scan but of the index: the planner's statistics are stale in a queue that fills quickly,
-- and what they suggest is a scan of all waiting jobs for each that is fetched.
CREATE FUNCTION vodpress_fetch_job(p_queue text, p_kinds text[], p_worker_id bigint, p_claim_id uuid)
    RETURNS SETOF procrastinate_jobs
    LANGUAGE plpgsql
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET enable_sort = off
AS $$
DECLARE
    found_id bigint;
BEGIN
    SELECT id INTO found_id
    FROM procrastinate_jobs
    WHERE status = 'todo' AND queue_name = p_queue AND task_name = ANY (p_kinds)
        AND (scheduled_at IS NULL OR scheduled_at <= now())
    ORDER BY priority DESC, id
    LIMIT 1
    FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        RETURN QUERY
            UPDATE procrastinate_jobs
            SET status = 'doing', worker_id = p_worker_id, claim_id = p_claim_id, attempts = attempts + 1
            WHERE id = found_id
            RETURNING *;
    END IF;
END;
$$;

-- Renew the leases of one process. Returns those of its workers that are still known; the others were taken for dead.
-- Jobs that a worker is on record for but that its process does not hold (the answer to a fetch was lost, or settling
-- failed) lose their worker, so that rescue finds them.
CREATE FUNCTION vodpress_heartbeat(p_worker_ids bigint[], p_claim_ids uuid[])
    RETURNS SETOF bigint
    LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE procrastinate_jobs
    SET worker_id = NULL
    WHERE status = 'doing' AND worker_id = ANY (p_worker_ids) AND claim_id <> ALL (p_claim_ids);
    RETURN QUERY
        UPDATE procrastinate_workers
        SET last_heartbeat = now()
        WHERE id = ANY (p_worker_ids)
        RETURNING id;
END;
$$;
